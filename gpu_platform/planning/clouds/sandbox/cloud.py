"""The provider for sandboxes. The program creates the nodes and writes the operator's custom resource itself."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.daemonsets import AGENT
from gpu_platform.planning.clouds.nodes import nodes_plan
from gpu_platform.planning.clouds.protocol import (
    Cloud,
    CloudControlPlane,
    CloudLogins,
    CloudPools,
    CloudSoftware,
    OperatorSettings,
)
from gpu_platform.planning.clouds.sandbox.autoscaler import (
    check_autoscaled,
    check_same_sharing,
    is_autoscaled,
    plan_autoscaler,
)
from gpu_platform.planning.clouds.section import SchedulerPlan
from gpu_platform.planning.nodes.software import declared_software
from gpu_platform.planning.pools.section import NodesPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import SandboxCluster
from gpu_platform.stack.pool import Pool

KUBERNETES: Final = "1.36"  # version of new sandboxes, as in sandbox/go.mod
PLATFORM: Final = "sandbox"  # key in the catalogue's kubernetes_platforms


def sandbox(cluster: SandboxCluster) -> Cloud:
    """Return the provider for a sandbox on this machine."""
    return Cloud(
        cluster=cluster,
        access="sandbox",
        kubernetes=cluster.kubernetes or KUBERNETES,
        installs_charts=False,
        has_identities=False,
        runs_kueue=True,
        scheduler=SchedulerPlan(scores="default", why="the sandbox runs kube-scheduler without a configuration"),
        pools=CloudPools(
            names=_names,
            nodes=_nodes,
            plan_autoscaler=plan_autoscaler,
            # The simulated operator runs outside the nodes.
            daemonsets=lambda pool, catalog: (AGENT,),
            check=lambda pool, machine, catalog, problems: check_autoscaled(pool, problems),
        ),
        software=CloudSoftware(
            owners=lambda pool, operator, catalog: declared_software(operator),
            # The simulated operator has no Helm chart.
            operator_settings=lambda pools: OperatorSettings(writes_object=True),
            check_operator=lambda pools, catalog, problems: check_same_sharing(pools, problems),
        ),
        control_plane=CloudControlPlane(
            # A sandbox has no system nodes, only the nodes of the pools.
            system_rooms=lambda planned, catalog: (),
            check=lambda pools, operator, catalog, problems: _check_kubernetes(cluster, catalog, problems),
        ),
        logins=CloudLogins(commands=lambda members: _login_commands(cluster.name, members)),
    )


def _names(pool: Pool) -> tuple[str, ...]:
    """Return the name `<pool>-<number>` for each desired node."""
    return tuple(f"{pool.name}-{index}" for index in range(pool.count.desired))


def _nodes(pool: Pool, named: tuple[str, ...] | None) -> NodesPlan:
    """Return the plan for the nodes that the program creates. An autoscaler does not remove these nodes."""
    nodes = nodes_plan(pool, "created", named or _names(pool))
    added = is_autoscaled(pool)
    return replace(nodes, vary=added, min=nodes.desired if added else nodes.min)


def _check_kubernetes(cluster: SandboxCluster, catalog: Catalog, problems: Problems) -> None:
    """Record a problem for a Kubernetes version that no sandbox supports."""
    known, wanted = catalog.kubernetes_platforms[PLATFORM].only, cluster.kubernetes
    if wanted is not None and wanted not in known:
        problems.at("kubernetes").add(
            f"{wanted!r}",
            f"a version that sandboxes support: {', '.join(known)}",
            f'write kubernetes: "{known[-1]}", or remove it',
        )


def _login_commands(name: str, members: Sequence[str]) -> tuple[str, ...]:
    """Return the command that selects an administrator's kubeconfig, and an alias that runs kubectl as the first
    member.
    """
    elsewhere = f"# or as `gpu-platform sandbox status --name {name}` says"
    named = f"export KUBECONFIG={_STATE}/{name}/kubeconfig   {elsewhere}"
    as_member = [f"alias kubectl='kubectl {_acting_as(one)}'   # from now on as a member" for one in members[:1]]
    return (named, *as_member)


# The program always prints the default folder, so that the text does not depend on the machine's XDG_STATE_HOME.
_STATE: Final = "~/.local/state/gpu-platform/sandbox"


def _acting_as(member: str) -> str:
    """Return the kubectl options that let an administrator impersonate a member."""
    kind, _, name = member.partition(":")
    if kind == "group":
        return f"--as member --as-group {shlex.quote(name)}"
    if kind == "serviceaccount":
        name = f"system:serviceaccount:{name.replace('/', ':')}"
    return f"--as {shlex.quote(name)}"
