"""Stacks with a rack of GB200 machines, on each cloud and on an existing cluster."""

from __future__ import annotations

from typing import Any

ULTRASERVER: dict[str, Any] = {
    "name": "rack",
    "machine_type": "p6e-gb200.36xlarge",
    "count": {"desired": 18},
    "workload": "training",
    "capacity": {"type": "capacity-block", "reservation": "cr-0a1b2c3d4e5f60718", "zone": "us-east-1-dfw-2a"},
}
A4X: dict[str, Any] = {
    "name": "rack",
    "machine_type": "a4x-highgpu-4g",
    "count": {"desired": 18},
    "workload": "training",
    "capacity": {"type": "reservation", "reservation": "rack", "zone": "us-central1-a"},
}
EXISTING: dict[str, Any] = {
    "name": "rack",
    "machine_type": "a4x-highgpu-4g",
    "count": {"desired": 18},
    "workload": "training",
    "nodes": {"selector": {"rack": "7"}},
}
CLUSTERS: dict[str, dict[str, Any]] = {
    "eks": {
        "provider": "eks",
        "name": "ml",
        "region": "us-east-1",
        "kubernetes": "1.35",
        "subnets": {"us-east-1-dfw-2a": "subnet-0a1b2c3d4e5f60718", "us-east-1a": "subnet-1a1b2c3d4e5f60718"},
    },
    "gke": {
        "provider": "gke",
        "name": "ml",
        "project": "my-project",
        "location": "us-central1",
        "kubernetes": "1.35",
        "create": {},
    },
    "existing": {"provider": "existing", "name": "dev", "kubernetes": "1.36"},
}
POOLS: dict[str, dict[str, Any]] = {"eks": ULTRASERVER, "gke": A4X, "existing": EXISTING}


def rack(provider: str, **rest: Any) -> dict[str, Any]:
    """Return the platform object of a stack with one rack. `rest` contains further top-level fields."""
    member = "group:vision@example.com" if provider == "gke" else "group:vision"
    team = {
        "name": "vision",
        "quota": {"gpus": 72, "cpu": 2000, "memory": "14Ti"},
        "priority": "training",
        "members": [member],
        "workloads": [
            {"name": "pretrain", "pool": "rack", "replicas": 18, "gpus": 4, "compute_domain": True, "cpu": 100}
        ],
    }
    base = {"kind": "environment", "cluster": CLUSTERS[provider], "pools": [POOLS[provider]], "teams": [team]}
    return {**base, **rest}
