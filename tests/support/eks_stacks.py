"""Plans and records EKS environments as `pulumi preview` would, with every cloud output unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpu_platform.planning import EnvironmentPlan
from gpu_platform.stack.loaded import LoadedStack, plan_platform
from tests.support.recorded import Recorded, record_platform

ADMIN = "arn:aws:iam::123456789012:role/platform-admin"
CREATED: dict[str, Any] = {
    "provider": "eks",
    "name": "ml",
    "region": "us-east-2",
    "account": "123456789012",
    "kubernetes": "1.34",
    "create": {"admins": [ADMIN]},
}
"""The field `cluster` of a stack whose cluster the program creates."""
CLUSTER_ARN = "arn:aws:eks:us-east-2:123456789012:cluster/ml"
EXISTING: dict[str, Any] = {
    "provider": "eks",
    "name": "ml",
    "region": "us-east-2",
    "subnets": {"us-east-2a": "subnet-0a1b2c3d4e5f60718", "us-east-2b": "subnet-1a1b2c3d4e5f60718"},
}
"""The field `cluster` of a stack whose cluster already exists."""


def eks_environment(*pools: dict[str, Any], cluster: dict[str, Any] | None = None, **rest: Any) -> dict[str, Any]:
    """Return a platform object. Each pool needs only the fields that differ from a training pool with one node."""
    filled = [
        {"name": "train", "machine_type": "p5.48xlarge", "count": {"desired": 1}, "workload": "training"} | pool
        for pool in pools
    ]
    return {"kind": "environment", "cluster": cluster or CREATED, "pools": filled, **rest}


def load_eks(*pools: dict[str, Any], cluster: dict[str, Any] | None = None, **rest: Any) -> LoadedStack:
    """Load and plan an environment with these pools."""
    platform = eks_environment(*pools, cluster=cluster, **rest)
    return LoadedStack("test", Path("Pulumi.test.yaml"), platform, plan_platform(platform, "test"))


def plan_eks(*pools: dict[str, Any], cluster: dict[str, Any] | None = None, **rest: Any) -> EnvironmentPlan:
    """Return the plan of an environment with these pools."""
    plan = load_eks(*pools, cluster=cluster, **rest).plan
    assert plan.kind == "environment"
    return plan


def record_eks(*pools: dict[str, Any], cluster: dict[str, Any] | None = None, **rest: Any) -> Recorded:
    """Return the resources that the program registers for an environment with these pools."""
    return record_platform(eks_environment(*pools, cluster=cluster, **rest))
