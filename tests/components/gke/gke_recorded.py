"""Records GKE environments as `pulumi preview` would, with every cloud output unknown."""

from __future__ import annotations

from typing import Any

from gpu_platform.deploy.recorded.record import ResourceRecord
from tests.support.recorded import Recorded, record_platform
from tests.support.sold import sold

ZONE = "us-central1-a"
EXISTING: dict[str, Any] = {"provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1"}
CREATED: dict[str, Any] = {**EXISTING, "create": {}}
BIG: dict[str, Any] = {
    "name": "train",
    "machine_type": "a3-megagpu-8g",
    "count": {"desired": 2},
    "workload": "training",
    "zones": [ZONE],
    "placement": {"type": "none"},
}
A3_AND_NEWER = ["a3-highgpu-8g", "a3-megagpu-8g", "a3-ultragpu-8g", "a4-highgpu-8g", "a4x-highgpu-4g"]
OLD_NODES: dict[str, Any] = {"image": {"release": "1.33.5-gke.2392000"}}
"""Pool fields with an old GKE version. Later versions do not support GPUDirect-TCPX on A3 High."""
RACK: dict[str, Any] = {
    "capacity": {"type": "reservation", "reservation": "rack", "zone": ZONE},
    "placement": {"type": "compact"},
}
"""Pool fields for A4X, which is sold only through reservations and whose nodes have a workload policy."""


def pool_of(machine: str) -> dict[str, Any]:
    """Return the fields of a training pool of this machine type that differ from `BIG`."""
    rest = {"a3-highgpu-8g": OLD_NODES, "a4x-highgpu-4g": RACK}.get(machine, {})
    return {"machine_type": machine, **rest}


EVERY_FABRIC = tuple({"name": machine.partition("-8g")[0], **pool_of(machine)} for machine in A3_AND_NEWER)
TCP_FABRICS, RDMA_FABRICS = EVERY_FABRIC[:2], EVERY_FABRIC[2:]
"""TCP and RDMA pools need separate clusters, because Networks of type Device and GKE's DRA driver for networks
exclude each other.
"""


def platform_of(*pools: dict[str, Any], cluster: dict[str, Any] = CREATED) -> dict[str, Any]:
    """Return a platform object. Each given pool contains only the fields that differ from a training pool of A3
    Mega machines.
    """
    return {"kind": "environment", "cluster": cluster, "pools": [sold({**BIG, **pool}) for pool in pools]}


def recorded(*pools: dict[str, Any], cluster: dict[str, Any] = CREATED) -> Recorded:
    """Return the resources that the program registers."""
    return record_platform(platform_of(*pools, cluster=cluster))


def made(*pools: dict[str, Any], cluster: dict[str, Any] = CREATED) -> dict[str, Any]:
    """Return the inputs of the cluster that the program creates."""
    (record,) = recorded(*pools, cluster=cluster).of("Cluster")
    return dict(record.inputs)


def google(recording: Recorded, kind: str) -> list[ResourceRecord]:
    return [record for record in recording.of(kind) if record.type.startswith("gcp:")]


def pod_networks(recording: Recorded, kind: str) -> list[dict[str, Any]]:
    wanted = f"kubernetes:networking.gke.io/v1:{kind}"
    return [dict(record.inputs) for record in recording.resources if record.type == wanted]
