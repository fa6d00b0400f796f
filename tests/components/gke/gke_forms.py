"""Every form of GKE node pool that a stack can declare, and an environment with a pool of each form."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from gpu_platform.deploy.recorded.record import ResourceRecord
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, plan_platform
from tests.support.recorded import Recorded

ZONE = "us-central1-a"
RESERVED = {"type": "reservation", "reservation": "h100-mega", "zone": ZONE}
COMPACT = {"type": "compact"}
CLUSTER: dict[str, Any] = {
    "provider": "gke",
    "name": "ml",
    "project": "my-project",
    "location": "us-central1",
    "kubernetes": "1.35",
    "create": {},
}

FORMS: dict[str, dict[str, Any]] = {
    "a2-high": {"machine_type": "a2-highgpu-8g"},
    "a2-ultra-own-mig": {
        "machine_type": "a2-ultragpu-2g",
        "workload": "development",
        "sharing": {"mode": "mig", "layout": {"1g.10gb": 7}},
    },
    "a3-mega-tuned": {
        "machine_type": "a3-megagpu-8g",
        "tuning": {"intent": "training", "sysctls": {"vm.max_map_count": 1048576}, "huge_pages": 4096},
        "bootstrap": {
            "script": {"gcs": "gs://acme-nodes/bootstrap.sh", "generation": 3},
            "kubelet": {"pod_pids_limit": 4096, "container_log_max_size": "50Mi"},
        },
    },
    "a3-high": {
        "machine_type": "a3-highgpu-8g",
        "count": {"desired": 2},
        "image": {"release": "1.33.5-gke.2392000"},
    },
    "a3-mega-reserved": {
        "machine_type": "a3-megagpu-8g",
        "count": {"desired": 4},
        "zones": None,
        "capacity": RESERVED,
        "placement": COMPACT,
    },
    "a3-mega-block": {
        "machine_type": "a3-megagpu-8g",
        "count": {"desired": 4},
        "zones": None,
        "capacity": {**RESERVED, "project": "shared-capacity", "block": "block-3"},
        "placement": {"type": "compact", "group": "policy-of-the-reservation"},
    },
    "a3-ultra": {"machine_type": "a3-ultragpu-8g", "count": {"desired": 2}, "capacity": {"type": "spot"}},
    "a3-ultra-flex": {
        "machine_type": "a3-ultragpu-8g",
        "count": {"desired": 0, "max": 8},
        "capacity": {"type": "flex-start", "max_run_duration": "24h"},
        "placement": COMPACT,
    },
    "a4": {"machine_type": "a4-highgpu-8g", "count": {"desired": 1}, "capacity": {"type": "spot"}, "topology": {
        "policy": "restricted", "scope": "pod", "memory": "static"}},
    "a4-queued": {
        "machine_type": "a4-highgpu-8g",
        "count": {"desired": 0, "max": 8},
        "capacity": {"type": "flex-start", "queued": True},
    },
    "g2-spot": {
        "machine_type": "g2-standard-48",
        "count": {"min": 0, "desired": 2, "max": 10},
        "zones": [ZONE, "us-central1-b"],
        "capacity": {"type": "spot"},
        "workload": "inference",
    },
    "g2-time-slicing": {
        "machine_type": "g2-standard-24",
        "workload": "inference",
        "sharing": {"mode": "time-slicing", "replicas": 4},
    },
    "g2-steady": {
        "machine_type": "g2-standard-4",
        "count": {"min": 1, "desired": 2, "max": 4},
        "workload": "inference",
        "upgrade": {"strategy": "blue-green"},
        "disk": {"size_gb": 100, "type": "pd-ssd", "kms_key": "projects/p/locations/l/keyRings/r/cryptoKeys/k"},
    },
    "g2-ubuntu": {"machine_type": "g2-standard-4", "workload": "inference", "image": {"family": "ubuntu"}},
    "g2-cached-images": {
        "machine_type": "g2-standard-12",
        "workload": "inference",
        "image": {"fast_pull": True, "cache": "projects/p/global/images/torch"},
    },
    "gke-time-sharing": {
        "machine_type": "g2-standard-12",
        "workload": "inference",
        "device_plugin": "provider",
        "sharing": {"mode": "time-slicing", "replicas": 6},
    },
    "gke-partitions": {
        "machine_type": "a2-highgpu-1g",
        "workload": "development",
        "device_plugin": "provider",
        "sharing": {"mode": "mig", "layout": {"1g.5gb": 7}},
    },
    "g4": {"machine_type": "g4-standard-48", "workload": "inference", "taints": [
        {"key": "team", "value": "vision", "effect": "NoExecute"},
        {"key": "slow", "value": "yes", "effect": "PreferNoSchedule"}]},
}  # fmt: skip


RACK = {"capacity": {"type": "reservation", "reservation": "rack", "zone": ZONE}}
"""The capacity of an A4X pool. A4X is sold only through reservations."""


def gke_pool(name: str, **said: Any) -> dict[str, Any]:
    """Return a pool as in a stack file: a training pool with one node in one zone. `said` overrides its fields,
    and None removes a field.
    """
    filled = {
        "name": name,
        "machine_type": "a3-megagpu-8g",
        "count": {"desired": 1},
        "zones": [ZONE],
        "workload": "training",
        **said,
    }
    return {key: value for key, value in filled.items() if value is not None}


def gke_environment(*pools: dict[str, Any], **cluster: Any) -> dict[str, Any]:
    """Return the platform object of a GKE environment with these pools."""
    return {"kind": "environment", "cluster": {**CLUSTER, **cluster}, "pools": list(pools)}


def record_gke(*pools: dict[str, Any], **cluster: Any) -> Recorded:
    """Return the resources that the program registers, with every cloud output unknown."""
    return _record(json.dumps(gke_environment(*pools, **cluster)))


@cache
def _record(platform: str) -> Recorded:
    parsed = json.loads(platform)
    loaded = LoadedStack("test", Path("Pulumi.test.yaml"), parsed, plan_platform(parsed, "test"))
    return Recorded(record_stack(loaded))


def recorded_of(form: str) -> Recorded:
    """Record an environment that has a pool of this form and a pool of each form that can share its cluster."""
    forms = {name: said for name, said in FORMS.items() if _cluster_of(name) == _cluster_of(form)}
    return record_gke(*[gke_pool(name, **said) for name, said in forms.items()])


def _cluster_of(form: str) -> str:
    """Return the name of the cluster for a form. Ubuntu pools need a separate cluster, and so do NICs that GKE's
    DRA driver manages.
    """
    said = FORMS[form]
    if "family" in said.get("image", {}):
        return "ubuntu"
    return "dranet" if said["machine_type"].startswith(("a3-ultra", "a4-")) else "others"


def node_pool_of(name: str, recorded: Recorded | None = None) -> ResourceRecord:
    """Return the record of the node pool with this name."""
    found = [one for one in (recorded or recorded_of(name)).of("NodePool") if one.name == name]
    (only,) = [one for one in found if one.type.startswith("gcp")]
    return only
