"""Live nodes and pods of the pool `lab`, as the API server returns them. The pool's MIG layout differs from the
planned layout.
"""

from __future__ import annotations

from typing import Any

from gpu_platform.base import names
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform

NEW = {"2g.20gb": 3, "1g.10gb": 1}
OLD_CONFIG = "lab-0123456789"
OLD = {OLD_CONFIG: [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}}]}


def lab(**rest: Any) -> dict[str, Any]:
    return {
        "name": "lab",
        "machine_type": "p4de.24xlarge",
        "count": {"desired": 2},
        "workload": "development",
        "sharing": {"mode": "mig", "layout": NEW},
        **rest,
    }


def node(name: str, config: str | None = OLD_CONFIG, **rest: Any) -> dict[str, Any]:
    """Return a node of the pool. `rest` can set state, annotations, unschedulable, ready, allocatable, labels."""
    labels = {
        names.POOL_LABEL: "lab",
        names.MIG_STATE_LABEL: rest.get("state", "success"),
        **rest.get("labels", {}),
    }
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "labels": labels | ({names.MIG_CONFIG_LABEL: config} if config is not None else {}),
            "annotations": rest.get("annotations", {}),
        },
        "spec": {"unschedulable": True} if rest.get("unschedulable") else {},
        "status": {
            "conditions": [{"type": "Ready", "status": "True" if rest.get("ready", True) else "Unknown"}],
            "allocatable": rest.get("allocatable", {}),
        },
    }


def pod(name: str, on: str, gpus: int = 1, **rest: Any) -> dict[str, Any]:
    limits = {"cpu": "1", "nvidia.com/mig-1g.10gb": str(gpus)} if gpus else {"cpu": "1"}
    return {
        "metadata": {"name": name, "namespace": "vision", **rest.get("metadata", {})},
        "spec": {"nodeName": on, "containers": [{"name": "main", "resources": {"limits": limits}}]},
        "status": {"phase": rest.get("phase", "Running")},
    }


def owned_by(kind: str, *, controller: bool = True, version: str = "apps/v1") -> dict[str, Any]:
    return {"ownerReferences": [{"apiVersion": version, "kind": kind, "name": "owner", "controller": controller}]}


def planned(*pools: dict[str, Any], cluster: dict[str, Any] | None = None) -> EnvironmentPlan:
    """Plan an environment with these pools. The default is only the pool `lab`."""
    document = {
        "kind": "environment",
        "cluster": cluster or {"provider": "sandbox"},
        "pools": list(pools or (lab(),)),
    }
    plan = plan_platform(document, "test")
    assert plan.kind == "environment"
    return plan
