"""Registers the operator and the node agent for two GKE pools. One pool uses the operator's device plugin,
the other GKE's.
"""

from components.gpu_operator import GpuOperator
from components.node_validation import NodeValidation, NodeValidationArgs
from gpu_platform.stack.loaded import plan_platform

POOL = {
    "machine_type": "g2-standard-48",
    "count": {"desired": 2},
    "workload": "inference",
    "zones": ["us-central1-a"],
    "sharing": {"mode": "time-slicing", "replicas": 4},
}
plan = plan_platform(
    {
        "kind": "environment",
        "cluster": {"provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1"},
        "pools": [
            {"name": "ours", **POOL},
            {"name": "googles", "device_plugin": "provider", **POOL},
        ],
    },
    "test",
)
assert plan.kind == "environment"
GpuOperator("gpu-operator", plan.operator)
NodeValidation("node-validation", NodeValidationArgs(validation=plan.validation, pools=plan.pools))
