"""If a mapping in a custom resource has fields in one stack, the mapping is not empty in any other stack.

Server-side apply sets a mapping to null when its last field is removed, and a CRD does not accept null for an
object. Neither kubectl nor the Pulumi provider can apply such a change (observed with a Cohort on Kubernetes 1.36,
2026-11-29).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from gpu_platform.deploy.recorded.record import ResourceRecord
from tests.stack.field_cases import STACKS
from tests.support.recorded import record_platform, record_shipped

SHIPPED = ("dev", "eks-monitoring", "eks-training", "gke-monitoring", "gke-training", "local")
# For these built-in API groups, the API server accepts null as an object without fields.
OF_KUBERNETES = ("rbac", "admissionregistration", "networking", "storage", "scheduling", "resource")

Part = tuple[str, ...]


def queued(gpus: int, provider: str = "sandbox", **queueing: Any) -> Mapping[str, Any]:
    stack = STACKS[provider]
    return {**stack, "queueing": queueing, "teams": [{**stack["teams"][0], "quota": {"gpus": gpus}}]}


QUEUED = (queued(8), queued(16), queued(8, topology=False), queued(16, topology=False), queued(16, "eks"))


def is_of_extension(record: ResourceRecord) -> bool:
    """Return whether a CRD defines the kind of the object in this record."""
    package, _, rest = record.type.partition(":")
    group = rest.partition("/")[0]
    if package != "kubernetes" or "." not in group or group == "helm.sh":
        return False
    return not (group.endswith(".k8s.io") and group.split(".")[0] in OF_KUBERNETES)


def parts(value: object, path: Part) -> Iterator[tuple[Part, bool]]:
    """Yield the path of each mapping in a manifest, and whether the mapping is empty. Lists are skipped, because
    they are replaced as a whole.
    """
    if isinstance(value, Mapping):
        yield path, not value
        for key, inner in value.items():
            yield from parts(inner, (*path, str(key)))


@pytest.fixture(scope="module")
def records() -> list[ResourceRecord]:
    programs = [record_shipped(name) for name in SHIPPED]
    queues = [record for stack in QUEUED for record in record_platform(stack).resources]
    found = [record for program in programs for record in program.resources] + queues
    return [record for record in found if is_of_extension(record)]


def test_no_part_of_a_custom_object_is_empty_in_only_some_stacks(
    records: list[ResourceRecord],
) -> None:
    empty: set[Part] = set()
    filled: set[Part] = set()
    for record in records:
        spec = record.inputs.get("spec")
        for part, is_empty in parts(spec, (record.type, str(record.inputs["metadata"]["name"]), "spec")):
            (empty if is_empty else filled).add(part)
    assert {part[0].rpartition(":")[2] for part in filled} >= {
        "Cohort",
        "ClusterQueue",
        "ClusterPolicy",
        "NodePool",
    }
    assert sorted(empty & filled) == []
