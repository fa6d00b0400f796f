"""Quotas that an AKS cluster needs, by the names that Azure gives them."""

from __future__ import annotations

from typing import Any

from gpu_platform.catalog import load_catalog
from gpu_platform.planning.prerequisites import all_quotas, prerequisites
from gpu_platform.stack.loaded import plan_platform

GUID = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"


def quotas(*pools: dict[str, Any], **create: Any) -> dict[str | None, int]:
    """Return the amounts of a new cluster's quotas in eastus2, by name. All units are vCPUs."""
    cluster = {
        "provider": "aks",
        "name": "ml",
        "subscription": GUID,
        "resource_group": "ml",
        "region": "eastus2",
        "kubernetes": "1.35",
        "create": {"admins": [GUID], "api_access": ["203.0.113.0/24"], **create},
    }
    platform = {"kind": "environment", "cluster": cluster, "pools": list(pools)}
    plan = plan_platform(platform, "ml")
    assert plan.kind == "environment"
    needed = prerequisites(plan, ())
    assert needed is not None
    found = all_quotas(plan, needed, load_catalog())
    assert {(one.unit, one.region) for one in found} == {("vCPU", "eastus2")}
    return {one.name: one.amount for one in found}


def pool(name: str, machine_type: str, nodes: int, **more: Any) -> dict[str, Any]:
    workload = "inference" if load_catalog().machine_types[machine_type].has_gpus else "general"
    return {
        "name": name,
        "machine_type": machine_type,
        "count": {"desired": nodes},
        "workload": workload,
        **more,
    }


def test_each_series_has_a_quota_and_all_count_together() -> None:
    found = quotas(
        pool("serve", "Standard_NC24ads_A100_v4", 2),
        pool("web", "Standard_D16ds_v5", 3),
        system={"machine_type": "Standard_D8ds_v5"},
    )
    # One more node of each pool and one more system node while they are rolled.
    assert found == {
        "StandardNCADSA100v4Family": 3 * 24,
        "standardDDSv5Family": 4 * 16 + 4 * 8,
        "cores (Total Regional vCPUs)": 3 * 24 + 4 * 16 + 4 * 8,
    }


def test_reserved_nodes_count_against_no_quota() -> None:
    group = f"/subscriptions/{GUID}/resourceGroups/g/providers/Microsoft.Compute/capacityReservationGroups/gpus"
    found = quotas(
        pool(
            "serve",
            "Standard_NC24ads_A100_v4",
            2,
            capacity={"type": "reservation", "reservation": group, "zone": "1"},
        ),
        system={"machine_type": "Standard_D8ds_v5"},
    )
    assert found == {"standardDDSv5Family": 4 * 8, "cores (Total Regional vCPUs)": 4 * 8}


def test_spot_nodes_count_against_the_quota_of_spot_nodes_only() -> None:
    found = quotas(
        pool("serve", "Standard_NC4as_T4_v3", 5, capacity={"type": "spot"}),
        system={"machine_type": "Standard_D4ds_v6"},
    )
    assert found == {
        "lowPriorityCores (Total Regional Spot vCPUs)": 5 * 4,
        "StandardDdsv6Family": 4 * 4,
        "cores (Total Regional vCPUs)": 4 * 4,
    }
