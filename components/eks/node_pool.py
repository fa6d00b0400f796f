"""`EksNodePool`: the nodes of one pool as an EKS managed node group with its launch template."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components._options import child_options, custom_timeouts
from components.eks.launch_template import block_device, metadata_options, no_reservation, tag_specifications
from components.eks.outputs import EksOutputs
from components.eks.placement_group import create_placement_group
from components.eks.resized import resized as resized_now
from components.mig_guard import guarded
from gpu_platform.planning.clouds.eks.blocks import ScheduledSize
from gpu_platform.planning.clouds.eks.launch_plan import ClusterAccess, NetworkInterface
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan, NodeGroupPlan
from gpu_platform.planning.clouds.eks.user_data import write_user_data
from gpu_platform.planning.pools.section import PoolPlan

# With a size of -1, a scheduled action keeps the size of the group. An unset size would mean 0.
_UNCHANGED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class EksNodePoolArgs:
    """Plan for the pool, and the cluster that it joins."""

    pool: PoolPlan
    cluster: EksOutputs


class EksNodePool(pulumi.ComponentResource):
    """The nodes of one pool, with a launch template, a managed node group and, if planned, a placement group.

    The template describes a node. The node group sets the number of nodes, their labels and their taints. A pool
    with several capacity blocks has a template and a node group for each block. Scheduled actions start and stop
    the nodes of a block, and every Auto Scaling group is tagged.

    Outputs: `node_group_name`, `launch_template_id`. If there are several blocks, the outputs refer to the
    earliest one.
    """

    node_group_name: pulumi.Output[str]
    launch_template_id: pulumi.Output[str]

    def __init__(self, name: str, args: EksNodePoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        pool, cluster = args.pool, args.cluster
        plan, self._timeouts = pool.cloud, custom_timeouts(pool.cloud_nodes.timeouts)
        assert isinstance(plan, EksPoolPlan)  # noqa: S101 - Karpenter pools have their own component
        if plan.several_blocks:
            # Node groups are not protected, because a protected pool must still drop ended Capacity Blocks.
            opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(protect=plan.protect))
        super().__init__("gpu-platform:index:EksNodePool", name, None, opts)
        first = child_options(self, opts, *cluster.ready)
        first.provider = cluster.provider
        if plan.several_blocks:
            first.protect = False
        self._guard = guarded(pool)
        placement = create_placement_group(plan.placement_group, plan.tags, first)
        created = [self._create_group(name, plan, group, cluster, first, placement) for group in plan.node_groups]
        template, node_group = created[0]
        self.node_group_name = node_group.node_group_name
        self.launch_template_id = template.id
        self.register_outputs(
            {"node_group_name": self.node_group_name, "launch_template_id": self.launch_template_id}
        )

    def _create_group(
        self,
        pool: str,
        plan: EksPoolPlan,
        group: NodeGroupPlan,
        cluster: EksOutputs,
        opts: pulumi.ResourceOptions,
        placement: list[pulumi.Resource],
    ) -> tuple[aws.ec2.LaunchTemplate, aws.eks.NodeGroup]:
        """Create a node group with its template and the scheduled actions of its block or pool."""
        name = group.name if plan.several_blocks else pool
        opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(aliases=_former_names(group)))
        template = self._create_launch_template(name, plan, group, cluster, opts)
        node_group = self._create_node_group(name, plan, group, cluster, template, placement)
        if group.block is not None:
            self._schedule(f"{name}-start", group.block.start, cluster, node_group)
            self._schedule(f"{name}-stop", group.block.stop, cluster, node_group)
        for action, size in zip(("start", "stop"), plan.schedule, strict=False):
            self._schedule(f"{name}-{action}", size, cluster, node_group)
        self._tag_scaling_group(name, plan, group, cluster, node_group)
        return template, node_group

    def _schedule(
        self, name: str, size: ScheduledSize | None, cluster: EksOutputs, node_group: aws.eks.NodeGroup
    ) -> None:
        if size is not None:
            aws.autoscaling.Schedule(
                name,
                scheduled_action_name=size.name,
                autoscaling_group_name=node_group.resources[0].autoscaling_groups[0].name,
                recurrence=size.recurrence,
                time_zone=size.time_zone,
                desired_capacity=size.nodes,
                min_size=_UNCHANGED,
                max_size=_UNCHANGED,
                # Auto Scaling refuses a second scheduled action for the same time.
                opts=pulumi.ResourceOptions(
                    parent=self, provider=cluster.provider, delete_before_replace=True, protect=False
                ),
            )

    def _create_launch_template(
        self,
        name: str,
        plan: EksPoolPlan,
        group: NodeGroupPlan,
        cluster: EksOutputs,
        opts: pulumi.ResourceOptions,
    ) -> aws.ec2.LaunchTemplate:
        groups: list[pulumi.Input[str]] = [cluster.cluster_security_group_id, *cluster.security_groups]
        efa = [cluster.efa_security_group_id] if cluster.efa_security_group_id is not None else []
        return aws.ec2.LaunchTemplate(
            name,
            image_id=plan.ami,
            # EKS refuses an instance type in the template if the node group lists types.
            instance_type=None if plan.instance_types else plan.instance_type,
            # A template contains either security groups or network interfaces that have security groups.
            # If the template contains neither, EKS adds only the cluster security group.
            network_interfaces=[_network_interface(one, [*groups, *efa]) for one in plan.interfaces] or None,
            vpc_security_group_ids=groups if cluster.security_groups and not plan.interfaces else None,
            block_device_mappings=[block_device(one) for one in plan.block_devices],
            placement=_placement(plan),
            instance_market_options=_market(plan),
            capacity_reservation_specification=_reservation(plan, group),
            metadata_options=metadata_options(plan.metadata_hop_limit),
            user_data=_user_data(plan, cluster),
            tag_specifications=tag_specifications({**cluster.tags, **plan.node_tags}),
            tags=plan.tags,
            update_default_version=True,
            opts=opts,
        )

    def _create_node_group(
        self,
        name: str,
        plan: EksPoolPlan,
        group: NodeGroupPlan,
        cluster: EksOutputs,
        template: aws.ec2.LaunchTemplate,
        placement: list[pulumi.Resource],
    ) -> aws.eks.NodeGroup:
        subnets = [cluster.subnet_ids[zone] for zone in group.zones] if group.zones else cluster.all_subnet_ids
        resized = group.name in resized_now()
        return aws.eks.NodeGroup(
            name,
            cluster_name=cluster.name,
            # A node group that is deleted before its successor exists has a fixed name.
            # Pulumi adds a suffix to the names of all other node groups.
            node_group_name=group.name if plan.delete_before_replace else None,
            node_role_arn=cluster.node_role_arn,
            subnet_ids=subnets,
            instance_types=list(plan.instance_types) or None,
            ami_type=plan.ami_type,
            # Without a version, nodes keep the version that the cluster had when they were created.
            # A custom image determines the version of its nodes.
            version=cluster.kubernetes if plan.ami is None else None,
            release_version=plan.release_version,
            capacity_type=plan.capacity_type,
            launch_template=aws.eks.NodeGroupLaunchTemplateArgs(
                id=template.id, version=template.latest_version.apply(str)
            ),
            scaling_config=aws.eks.NodeGroupScalingConfigArgs(
                min_size=plan.min_size,
                desired_size=0 if group.scheduled_window is not None and not resized else plan.desired_size,
                max_size=plan.max_size,
            ),
            update_config=aws.eks.NodeGroupUpdateConfigArgs(
                max_unavailable=plan.max_unavailable, update_strategy=plan.update_strategy
            ),
            node_repair_config=aws.eks.NodeGroupNodeRepairConfigArgs(enabled=plan.node_repair),
            labels=plan.labels,
            taints=[
                aws.eks.NodeGroupTaintArgs(key=taint.key, value=taint.value, effect=taint.effect)
                for taint in plan.taints
            ],
            tags=plan.tags,
            opts=pulumi.ResourceOptions(
                parent=self,
                provider=cluster.provider,
                depends_on=[template, *placement],
                ignore_changes=_left_alone(plan, group, resized=resized),
                aliases=_former_names(group),
                delete_before_replace=plan.delete_before_replace,
                protect=plan.protect and not plan.several_blocks,
                custom_timeouts=self._timeouts,
                hooks=self._guard.hooks,
            ),
        )

    def _tag_scaling_group(
        self,
        name: str,
        plan: EksPoolPlan,
        group: NodeGroupPlan,
        cluster: EksOutputs,
        node_group: aws.eks.NodeGroup,
    ) -> None:
        """Tag the Auto Scaling group that EKS creates, because EKS does not copy the node group's tags to it."""
        for key, value in plan.group_tags.items():
            aws.autoscaling.Tag(
                f"{name}-{key}",
                autoscaling_group_name=node_group.resources[0].autoscaling_groups[0].name,
                tag=aws.autoscaling.TagTagArgs(key=key, value=value, propagate_at_launch=False),
                opts=pulumi.ResourceOptions(
                    parent=self,
                    provider=cluster.provider,
                    aliases=_former_names(group, f"-{key}"),
                    protect=False,
                ),
            )


def _former_names(group: NodeGroupPlan, suffix: str = "") -> list[pulumi.Alias]:
    return [pulumi.Alias(name=f"{group.former_name}{suffix}")] if group.former_name is not None else []


def _left_alone(plan: EksPoolPlan, group: NodeGroupPlan, *, resized: bool) -> list[str]:
    """Return the node group inputs that an update must not change."""
    ignored: list[str] = []
    if plan.keeps_size and not resized:
        ignored.append("scalingConfig.desiredSize")
    # A different name would replace a node group that holds reserved capacity or the pool's only block.
    # All other node groups can change their names, because each is created before its predecessor is deleted.
    if plan.delete_before_replace:
        ignored.append("nodeGroupName")
    if not plan.zones:  # if another pool adds a zone to the VPC, this pool must not be replaced
        ignored.append("subnetIds")
    return ignored


def _user_data(plan: EksPoolPlan, cluster: EksOutputs) -> pulumi.Input[str] | None:
    """Return the user data. It is unknown in a preview only if nodes with a custom image need cluster outputs."""
    user_data = plan.user_data
    if user_data is None:
        return None
    if not user_data.needs_cluster_access:
        return _encoded(write_user_data(user_data))
    access = pulumi.Output.all(
        name=cluster.name,
        endpoint=cluster.endpoint,
        certificate_authority=cluster.certificate_authority,
        service_cidr=cluster.service_cidr,
    )
    return access.apply(lambda known: _encoded(write_user_data(user_data, ClusterAccess(**known))))


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _network_interface(
    interface: NetworkInterface, security_groups: Sequence[pulumi.Input[str]]
) -> aws.ec2.LaunchTemplateNetworkInterfaceArgs:
    """Return an interface without a subnet. The Auto Scaling group selects one of the node group's subnets."""
    return aws.ec2.LaunchTemplateNetworkInterfaceArgs(
        network_card_index=interface.network_card_index,
        device_index=interface.device_index,
        interface_type=interface.interface_type,
        security_groups=security_groups,
        associate_public_ip_address="false",
        delete_on_termination="true",
    )


def _placement(plan: EksPoolPlan) -> aws.ec2.LaunchTemplatePlacementArgs | None:
    group = plan.placement_group
    return None if group is None else aws.ec2.LaunchTemplatePlacementArgs(group_name=group.name)


def _market(plan: EksPoolPlan) -> aws.ec2.LaunchTemplateInstanceMarketOptionsArgs | None:
    if plan.market_type is None:
        return None
    return aws.ec2.LaunchTemplateInstanceMarketOptionsArgs(market_type=plan.market_type)


def _reservation(
    plan: EksPoolPlan, group: NodeGroupPlan
) -> aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs | None:
    if plan.avoids_reservations:
        return no_reservation()
    if group.reservation is None:
        return None
    target = aws.ec2.LaunchTemplateCapacityReservationSpecificationCapacityReservationTargetArgs(
        capacity_reservation_id=group.reservation
    )
    return aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs(capacity_reservation_target=target)
