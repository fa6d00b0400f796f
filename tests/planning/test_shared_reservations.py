"""A reservation that several pools use has one machine type, one zone and one period."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import BadInput, Problem
from gpu_platform.stack.loaded import plan_platform
from tests.support.eks_stacks import eks_environment

ZONES = ["us-east-2a", "us-east-2b"]
CREATE = {"admins": ["arn:aws:iam::123456789012:role/admin"], "zones": ZONES}
EKS = {"provider": "eks", "name": "ml", "region": "us-east-2", "account": "123456789012", "create": CREATE}
RESERVATION = {"type": "reservation", "reservation": "cr-0a1b2c3d4e5f60718", "zone": "us-east-2a"}
BLOCK = {
    **RESERVATION,
    "type": "capacity-block",
    "starts": "2026-12-01T11:30:00Z",
    "ends": "2026-12-29T11:30:00Z",
}
GKE = {"provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1", "create": {}}


def plan(*pools: dict[str, Any], cluster: dict[str, Any] | None = None) -> None:
    named = [{"name": f"p{index}", **one} for index, one in enumerate(pools)]
    plan_platform(eks_environment(*named, cluster=cluster or EKS), "test")


def refused(*pools: dict[str, Any], cluster: dict[str, Any] | None = None) -> Problem:
    with pytest.raises(BadInput) as caught:
        plan(*pools, cluster=cluster)
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize(
    ("other", "found", "allowed"),
    [
        ({"capacity": {**BLOCK, "zone": "us-east-2b"}}, "in us-east-2b", "in us-east-2a, as pools[0]"),
        ({"capacity": BLOCK, "machine_type": "p5en.48xlarge"}, "with p5en.48xlarge", "with p5.48xlarge"),
        ({"capacity": {**BLOCK, "ends": "2026-12-20T11:30:00Z"}}, "until 2026-12-20", "until 2026-12-29"),
        (
            {"capacity": {"type": "capacity-block", "blocks": [{**BLOCK, "starts": "2026-12-02T11:30:00Z"}]}},
            "from 2026-12-02",
            "from 2026-12-01",
        ),
    ],
    ids=["zone", "machine", "end", "start-in-a-list"],
)
def test_a_reservation_that_differs_is_refused(other: dict[str, Any], found: str, allowed: str) -> None:
    for block in other["capacity"].get("blocks", ()):
        block.pop("type", None)
    problem = refused({"capacity": BLOCK}, other)
    assert problem.path.startswith("pools[1].capacity.")
    assert f"'cr-0a1b2c3d4e5f60718' {found}" in problem.found
    assert allowed in problem.allowed


def test_a_reservation_that_agrees_serves_two_pools() -> None:
    plan({"capacity": BLOCK}, {"capacity": BLOCK})
    plan({"capacity": RESERVATION}, {"capacity": RESERVATION, "workload": "inference"})


def test_reservations_of_one_name_in_two_zones_are_two_on_gke() -> None:
    def pool(zone: str, machine_type: str) -> dict[str, Any]:
        capacity = {"type": "reservation", "reservation": "h100", "zone": zone}
        return {"machine_type": machine_type, "capacity": capacity, "workload": "inference"}

    plan(pool("us-central1-a", "g2-standard-48"), pool("us-central1-c", "a2-highgpu-8g"), cluster=GKE)
    problem = refused(pool("us-central1-a", "g2-standard-48"), pool("us-central1-a", "a2-highgpu-8g"), cluster=GKE)
    assert problem.found == "'h100' with a2-highgpu-8g"


@pytest.mark.parametrize("counts", [(65,), (40, 25)])
def test_a_capacity_block_has_at_most_64_instances(counts: tuple[int, ...]) -> None:
    problem = refused(*({"capacity": BLOCK, "count": {"desired": count}} for count in counts))
    assert problem.path == f"pools[{len(counts) - 1}].count.desired"
    assert problem.found == "a capacity block (cr-0a1b2c3d4e5f60718) of 65 instances"
    plan(*({"capacity": BLOCK, "count": {"desired": 64 // len(counts)}} for _ in counts))
