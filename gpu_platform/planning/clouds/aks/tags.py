"""Check the tag names that a stack file sets on Azure resources. Azure ignores the case of tag names.

Sources: Azure docs, "Use tags to organize your Azure resources and management hierarchy", limitations; AKS docs,
"Use Azure tags in Azure Kubernetes Service"; read 2026-11-30.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpu_platform.base.quantity import counted
from gpu_platform.planning.problems import Problems

OF_CLUSTER: Final = ("managed-by", "stack")
"""Names of the tags that the program sets on resources of the cluster."""
OF_POOL: Final = ("gpu-platform-pool", "gpu-platform-workload")
"""Names of the tags that the program sets on resources of a pool."""
_RESERVED_PREFIXES: Final = ("azure", "microsoft", "windows")
_MOST_ON_PRIVATE: Final = 15


def check_tags(tags: Sequence[str], problems: Problems) -> None:
    """Record a problem for each name that Azure refuses, or that Azure or the program uses. `problems` points to
    the tags.
    """
    first: dict[str, str] = {}
    for tag in tags:
        here, name = problems.at(tag), tag.casefold()
        if "/" in tag:
            here.add(f"{tag!r}", "a name without `/`, which Azure refuses", "write another character, such as `:`")
        if name.startswith(_RESERVED_PREFIXES) or name in (*OF_CLUSTER, *OF_POOL):
            here.add(f"{tag!r}", "another name: Azure or the program uses this one", "rename the tag")
        if (other := first.setdefault(name, tag)) != tag:
            here.add(f"{tag!r} and {other!r}", "names that differ in more than case", "remove one")


def check_private_zone(tags: Sequence[str], problems: Problems) -> None:
    """Record a problem if a private cluster has more tags than its private DNS zone may have. AKS sets the tags of
    the cluster on the zone.
    """
    most = _MOST_ON_PRIVATE - len(OF_CLUSTER)
    if len(tags) > most:
        problems.add(
            f"{counted(len(tags), 'tag')} on a private cluster",
            f"at most {most}, because a private DNS zone has at most {_MOST_ON_PRIVATE} tags, and the program "
            f"sets {len(OF_CLUSTER)} of them",
            "remove tags, or write them at pools[].tags",
        )
