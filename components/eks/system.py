"""`EksSystem`: the add-ons of a new EKS cluster, and the system nodes for add-ons and controllers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components._options import child_options, custom_timeouts
from components.eks.addon import create_addon
from components.eks.launch_template import block_device, metadata_options, no_reservation, tag_specifications
from components.eks.outputs import EksOutputs
from components.eks.resized import resized
from gpu_platform.base.names import SYSTEM_NODES
from gpu_platform.planning.clouds.eks.cluster_plan import CreateEksPlan, EksClusterPlan, SystemPool
from gpu_platform.planning.clouds.eks.limits import SYSTEM_AT_A_TIME

# Cluster-wide controllers must not lose their nodes to spot interruptions.
_CAPACITY_TYPE = "ON_DEMAND"
# System nodes hold no state, so a broken node is replaced without loss.
_NODE_REPAIR = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EksSystemArgs:
    """The cluster's plan, its settings at creation, its outputs, and the ids of the pod subnets by zone."""

    plan: EksClusterPlan
    create: CreateEksPlan
    cluster: EksOutputs
    pod_subnet_ids: Mapping[str, pulumi.Output[str]]


class EksSystem(pulumi.ComponentResource):
    """Pinned add-ons and the system node group.

    Add-ons that a node needs to become ready come first, then the nodes, then the add-ons that need nodes. Every
    node waits for the add-ons in `before_nodes`. Pods need the resources in `works` for scheduling, DNS and
    volumes.

    Outputs: `node_group_name`.
    """

    before_nodes: list[pulumi.Resource]
    works: list[pulumi.Resource]

    def __init__(self, name: str, args: EksSystemArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:EksSystem", name, None, opts)
        plan, create, cluster = args.plan, args.create, args.cluster
        self._name = name
        self._cluster = cluster
        self.before_nodes = []
        first = child_options(self, opts, *cluster.ready)
        for addon in create.addons:
            if addon.before_nodes:
                # In the plan's order, the Pod Identity agent exists before the VPC CNI needs its credentials.
                after = pulumi.ResourceOptions(parent=self, depends_on=self.before_nodes[-1:])
                opts_of_addon = after if self.before_nodes else first
                self.before_nodes.append(
                    create_addon(name, plan, cluster.name, addon, opts_of_addon, args.pod_subnet_ids)
                )
        nodes = self._create_node_group(create.system_pool, plan)
        after_nodes = pulumi.ResourceOptions(parent=self, depends_on=[nodes])
        late = [
            create_addon(name, plan, cluster.name, addon, after_nodes)
            for addon in create.addons
            if not addon.before_nodes
        ]
        self.works = [nodes, *late]
        self.register_outputs({"node_group_name": nodes.node_group_name})

    def _create_node_group(self, pool: SystemPool, plan: EksClusterPlan) -> aws.eks.NodeGroup:
        name = f"{self._name}-system"
        after = pulumi.ResourceOptions(parent=self, depends_on=self.before_nodes)
        template = aws.ec2.LaunchTemplate(
            name,
            block_device_mappings=[block_device(pool.disk)],
            capacity_reservation_specification=no_reservation() if pool.avoids_reservations else None,
            metadata_options=metadata_options(pool.metadata_hop_limit),
            tag_specifications=tag_specifications({**plan.tags, "Name": name}),
            update_default_version=True,
            opts=after,
        )
        return aws.eks.NodeGroup(
            # The cluster's name may be too long for a node group. This name is unique within the cluster.
            "system",
            cluster_name=self._cluster.name,
            node_role_arn=self._cluster.node_role_arn,
            subnet_ids=self._cluster.all_subnet_ids,
            # Without a version, nodes keep the version that the cluster had when they were created.
            version=plan.kubernetes,
            instance_types=list(pool.instance_types),
            ami_type=pool.ami_type,
            release_version=pool.release_version,
            capacity_type=_CAPACITY_TYPE,
            launch_template=aws.eks.NodeGroupLaunchTemplateArgs(
                id=template.id, version=template.latest_version.apply(str)
            ),
            scaling_config=aws.eks.NodeGroupScalingConfigArgs(
                min_size=pool.min_size, desired_size=pool.desired_size, max_size=pool.max_size
            ),
            update_config=aws.eks.NodeGroupUpdateConfigArgs(max_unavailable=SYSTEM_AT_A_TIME),
            node_repair_config=aws.eks.NodeGroupNodeRepairConfigArgs(enabled=_NODE_REPAIR),
            opts=pulumi.ResourceOptions.merge(
                after,
                pulumi.ResourceOptions(
                    ignore_changes=_left_alone(), custom_timeouts=custom_timeouts(pool.timeouts)
                ),
            ),
        )


def _left_alone() -> list[str]:
    """Return the inputs that an update must not change. Adding a zone for a new pool must not replace the system
    nodes.
    """
    return ["subnetIds"] if SYSTEM_NODES in resized() else ["scalingConfig.desiredSize", "subnetIds"]
