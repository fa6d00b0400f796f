"""A cluster that is there: what was looked up of it, held against what the plan needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gpu_platform.errors import Problem
from gpu_platform.planning.clouds.eks.addons import minor
from gpu_platform.planning.clouds.eks.plan import EksClusterPlan
from gpu_platform.planning.problems import Problems

SUBNET_TAG = "kubernetes.io/role/internal-elb"
VPC_CNI = "vpc-cni"


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedUpEks:
    """What AWS says of a cluster that is there."""

    kubernetes: str
    """Minor version: 1.34."""
    authentication_mode: str
    """CONFIG_MAP, API or API_AND_CONFIG_MAP."""
    vpc_cni: str | None
    """Version of the VPC CNI add-on; None: not known, or no EKS add-on."""
    subnets: Mapping[str, tuple[str, ...]]
    """By zone: the subnets that carry the tag, or the one that the stack names."""
    all_subnets: tuple[str, ...]
    """The same of all zones; empty, too, where no pool asks for them."""


def wanted_addons(plan: EksClusterPlan) -> Mapping[str, str]:
    """Return the add-ons that a cluster that is there must have, as add-ons or otherwise, and what for."""
    wanted: dict[str, str] = {}
    if plan.minimum_vpc_cni is not None:
        wanted[VPC_CNI] = f"EFA-only interfaces need {plan.minimum_vpc_cni} or newer"
    if plan.karpenter is not None:
        wanted["eks-pod-identity-agent"] = "Karpenter has its credentials from it, and does not start without"
    return wanted


def check_looked_up(found: LookedUpEks, plan: EksClusterPlan) -> list[Problem]:
    """Return why the cluster that was found cannot carry the plan's pools."""
    problems = Problems("cluster")
    _check_version(found, plan, problems.at("kubernetes"))
    # Managed node groups get in by either mode; Karpenter's nodes only by an access entry of ours.
    if plan.karpenter is not None and found.authentication_mode == "CONFIG_MAP":
        problems.at("name").add(
            f"{plan.name!r} with authentication mode CONFIG_MAP",
            "API or API_AND_CONFIG_MAP: nodes of Karpenter join by an access entry",
            f"aws eks update-cluster-config --name {plan.name} --access-config authenticationMode="
            "API_AND_CONFIG_MAP; there is no way back",
        )
    least = plan.minimum_vpc_cni
    if least is not None and found.vpc_cni is not None and _numbers(found.vpc_cni) < _numbers(least):
        problems.at("name").add(
            f"{plan.name!r} with VPC CNI {found.vpc_cni}",
            f"VPC CNI {least} or newer: older ones take EFA-only interfaces for their own",
            "update the add-on vpc-cni, one minor version at a time",
        )
    for zone in plan.zones:
        _check_subnets(zone, found.subnets.get(zone, ()), problems.at("subnets"))
    if plan.anywhere and not found.all_subnets:
        problems.at("subnets").add(
            f"no subnet with the tag {SUBNET_TAG}=1 in the cluster's VPC",
            "a private subnet at least for pools that name no zones",
            "write subnets: {<zone>: subnet-...}, or tag the cluster's private subnets",
        )
    return problems.found


def _check_version(found: LookedUpEks, plan: EksClusterPlan, problems: Problems) -> None:
    if plan.kubernetes is not None and plan.kubernetes != found.kubernetes:
        problems.add(
            f"{plan.kubernetes!r}",
            f"{found.kubernetes!r}, which is what {plan.name} runs",
            f'write kubernetes: "{found.kubernetes}", or leave it out',
        )
    lowest, highest = plan.operator_kubernetes
    if not minor(lowest) <= minor(found.kubernetes) <= minor(highest):
        problems.add(
            f"{found.kubernetes!r} on {plan.name}",
            f"{lowest} to {highest}: what GPU Operator {plan.operator} supports",
            "take another operator release, or upgrade the cluster",
        )


def _check_subnets(zone: str, subnets: tuple[str, ...], problems: Problems) -> None:
    if len(subnets) == 1:
        return
    found = (
        f"{len(subnets)} subnets in {zone}: {', '.join(sorted(subnets))}" if subnets else f"no subnet in {zone}"
    )
    problems.add(
        f"{found} with the tag {SUBNET_TAG}=1 in the cluster's VPC",
        "exactly one private subnet in each zone that a pool names",
        f"write subnets: {{{zone}: subnet-...}}",
    )


def _numbers(version: str) -> tuple[int, ...]:
    """Return 1, 18, 5 of v1.18.5-eksbuild.1: a build says nothing about the plugin."""
    return tuple(int(number) for number in re.findall(r"\d+", version.partition("-")[0]))
