"""EKS: the cluster and its GPU node pools. The only modules that import this cloud's SDK."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pulumi

from gpu_platform.planning.eks.plan import EksClusterPlan
from gpu_platform.planning.plan import PoolPlan


def build_eks(
    cluster: EksClusterPlan, pools: Sequence[PoolPlan]
) -> tuple[Any, Callable[[pulumi.ResourceOptions], list[pulumi.Resource]]]:
    """Register the cluster; return it with what registers its pools, given the options of Kubernetes objects."""
    raise NotImplementedError
