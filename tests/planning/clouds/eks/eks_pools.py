"""Helpers that check and plan single EKS pools as the planner does, without planning a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_platform.base.errors import Problem
from gpu_platform.catalog import load_catalog
from gpu_platform.planning.clouds.eks.launch_plan import NetworkInterface
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan
from gpu_platform.planning.clouds.eks.user_data import write_user_data
from gpu_platform.planning.clouds.registry import cloud_of
from gpu_platform.planning.context import CompleteContext
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.pools import checks
from gpu_platform.planning.pools.pools import plan_pool
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.sharing import ResolvedPool
from gpu_platform.stack.cluster import EksCluster, Operator
from gpu_platform.stack.environment import Environment
from gpu_platform.stack.pool import Pool
from gpu_platform.stack.sharing import Mig

RESERVATION = {"type": "reservation", "reservation": "cr-0a1b2c3d4e5f60718", "zone": "us-east-2a"}
BLOCK = {"type": "capacity-block", "reservation": "cr-0a1b2c3d4e5f60718", "zone": "us-east-2a"}
AMI = "ami-0a1b2c3d4e5f60718"


def eks(**rest: Any) -> EksCluster:
    return EksCluster.model_validate({"provider": "eks", "name": "ml", "region": "us-east-2", **rest})


def pool(**rest: Any) -> Pool:
    """Return a training pool with one node in one zone. `rest` overrides fields."""
    said = {
        "name": "train",
        "machine_type": "p5.48xlarge",
        "count": {"desired": 1},
        "workload": "training",
        **rest,
    }
    sale = load_catalog().sale(str(said["machine_type"]))
    if sale is not None and "reservation" in sale.sold_as:
        said.setdefault("capacity", RESERVATION)
    return Pool.model_validate(said, strict=False)


def problems_of(spec: Pool, cluster: EksCluster | None = None) -> list[Problem]:
    context, share = context_and_share(spec, cluster or eks(), "pool")
    checks.check(context, [share])
    return context.problems.found


def context_and_share(spec: Pool, cluster: EksCluster, path: str) -> tuple[CompleteContext, ResolvedPool]:
    """Return the context and the pool for a check, in an environment with only this pool and default settings."""
    # pyrefly: ignore[missing-argument] - the check reads no other fields
    environment = Environment.model_construct(operator=Operator(), pools=(spec,))
    context = CompleteContext(
        catalog=load_catalog(),
        cloud=cloud_of(cluster),
        operator=Operator(),
        pools=((0, spec),),
        stack="test",
        environment=environment,
    )
    places = tuple(range(len(spec.sharing.layouts or ()))) if isinstance(spec.sharing, Mig) else ()
    resolved = ResolvedPool(
        path=path,
        pool=spec,
        declared=spec.sharing,
        sharing_path=f"{path}.sharing",
        layout_places=places or (None,),
    )
    return context, resolved


def planned(cluster: EksCluster | None = None, **rest: Any) -> PoolPlan:
    return plan_and_decisions(cluster, **rest)[0]


def plan_and_decisions(cluster: EksCluster | None = None, **rest: Any) -> tuple[PoolPlan, Mapping[str, Decision]]:
    """Return the plan of a pool, which must have no problems, and the pool's decisions by topic."""
    spec, cluster = pool(**rest), cluster or eks()
    assert problems_of(spec, cluster) == []
    planned = plan_pool(*context_and_share(spec, cluster, "pools[0]"))
    return planned.value, {decision.what: decision for decision in planned.decisions}


def node_group(cluster: EksCluster | None = None, **rest: Any) -> EksPoolPlan:
    plan = planned(cluster, **rest).cloud
    assert isinstance(plan, EksPoolPlan)
    return plan


def user_data_text(plan: EksPoolPlan) -> str:
    assert plan.user_data is not None
    return write_user_data(plan.user_data)


def shape(interfaces: tuple[NetworkInterface, ...]) -> list[tuple[int, int, str]]:
    """Return the network card, device index and type of each interface."""
    return [(one.network_card_index, one.device_index, one.interface_type) for one in interfaces]
