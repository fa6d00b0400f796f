"""Check the tag keys that a stack file sets on AWS resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gpu_platform.base import names
from gpu_platform.planning.problems import Problems

# Load balancers and autoscalers choose subnets and groups by tags with the domains kubernetes.io and k8s.io.
# Sources: AWS General Reference, tag naming limits; EKS user guide, tags of resources; read 2026-11-28.
# Source for the restricted tags: CRD of EC2NodeClass in Karpenter 1.14; read 2026-11-28.
_PREFIXES: Final = ("aws:", "eks:")
_DOMAINS: Final = (*names.RESERVED_DOMAINS, "karpenter.sh", "karpenter.k8s.aws")
_NAME: Final = "Name"  # the program sets this tag on each resource


def check_tags(tags: Iterable[str], problems: Problems) -> None:
    """Record a problem for keys that AWS, Kubernetes controllers or the program set. `problems` points at the
    tags.
    """
    for tag in tags:
        key = tag.casefold()
        domain, slash, _ = key.partition("/")
        if tag == _NAME or key.startswith(_PREFIXES) or (slash and domain.endswith(_DOMAINS)):
            problems.at(tag).add(
                f"{tag!r}", "another key: AWS, Kubernetes or the program sets this key", "rename it"
            )


def check_volume_tags(tags: Iterable[str], problems: Problems) -> None:
    """Record a problem for keys that the EBS driver would truncate, because it ends a key at its first `=`.

    Source: aws-ebs-csi-driver, --extra-tags, read by MapStringString of k8s.io/component-base; read 2026-11-29.
    """
    for tag in tags:
        if "=" in tag:
            problems.at(tag).add(
                f"{tag!r}",
                "a key without `=`, because the EBS driver truncates the keys of volume tags at the first `=`",
                "rename it",
            )


def check_file_system_tags(tags: Mapping[str, str], problems: Problems) -> None:
    """Record a problem for tags that prevent the FSx driver from creating file systems.

    `problems` points at the storage class. Source: aws-fsx-csi-driver v1.9.0, validateExtraTags in
    pkg/driver/controller.go; read 2026-11-29.
    """
    for key, value in tags.items():
        if "=" in f"{key}{value}":
            problems.at("type").add(
                f"'lustre' with the tag {key!r}: {value!r} in cluster.tags",
                (
                    "tags without `=`: the FSx driver refuses other tags, and claims of the storage class stay "
                    "Pending"
                ),
                "write another character in cluster.tags, such as `:`",
            )


def check_alike(tags: Iterable[str], problems: Problems) -> None:
    """Record a problem for keys that differ only in case. IAM accepts only one such key (IAM user guide, Tags;
    read 2026-11-28).
    """
    first: dict[str, str] = {}
    for tag in tags:
        if (other := first.setdefault(tag.casefold(), tag)) != tag:
            problems.at(tag).add(
                f"{tag!r} and {other!r}",
                "keys that differ in more than case: IAM treats these as the same key",
                "remove one",
            )
