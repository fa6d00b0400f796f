"""Stack files with suggested pools. The pods of each workload run as Deployments of one team per trust domain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from extensions.capacity.suggest import Suggestion
from gpu_platform.deploy.recorded.policy_check import evaluate_policies
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, plan_platform
from policies import Level
from tests.support.eks_stacks import CREATED

SANDBOX = {"provider": "sandbox"}
CLUSTERS: Mapping[str, Mapping[str, Any]] = {
    "aws": {**CREATED, "region": "us-east-1", "kubernetes": "1.35"},
    "gcp": {"provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1", "create": {}},
}
"""Settings of a new cluster for each vendor, in the region whose prices are compared by default."""


def stack_of(
    found: Suggestion, workloads: Sequence[Mapping[str, Any]], cluster: Mapping[str, Any] = SANDBOX
) -> dict[str, Any]:
    """Return an environment with the suggested pools. The quota of each team equals the requests of its pods.

    In a sandbox, the pools set no zones and no capacity, because a sandbox has neither zones nor capacity types.
    """
    by_name = {each["name"]: each for each in workloads}
    teams: list[dict[str, Any]] = []
    for domain in sorted({each["trust_domain"] for each in workloads}):
        deployments: list[dict[str, Any]] = []
        quota: dict[str, Any] = {"gpus": 0, "shared": 0, "mig": Counter[str]()}
        for one in found.pools:
            for index, placed in enumerate(one.pods):
                want = by_name[placed.workload]
                if want["trust_domain"] != domain:
                    continue
                deployment = {
                    "name": f"{placed.workload}-{one.pool['name']}-{index}"[:63],
                    "pool": one.pool["name"],
                    "replicas": placed.pods,
                    "gpus": want.get("gpus", 1),
                    "gpu_memory": want["gpu_memory"],
                    "cpu": want["cpu"],
                    "memory": want["memory"],
                }
                if placed.slot not in ("gpu", "share"):
                    deployment["profile"] = placed.slot
                    quota["mig"][placed.slot] += placed.pods
                else:
                    quota["gpus" if placed.slot == "gpu" else "shared"] += placed.pods * want.get("gpus", 1)
                deployments.append(deployment)
        teams.append(
            {
                "name": domain,
                "quota": {**quota, "mig": dict(quota["mig"])},
                "priority": "training",
                "members": [f"group:{domain}@example.com"],
                "workloads": deployments,
            }
        )
    return {
        "kind": "environment",
        "cluster": dict(cluster),
        "pools": [_without_cloud(one.pool) if cluster == SANDBOX else dict(one.pool) for one in found.pools],
        "teams": teams,
    }


def _without_cloud(pool: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in pool.items() if key not in ("zones", "capacity", "network")}


def refusals(stack: Mapping[str, Any], folder: Path) -> list[str]:
    """Plan a stack, run its program, and return the violations that the policy pack finds.

    Raises BadInput, as `check` does.
    """
    file = folder / "Pulumi.suggested.yaml"
    loaded = LoadedStack("suggested", file, stack, plan_platform(stack, "suggested"))
    report = evaluate_policies(record_stack(loaded), loaded.plan)
    return [f"{one.rule}: {one}" for one in report.violations if one.level is Level.MANDATORY]
