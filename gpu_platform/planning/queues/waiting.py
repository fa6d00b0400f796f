"""Compare how long Kueue waits for a workload's pods with how long the pods need to become ready.

Kueue measures the time from admission until all pods are ready. After the timeout it stops the workload, and its
model has to be loaded again from the beginning. Kueue also deletes the pending pods, and with them the request for
nodes. With queued provisioning, Kueue admits a workload only when its nodes exist (kubernetes-sigs/kueue v0.19.2,
admittedNotReadyWorkload of pkg/controller/core/workload_controller.go and PodsReady of
pkg/controller/jobs/pod/pod_controller.go; read 2026-11-28).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gpu_platform.base.quantity import duration_text, duration_value, parse_duration
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.mig.progress import CHANGE_SECONDS
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.sharing.node_start import NODE_SECONDS, node_start_seconds
from gpu_platform.stack.queueing import Queueing
from gpu_platform.stack.team import Team

_STEP_SECONDS: Final = 600


def check_startup(
    team: Team, teams: Sequence[Team], queueing: Queueing, pools: Sequence[PoolPlan], here: Problems
) -> None:
    """Record a problem for each service that Kueue would evict before its model is loaded.

    `teams` are the teams of the environment.
    """
    timeout, where = queueing.pods_ready_timeout, "" if team in teams else " in the environment"
    for index, service in enumerate(team.inference_services):
        if parse_duration(service.startup) >= parse_duration(timeout):
            here.at(f"inference_services[{index}]").at("startup").add(
                service.startup,
                f"less than queueing.pods_ready_timeout, {timeout}, after which Kueue evicts pods that are not "
                "ready",
                f"write queueing.pods_ready_timeout: {_enough([*teams, team], pools)}{where}, or lower startup",
            )


def waiting_decisions(pools: Sequence[PoolPlan], teams: Sequence[Team], queueing: Queueing) -> Iterator[Decision]:
    """Yield a warning for each pool where starting new nodes and services may take longer than Kueue waits."""
    timeout = queueing.pods_ready_timeout
    for pool in pools:
        if pool.capacity.get("type") == "flex-start":
            if not pool.capacity.get("queued"):
                yield Decision(
                    subject=f"pool {pool.name}",
                    what="warning: waiting for capacity",
                    chosen=f"at most {timeout}",
                    why="flex-start adds nodes only when capacity is available, but Kueue evicts workloads "
                    "whose pods are not ready within queueing.pods_ready_timeout, and deleting the pods "
                    "cancels the request for nodes; set queued: true in the pool's capacity, so that "
                    "workloads wait for nodes before they start",
                )
            continue
        node, startup = _node_seconds(pool), _startup(pool, teams)
        if node and node + startup >= parse_duration(timeout):
            parts = [f"{duration_text(NODE_SECONDS)} for a new node"]
            parts += [f"{duration_text(CHANGE_SECONDS)} for its MIG layout"] if node > NODE_SECONDS else []
            parts += [f"{duration_text(startup)} for the startup of a service"] if startup else []
            yield Decision(
                subject=f"pool {pool.name}",
                what="warning: waiting for nodes",
                chosen=f"at most {timeout}",
                why=f"pods may need {' and '.join(parts)}, and Kueue evicts workloads that are not ready within "
                f"queueing.pods_ready_timeout; write queueing.pods_ready_timeout: {_enough(teams, pools)}",
            )


def _node_seconds(pool: PoolPlan) -> int:
    """Return how long pods may wait for a new node, or 0 if all nodes exist when Kueue starts a workload."""
    return node_start_seconds(pool.sharing) if pool.nodes.vary else 0


def _startup(pool: PoolPlan, teams: Sequence[Team]) -> int:
    services = (one for team in teams for one in team.inference_services if one.pool == pool.name)
    return max((parse_duration(one.startup) for one in services), default=0)


def _enough(teams: Sequence[Team], pools: Sequence[PoolPlan]) -> str:
    """Return a timeout that is long enough for all pools, rounded up to the next multiple of ten minutes."""
    most = max(_startup(pool, teams) + _node_seconds(pool) for pool in pools)
    return duration_value((most // _STEP_SECONDS + 1) * _STEP_SECONDS)
