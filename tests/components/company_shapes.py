"""Stacks modeled on those of real companies. Each named stack is called a shape.

Shapes have existing networks, racks, capacity blocks, spot nodes, CPU pools and the company's own rules.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Final

import yaml

from gpu_platform.base.paths import PROJECT_ROOT
from tests.support.racks import rack

ADMIN: Final = "arn:aws:iam::123456789012:role/platform-admin"
BOUNDARY: Final = "arn:aws:iam::123456789012:policy/boundary"
COMPANY_TAGS: Final = {"cost-center": "ml-4711", "data-class": "internal"}
COMPANY_LABELS: Final = {"cost-center": "ml-4711"}
SUBNETS: Final = {
    "us-east-2a": "subnet-0a1b2c3d4e5f60718",
    "us-east-2b": "subnet-1a1b2c3d4e5f60718",
    "us-east-2c": "subnet-2a1b2c3d4e5f60718",
}
CONTROL_PLANE_SUBNETS: Final = ["subnet-3a1b2c3d4e5f60718", "subnet-4a1b2c3d4e5f60718"]
FOUR_TYPES: Final = ["g6e.8xlarge", "g6e.16xlarge", "g6e.4xlarge", "g6e.2xlarge"]
BLOCKS: Final = [
    {
        "reservation": "cr-0a1b2c3d4e5f60718",
        "zone": "us-east-2a",
        "starts": "2026-12-01T11:30:00Z",
        "ends": "2026-12-14T11:30:00Z",
    },
    {
        "reservation": "cr-1a1b2c3d4e5f60718",
        "zone": "us-east-2b",
        "starts": "2026-12-14T11:30:00Z",
        "ends": "2026-12-21T11:30:00Z",
    },
]
ADDONS_OF_THE_OWNER: Final = dict.fromkeys(["jobset", "trainer", "kuberay", "leaderworkerset", "keda"], "present")


def _eks(**fields: Any) -> dict[str, Any]:
    return {
        "provider": "eks",
        "name": "ml",
        "region": "us-east-2",
        "account": "123456789012",
        "kubernetes": "1.35",
        **fields,
    }


def _gke(**fields: Any) -> dict[str, Any]:
    base = {"provider": "gke", "name": "ml", "project": "ml-prod-4711", "location": "us-central1"}
    return {**base, "kubernetes": "1.35", **fields}


def _created(**fields: Any) -> dict[str, Any]:
    return {"admins": [ADMIN], "api_access": ["203.0.113.0/24"], **fields}


def _pool(name: str, machine_type: str, workload: str, desired: int, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "machine_type": machine_type,
        "count": {"desired": desired},
        "workload": workload,
        **fields,
    }


def _team(gpus: int, member: str = "group:vision") -> dict[str, Any]:
    return {
        "name": "vision",
        "quota": {"gpus": gpus, "cpu": 4 * gpus, "memory": f"{16 * gpus}Gi"},
        "priority": "training",
        "members": [member],
    }


def _environment(cluster: dict[str, Any], *pools: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"kind": "environment", "cluster": cluster, "pools": list(pools), **rest}


def _shipped(name: str) -> dict[str, Any]:
    text = (Path(PROJECT_ROOT) / "stacks" / f"Pulumi.{name}.yaml").read_text("utf-8")
    return yaml.safe_load(text)["config"]["gpu-platform:platform"]


POD_SUBNETS: Final = {
    "us-east-2a": "subnet-5a1b2c3d4e5f60718",
    "us-east-2b": "subnet-6a1b2c3d4e5f60718",
    "us-east-2c": "subnet-7a1b2c3d4e5f60718",
}
# With pod subnets, pods need a separate interface on network card 0.
# The layout `efa-primary` leaves one interface for pods.
_TRAIN_WITH_POD_SUBNETS: Final = _pool(
    "train", "p5.48xlarge", "training", 2, zones=["us-east-2a"], network={"layout": "efa-primary"}
)
_TRAIN: Final = _pool("train", "p5.48xlarge", "training", 2, zones=["us-east-2a"])
_SERVE: Final = _pool("serve", "g6e.12xlarge", "inference", 2)
_LOGIN: Final = {"logins": [{"principal": "arn:aws:iam::123456789012:role/vision", "groups": ["vision"]}]}
_NETWORK: Final = {
    "vpc": "vpc-0a1b2c3d4e5f60718",
    "subnets": SUBNETS,
    "control_plane_subnets": CONTROL_PLANE_SUBNETS,
}

SHAPES: Final[dict[str, dict[str, Any]]] = {
    "existing-vpc": _environment(
        _eks(create=_created(network={**_NETWORK, "pod_subnets": POD_SUBNETS}), **_LOGIN),
        _TRAIN_WITH_POD_SUBNETS,
        _SERVE,
        teams=[_team(16)],
    ),
    "shared-vpc": _environment(
        _gke(
            create={
                "network": {"project": "net-host-4711", "name": "shared", "subnetwork": "ml-nodes"},
                "authenticator_groups": "gke-security-groups@example.com",
            },
            node_service_account="gpu-nodes@ml-prod-4711.iam.gserviceaccount.com",
            labels=COMPANY_LABELS,
        ),
        _pool("train", "a3-megagpu-8g", "training", 2, zones=["us-central1-a"], network={"rdma": False}),
        _pool("serve", "g2-standard-12", "inference", 2, zones=["us-central1-a"]),
        teams=[_team(16, "group:vision@example.com")],
    ),
    "existing-eks-of-operators": _environment(
        _eks(
            subnets=SUBNETS,
            parts={
                "gpu_operator": "present",
                "karpenter": "present",
                "karpenter_node_role": "KarpenterNodeRole-ml",
                "cluster_autoscaler": "present",
                "efa_plugin": "present",
            },
            **_LOGIN,
        ),
        _TRAIN,
        _pool("develop", "g6.4xlarge", "development", 0, provisioner="karpenter")
        | {"count": {"desired": 0, "max": 2}},
        teams=[_team(16)],
        monitoring={"enabled": True, "prometheus_operator": True},
        addons=ADDONS_OF_THE_OWNER,
        queueing={"kueue": "present"},
    ),
    "existing-cluster-of-operators": _environment(
        {
            "provider": "existing",
            "name": "dc1",
            "kubernetes": "1.36",
            "parts": {"node_feature_discovery": "present", "dcgm_exporter": "present"},
        },
        _pool("train", "dgx-h100", "training", 2, nodes={"selector": {"rack": "7"}}),
        teams=[_team(16)],
        addons=ADDONS_OF_THE_OWNER,
        queueing={"kueue": "present"},
    ),
    "block-hand-over": _environment(
        _eks(create=_created(), **_LOGIN),
        _pool("train", "p5.48xlarge", "training", 4, capacity={"type": "capacity-block", "blocks": BLOCKS}),
        teams=[_team(32)],
    ),
    "gb200-rack-on-eks": rack("eks"),
    "gb200-rack-on-gke": rack("gke"),
    "spot-with-four-types": _environment(
        _eks(create=_created(pods_cidr="100.64.0.0/16"), **_LOGIN),
        _pool(
            "serve",
            FOUR_TYPES[0],
            "inference",
            1,
            capacity={"type": "spot", "alternatives": FOUR_TYPES[1:]},
        )
        | {"count": {"min": 0, "desired": 1, "max": 8}},
        _pool(
            "burst",
            FOUR_TYPES[0],
            "inference",
            0,
            provisioner="karpenter",
            capacity={"type": "spot", "alternatives": FOUR_TYPES[1:]},
        )
        | {"count": {"desired": 0, "max": 8}},
        teams=[{**_team(1), "priority": "inference"}],
    ),
    "monitoring-on-cpu-pools-of-eks": _shipped("eks-monitoring"),
    "monitoring-on-cpu-pools-of-gke": _shipped("gke-monitoring"),
    "private-cluster-of-a-company": _environment(
        _eks(
            create={"admins": [ADMIN], "network": _NETWORK},
            iam={"path": "/gpu/", "permissions_boundary": BOUNDARY},
            tags=COMPANY_TAGS,
            **_LOGIN,
        ),
        _TRAIN,
        _SERVE,
        _pool("develop", "g6.4xlarge", "development", 0, provisioner="karpenter", zones=["us-east-2b"])
        | {"count": {"desired": 0, "max": 2}},
        teams=[_team(16)],
        storage={"scratch": {"type": "lustre", "zone": "us-east-2a"}, "home": {"type": "nfs"}},
    ),
}


def shape(name: str) -> dict[str, Any]:
    """Return the platform object of the shape `name`."""
    return copy.deepcopy(SHAPES[name])
