"""Pods that the program declares for multi-node jobs with GPU NICs on Google Cloud."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.fabric_pods import platform_of
from tests.support.recorded import Recorded, record_platform

Object = dict[str, Any]
_IMAGE = "registry.example.com/train@sha256:" + "0" * 64
_SETTINGS: Object = {"pool": "train", "image": _IMAGE, "run_as_user": 1000, "env": {"NCCL_DEBUG": "INFO"}}


@dataclass(frozen=True)
class Machine:
    """A machine type, its number of GPUs, the name of the published test pod for its fabric, and settings of its
    pool.
    """

    machine_type: str
    gpus: int
    published: str
    pool: Mapping[str, Any] = field(default_factory=dict)


MACHINES = (
    Machine("a3-highgpu-8g", 8, "TCPX"),
    Machine("a3-megagpu-8g", 8, "TCPXO"),
    Machine("a3-ultragpu-8g", 8, "RDMA of A3 Ultra", {"network": {"via": "networks"}}),
    Machine("a3-ultragpu-8g", 8, "RDMA by claims"),
    Machine("a4-highgpu-8g", 8, "RDMA of A4", {"network": {"via": "networks"}}),
    Machine("a4x-highgpu-4g", 4, "RDMA of A4X", {"network": {"via": "networks"}}),
)


def platform_with_jobs(machine: Machine, *, gpus: int | None = None, nodes: int = 2, **rest: Any) -> Object:
    """Return a platform whose team runs a training job, a multi-node model and a Ray cluster."""
    whole = {"gpus": machine.gpus if gpus is None else gpus}
    entries: Object = {
        "training_jobs": [
            {**_SETTINGS, **whole, "name": "pretrain", "command": ["torchrun", "train.py"], "replicas": nodes}
        ],
        "inference_services": [
            {**_SETTINGS, **whole, "name": "large", "command": ["serve", "--port", "8080"], "nodes": nodes}
        ],
        "ray_clusters": [
            {
                **{key: value for key, value in _SETTINGS.items() if key != "pool"},
                "name": "ray",
                "version": "2.49.0",
                "head": {},
                "workers": [{"name": "gpu", "pool": "train", "replicas": nodes, **whole}],
            }
        ],
    }
    pool = {"count": {"desired": 8}, **machine.pool}
    platform = platform_of(
        "gke", machine.machine_type, pool, {"quota": {"gpus": 8 * machine.gpus}, **entries, **rest}
    )
    return {**platform, "addons": {"kuberay": "install", "leaderworkerset": "install"}}


def recorded(platform: Object) -> Recorded:
    """Return the resources that the program registers for a platform."""
    return record_platform(platform)


def job_pods(platform: Object) -> Mapping[str, Object]:
    """Return the pod of each kind of workload, as its controller creates it from the declared template."""
    found: dict[str, Object] = {}
    for record in recorded(platform).resources:
        spec = record.inputs.get("spec", {})
        kind = record.inputs.get("kind")
        if kind == "Job":
            found["training"] = _pod(record.inputs, spec["template"])
        elif kind == "LeaderWorkerSet":
            found["inference"] = _pod(record.inputs, spec["leaderWorkerTemplate"]["workerTemplate"])
        elif kind == "RayCluster":
            found["ray"] = _pod(record.inputs, spec["workerGroupSpecs"][0]["template"])
    assert found, "no job declared, so a loop over the pods would check nothing"
    return found


def _pod(owner: Mapping[str, Any], template: Mapping[str, Any]) -> Object:
    pod = copy.deepcopy(dict(template))
    pod["metadata"] = {
        **pod["metadata"],
        "name": owner["metadata"]["name"],
        "namespace": owner["metadata"]["namespace"],
    }
    return {"apiVersion": "v1", "kind": "Pod", **pod}
