"""Combinations of settings that GKE refuses or that waste paid capacity, each with the place, the problem and the
fix.
"""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import BadInput, Problem
from gpu_platform.stack.loaded import plan_platform
from tests.support.sold import sold

ZONE = "us-central1-a"
TWO = [ZONE, "us-central1-b"]
FLEX = {"type": "flex-start"}
QUEUED = {"type": "flex-start", "queued": True}
RESERVED = {"type": "reservation", "reservation": "h100", "zone": ZONE}
GROW = {"desired": 0, "max": 8}
COMPACT = {"type": "compact"}
BLUE_GREEN = {"strategy": "blue-green"}
KEY = "arn:aws:kms:us-east-2:123456789012:key/0a1b2c3d"
A2 = {"machine_type": "a2-highgpu-8g"}
A2_80 = {"machine_type": "a2-ultragpu-8g", "workload": "development"}
A3_ULTRA = {"machine_type": "a3-ultragpu-8g"}
A4 = {"machine_type": "a4-highgpu-8g"}
A4X = {
    "machine_type": "a4x-highgpu-4g",
    "capacity": {"type": "reservation", "reservation": "rack", "zone": ZONE},
}
G2 = {"machine_type": "g2-standard-48", "workload": "inference"}
G4 = {"machine_type": "g4-standard-48", "workload": "inference"}


def problems_of(said: dict[str, Any], **cluster: Any) -> list[Problem]:
    pool = {
        "name": "train",
        "machine_type": "a3-megagpu-8g",
        "count": {"desired": 2},
        "zones": [ZONE],
        "workload": "training",
        **said,
    }
    pool = pool if "capacity" in said else sold(pool)
    platform = {
        "kind": "environment",
        "cluster": {
            "provider": "gke",
            "name": "ml",
            "project": "my-project",
            "location": "us-central1",
            "kubernetes": "1.35",
            **cluster,
        },
        "pools": [{key: value for key, value in pool.items() if value is not None}],
    }
    try:
        plan_platform(platform, "test")
    except BadInput as error:
        return list(error.problems)
    return []


CAPACITY: list[tuple[dict[str, Any], str, str]] = [
    # machine types and capacity that GKE does not sell
    (
        {"capacity": {"type": "capacity-block", "reservation": "cr-0a1b", "zone": ZONE}},
        "capacity.type",
        "sold by EC2",
    ),
    # reservations
    ({"capacity": {**RESERVED, "reservation": "H100_pool"}}, "capacity.reservation", "without a path"),
    ({"capacity": {**RESERVED, "reservation": "projects/p/reservations/r"}}, "capacity.reservation", "project"),
    (
        {"capacity": {**RESERVED, "block": "reservationBlocks/b"}},
        "capacity.block",
        "name of a block of the reservation, without a path",
    ),
    ({"capacity": {**RESERVED, "sub_block": "s"}}, "capacity.sub_block", "write its block"),
    (
        {"capacity": {**RESERVED, "block": "b", "sub_block": "reservationSubBlocks/s"}},
        "capacity.sub_block",
        "name of a sub-block of the block, without a path",
    ),
    ({"capacity": {**RESERVED, "needed_until": "2026-12-10T00:00:00Z"}}, "capacity.ends", "set ends"),
    (
        {"capacity": {**RESERVED, "ends": "2026-12-09T00:00:00Z", "needed_until": "2026-12-10T00:00:00Z"}},
        "capacity.ends",
        "an end after needed_until",
    ),
    ({"capacity": {**RESERVED, "project": "P"}}, "capacity.project", "id of the project"),
    (
        {"capacity": {**RESERVED, "placement_group": "g"}},
        "capacity.placement_group",
        "elsewhere a reservation has no placement group",
    ),
    (
        {"capacity": {**RESERVED, "zone": "europe-west4-b"}, "zones": None},
        "capacity.zone",
        "a zone of us-central1",
    ),
    ({"capacity": {**RESERVED, "zone": "us-east-2a"}, "zones": None}, "capacity.zone", "a zone of us-central1"),
    ({"capacity": RESERVED, "zones": TWO}, "zones", "us-central1-a only"),
    ({"capacity": RESERVED, "zones": ["us-central1-b"]}, "zones", "a reservation is in one zone"),
    # zones and counts
    ({"zones": ["us-east1-b"]}, "zones[0]", "the cluster's region"),
    ({**G2, "zones": [ZONE, ZONE]}, "zones[1]", "each zone once"),
    ({**G2, "zones": None}, "count.desired", "nodes without zones"),
    (
        {**G4, "zones": None, "count": {"desired": 0, "max": 2}},
        "zones",
        "the catalogue lists no zones of us-central1",
    ),
    ({**G2, "zones": TWO, "count": {"desired": 3}}, "count.desired", "a multiple of 2"),
    ({**G2, "zones": TWO, "count": {"min": 1, "desired": 1, "max": 9}}, "count.desired", "write desired: 2"),
    ({"name": "a" * 33}, "name", "at most 32"),
    ({"name": "a" * 43}, "name", "at most 32"),
    # flex-start and queued provisioning
    ({**A4, "capacity": FLEX}, "count.desired", "0; nodes are created when"),
    ({**A4, "capacity": QUEUED, "count": {"min": 1, "desired": 1, "max": 4}}, "count.desired", "with flex-start"),
    ({**A4, "capacity": FLEX, "count": {"desired": 0}}, "count.max", "1 or more"),
    (
        {**A4, "capacity": {**FLEX, "max_run_duration": "169h"}, "count": GROW},
        "capacity.max_run_duration",
        "7 days",
    ),
    (
        {**A4, "capacity": {**FLEX, "max_run_duration": "9m"}, "count": GROW},
        "capacity.max_run_duration",
        "10 minutes",
    ),
    ({**A4, "capacity": FLEX, "count": GROW, "repair": True}, "repair", "does not support auto-repair"),
    ({**A4, "capacity": QUEUED, "count": GROW, "repair": True}, "repair", "remove repair"),
]

PLACEMENT: list[tuple[dict[str, Any], str, str]] = [
    ({"placement": {"type": "cluster"}}, "placement.type", "none or compact"),
    ({"placement": {"type": "none", "group": "g"}}, "placement.group", "only with type compact"),
    ({"placement": {"group": "g"}}, "placement.group", "only with type compact"),
    (
        {"placement": {**COMPACT, "group": "projects/p/regions/r"}},
        "placement.group",
        "name of a resource policy in the cluster's project and region, without a path",
    ),
    ({"placement": COMPACT, "zones": TWO}, "placement.type", "exactly one zone"),
    ({**A4X, "placement": {"type": "none"}}, "placement.type", "several NVLink domains"),
    ({**A4X, "capacity": None}, "capacity.type", "reservation; a4x-highgpu-4g is sold only this way"),
    ({**A4X, "capacity": {"type": "spot"}}, "capacity.type", "reservation; a4x-highgpu-4g is sold only this way"),
    (
        {**A2, "placement": COMPACT, "capacity": FLEX, "count": GROW},
        "placement.type",
        "a3-ultragpu and a4-highgpu",
    ),
    (
        {**G2, "placement": COMPACT, "capacity": FLEX, "count": GROW},
        "placement.type",
        "a3-ultragpu and a4-highgpu",
    ),
    ({"placement": COMPACT, "capacity": FLEX, "count": GROW}, "placement.type", "with flex-start"),
    ({**A4, "placement": COMPACT, "capacity": QUEUED, "count": GROW}, "placement.type", "queued provisioning"),
    ({"count": {"desired": 97}}, "count.desired", "split the pool into pools of 96 nodes"),
    ({"count": {"desired": 2, "max": 97}, "placement": COMPACT}, "count.max", "at most 96"),
    ({**A4X, "count": {"desired": 19}, "placement": {**COMPACT, "group": "g"}}, "count.desired", "at most 18"),
    ({**A4X, "count": {"desired": 18, "max": 36}}, "count.max", "split the pool into pools of 18 nodes"),
    # upgrades
    ({"upgrade": BLUE_GREEN}, "upgrade.strategy", "with compact placement"),
    ({**A2, "placement": COMPACT, "upgrade": BLUE_GREEN}, "upgrade.strategy", "second set of nodes"),
    ({**G2, "capacity": RESERVED, "upgrade": BLUE_GREEN}, "upgrade.strategy", "with a reservation"),
    ({**G2, "capacity": FLEX, "count": GROW, "upgrade": BLUE_GREEN}, "upgrade.strategy", "with flex-start"),
    ({**G2, "upgrade": {**BLUE_GREEN, "max_surge": 1}}, "upgrade.max_surge", "only with surge"),
    ({**G2, "upgrade": {**BLUE_GREEN, "max_unavailable": 1}}, "upgrade.max_unavailable", "only with surge"),
    ({"upgrade": {"max_surge": 1}}, "upgrade.max_surge", "capacity in addition to the placed nodes"),
    (
        {**G2, "capacity": FLEX, "count": GROW, "upgrade": {"max_surge": 2}},
        "upgrade.max_surge",
        "for pods, not for upgrades",
    ),
    (
        {**G2, "capacity": FLEX, "count": GROW, "upgrade": {"max_unavailable": 0}},
        "upgrade.max_unavailable",
        "1 or",
    ),
    (
        {**G2, "upgrade": {"max_surge": 0, "max_unavailable": 0}},
        "upgrade.max_unavailable",
        "no node can be replaced",
    ),
    ({"upgrade": {"max_unavailable": 0}}, "upgrade.max_unavailable", "no node can be replaced"),
    ({**G2, "upgrade": {"max_surge": 15, "max_unavailable": 6}}, "upgrade", "GKE's limit"),
]

NODE: list[tuple[dict[str, Any], str, str]] = [
    # settings that only EKS supports
    ({"provisioner": "karpenter"}, "provisioner", "a built-in autoscaler"),
    ({"karpenter": {"expire_after": "336h"}}, "karpenter", "a built-in autoscaler"),
    ({"image": {"ami": "ami-0a1b2c3d"}}, "image.ami", "run the cloud's images"),
    ({"image": {"driver": "595.91.07"}}, "image.driver", "run the cloud's images"),
    ({"image": {"family": "al2023"}}, "image.family", "cos or ubuntu"),
    ({**G2, "image": {"family": "bottlerocket"}}, "image.family", "cos or ubuntu"),
    ({"network": {"layout": "efa-primary"}}, "network.layout", "arranges EFA interfaces"),
    ({**G2, "network": {"layout": "ena-and-efa"}}, "network.layout", "which only EC2 has"),
    ({"disk": {"type": "gp3"}}, "disk.type", "EBS volume"),
    ({**G2, "disk": {"type": "io2"}}, "disk.type", "pd-balanced, pd-ssd or hyperdisk-balanced"),
    ({"disk": {"kms_key": KEY}}, "disk.kms_key", "cryptoKeys"),
    # disks
    ({**A4, "disk": {"type": "pd-ssd"}}, "disk.type", "hyperdisk-balanced"),
    ({**A3_ULTRA, "disk": {"type": "pd-balanced"}}, "disk.type", "on a3-ultragpu-8g"),
    ({**G2, "disk": {"type": "hyperdisk-balanced"}}, "disk.type", "pd-balanced"),
    ({"local_nvme": False}, "local_nvme", "16 local SSDs are part of the machine type"),
    ({**A4, "local_nvme": False}, "local_nvme", "32 local SSDs"),
    ({**A2_80, "local_nvme": False}, "local_nvme", "8 local SSDs"),
    # GPU NICs
    ({**G2, "network": {"rdma": True}}, "network.rdma", "no GPU NICs"),
    ({**A2, "network": {"rdma": True}}, "network.rdma", "from a3-highgpu-8g on"),
    ({"machine_type": "a3-highgpu-4g", "network": {"rdma": True}}, "network.rdma", "no GPU NICs"),
    ({**G4, "network": {"via": "profile"}}, "network.via", "no GPU NICs"),
    ({"network": {"via": "profile"}}, "network.via", "pods would get none. Fix: remove via"),
    ({**A2, "network": {"via": "networks"}}, "network.via", "remove via"),
    ({"network": {"rdma": False, "via": "networks"}}, "network.via", "with rdma false"),
    ({"image": {"family": "ubuntu"}}, "image.family", "need Container-Optimized OS"),
    ({**A4, "image": {"family": "ubuntu"}}, "image.family", "write family: cos"),
    # sharing by GKE's device plugin
    (
        {**A2_80, "device_plugin": "provider", "sharing": {"mode": "mig", "layout": {"1g.10gb": 3}}},
        "sharing.layout",
        "as many instances as fit",
    ),
    (
        {**A2_80, "device_plugin": "provider", "sharing": {"mode": "mig", "layout": {"3g.40gb": 1, "1g.10gb": 3}}},
        "sharing.layout",
        "one profile on every GPU",
    ),
    (
        {**A2_80, "device_plugin": "provider", "sharing": {"mode": "mig", "layout": {"1g.99gb": 7}}},
        "sharing.layout",
        "1g.99gb",
    ),
    (
        {
            **A2_80,
            "device_plugin": "provider",
            "sharing": {"mode": "mig", "layout": {"1g.10gb": 7}, "strategy": "mixed"},
        },
        "sharing.strategy",
        "single",
    ),
    (
        {**G2, "device_plugin": "provider", "sharing": {"mode": "mig", "layout": {"1g.10gb": 7}}},
        "sharing.mode",
        "L4",
    ),
]

OLD_VERSIONS: list[tuple[dict[str, Any], str, str]] = [
    (A4, "network.via", "1.34.1-gke.1829001"),
    (A3_ULTRA, "network.via", "write via: networks"),
]


def identity(row: object) -> str | None:
    return row if isinstance(row, str) else None


@pytest.mark.parametrize(("said", "place", "words"), [*CAPACITY, *PLACEMENT, *NODE], ids=identity)
def test_an_impossible_gke_pool_is_one_problem_with_reason_and_fix(
    said: dict[str, Any], place: str, words: str
) -> None:
    found = problems_of(said)
    assert [problem.path for problem in found] == [f"pools[0].{place}"]
    assert words in str(found[0])
    assert found[0].fix


@pytest.mark.parametrize(("said", "place", "words"), OLD_VERSIONS, ids=identity)
def test_the_accelerator_network_profile_is_refused_on_an_older_gke(
    said: dict[str, Any], place: str, words: str
) -> None:
    found = problems_of(said, kubernetes="1.33")
    assert [problem.path for problem in found] == [f"pools[0].{place}"]
    assert words in str(found[0])


@pytest.mark.parametrize(
    "said",
    [
        {"count": {"desired": 96}},
        {"count": {"desired": 97}, "placement": {"type": "none"}},
        {"count": {"desired": 97}, "placement": {**COMPACT, "group": "of-the-reservation"}},
        {**A4X, "count": {"desired": 18}, "placement": {**COMPACT, "group": "nvlink"}},
        {"count": {"desired": 200}, "workload": "inference"},
    ],
)
def test_pools_within_the_limit_of_a_placement_policy_are_accepted(
    said: dict[str, Any],
) -> None:
    assert problems_of(said) == []


def test_there_are_more_than_fifty_impossible_pools_and_each_is_another() -> None:
    rows = [*CAPACITY, *PLACEMENT, *NODE, *OLD_VERSIONS]
    assert len({str(said) for said, _, _ in rows}) == len(rows) > 50


def test_a_pool_with_mistakes_of_several_kinds_shows_them_all_at_once() -> None:
    found = problems_of(
        {
            "capacity": {**RESERVED, "zone": "us-east-2a", "placement_group": "g"},
            "zones": None,
            "placement": {"type": "cluster"},
            "upgrade": BLUE_GREEN,
            "image": {"family": "al2023", "ami": "ami-0a1b2c3d"},
            "disk": {"type": "gp3"},
            "network": {"layout": "efa-primary"},
            "local_nvme": False,
        }
    )
    assert {problem.path.removeprefix("pools[0].") for problem in found} == {
        "capacity.zone",
        "capacity.placement_group",
        "placement.type",
        "upgrade.strategy",
        "image.family",
        "image.ami",
        "disk.type",
        "network.layout",
        "local_nvme",
    }


@pytest.mark.parametrize(
    ("count", "fix", "taken"),
    [
        ({"min": 0, "desired": 3, "max": 3}, "desired: 4 and max: 4", {"min": 0, "desired": 4, "max": 4}),
        ({"min": 0, "desired": 3, "max": 8}, "desired: 4", {"min": 0, "desired": 4, "max": 8}),
        ({"min": 3, "desired": 3, "max": 3}, "count: {desired: 4}", {"desired": 4}),
        ({"desired": 3}, "desired: 4", {"desired": 4}),
    ],
)
def test_the_count_proposed_for_several_zones_is_accepted(
    count: dict[str, int], fix: str, taken: dict[str, int]
) -> None:
    (problem,) = problems_of({**G2, "zones": TWO, "count": count})
    assert problem.fix == f"write {fix}, or different zones"
    assert problems_of({**G2, "zones": TWO, "count": taken}) == []
