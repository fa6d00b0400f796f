"""Every form of EKS node group that a stack can declare."""

from __future__ import annotations

from typing import Any

ZONE = "us-east-2a"
RESERVATION = "cr-0a1b2c3d4e5f60718"
BLOCK = {"type": "capacity-block", "reservation": RESERVATION, "zone": ZONE}
RESERVED = {"type": "reservation", "reservation": "cr-3a1b2c3d4e5f60718", "zone": ZONE}
AMI = "ami-0a1b2c3d4e5f60718"

FORMS: dict[str, dict[str, Any]] = {
    "p5-block": {"machine_type": "p5.48xlarge", "count": {"desired": 4}, "capacity": BLOCK},
    "p5-block-efa-primary": {
        "machine_type": "p5.48xlarge",
        "count": {"desired": 4},
        "capacity": BLOCK,
        "network": {"layout": "efa-primary"},
    },
    "p5en-block": {
        "machine_type": "p5en.48xlarge",
        "count": {"desired": 2},
        "capacity": {**BLOCK, "reservation": "cr-1a1b2c3d4e5f60718"},
    },
    "p6-b200-block": {
        "machine_type": "p6-b200.48xlarge",
        "count": {"desired": 2},
        "capacity": {**BLOCK, "reservation": "cr-2a1b2c3d4e5f60718"},
    },
    "p4d-reserved-with-group": {
        "machine_type": "p4d.24xlarge",
        "count": {"desired": 2},
        "capacity": {**RESERVED, "placement_group": "a100-row"},
    },
    "p4d-reserved": {"machine_type": "p4d.24xlarge", "count": {"desired": 2}, "capacity": RESERVED},
    "p4de-placed": {"machine_type": "p4de.24xlarge", "count": {"desired": 2}, "zones": [ZONE]},
    "p5-static-memory": {
        "machine_type": "p5.48xlarge",
        "count": {"desired": 1},
        "capacity": BLOCK,
        "topology": {"policy": "restricted", "scope": "pod", "memory": "static"},
    },
    "g6e-on-demand": {
        "machine_type": "g6e.12xlarge",
        "count": {"min": 1, "desired": 2, "max": 10},
        "workload": "inference",
    },
    "g5-spot": {
        "machine_type": "g5.12xlarge",
        "count": {"desired": 1, "max": 4},
        "capacity": {"type": "spot"},
        "workload": "inference",
    },
    "g6e-spot-of-four-types": {
        "machine_type": "g6e.8xlarge",
        "count": {"min": 0, "desired": 0, "max": 8},
        "capacity": {"type": "spot", "alternatives": ["g6e.16xlarge", "g6e.4xlarge", "g6e.2xlarge"]},
        "workload": "inference",
    },
    "g6-own-key": {
        "machine_type": "g6.12xlarge",
        "workload": "inference",
        "disk": {"size_gb": 500, "kms_key": "arn:aws:kms:us-east-2:123456789012:key/0a1b2c3d"},
    },
    "g4dn-bottlerocket": {
        "machine_type": "g4dn.12xlarge",
        "workload": "inference",
        "image": {"family": "bottlerocket"},
    },
    "g4dn-cached-images": {
        "machine_type": "g4dn.12xlarge",
        "workload": "inference",
        "image": {"family": "bottlerocket", "cache": "snap-0a1b2c3d4e5f60718"},
        "local_nvme": False,
    },
    "g6-parallel-pull": {"machine_type": "g6.12xlarge", "workload": "inference", "image": {"fast_pull": True}},
    "g6-tuned": {
        "machine_type": "g6.12xlarge",
        "workload": "inference",
        "tuning": {"intent": "inference", "sysctls": {"vm.max_map_count": 1048576}, "huge_pages": 1024},
    },
    "g6-bootstrapped": {
        "machine_type": "g6.12xlarge",
        "workload": "inference",
        "bootstrap": {"commands": ["update-ca-trust"], "kubelet": {"pod_pids_limit": 4096}},
    },
    "g5g-arm": {"machine_type": "g5g.2xlarge", "workload": "development"},
    "own-image": {"machine_type": "g6e.12xlarge", "workload": "inference", "image": {"ami": AMI}},
}
"""For each form, the fields that differ from a training pool with one p5.48xlarge node."""
