"""Rules about the network between GPU nodes: EFA, placement groups and reservations on AWS, InfiniBand on AKS.

Sources: EC2 user guide, Elastic Fabric Adapter (security group) and placement groups; EKS user guide, EFA; threads
eksctl-io/eksctl#7949 and terraform-aws-modules/terraform-aws-eks#3730 (group and reservation). Read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from gpu_platform.base import names
from policies._eks_pools import EKS_LAUNCH_TEMPLATE, EksNodeGroup
from policies._inputs import NotVisible, Value
from policies._node_pool import NodePool
from policies._pools import pools
from policies._rule import Breach, Rule, Settings, Severity
from policies._stack import ObjectSubject, Resource, Stack
from policies._workloads import Workload, workloads

_EFA: Final = "vpc.amazonaws.com/efa"
_EFA_TYPES: Final = ("efa", "efa-only")
_SECURITY_GROUP: Final = "aws:ec2/securityGroup:SecurityGroup"
_RULES: Final = {
    "ingress": "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
    "egress": "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule",
}
_OLD_RULE: Final = "aws:ec2/securityGroupRule:SecurityGroupRule"
_PLACEMENT_GROUP: Final = "aws:ec2/placementGroup:PlacementGroup"
_SUBNET: Final = "aws:ec2/subnet:Subnet"
_ALL_PROTOCOLS: Final = ("-1", "all")
_OF_TASKS: Final = (
    "depends on the number of nodes of a task; pods on a single node need no interfaces, and a violation harms "
    "nobody else"
)


def _no_efa(stack: Stack, workload: Workload, _: Settings) -> Iterator[Breach]:
    yield from _unrequested(stack, workload, _EFA, _has_efa, f"{_EFA} under resources.limits, with hugepages-2Mi")


def _no_infiniband(stack: Stack, workload: Workload, _: Settings) -> Iterator[Breach]:
    resource = names.INFINIBAND_RESOURCE
    yield from _unrequested(stack, workload, resource, _has_infiniband, f"{resource} under resources.limits")


def _unrequested(
    stack: Stack, workload: Workload, nics: str, has_nics: Callable[[NodePool], bool], allowed: str
) -> Iterator[Breach]:
    """Yield a breach if the pods of one task are on several whole nodes with NICs and request no NICs."""
    if workload.pods_together < 2 or not workload.requests_gpus:
        return
    with_nics = [pool for pool in workload.targets(stack) if has_nics(pool)]
    if not with_nics or len(with_nics) < len(workload.targets(stack)):
        return
    gpus = workload.requested.get(names.GPU_RESOURCE, 0)
    whole = {pool.name for pool in with_nics if gpus == pool.gpus_per_node}
    if not whole or workload.pod_spec.get("resourceClaims").items():
        return
    for container in workload.containers:
        if container.spec.get("resources", "limits", nics).present:
            return
    yield Breach(
        at=workload.pod_spec.get("containers"),
        found=f"{workload.pods_together} pods of one task on nodes of {', '.join(sorted(whole))}, without {nics}",
        allowed=allowed,
        fix="request the node's interfaces; otherwise NCCL uses TCP, at a fraction of the bandwidth",
    )


def _has_efa(pool: NodePool) -> bool:
    return _has_interfaces(pool) and pool.label("vpc.amazonaws.com/efa.present").text() == "true"


def _has_infiniband(pool: NodePool) -> bool:
    return _has_interfaces(pool) and pool.label(names.INFINIBAND_LABEL).text() == "true"


def _has_interfaces(pool: NodePool) -> bool:
    counts = [machine.rdma_interfaces for machine in pool.machines]
    return bool(counts) and min(counts) > 0


efa_requested = Rule(
    id="efa-requested",
    severity=Severity.HIGH,
    description="Tasks on several EFA nodes request EFA interfaces. Otherwise NCCL falls back to TCP.",
    subjects=lambda stack: stack.view(workloads),
    check=_no_efa,
    settings=Settings,
    before_only=_OF_TASKS,
)

infiniband_requested = Rule(
    id="infiniband-requested",
    severity=Severity.HIGH,
    description="Tasks on several nodes with InfiniBand request its NICs. Otherwise NCCL falls back to TCP.",
    subjects=lambda stack: stack.view(workloads),
    check=_no_infiniband,
    settings=Settings,
    before_only=_OF_TASKS,
)


@dataclass(frozen=True, slots=True, eq=False)
class LaunchTemplate(ObjectSubject):
    """One EC2 launch template."""


def launch_templates(stack: Stack) -> tuple[LaunchTemplate, ...]:
    """Return every launch template."""
    return tuple(LaunchTemplate(one) for one in stack.resources if one.type == EKS_LAUNCH_TEMPLATE)


def _efa_is_blocked(stack: Stack, template: LaunchTemplate, _: Settings) -> Iterator[Breach]:
    interfaces = template.resource.inputs.get("networkInterfaces")
    efa = [one for one in interfaces.items() if one.get("interfaceType").text() in _EFA_TYPES]
    if not efa:
        return
    groups = [one for one in _dependencies(stack, template.resource) if one.type == _SECURITY_GROUP]
    if not groups:
        raise interfaces.not_visible("the security groups of the interfaces are not in this stack")
    for direction in ("ingress", "egress"):
        if not any(_allows_itself(stack, group, direction) for group in groups):
            yield Breach(
                at=efa[0].get("securityGroups"),
                found=f"EFA interfaces without a security group that allows all {direction} of its members",
                allowed="a group that allows all protocols from and to itself",
                fix=f"add an {direction} rule with protocol -1 that refers to the group itself",
            )


def _allows_itself(stack: Stack, group: Resource, direction: str) -> bool:
    """Return whether a security group allows all traffic between its members in a direction. Raises NotVisible."""
    for rule in group.inputs.get(direction).items():
        if rule.get("self").truth() and _all(rule.get("protocol")):
            return True
    for one in stack.resources:
        if group.urn not in one.dependencies:
            continue
        if one.type == _RULES[direction]:
            # The id of the group to which a rule refers is an output, so its value may be unknown.
            # The dependencies of a rule therefore show to which security group the rule refers.
            other = [urn for urn in one.dependencies if _is_group(stack, urn)]
            with_itself = other == [group.urn] and one.inputs.get("referencedSecurityGroupId").present
            if with_itself and _all(one.inputs.get("ipProtocol")):
                return True
        older = one.type == _OLD_RULE and one.inputs.get("type").text() == direction
        if older and one.inputs.get("self").truth() and _all(one.inputs.get("protocol")):
            return True
    return False


def _is_group(stack: Stack, urn: str) -> bool:
    found = stack.find(urn)
    return found is not None and found.type == _SECURITY_GROUP


def _all(protocol: Value) -> bool:
    return protocol.text() in _ALL_PROTOCOLS or protocol.whole() == -1


def _dependencies(stack: Stack, resource: Resource) -> list[Resource]:
    return [found for urn in resource.dependencies if (found := stack.find(urn)) is not None]


efa_security_group = Rule(
    id="efa-security-group",
    severity=Severity.CRITICAL,
    description="EFA interfaces have a security group that allows all traffic to and from itself, as EFA "
    "requires.",
    subjects=lambda stack: stack.view(launch_templates),
    check=_efa_is_blocked,
    settings=Settings,
)


def node_groups(stack: Stack) -> tuple[EksNodeGroup, ...]:
    """Return every EKS node group."""
    return tuple(pool for pool in stack.view(pools) if isinstance(pool, EksNodeGroup))


def _placement(pool: EksNodeGroup) -> Value | None:
    """Return the placement group's name in a node group's template, or None if it has none. Raises NotVisible."""
    template = pool.launch_template()
    placement = template.inputs.get("placement") if template is not None else None
    return placement if placement is not None and placement.present else None


def _several_zones(stack: Stack, pool: EksNodeGroup, _: Settings) -> Iterator[Breach]:
    placement = _placement(pool)
    if placement is None or not _is_cluster_group(stack, pool):
        return
    subnets = pool.resource.inputs.get("subnetIds")
    try:
        count = len(subnets.items())
    except NotVisible:
        # The list of subnets is unknown in a preview, but its subnets are among the dependencies.
        count = sum(one.type == _SUBNET for one in _dependencies(stack, pool.resource))
        if count == 0:
            raise
    if count > 1:
        yield Breach(
            at=subnets,
            found=f"a cluster placement group and {count} subnets for pool {pool.name!r}",
            allowed="one subnet, because a cluster placement group is in one zone",
            fix="choose one zone for the pool; launches in the other zones fail",
        )


def _is_cluster_group(stack: Stack, pool: EksNodeGroup) -> bool:
    """Return whether the placement group may have strategy `cluster`. True if the group is not in the stack."""
    template = pool.launch_template()
    found = [one for one in _dependencies(stack, template) if one.type == _PLACEMENT_GROUP] if template else []
    return not found or any(one.inputs.get("strategy").text() == "cluster" for one in found)


placement_group_zone = Rule(
    id="placement-group-zone",
    severity=Severity.HIGH,
    description="A pool in a cluster placement group is in one zone. Launches in other zones fail.",
    subjects=lambda stack: stack.view(node_groups),
    check=_several_zones,
    settings=Settings,
)


def _own_group_on_reservation(stack: Stack, pool: EksNodeGroup, _: Settings) -> Iterator[Breach]:
    template = pool.launch_template()
    if template is None:
        return
    reserved = template.inputs.get("capacityReservationSpecification", "capacityReservationTarget")
    placement = template.inputs.get("placement")
    if not reserved.present or not placement.present:
        return
    if any(one.type == _PLACEMENT_GROUP for one in _dependencies(stack, template)):
        yield Breach(
            at=placement,
            found=f"a new placement group on the reservation of pool {pool.name!r}",
            allowed="the placement group of the reservation, or none",
            fix="remove the placement group; with another group, part of the reserved capacity cannot be used",
        )


reservation_placement = Rule(
    id="reservation-placement",
    severity=Severity.HIGH,
    description="Reserved nodes use the placement group of their reservation. With another group, part of the "
    "reserved capacity cannot be used.",
    subjects=lambda stack: stack.view(node_groups),
    check=_own_group_on_reservation,
    settings=Settings,
)

RULES = (efa_requested, infiniband_requested, efa_security_group, placement_group_zone, reservation_placement)
