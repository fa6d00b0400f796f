"""Claims of declared workloads, compared with the volume sizes that a cloud offers."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.stack.loaded import plan_platform
from tests.planning.conftest import environment, pool, team

EKS: dict[str, Any] = {"provider": "eks", "name": "prod", "region": "us-east-2"}
GKE: dict[str, Any] = {"provider": "gke", "name": "prod", "project": "my-project", "location": "us-central1"}
ON_EKS: dict[str, Any] = {"machine_type": "g6.12xlarge", "zones": ["us-east-2a"]}
ON_GKE: dict[str, Any] = {"machine_type": "g2-standard-48", "zones": ["us-central1-a"]}


@pytest.mark.parametrize(
    ("cluster", "nodes", "throughput", "claimed", "made"),
    [
        (GKE, ON_GKE, 1000, "10000Gi", "18000Gi"),
        (GKE, ON_GKE, 250, "40Ti", "72000Gi"),
        (EKS, ON_EKS, 250, "3Ti", "4800Gi"),
        (EKS, ON_EKS, 250, "2Ti", "2400Gi"),
        (EKS, ON_EKS, 250, "100Gi", "1200Gi"),
    ],
)
def test_claims_of_a_size_that_no_volume_has_are_refused(
    cluster: dict[str, Any], nodes: dict[str, Any], throughput: int, claimed: str, made: str
) -> None:
    """For a claim between two sizes, the cloud creates and bills the next larger size."""
    home = {"directory": "/home/me", "size": claimed, "storage_class": "kept"}
    lab = {"name": "lab", "pool": "train", "gpus": 1, "home": home}
    own = team("vision", quota={"gpus": 4}, members=["user:ana@example.com"], notebooks=[lab])
    stack = environment(
        {**pool(count={"desired": 1}, workload="inference"), **nodes},
        cluster={**cluster, "create": {}} if cluster is GKE else cluster,
        storage={"kept": {"type": "lustre", "throughput": throughput}},
        teams=[own],
    )
    with pytest.raises(BadInput) as caught:
        plan_platform(stack, "test")
    [problem] = caught.value.problems
    assert problem.path == "teams[0].notebooks[0].home.size"
    assert f"write size: {made}" in problem.fix
    home["size"] = made
    assert plan_platform(stack, "test")
