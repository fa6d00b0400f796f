"""Connects to an existing cluster before the first `up`, when no stack output contains its kubeconfig yet."""

from __future__ import annotations

from datetime import UTC, datetime

from gpu_platform.base.errors import UnknownOutcome
from gpu_platform.catalog import load_catalog
from gpu_platform.live.client import KubernetesClient
from gpu_platform.online.cluster.lookups import client_with
from gpu_platform.online.finding import NotLookedAt
from gpu_platform.online.registry import cloud_of
from gpu_platform.planning.plan import EnvironmentPlan


def existing_cluster_client(plan: EnvironmentPlan) -> KubernetesClient | None:
    """Return a client for the plan's existing cluster. The kubeconfig comes from the cloud's API, with the user's
    credentials.

    Returns None if `up` creates the cluster, or if the cluster is in no supported cloud. Raises UnknownOutcome if
    the cloud does not answer.
    """
    if plan.cluster.cloud is None or plan.cluster.cloud.create is not None:
        return None
    cloud = cloud_of(plan, load_catalog(), datetime.now(UTC))
    if cloud is None:
        return None
    try:
        return client_with(plan, cloud.kubeconfig())
    except NotLookedAt as reason:
        raise UnknownOutcome(f"{reason.why}: {reason.fix}") from reason
