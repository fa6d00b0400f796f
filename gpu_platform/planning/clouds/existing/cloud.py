"""An existing cluster as a provider: its owner configures nodes, kubelets and taints."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.identities import SERVICE_ACCOUNT, google_account, irsa
from gpu_platform.planning.clouds.nodes import nodes_plan
from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.planning.clouds.section import HostPolicy
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.nodes.software import NodeSoftware, declared_software
from gpu_platform.planning.pools.section import NodesPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import ExistingCluster, Operator
from gpu_platform.stack.pool import Pool
from gpu_platform.stack.team_identity import TeamIdentity


class Existing(Cloud):
    """A cluster that the user's kubeconfig reaches."""

    access = "kubeconfig"
    sets_kubelet = False
    owner_prepares_nodes = True

    def __init__(self, cluster: ExistingCluster) -> None:
        self._cluster = cluster

    @property
    def cluster(self) -> ExistingCluster:
        """The cluster of the stack file."""
        return self._cluster

    @property
    def kubernetes(self) -> str | None:
        """The minor version that the stack file declares."""
        return self._cluster.kubernetes

    def node_names(self, pool: Pool) -> tuple[str, ...] | None:
        """Return the node names of the stack file; None with a selector."""
        return pool.nodes.names if pool.nodes is not None else None

    def nodes(self, pool: Pool, named: tuple[str, ...] | None) -> NodesPlan:
        """Return the nodes of the pool: named ones are labelled by the program, selected ones are not changed."""
        names = self.node_names(pool)
        return nodes_plan(pool, "selected") if names is None else nodes_plan(pool, "labelled", names)

    def software(self, pool: Pool, operator: Operator, catalog: Catalog) -> NodeSoftware:
        """Return who installs what: `operator` in the stack file decides."""
        return declared_software(operator)

    def login_commands(self, members: Sequence[str]) -> tuple[str, ...]:
        """Return how to choose the context, where the stack file names one; the kubeconfig is the owner's."""
        context = self._cluster.context
        return (f"kubectl config use-context {shlex.quote(context)}",) if context is not None else ()

    def plan_identities(self, identities: Mapping[str, TeamIdentity]) -> Decided[None]:
        """Return what the owner of roles and service accounts has to do: the program only names them."""
        return Decided(None, tuple(_identity(team, one) for team, one in identities.items()))

    def account_annotations(self, identity: TeamIdentity) -> Mapping[str, str]:
        """Return the annotation for a role of AWS or a service account of Google Cloud."""
        if identity.role_arn is not None:
            return irsa(identity.role_arn)
        account = identity.google_service_account
        return {} if account is None else google_account(account)

    @property
    def host_policy(self) -> HostPolicy | None:
        """The kind of network policies that name hosts, where Cilium enforces them."""
        return "CiliumNetworkPolicy" if self._cluster.network_policies == "cilium" else None

    def check_host_egress(self, problems: Problems) -> None:
        """Record that nothing is known to enforce names; `problems` is at the name."""
        if self._cluster.network_policies is None:
            problems.add(
                "a host by name without cluster.network_policies",
                "fqdn only where Cilium enforces network policies: others support only addresses",
                "write network_policies: cilium there if it does, or cidr or internet here",
            )

    def check_nodes(self, pool: Pool, problems: Problems) -> None:
        """Record a pool without nodes, or with another number of them than `count.desired`."""
        if pool.nodes is None:
            problems.at("nodes").add(
                "nothing",
                "names or selector, which choose the nodes of the existing cluster for this pool",
                "add nodes: {names: [gpu-0]} or nodes: {selector: {key: value}}",
            )
        elif pool.nodes.names is not None and len(pool.nodes.names) != pool.count.desired:
            problems.at("count").at("desired").add(
                str(pool.count.desired),
                f"{len(pool.nodes.names)}: the number of nodes.names",
                f"write desired: {len(pool.nodes.names)}",
            )


def _identity(team: str, identity: TeamIdentity) -> Decision:
    if identity.role_arn is not None:
        how = "by IAM roles for service accounts, which the cluster must have"
    else:
        how = "by Workload Identity Federation, which the cluster must have"
    return Decision(
        subject=f"team {team}",
        what="identity",
        chosen=identity.role_arn or identity.google_service_account or "",
        why=f"of pods with the service account {SERVICE_ACCOUNT}, {how}; its owner lets "
        f"{team}/{SERVICE_ACCOUNT} and no other account use it",
    )
