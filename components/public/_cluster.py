"""Provides public components with the Kubernetes provider, and with the cluster outputs that node pools need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi

from components._cloud import EksOutputs, GkeOutputs
from components._cloud_sdk import components_of
from components._kubernetes_provider import cluster_identity, kubernetes_provider
from components.node_pool import NodePool
from components.public._errors import BadArguments
from gpu_platform.base.errors import Problem
from gpu_platform.base.paths import sandbox_kubeconfig
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan, KarpenterPoolPlan
from gpu_platform.planning.clouds.gke.plan import GkeClusterPlan, GkePoolPlan
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools.section import PoolPlan


def kubernetes_options(
    component: pulumi.ComponentResource,
    name: str,
    cluster: Mapping[str, Any],
    opts: pulumi.ResourceOptions | None,
) -> pulumi.ResourceOptions:
    """Return the options of a component's Kubernetes objects, with their provider and the resources they wait for.

    The provider comes from the resource options. Otherwise, `cluster.kubeconfig` and `cluster.context` configure a
    new provider. If neither is given, the program's default provider is used.
    """
    waits = opts.depends_on if opts is not None else None
    options = pulumi.ResourceOptions(parent=component, depends_on=waits)
    path, context = cluster.get("kubeconfig"), cluster.get("context")
    declared = path is not None or context is not None
    if component.get_provider("kubernetes:core/v1:Node") is not None:
        if declared:
            problem = Problem(
                "cluster.kubeconfig" if path is not None else "cluster.context",
                "a kubeconfig as well as a Kubernetes provider in the resource options",
                "only one of the two",
                "remove kubeconfig and context from cluster, or the provider from the options",
            )
            raise BadArguments(f"{type(component).__name__} {name}", [problem])
        return options
    if cluster["provider"] == "sandbox":
        path = str(sandbox_kubeconfig(cluster.get("name", "local")))
    elif not declared:
        return options
    child, identity = pulumi.ResourceOptions(parent=component), None
    if cluster["provider"] != "sandbox":
        identity = cluster_identity(name, child, kubeconfig=path, context=context)
    provider = kubernetes_provider(name, child, kubeconfig=path, context=context, identity=identity)
    return pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(providers=[provider]))


def connection_problems(plan: EnvironmentPlan, cluster: Mapping[str, Any]) -> list[Problem]:
    """Return a problem for each missing cluster argument that the pool needs."""
    [pool] = plan.pools
    cloud = pool.cloud
    needed: dict[str, str] = {}
    if isinstance(cloud, EksPoolPlan | KarpenterPoolPlan):
        needed |= _EKS
        if isinstance(cloud, EksPoolPlan) and cloud.user_data is not None and cloud.user_data.needs_cluster_access:
            needed |= _EKS_OWN_IMAGE
        if cloud.efa:
            needed |= _EFA
    elif isinstance(cloud, GkePoolPlan):
        needed |= _GKE
    problems = [
        Problem(f"cluster.{key}", "nothing", allowed, f"add {key}: to cluster")
        for key, allowed in needed.items()
        if cluster.get(key) is None
    ]
    if isinstance(cloud, GkePoolPlan):
        problems += _network_problems(cloud.gpu_networks, cluster)
    return problems


def plugin_problems(plan: EnvironmentPlan, cluster: Mapping[str, Any]) -> list[Problem]:
    """Return a problem for each missing cluster argument that the cloud's plugins need."""
    cloud = plan.cluster.cloud
    return _network_problems(len(cloud.networks), cluster) if isinstance(cloud, GkeClusterPlan) else []


def _network_problems(needed: int, cluster: Mapping[str, Any]) -> list[Problem]:
    networks = len(cluster.get("gpu_networks") or ())
    if networks >= needed:
        return []
    return [
        Problem(
            "cluster.gpu_networks",
            f"{networks} networks" if networks else "nothing",
            f"network and subnetwork of each of the {needed} GPU NICs of a node",
            "add gpu_networks: to cluster, or write network: {rdma: false} in the pools",
        )
    ]


_EKS = {
    "subnets": "ids of the private subnets by zone",
    "cluster_security_group_id": "id of the security group that EKS created for the cluster",
    "node_role_arn": "ARN of the IAM role of the nodes",
}
_EKS_OWN_IMAGE = {
    "endpoint": "URL of the API server, which nodes with a custom image read from their user data",
    "certificate_authority": "certificate authority of the API server, for the user data of a custom image",
    "service_cidr": "CIDR block of the Services, for the user data of a custom image",
}
_EFA = {"efa_security_group_id": "id of a security group that admits all traffic from and to itself"}
_GKE = {"node_service_account": "e-mail of the nodes' service account"}


def create_pool(
    component: pulumi.ComponentResource,
    name: str,
    plan: EnvironmentPlan,
    cluster: Mapping[str, Any],
    opts: pulumi.ResourceOptions,
) -> tuple[pulumi.Input[str] | None, pulumi.Input[list[str]]]:
    """Register the nodes of the plan's only pool. Return the pool's name in the cloud and the names of its nodes.

    A cloud's SDK is imported only for pools in that cloud. `opts` are the options of Kubernetes objects.
    """
    [pool] = plan.pools
    cloud = plan.cluster.cloud
    if isinstance(cloud, EksClusterPlan):
        return _create_eks_pool(component, name, pool, cloud, cluster, opts), []
    if isinstance(cloud, GkeClusterPlan):
        return _create_gke_pool(component, name, pool, cloud, cluster, opts), []
    return None, NodePool(pool.name, pool, opts).node_names


def _create_eks_pool(
    component: pulumi.ComponentResource,
    name: str,
    pool: PoolPlan,
    plan: EksClusterPlan,
    cluster: Mapping[str, Any],
    opts: pulumi.ResourceOptions,
) -> pulumi.Output[str]:
    components_of(plan.kind)  # imports the SDK first, so that the error for a missing SDK names the extra
    import pulumi_aws as aws

    from components.eks.karpenter_node_pool import KarpenterNodePool, KarpenterNodePoolArgs
    from components.eks.node_pool import EksNodePool, EksNodePoolArgs

    provider = component.get_provider("aws:eks/nodeGroup:NodeGroup") or aws.Provider(
        name,
        region=plan.region,
        allowed_account_ids=None if plan.account is None else [plan.account],
        default_tags=aws.ProviderDefaultTagsArgs(tags=plan.tags),
        opts=pulumi.ResourceOptions(parent=component),
    )
    group = pulumi.Output.from_input(cluster["cluster_security_group_id"])
    role = pulumi.Output.from_input(cluster["node_role_arn"])
    efa: pulumi.Input[str] | None = cluster.get("efa_security_group_id")
    subnets = {zone: pulumi.Output.from_input(subnet) for zone, subnet in cluster["subnets"].items()}
    outputs = EksOutputs(
        # EKS creates the security group together with the cluster.
        # A pool that waits for the security group therefore also waits for the cluster.
        name=group.apply(lambda _: plan.name),
        kubernetes=plan.kubernetes,
        endpoint=pulumi.Output.from_input(cluster.get("endpoint", "")),
        certificate_authority=pulumi.Output.from_input(cluster.get("certificate_authority", "")),
        service_cidr=pulumi.Output.from_input(cluster.get("service_cidr", "")),
        vpc_id=pulumi.Output.from_input(""),
        subnet_ids=subnets,
        all_subnet_ids=pulumi.Output.all(*subnets.values()),
        cluster_security_group_id=group,
        security_groups=tuple(cluster.get("security_groups") or ()),
        efa_security_group_id=None if efa is None else pulumi.Output.from_input(efa),
        node_role_arn=role,
        node_role_name=role.apply(lambda arn: arn.rpartition("/")[2]),
        provider=provider,
        tags=plan.tags,
    )
    if isinstance(pool.cloud, KarpenterPoolPlan):
        return KarpenterNodePool(pool.name, KarpenterNodePoolArgs(pool=pool, cluster=outputs), opts).node_pool
    return EksNodePool(pool.name, EksNodePoolArgs(pool=pool, cluster=outputs), opts).node_group_name


def _create_gke_pool(
    component: pulumi.ComponentResource,
    name: str,
    pool: PoolPlan,
    plan: GkeClusterPlan,
    cluster: Mapping[str, Any],
    opts: pulumi.ResourceOptions,
) -> pulumi.Output[str]:
    components_of(plan.kind)  # imports the SDK first, so that the error for a missing SDK names the extra
    import pulumi_gcp as gcp

    from components.gke.node_pool import GkeNodePool, GkeNodePoolArgs

    provider = component.get_provider("gcp:container/nodePool:NodePool") or gcp.Provider(
        name, project=plan.project, region=plan.region, opts=pulumi.ResourceOptions(parent=component)
    )
    full_name = f"projects/{plan.project}/locations/{plan.location}/clusters/{plan.name}"
    outputs = GkeOutputs(
        cluster=pulumi.Output.from_input(cluster.get("id") or full_name),
        network=pulumi.Output.from_input(""),
        node_service_account=pulumi.Output.from_input(cluster["node_service_account"]),
        gpu_networks=_joined_networks(cluster),
        provider=provider,
    )
    return GkeNodePool(pool.name, GkeNodePoolArgs(pool=pool, cluster=outputs), opts).node_pool


def _joined_networks(cluster: Mapping[str, Any]) -> tuple[tuple[pulumi.Output[str], pulumi.Output[str]], ...]:
    return tuple(
        (pulumi.Output.from_input(one["network"]), pulumi.Output.from_input(one["subnetwork"]))
        for one in cluster.get("gpu_networks") or ()
    )


def create_plugins(
    name: str, plan: EnvironmentPlan, cluster: Mapping[str, Any], opts: pulumi.ResourceOptions
) -> None:
    """Install the cloud components that pools need once per cluster, in addition to the operator."""
    match plan.cluster.cloud:
        case EksClusterPlan() as cloud:
            if cloud.efa_plugin is not None:
                from components.eks.efa_plugin import EfaDevicePlugin

                EfaDevicePlugin(cloud.efa_plugin.name, cloud.efa_plugin, opts)
            if cloud.dranet is not None:
                from components.eks.dranet import EfaDraDriver

                EfaDraDriver(cloud.dranet.name, cloud.dranet, opts)
        case GkeClusterPlan() as cloud:
            from components.gke.installers import GkeInstallers
            from components.gke.networks import GkePodNetworks, GkePodNetworksArgs

            if cloud.networks:
                joined = _joined_networks(cluster)[: len(cloud.networks)]
                args = GkePodNetworksArgs(networks=cloud.networks, joined=joined)
                GkePodNetworks(f"{name}-gpu", args, opts)
            if cloud.installers:
                GkeInstallers(name, cloud.installers, opts)
        case _:
            pass
