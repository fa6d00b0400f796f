"""Every form of Karpenter pool that a stack can request."""

from __future__ import annotations

from typing import Any

ZONE = "us-east-2a"
RESERVED = {"type": "reservation", "reservation": "cr-0a1b2c3d4e5f60718", "zone": ZONE}
BLOCK = {"type": "capacity-block", "reservation": "cr-0a1b2c3d4e5f60718", "zone": ZONE}
DEVELOP = {
    "name": "develop",
    "machine_type": "g6.4xlarge",
    "count": {"desired": 0, "max": 8},
    "workload": "development",
    "provisioner": "karpenter",
}
TRAIN = {
    "name": "train",
    "machine_type": "p5.48xlarge",
    "count": {"desired": 0, "max": 4},
    "workload": "training",
    "provisioner": "karpenter",
    "zones": [ZONE],
}
FORMS: dict[str, dict[str, Any]] = {
    "development": DEVELOP,
    "training with efa": TRAIN,
    "training on p6-b300": {**TRAIN, "machine_type": "p6-b300.48xlarge"},
    "training in a capacity block": {**TRAIN, "zones": None, "capacity": BLOCK},
    "training on a reservation with a group": {
        **TRAIN,
        "zones": None,
        "capacity": {**RESERVED, "placement_group": "row"},
    },
    "training with static memory": {**TRAIN, "topology": {"policy": "restricted", "memory": "static"}},
    "inference on spot": {**DEVELOP, "workload": "inference", "capacity": {"type": "spot"}},
    "inference on bottlerocket": {**DEVELOP, "workload": "inference", "image": {"family": "bottlerocket"}},
    "shares on bottlerocket": {
        **DEVELOP,
        "image": {"family": "bottlerocket"},
        "sharing": {"mode": "time-slicing", "replicas": 4, "rename": False},
    },
    "arm": {**DEVELOP, "machine_type": "g5g.2xlarge"},
    "custom image, key and fast disk": {
        **DEVELOP,
        "image": {"ami": "ami-0a1b2c3d4e5f60718"},
        "disk": {"type": "io2", "size_gb": 500, "kms_key": "arn:aws:kms:us-east-2:123456789012:key/0a1b2c3d"},
    },
    "with alternatives and limits": {
        **DEVELOP,
        "karpenter": {"alternatives": ["g6.8xlarge"], "limits": {"cpu": "256", "memory": "1Ti"}},
        "taints": [{"key": "team", "value": "a", "effect": "NoExecute"}],
        "labels": {"example.com/owner": "research"},
    },
}
