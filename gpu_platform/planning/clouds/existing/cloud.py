"""The provider for existing clusters, whose owners configure nodes, kubelets and taints."""

from __future__ import annotations

import shlex

from gpu_platform.planning.clouds.controllers import on_existing_nodes
from gpu_platform.planning.clouds.identities import SERVICE_ACCOUNT, PodAccess, google_account, irsa
from gpu_platform.planning.clouds.nodes import nodes_plan
from gpu_platform.planning.clouds.protocol import (
    Cloud,
    CloudControlPlane,
    CloudLogins,
    CloudNetwork,
    CloudPools,
    CloudSoftware,
    CloudTeamIdentities,
)
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.nodes.software import declared_software
from gpu_platform.planning.pools.section import NodesPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import ExistingCluster
from gpu_platform.stack.pool import Pool
from gpu_platform.stack.team_identity import TeamIdentity


def existing(cluster: ExistingCluster) -> Cloud:
    """Return the provider for a cluster that its owner configures. The program connects with the user's
    kubeconfig.
    """
    return Cloud(
        cluster=cluster,
        access="kubeconfig",
        kubernetes=cluster.kubernetes,
        sets_kubelet=False,
        owner_prepares_nodes=True,
        pools=CloudPools(names=_names, nodes=_nodes, check_nodes=_check_nodes),
        software=CloudSoftware(owners=lambda pool, operator, catalog: declared_software(operator)),
        control_plane=CloudControlPlane(
            plan_controllers=lambda planned, pools, controllers, catalog, problems: on_existing_nodes(
                cluster.name, planned, controllers
            )
        ),
        logins=CloudLogins(commands=lambda members: _login_commands(cluster.context)),
        identities=CloudTeamIdentities(
            plan=lambda teams: Decided(None, tuple(_identity(team, one) for team, one in teams.items())),
            pod_access=_pod_access,
        ),
        network=CloudNetwork(
            host_policy="CiliumNetworkPolicy" if cluster.network_policies == "cilium" else None,
            check_hosts=lambda problems: _check_hosts(cluster, problems),
        ),
    )


def _names(pool: Pool) -> tuple[str, ...] | None:
    """Return the node names in the stack file, or None if the pool selects nodes by labels."""
    return pool.nodes.names if pool.nodes is not None else None


def _nodes(pool: Pool, named: tuple[str, ...] | None) -> NodesPlan:
    """Return the plan for the pool's nodes. The program labels the nodes that the stack file names. It does not
    change nodes that the pool selects by labels.
    """
    names = _names(pool)
    return nodes_plan(pool, "selected") if names is None else nodes_plan(pool, "labelled", names)


def _check_nodes(pool: Pool, problems: Problems) -> None:
    """Record a problem if a pool has no nodes, or if the number of node names differs from `count.desired`."""
    if pool.nodes is None:
        problems.at("nodes").add(
            "nothing",
            "names or selector, to choose the nodes of the existing cluster for this pool",
            "add nodes: {names: [gpu-0]} or nodes: {selector: {key: value}}",
        )
    elif pool.nodes.names is not None and len(pool.nodes.names) != pool.count.desired:
        problems.at("count").at("desired").add(
            str(pool.count.desired),
            f"{len(pool.nodes.names)}, the number of nodes.names",
            f"write desired: {len(pool.nodes.names)}",
        )


def _login_commands(context: str | None) -> tuple[str, ...]:
    """Return the command that selects the context from the stack file, if any.

    The owner distributes the kubeconfig.
    """
    return (f"kubectl config use-context {shlex.quote(context)}",) if context is not None else ()


def _pod_access(identity: TeamIdentity) -> PodAccess:
    """Return the service account annotation for an AWS role or a Google Cloud service account."""
    if identity.role_arn is not None:
        return PodAccess(annotations=irsa(identity.role_arn))
    return PodAccess(annotations=google_account(identity.google_service_account))


def _check_hosts(cluster: ExistingCluster, problems: Problems) -> None:
    """Record a problem if the cluster's network policies do not support host names. `problems` points to the host
    name.
    """
    if cluster.network_policies is None:
        problems.add(
            "a host name without cluster.network_policies",
            "fqdn only if Cilium enforces network policies; other plugins support only addresses",
            "write network_policies: cilium in cluster if Cilium enforces them, or set cidr, or write internet "
            "instead of fqdn",
        )


def _identity(team: str, identity: TeamIdentity) -> Decision:
    if identity.role_arn is not None:
        how = "through IAM roles for service accounts, which the cluster must support"
    else:
        how = "through Workload Identity Federation, which the cluster must support"
    return Decision(
        subject=f"team {team}",
        what="identity",
        chosen=identity.role_arn or identity.google_service_account or "",
        why=f"for pods with the service account {SERVICE_ACCOUNT}, {how}; its owner must allow only "
        f"{team}/{SERVICE_ACCOUNT} to use it",
    )
