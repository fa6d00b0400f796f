"""`AksInfiniband`: makes the InfiniBand NICs of nodes available to pods as `rdma/ib`."""

from __future__ import annotations

import pulumi

from components._daemon_set import daemon_set
from components._helm_release import install
from components._in_namespace import own_namespace
from components._kubernetes_object import KubernetesObject
from components._options import child_options
from gpu_platform.planning.clouds.aks.plan import InfinibandPlan

# The driver and the device plugin need access to the host.
_POD_SECURITY = "privileged"
_POLICY = "nic-cluster-policy"  # the operator accepts no other name


class AksInfiniband(pulumi.ComponentResource):
    """The Network Operator with its NicClusterPolicy, and the DaemonSet that raises the limit of locked memory.

    Outputs: `release`, the version of the operator's chart.
    """

    release: pulumi.Output[str]

    def __init__(self, name: str, args: InfinibandPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:AksInfiniband", name, None, opts)
        namespace = own_namespace(args.release.namespace, _POD_SECURITY, child_options(self, opts))
        inside = pulumi.ResourceOptions(parent=self, depends_on=[namespace])
        operator = install(args.release, inside)
        KubernetesObject(
            _POLICY,
            "mellanox.com/v1alpha1/NicClusterPolicy",
            metadata={"name": _POLICY},
            spec=args.nic_cluster_policy,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[operator]),
        )
        daemon_set(args.locked_memory, inside)
        self.release = pulumi.Output.from_input(args.release.version)
        self.register_outputs({"release": self.release})
