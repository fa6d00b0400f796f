"""A whole platform on the GPU nodes of an existing cluster.

Configuration: `nodes`, the names of DGX A100 nodes; `kubeconfig`, a path. If `kubeconfig` is unset, the client's
default is used.
"""

import sys
from pathlib import Path

import pulumi

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the checkout of gpu-platform
from components import GpuPlatform, GpuPlatformArgs
from components.public.stack_file_types import PlatformCluster

config = pulumi.Config()
cluster: PlatformCluster = {"provider": "existing", "name": "dev", "kubernetes": "1.36"}
nodes: list[str] = config.require_object("nodes")
if kubeconfig := config.get("kubeconfig"):
    cluster["kubeconfig"] = kubeconfig

platform = GpuPlatform(
    "dev",
    GpuPlatformArgs(
        cluster=cluster,
        pools=[
            {
                "name": "train",
                "machine_type": "dgx-a100-640gb",
                "count": {"desired": len(nodes)},
                "nodes": {"names": nodes},
                "workload": "training",
                "topology": {"policy": "restricted"},
            }
        ],
        teams=[
            {
                "name": "research",
                "quota": {
                    "gpus": 8 * len(nodes),
                    "cpu": 200 * len(nodes),
                    "memory": f"{1536 * len(nodes)}Gi",
                },
                "priority": "training",
                "members": ["group:research"],
            }
        ],
        monitoring={"prometheus_operator": False},
    ),
)

pulumi.export("namespaces", platform.namespaces)
pulumi.export("operator", platform.operator_release)
