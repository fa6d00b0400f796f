"""Compare an existing EKS cluster with the requirements of its plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import yaml

from gpu_platform.base.errors import Problem
from gpu_platform.base.quantity import counted
from gpu_platform.base.versions import is_older
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.clouds.eks.identities import AGENT
from gpu_platform.planning.clouds.eks.images import check_pinned_image
from gpu_platform.planning.clouds.eks.network import DRANET_KUBERNETES
from gpu_platform.planning.clouds.eks.node_monitoring import AGENT_CONFIGURATION, MONITORING_AGENT
from gpu_platform.planning.kubernetes_versions import minor, operator_fix
from gpu_platform.planning.problems import Problems

SUBNET_TAG = "kubernetes.io/role/internal-elb"
VPC_CNI = "vpc-cni"
_NETWORK_POLICY = "enableNetworkPolicy"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddonFacts:
    """An EKS add-on of an existing cluster. `configuration` is JSON or YAML as the owner wrote it, or empty."""

    version: str
    configuration: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingEksFacts:
    """Facts about an existing cluster, looked up in AWS."""

    kubernetes: str
    """Minor version, such as 1.34."""
    authentication_mode: str
    """CONFIG_MAP, API or API_AND_CONFIG_MAP."""
    vpc_cni: str | None
    """Version of the VPC CNI add-on. None if it is not known, or if the VPC CNI is not an EKS add-on."""
    vpc_cni_configuration: str = ""
    """Configuration of the VPC CNI add-on, as its owner wrote it."""
    subnets: Mapping[str, tuple[str, ...]]
    """Subnets for nodes, by zone. If the stack file names no subnet of a zone, these are the subnets with the tag
    `SUBNET_TAG`.
    """
    all_subnets: tuple[str, ...]
    """Subnets of all zones. Empty if no pool needs them."""
    auto_mode: bool = False
    """Whether EKS Auto Mode manages compute."""
    ip_family: str = "ipv4"
    """IP family of pods and services: ipv4 or ipv6."""


def required_addons(plan: EksClusterPlan) -> Mapping[str, str]:
    """Return the add-ons that an existing cluster needs, with the reason for each. Their software may also be
    installed by other means, such as Helm.
    """
    of_cni = ["the VPC CNI or another network plugin must enforce NetworkPolicies of teams"]
    if plan.minimum_vpc_cni is not None:
        of_cni.append(f"EFA-only interfaces need {plan.minimum_vpc_cni} or newer")
    wanted = {VPC_CNI: "; ".join(of_cni)}
    controllers = {"Karpenter": plan.karpenter, "Cluster Autoscaler": plan.cluster_autoscaler}
    needs: list[str] = []
    if served := [title for title, installed in controllers.items() if installed is not None]:
        needs.append(f"{' and '.join(served)} cannot start without credentials from this add-on")
    if plan.identities:
        needs.append(f"pods of {', '.join(plan.identities)} have no identity without this add-on")
    if needs:
        wanted[AGENT] = "; ".join(needs)
    if plan.gpu_repair_pools:
        wanted[MONITORING_AGENT] = (
            f"EKS detects no broken GPUs of {', '.join(plan.gpu_repair_pools)} without this add-on, and repairs "
            "only nodes that are not ready"
        )
    return wanted


def addon_options(name: str) -> str:
    """Return the options of `aws eks create-addon` that configure a required add-on, or an empty string."""
    return f" --configuration-values '{json.dumps(AGENT_CONFIGURATION)}'" if name == MONITORING_AGENT else ""


def check_looked_up(found: ExistingEksFacts, plan: EksClusterPlan) -> list[Problem]:
    """Return the problems that prevent the planned pools from running on the existing cluster."""
    problems = Problems("cluster")
    _check_version(found, plan, problems.at("kubernetes"))
    _check_form(found, plan, problems.at("name"))
    # Managed node groups join the cluster in any authentication mode.
    # Karpenter's nodes join only through an access entry, which the program creates.
    creates_role = plan.karpenter_pools and plan.karpenter_node_role is None
    if creates_role and found.authentication_mode == "CONFIG_MAP":
        problems.at("name").add(
            f"{plan.name!r} with authentication mode CONFIG_MAP",
            "API or API_AND_CONFIG_MAP: Karpenter's nodes join through an access entry",
            f"aws eks update-cluster-config --name {plan.name} --access-config authenticationMode="
            "API_AND_CONFIG_MAP; the change cannot be undone",
        )
    if plan.access.logins and found.authentication_mode == "CONFIG_MAP":
        problems.at("logins").add(
            f"{counted(len(plan.access.logins), 'login')} on {plan.name!r} with authentication mode CONFIG_MAP",
            "API or API_AND_CONFIG_MAP: a login is an access entry",
            f"aws eks update-cluster-config --name {plan.name} --access-config authenticationMode="
            "API_AND_CONFIG_MAP, which cannot be undone; or remove logins, and let the cluster's owner map the "
            "roles to the groups in the ConfigMap aws-auth",
        )
    least = plan.minimum_vpc_cni
    if least is not None and found.vpc_cni is not None and is_older(found.vpc_cni, least):
        problems.at("name").add(
            f"{plan.name!r} with VPC CNI {found.vpc_cni}",
            f"VPC CNI {least} or newer: older versions treat EFA-only interfaces as interfaces of the VPC CNI",
            "update the add-on vpc-cni, one minor version at a time",
        )
    for zone in plan.zones:
        _check_subnets(zone, found.subnets.get(zone, ()), problems.at("subnets"))
    if plan.anywhere and not found.all_subnets:
        problems.at("subnets").add(
            f"no subnet with the tag {SUBNET_TAG}=1 in the cluster's VPC",
            "at least one private subnet for pools that name no zones",
            "write subnets: {<zone>: subnet-...}, or tag the cluster's private subnets",
        )
    return problems.found


def network_policy_warning(found: ExistingEksFacts, plan: EksClusterPlan) -> Problem | None:
    """Return a warning if nothing enforces NetworkPolicies, or None if they are enforced or this is not known.

    Source: EKS user guide, "Restrict Pod network traffic with Kubernetes network policies": the VPC CNI enforces
    them from 1.14, and only with `enableNetworkPolicy`; read 2026-11-25.
    """
    if found.vpc_cni is None:
        return None
    configuration = _mapping(found.vpc_cni_configuration)
    if str(configuration.get(_NETWORK_POLICY, "")).lower() == "true":
        return None
    values = json.dumps({**configuration, _NETWORK_POLICY: "true"})
    problems = Problems("cluster")
    problems.at("name").add(
        f"the VPC CNI of {plan.name} without {_NETWORK_POLICY}",
        "this option set to true, unless another network plugin enforces NetworkPolicies: otherwise pods of teams "
        "reach each other and every address, regardless of `egress` and the isolation of the teams",
        f"aws eks update-addon --cluster-name {plan.name} --addon-name {VPC_CNI} --resolve-conflicts PRESERVE "
        f"--configuration-values '{values}'",
    )
    return problems.found[0]


def monitoring_warning(found: AddonFacts, plan: EksClusterPlan) -> Problem | None:
    """Return a warning if `dcgm-server` of the node monitoring agent does not tolerate the taints of the plan's
    GPU nodes, and so does not run on them. By default, the add-on tolerates no taints.
    """
    configuration = _mapping(found.configuration)
    configured = configuration.get("dcgmAgent")
    if isinstance(configured, Mapping) and cast("Mapping[str, Any]", configured).get("tolerations"):
        return None
    values = json.dumps({**configuration, **AGENT_CONFIGURATION})
    problems = Problems("cluster")
    problems.at("name").add(
        f"the add-on {MONITORING_AGENT} of {plan.name} without dcgmAgent.tolerations",
        f"tolerations for the taints of {', '.join(plan.gpu_repair_pools)}: without dcgm-server, "
        "AcceleratedHardwareReady of these nodes is False with the reason DCGMError, and EKS detects no broken "
        "GPUs",
        f"aws eks update-addon --cluster-name {plan.name} --addon-name {MONITORING_AGENT} "
        f"--resolve-conflicts PRESERVE --configuration-values '{values}'",
    )
    return problems.found[0]


def _mapping(configuration: str) -> Mapping[str, Any]:
    try:
        found = yaml.safe_load(configuration)
    except yaml.YAMLError:
        return {}
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def _check_version(found: ExistingEksFacts, plan: EksClusterPlan, problems: Problems) -> None:
    if plan.kubernetes is not None and plan.kubernetes != found.kubernetes:
        problems.add(
            f"{plan.kubernetes!r}",
            f"{found.kubernetes!r}, the version of cluster {plan.name}",
            f'write kubernetes: "{found.kubernetes}", or remove kubernetes',
        )
    lowest, highest = plan.operator_kubernetes
    if not minor(lowest) <= minor(found.kubernetes) <= minor(highest):
        problems.add(
            f"{found.kubernetes!r} on {plan.name}",
            f"{lowest} to {highest}: the versions that GPU Operator {plan.operator} supports",
            operator_fix(found.kubernetes, plan.operator_kubernetes),
        )
    dranet = any(part.name == "dranet" for part in plan.parts)
    if dranet and minor(found.kubernetes) < minor(DRANET_KUBERNETES):
        problems.add(
            f"{found.kubernetes!r} on {plan.name}, with pools that have network.via: dranet",
            f"{DRANET_KUBERNETES} or newer",
            "upgrade the cluster, or write via: device-plugin",
        )
    for image in plan.images:
        check_pinned_image(image, found.kubernetes, f"the version of cluster {plan.name}", problems)


def _check_form(found: ExistingEksFacts, plan: EksClusterPlan, problems: Problems) -> None:
    """Record problems for cluster configurations that do not support the pools' nodes.

    Auto Mode has its own Karpenter, whose CRDs and objects would conflict with the program's Karpenter. Auto
    Mode's nodes contain device plugins, networking and Pod Identity, so the add-ons that other nodes need are
    missing. In an IPv6 cluster, the VPC CNI needs prefix delegation and IPv6 permissions in the node role, and
    nodeadm needs another NodeConfig.

    Sources: EKS user guide, "Automate cluster infrastructure with EKS Auto Mode" and "Learn about IPv6 addresses
    to clusters, Pods, and services"; terraform-aws-eks#3256; eksctl#8293; read 2026-11-28.
    """
    if found.auto_mode:
        problems.add(
            f"{plan.name!r} with EKS Auto Mode",
            "a cluster without Auto Mode: Auto Mode has its own Karpenter, and runs network, DNS and Pod Identity "
            "inside its nodes, so other nodes lack these components",
            "create another cluster, or let the owner switch Auto Mode off and install the EKS add-ons",
        )
    if found.ip_family == "ipv6":
        problems.add(
            f"{plan.name!r} with IPv6 addresses for pods",
            "a cluster with ipFamily ipv4: network policies, node roles and images are planned for IPv4",
            "create another cluster: the IP family of an existing cluster cannot be changed",
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
