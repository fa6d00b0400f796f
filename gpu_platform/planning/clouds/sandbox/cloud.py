"""The sandbox as a provider: the program creates its nodes, and writes the operator's custom resource itself."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.planning.clouds.controllers import Room
from gpu_platform.planning.clouds.daemonsets import AGENT, DaemonSet
from gpu_platform.planning.clouds.nodes import nodes_plan
from gpu_platform.planning.clouds.protocol import Cloud, OperatorSettings
from gpu_platform.planning.clouds.sandbox.autoscaler import (
    check_autoscaled,
    check_same_sharing,
    is_autoscaled,
    plan_autoscaler,
)
from gpu_platform.planning.clouds.section import AutoscalerPlan, CloudCluster, SchedulerPlan
from gpu_platform.planning.decision import Decided
from gpu_platform.planning.nodes.software import NodeSoftware, declared_software
from gpu_platform.planning.pools.section import NodesPlan, PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.requirements.section import NodeRequirements
from gpu_platform.stack.cluster import Operator, SandboxCluster
from gpu_platform.stack.pool import Pool

KUBERNETES: Final = "1.36"  # the version in sandbox/go.mod, which new sandboxes get
PLATFORM: Final = "sandbox"  # in the catalogue's kubernetes_platforms


class Sandbox(Cloud):
    """A sandbox on this machine."""

    access = "sandbox"
    installs_charts = False
    has_identities = False
    runs_kueue = True

    def __init__(self, cluster: SandboxCluster) -> None:
        self._cluster = cluster

    @property
    def scheduler(self) -> SchedulerPlan:
        """The kube-scheduler that the sandbox runs."""
        return SchedulerPlan(scores="default", why="the sandbox runs kube-scheduler without a configuration")

    @property
    def cluster(self) -> SandboxCluster:
        """The cluster of the stack file."""
        return self._cluster

    @property
    def kubernetes(self) -> str:
        """The minor version of the sandbox's control plane."""
        return self._cluster.kubernetes or KUBERNETES

    def check_cluster(
        self, pools: Sequence[Pool], operator: Operator | None, catalog: Catalog, problems: Problems
    ) -> None:
        """Record a Kubernetes version that no sandbox can have."""
        known, wanted = catalog.kubernetes_platforms[PLATFORM].only, self._cluster.kubernetes
        if wanted is not None and wanted not in known:
            problems.at("kubernetes").add(
                f"{wanted!r}",
                f"a version that a sandbox can have: {', '.join(known)}",
                f'write kubernetes: "{known[-1]}", or remove it',
            )

    def login_commands(self, members: Sequence[str]) -> tuple[str, ...]:
        """Return the command that names an administrator's kubeconfig, and one that acts as a member by it."""
        name = self._cluster.name
        elsewhere = f"# or as `gpu-platform sandbox status --name {name}` says"
        named = f"export KUBECONFIG={_STATE}/{name}/kubeconfig   {elsewhere}"
        as_member = [
            f"alias kubectl='kubectl {_acting_as(one)}'   # from now on as a member" for one in members[:1]
        ]
        return (named, *as_member)

    def daemonsets(self, pool: PoolPlan, catalog: Catalog) -> tuple[DaemonSet, ...]:
        """Return the node agent: the simulated operator runs beside the nodes."""
        return (AGENT,)

    def node_names(self, pool: Pool) -> tuple[str, ...]:
        """Return `<pool>-<number>` for each desired node."""
        return tuple(f"{pool.name}-{index}" for index in range(pool.count.desired))

    def nodes(self, pool: Pool, named: tuple[str, ...] | None) -> NodesPlan:
        """Return the nodes that the program creates; an autoscaler leaves them."""
        nodes = nodes_plan(pool, "created", named or self.node_names(pool))
        added = is_autoscaled(pool)
        return replace(nodes, vary=added, min=nodes.desired if added else nodes.min)

    def check_pool(self, pool: Pool, machine: MachineType, catalog: Catalog, problems: Problems) -> None:
        """Record an autoscaled pool that Karpenter cannot grow."""
        check_autoscaled(pool, problems)

    def check_operator(
        self, pools: Sequence[tuple[int, Pool]], operator: Operator, catalog: Catalog, problems: Problems
    ) -> None:
        """Record autoscaled pools of one machine type that offer different resources."""
        check_same_sharing(pools, problems)

    def system_rooms(self, cluster: CloudCluster | None, catalog: Catalog) -> Sequence[Room]:
        """Return nothing: a sandbox has the nodes of the pools alone."""
        del cluster, catalog
        return ()

    def plan_autoscaler(
        self, pool: Pool, machine: MachineType, requirements: NodeRequirements
    ) -> Decided[AutoscalerPlan | None]:
        """Return how Karpenter adds nodes to an autoscaled pool."""
        return plan_autoscaler(pool, machine, requirements)

    def software(self, pool: Pool, operator: Operator, catalog: Catalog) -> NodeSoftware:
        """Return who installs what: `operator` in the stack file decides."""
        return declared_software(operator)

    def operator_settings(self, pools: Sequence[PoolPlan]) -> OperatorSettings:
        """Return the settings of the simulated operator, which has no Helm chart."""
        return OperatorSettings(writes_object=True)


_STATE: Final = "~/.local/state/gpu-platform/sandbox"  # without a variable that moves it: the same on each machine


def _acting_as(member: str) -> str:
    """Return the options of kubectl by which an administrator acts as a member."""
    kind, _, name = member.partition(":")
    if kind == "group":
        return f"--as member --as-group {shlex.quote(name)}"
    if kind == "serviceaccount":
        name = f"system:serviceaccount:{name.replace('/', ':')}"
    return f"--as {shlex.quote(name)}"
