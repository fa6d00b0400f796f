"""Compares a new or existing EKS cluster, its subnets and its keys with the resources in AWS."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from gpu_platform.base import names
from gpu_platform.online.answers import no_cluster, problem_finding
from gpu_platform.online.aws.answers import Cluster, InstanceType, Subnet, Zone
from gpu_platform.online.finding import OnlineFinding, Severity
from gpu_platform.planning.clouds.eks.addresses import NodeAddresses, addresses_of_node, addresses_with_pods
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan, ExistingVpcPlan
from gpu_platform.planning.clouds.eks.existing_cluster import (
    SUBNET_TAG,
    VPC_CNI,
    AddonFacts,
    ExistingEksFacts,
    addon_options,
    check_looked_up,
    monitoring_warning,
    network_policy_warning,
    required_addons,
)
from gpu_platform.planning.clouds.eks.limits import LEAST_ZONES
from gpu_platform.planning.clouds.eks.node_monitoring import MONITORING_AGENT
from gpu_platform.planning.clouds.eks.plan import KarpenterPoolPlan
from gpu_platform.planning.clouds.eks.zones import is_local_zone
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools.section import PoolPlan

API_PORT: Final = 443
_POD_SUBNETS: Final = (
    "give pods separate subnets (custom networking, or create.network.pod_subnets for a new cluster)"
)


def is_deployed(plan: EnvironmentPlan, found: Cluster | None) -> bool:
    """Return whether this stack created the cluster. Clusters that it created have the tags of the stack."""
    return found is not None and found.tags.get(names.STACK_LABEL) == plan.stack


def compare_new_cluster(
    plan: EnvironmentPlan, found: Cluster | None, log_group_exists: bool
) -> Iterator[OnlineFinding]:
    """Yield findings about whether the names of the new cluster and of its log group are free."""
    looked_at = f"name of the new cluster: {plan.cluster.name}"
    if is_deployed(plan, found):
        yield OnlineFinding(looked_at=looked_at, severity="fine", found="this stack has created it already")
        return
    if found is not None:
        yield OnlineFinding(
            looked_at=looked_at,
            severity="stops",
            found=(
                f"an EKS cluster with this name exists (Kubernetes {found.version}), without the tag "
                f"{names.STACK_LABEL}={plan.stack}"
            ),
            why="EKS refuses a second cluster of the same name",
            fix="choose another cluster.name, or remove cluster.create to use the existing cluster",
        )
        return
    yield OnlineFinding(looked_at=looked_at, severity="fine", found="free")
    if log_group_exists:
        name = f"/aws/eks/{plan.cluster.name}/cluster"
        yield OnlineFinding(
            looked_at="log group of the new cluster",
            severity="stops",
            found=f"{name} was left behind by a deleted cluster",
            why="the program creates the log group, and CloudWatch refuses a second log group of the same name",
            fix=f"delete it with aws logs delete-log-group --log-group-name {name}, or change cluster.name",
        )


def facts_of(
    plan: EksClusterPlan, found: Cluster, addons: Mapping[str, AddonFacts | None], subnets: Iterable[Subnet]
) -> ExistingEksFacts:
    """Return the facts about the cluster that `up` compares with the plan. `addons` maps the name of each EKS
    add-on to its facts, or to None if the add-on is missing.
    """
    vpc_cni = addons.get(VPC_CNI)
    tagged = [one for one in subnets if one.vpc == found.vpc and one.tags.get(SUBNET_TAG) == "1"]
    by_zone = {
        zone: (plan.subnets[zone],)
        if zone in plan.subnets
        else tuple(one.subnet_id for one in tagged if one.zone == zone)
        for zone in plan.zones
    }
    return ExistingEksFacts(
        kubernetes=found.version,
        authentication_mode=found.authentication_mode,
        vpc_cni=vpc_cni.version if vpc_cni is not None else None,
        vpc_cni_configuration=vpc_cni.configuration if vpc_cni is not None else "",
        subnets=by_zone,
        all_subnets=plan.common_subnets
        if plan.subnets
        else tuple(one.subnet_id for one in tagged if not is_local_zone(one.zone)),
        auto_mode=found.auto_mode,
        ip_family=found.ip_family,
    )


def compare_existing_cluster(
    plan: EksClusterPlan,
    found: Cluster | None,
    facts: ExistingEksFacts | None,
    addons: Mapping[str, AddonFacts | None],
) -> Iterator[OnlineFinding]:
    """Yield the reasons why `up` would refuse an existing cluster, and the missing add-ons. `up` makes the same
    check.
    """
    looked_at = f"existing cluster {plan.name}"
    if found is None or facts is None:
        yield no_cluster(plan.name, "EKS", plan.region, "cluster.region")
        return
    text = f"EKS {found.version} {found.status}, authentication mode {found.authentication_mode or 'unknown'}"
    problems = check_looked_up(facts, plan)
    yield from (problem_finding(looked_at, problem) for problem in problems)
    if found.status not in ("ACTIVE", "UPDATING", ""):
        yield OnlineFinding(
            looked_at=looked_at,
            severity="stops",
            found=text,
            why="node groups can be created only in an active cluster",
            fix="wait until the cluster is ACTIVE",
        )
    elif not problems:
        yield OnlineFinding(looked_at=looked_at, severity="fine", found=text)
    for name, why in required_addons(plan).items():
        addon = addons.get(name)
        yield OnlineFinding(
            looked_at=f"add-on {name} of {plan.name}",
            severity="fine" if addon is not None else "warns",
            found=addon.version if addon is not None else "not installed as an EKS add-on",
            why="" if addon is not None else why,
            fix=""
            if addon is not None
            else f"aws eks create-addon --cluster-name {plan.name} --addon-name {name}{addon_options(name)}",
        )
    agent = addons.get(MONITORING_AGENT)
    if agent is not None and (untolerated := monitoring_warning(agent, plan)) is not None:
        yield problem_finding(f"GPU monitoring on {plan.name}", untolerated, "warns")
    if (warning := network_policy_warning(facts, plan)) is not None:
        yield problem_finding(f"NetworkPolicies on {plan.name}", warning, "warns")


def compare_subnets(
    plan: EnvironmentPlan, facts: ExistingEksFacts, subnets: Iterable[Subnet], types: Mapping[str, InstanceType]
) -> Iterator[OnlineFinding]:
    """Yield findings about whether the subnets of the pools have enough addresses for their nodes and pods.

    A node uses one address for each network interface with an IP address. On a cluster that the program creates,
    pods use address prefixes. By default, the VPC CNI keeps one more interface full of addresses than the pods
    need (WARM_ENI_TARGET=1), so two interfaces are assumed for each node. If pods have separate subnets, a node
    uses only the addresses of its interfaces.

    Source: WARM_ENI_TARGET in the README of amazon-vpc-cni-k8s (not checked again).
    """
    pods_elsewhere, prefixes = _has_pod_subnets(plan), _is_created(plan)
    free = {one.subnet_id: one for one in subnets}
    for subnet in declared_subnets(plan):
        if subnet not in free:
            yield OnlineFinding(
                looked_at=f"subnet {subnet}",
                severity="stops",
                found=f"not in the VPC of {plan.cluster.name}",
                why="nodes in it could not reach the cluster, or the subnet does not exist",
                fix="correct cluster.subnets; see aws ec2 describe-subnets",
            )
    for pool in plan.pools:
        ids = _subnets_of(pool, facts)
        known = [free[each] for each in ids if each in free]
        if not known:
            continue
        addresses = sum(one.free for one in known)
        own, machine = addresses_of_node(pool.cloud), types.get(pool.machine_type)
        if pods_elsewhere:
            node = NodeAddresses(own, own)
        elif prefixes:
            node = addresses_with_pods(own, machine.vcpus if machine is not None else 0)
        else:
            node = NodeAddresses(own, 2 * machine.addresses if machine is not None else 2)
        least, most = pool.nodes.desired * node.least, pool.nodes.max * node.most
        looked_at = f"free addresses for pool {pool.name}"
        found = f"{addresses} free in {', '.join(f'{one.subnet_id} ({one.zone})' for one in known)}"
        fix = "name larger subnets" if pods_elsewhere else f"name larger subnets, or {_POD_SUBNETS}"
        if addresses < least:
            why = f"{pool.nodes.desired} nodes need at least {least} addresses"
            yield OnlineFinding(looked_at=looked_at, severity="stops", found=found, why=why, fix=fix)
        elif addresses < most:
            why = (
                f"{pool.nodes.max} nodes need {most} addresses"
                if pods_elsewhere
                else f"{pool.nodes.max} nodes full of pods need {most} addresses ({node.most} a node)"
                if prefixes
                else f"{pool.nodes.max} nodes with pods need about {most} addresses with the VPC CNI's defaults "
                f"({node.most} a node)"
            )
            yield OnlineFinding(looked_at=looked_at, severity="warns", found=found, why=why, fix=fix)
        else:
            yield OnlineFinding(looked_at=looked_at, severity="fine", found=found)


def compare_pod_subnets(
    plan: EnvironmentPlan, vpc: ExistingVpcPlan, subnets: Iterable[Subnet], types: Mapping[str, InstanceType]
) -> Iterator[OnlineFinding]:
    """Yield findings about whether each pod subnet is in the VPC and the declared zone, and about whether the pods
    of each pool have enough free addresses.

    A prefix needs consecutive addresses. If single addresses of a subnet are in use, the subnet can contain fewer
    prefixes.
    """
    found = {one.subnet_id: one for one in subnets}
    wrong = [
        OnlineFinding(
            looked_at=f"subnet of pods {subnet}",
            severity="stops",
            found=f"not in {vpc.vpc}" if subnet not in found else f"in {found[subnet].zone}, declared for {zone}",
            why="pods in the zone get no address from the VPC CNI, and no node there becomes ready",
            fix="correct cluster.create.network.pod_subnets; see aws ec2 describe-subnets",
        )
        for zone, subnet in vpc.pod_subnets.items()
        if subnet not in found or found[subnet].zone != zone
    ]
    yield from wrong
    for pool in plan.pools if not wrong else ():
        zones = pool.cloud_nodes.zones
        of_pool = [found[vpc.pod_subnets[zone]] for zone in zones or vpc.zone_names if zone in vpc.pod_subnets]
        addresses = sum(one.free for one in of_pool)
        vcpus = types[pool.machine_type].vcpus if pool.machine_type in types else 0
        node = addresses_with_pods(1, vcpus)
        least, most = pool.nodes.desired * node.least, pool.nodes.max * node.most
        severity: Severity = "fine"
        why = ""
        if addresses < least:
            severity, why = "stops", f"{pool.nodes.desired} nodes need at least {least} addresses for pods"
        elif addresses < most:
            severity = "warns"
            why = f"{pool.nodes.max} nodes full of pods need {most} addresses ({node.most} a node)"
        yield OnlineFinding(
            looked_at=f"free addresses for pods of pool {pool.name}",
            severity=severity,
            found=f"{addresses} free in {', '.join(f'{one.subnet_id} ({one.zone})' for one in of_pool)}",
            why=why,
            fix="name larger subnets in cluster.create.network.pod_subnets" if why else "",
        )


def _is_created(plan: EnvironmentPlan) -> bool:
    cloud = plan.cluster.cloud
    return isinstance(cloud, EksClusterPlan) and cloud.create is not None


def _has_pod_subnets(plan: EnvironmentPlan) -> bool:
    cloud = plan.cluster.cloud
    return isinstance(cloud, EksClusterPlan) and cloud.create is not None and bool(cloud.create.vpc.pod_networks)


def compare_own_network(
    vpc: ExistingVpcPlan, subnets: Iterable[Subnet], zones: Mapping[str, Zone], unusable: Container[str]
) -> Iterator[OnlineFinding]:
    """Yield findings about whether the subnets of an existing VPC can host a new cluster.

    `unusable` are the zones where EKS does not accept control plane subnets.
    """
    found = {one.subnet_id: one for one in subnets}
    looked_at = f"subnets of {vpc.vpc}"
    named = tuple(dict.fromkeys((*vpc.subnets.values(), *vpc.control_plane_subnets)))
    wrong: list[tuple[str, str, str]] = []
    for zone, subnet in vpc.subnets.items():
        if subnet in found and found[subnet].zone != zone:
            why = (
                f"the stack file declares it in {zone}, so nodes would not start in the zone that their pool names"
            )
            wrong.append((f"{subnet} is in {found[subnet].zone}", why, "correct cluster.create.network.subnets"))
    for subnet in named:
        if subnet not in found:
            fix = "correct cluster.create.network; see aws ec2 describe-subnets"
            wrong.append((f"no {subnet}", "all subnets of the cluster must be in its VPC", fix))
    of_control_plane = [found[one] for one in vpc.control_plane_subnets if one in found]
    fix = "name subnets of two other zones in cluster.create.network.control_plane_subnets"
    for one in of_control_plane:
        zone_id = zones[one.zone].zone_id if one.zone in zones else ""
        if zone_id in unusable:
            why = "EKS accepts no control plane subnets in this zone"
            wrong.append((f"{one.subnet_id} is in {one.zone}, {zone_id}", why, fix))
    if len({one.zone for one in of_control_plane}) < LEAST_ZONES:
        why = "EKS places the interfaces of the control plane in two zones"
        wrong.append(("control-plane subnets in fewer than two zones", why, fix))
    for text, why, fix in wrong:
        yield OnlineFinding(looked_at=looked_at, severity="stops", found=text, why=why, fix=fix)
    if not wrong:
        text = ", ".join(f"{one} ({found[one].zone})" for one in named)
        yield OnlineFinding(looked_at=looked_at, severity="fine", found=text)


def declared_subnets(plan: EnvironmentPlan) -> Sequence[str]:
    """Return the subnets that the stack file specifies for an existing cluster."""
    cloud = plan.cluster.cloud
    return sorted(cloud.subnets.values()) if isinstance(cloud, EksClusterPlan) else ()


def compare_api_access(found: Cluster, admitted: Sequence[str]) -> OnlineFinding:
    """Return a finding that names the networks that can reach the API server of an existing cluster. `admitted`
    are the networks that the cluster's security group admits.
    """
    looked_at = "networks that reach the API server"
    inside = f"at its private address {', '.join(admitted) or 'members of ' + found.security_group}"
    if found.public_networks:
        text = f"at its public address {', '.join(found.public_networks)}, {inside}"
        return OnlineFinding(looked_at=looked_at, severity="fine", found=text)
    rule = (
        f"aws ec2 authorize-security-group-ingress --group-id {found.security_group} --protocol tcp --port "
        f"{API_PORT} --cidr NETWORK"
    )
    return OnlineFinding(
        looked_at=looked_at,
        severity="warns",
        found=inside,
        why="the API server has no public address, so `up`, members and CI reach it only from these networks, "
        f"through {found.vpc}",
        fix=f"connect from these networks, or let the owner of the cluster admit your network: {rule}",
    )


def keys_of(plan: EnvironmentPlan) -> Sequence[str]:
    """Return the customer-managed KMS keys of disks, volumes and Secrets."""
    cloud = plan.cluster.cloud
    if not isinstance(cloud, EksClusterPlan):
        return ()
    return sorted({*cloud.group_keys, *cloud.karpenter_keys, *cloud.other_keys})


def compare_key(key: str, state: str | None) -> OnlineFinding:
    """Return a finding about whether a key can encrypt. `state` is None if KMS has no such key."""
    if state == "Enabled":
        return OnlineFinding(looked_at=f"KMS key {key}", severity="fine", found="Enabled")
    return OnlineFinding(
        looked_at=f"KMS key {key}",
        severity="stops",
        found=state or "no such key in this account and region",
        why="nothing can be encrypted with it, so EC2 terminates each new node that has a disk with this key",
        fix="enable the key, or name another key in kms_key",
    )


def compare_spot_role(plan: EnvironmentPlan, exists: bool) -> OnlineFinding:
    """Return a finding about whether EC2 may start spot instances for the account."""
    looked_at = "service-linked role AWSServiceRoleForEC2Spot"
    if exists:
        return OnlineFinding(looked_at=looked_at, severity="fine", found="exists")
    by_karpenter = any(
        isinstance(pool.cloud, KarpenterPoolPlan) and pool.capacity["type"] == "spot" for pool in plan.pools
    )
    return OnlineFinding(
        looked_at=looked_at,
        severity="stops" if by_karpenter else "warns",
        found="missing",
        why="Karpenter is not allowed to create it, and cannot start spot nodes without it"
        if by_karpenter
        else "EKS creates it with the first spot node group, if the credentials allow iam:CreateServiceLinkedRole",
        fix="aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
    )


def _subnets_of(pool: PoolPlan, facts: ExistingEksFacts) -> Sequence[str]:
    zones = pool.cloud_nodes.zones
    if not zones:
        return facts.all_subnets
    return [subnet for zone in zones for subnet in facts.subnets.get(zone, ())]
