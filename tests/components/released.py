"""Resources that the last release creates for `released_stacks/`, with the parts whose change disrupts workloads.

To record a release, run `python -m tests.components.released` in its checkout.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from gpu_platform.deploy.recorded.record import ResourceRecord
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import load_stack

FOLDER: Final = Path(__file__).parent / "released_stacks"
STACKS: Final = ("eks", "gke")
Part = Any
_HASH: Final = re.compile(r"-[0-9a-f]{10}\b")  # of the content of a ConfigMap


def _spec(inputs: Mapping[str, Any]) -> Part:
    return inputs["spec"]


def _all(inputs: Mapping[str, Any]) -> Part:
    return inputs


def _without(*keys: str) -> Callable[[Mapping[str, Any]], Part]:
    return lambda inputs: {key: value for key, value in inputs.items() if key not in keys}


def _selector(inputs: Mapping[str, Any]) -> Part:
    return inputs["spec"]["selector"]


def _workload(inputs: Mapping[str, Any]) -> Part:
    """Return the parts of a Deployment whose change is impossible or restarts pods."""
    return {key: inputs["spec"][key] for key in ("selector", "template")}


# Parts that cannot be changed in place, or whose change replaces nodes or restarts pods of teams.
_PARTS: Final[Mapping[str, Callable[[Mapping[str, Any]], Part]]] = {
    "aws:ec2/launchTemplate:LaunchTemplate": _without("tagSpecifications"),
    "aws:eks/cluster:Cluster": _all,
    "aws:eks/nodeGroup:NodeGroup": _all,
    "gcp:container/cluster:Cluster": _all,
    "gcp:container/nodePool:NodePool": _all,
    "kubernetes:apps/v1:DaemonSet": _selector,
    "kubernetes:apps/v1:Deployment": _workload,
    "kubernetes:batch/v1:Job": _spec,
    "kubernetes:core/v1:PersistentVolumeClaim": _spec,
    "kubernetes:karpenter.k8s.aws/v1:EC2NodeClass": _spec,
    "kubernetes:karpenter.sh/v1:NodePool": _spec,
    "kubernetes:ray.io/v1:RayCluster": _spec,
    "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding": lambda inputs: inputs["roleRef"],
    "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding": lambda inputs: inputs["roleRef"],
    "kubernetes:scheduling.k8s.io/v1:PriorityClass": _without("metadata", "description"),
    "kubernetes:storage.k8s.io/v1:StorageClass": _without("metadata"),
}


def parts(resources: tuple[ResourceRecord, ...]) -> dict[str, Part]:
    """Return the disruptive part of each resource by its URN, or None for resources without such a part."""
    found: dict[str, Part] = {}
    for one in resources:
        part = _PARTS.get(one.type, lambda _inputs: None)(one.inputs)
        found[masked(one.urn)] = json.loads(_HASH.sub("-HASH", json.dumps(part, default=str)))
    return found


def masked(urn: str) -> str:
    """Return a URN without hashes of contents."""
    return _HASH.sub("-HASH", urn)


def current(stack: str) -> tuple[ResourceRecord, ...]:
    """Return the resources that the program registers for a stack in `released_stacks/`."""
    return record_stack(load_stack(str(FOLDER / f"Pulumi.{stack}.yaml"))).resources


def released(stack: str) -> dict[str, Part]:
    """Return the parts that were recorded with the last release."""
    return json.loads((FOLDER / f"{stack}.json").read_text("utf-8"))


if __name__ == "__main__":
    for name in STACKS:
        lines = (f"{json.dumps(urn)}: {json.dumps(part)}" for urn, part in parts(current(name)).items())
        (FOLDER / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
