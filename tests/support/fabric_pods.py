"""The test pods that the clouds publish for their fabrics, and stacks with the matching machine types."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.support.sold import sold

Object = dict[str, Any]
_ADMIN = "arn:aws:iam::123456789012:role/admin"
_GPUS = ("nvidia0", "nvidia1", "nvidia2", "nvidia3", "nvidia4", "nvidia5", "nvidia6", "nvidia7")
_DEVICES = {
    "tcpx-daemon": (*_GPUS, "nvidiactl", "nvidia-uvm"),
    "tcpxo-daemon": (*_GPUS, "nvidiactl", "nvidia-uvm", "dmabuf_import_helper"),
}


@dataclass(frozen=True)
class FabricPod:
    """A published test pod. `written` names the volumes that the published container mounts as writable."""

    name: str
    source: str
    provider: str
    machine_type: str
    spec: Object
    pool: Object = field(default_factory=dict)
    team: Object = field(default_factory=dict)
    networks: tuple[str, ...] = ()
    devices: str = ""
    written: tuple[str, ...] = ()
    changed: str = ""

    def published(self, namespace: str) -> Object:
        """Return the pod as published."""
        annotations: Object = {}
        if self.networks:
            joined = [{"interfaceName": f"eth{i + 1}", "network": name} for i, name in enumerate(self.networks)]
            annotations["networking.gke.io/default-interface"] = "eth0"
            annotations["networking.gke.io/interfaces"] = json.dumps(
                [{"interfaceName": "eth0", "network": "default"}, *joined]
            )
        if self.devices:
            annotations[f"devices.gke.io/container.{self.devices}"] = "".join(
                f"- path: /dev/{name}\n" for name in _DEVICES[self.devices]
            )
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "nccl-test-host-1", "namespace": namespace, "annotations": annotations},
            "spec": copy.deepcopy(self.spec),
        }

    def admitted(self, namespace: str) -> Object:
        """Return the pod with read-only library mounts, which every version of Kubernetes admits."""
        pod = self.published(namespace)
        for container in pod["spec"]["containers"]:
            for mount in container.get("volumeMounts", ()):
                if mount["name"] in self.written and container["name"] != self.devices:
                    mount["readOnly"] = True
        return pod

    def platform(self) -> Object:
        """Return the platform object of an environment with a team that may use a pool of this machine type."""
        return platform_of(self.provider, self.machine_type, self.pool, self.team)


def fabric_pods() -> Sequence[FabricPod]:
    """Return all published test pods."""
    document = yaml.safe_load((Path(__file__).parent / "fabric_pods.yaml").read_text("utf-8"))
    return [FabricPod(**one) for one in document["pods"]]


def platform_of(
    provider: str, machine_type: str, pool: Object | None = None, team: Object | None = None
) -> Object:
    """Return the platform object of an environment with one pool and one team, `vision`."""
    clusters: dict[str, Object] = {
        "gke": {"provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1", "create": {}},
        "eks": {"provider": "eks", "name": "ml", "region": "us-east-1", "create": {"admins": [_ADMIN]}},
        "sandbox": {"provider": "sandbox"},
    }
    rest: dict[str, Object] = {
        "a3-highgpu-8g": {"image": {"release": "1.33.5-gke.2392000"}},
        "a4x-highgpu-4g": {
            "capacity": {"type": "reservation", "reservation": "rack", "zone": "us-central1-a"},
            "placement": {"type": "compact"},
        },
    }
    declared: Object = {
        "name": "train",
        "machine_type": machine_type,
        "count": {"desired": 2},
        "workload": "training",
    }
    if provider == "eks":
        declared |= {"zones": ["us-east-1a"]}
    if provider == "gke":
        declared |= {"zones": ["us-central1-a"], "placement": {"type": "none"}}
    domain = "" if provider == "sandbox" else "@example.com"
    return {
        "kind": "environment",
        "cluster": clusters[provider],
        "pools": [sold({**declared, **rest.get(machine_type, {}), **(pool or {})}, reserved=True)],
        "teams": [
            {
                "name": "vision",
                "quota": {"gpus": 8},
                "priority": "training",
                "members": [f"group:vision{domain if provider == 'gke' else ''}"],
                # The published test pods are bare pods.
                **({"allow_bare_pods": True} if provider == "eks" else {}),
                **(team or {}),
            }
        ],
    }
