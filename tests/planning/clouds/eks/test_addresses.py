"""The zones of a new VPC must have enough addresses for the maximum number of nodes of all pools in them."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput, Problem
from gpu_platform.planning.clouds.eks.vpc import NARROWEST_OF_NODES, ZONE_LETTERS, zone_subnets
from tests.support.eks_stacks import CREATED, plan_eks

MANY: dict[str, Any] = {"name": "many", "machine_type": "g6.12xlarge", "workload": "inference"}
ZONE = {"zones": ["us-east-2a"]}


def cluster(**create: Any) -> dict[str, Any]:
    zones = ["us-east-2a", "us-east-2b"]
    return {**CREATED, "create": {**CREATED["create"], "zones": zones, **create}}


def refused(*pools: dict[str, Any], **create: Any) -> Problem:
    with pytest.raises(BadInput) as caught:
        plan_eks(*(MANY | one for one in pools), cluster=cluster(**create))
    (problem,) = caught.value.problems
    return problem


def warning(*pools: dict[str, Any], **create: Any) -> str:
    plan = plan_eks(*(MANY | one for one in pools), cluster=cluster(**create))
    return " ".join(one.chosen + one.why for one in plan.decisions if one.what == "warning: addresses")


def test_nodes_without_prefixes_for_pods_are_refused() -> None:
    problem = refused({"count": {"desired": 200}, **ZONE}, cidr="10.8.0.0/18")
    assert problem.path == "cluster.create.cidr"
    assert problem.found == "2043 addresses in us-east-2a (of 10.8.0.0/18)"
    assert problem.allowed.startswith("6666 or more, which 202 nodes of pool many use")


def test_the_printed_range_has_addresses_for_the_nodes() -> None:
    pool = {"count": {"desired": 200}, **ZONE}
    assert "write cidr: 10.8.0.0/16" in refused(pool, cidr="10.8.0.0/18").fix
    assert "full of pods" in warning(pool, cidr="10.8.0.0/16")


def test_the_largest_node_count_includes_the_nodes_of_a_rolling_update() -> None:
    fits = {"count": {"min": 0, "desired": 0, "max": 246}, **ZONE}
    assert warning(fits)
    problem = refused(fits | {"count": {"min": 0, "desired": 0, "max": 300}})
    assert (problem.path, problem.fix.split(",")[0]) == ("pools[0].count.max", "write 246")


def test_the_printed_number_of_nodes_is_the_most_of_the_widest_range() -> None:
    many = {"count": {"min": 0, "desired": 0, "max": 300}, **ZONE}
    fix = refused(many, cidr="10.0.0.0/18").fix
    assert fix.startswith("write 246 and cidr: 10.0.0.0/16, or name more zones")
    assert warning(many | {"count": {"min": 0, "desired": 0, "max": 246}}, cidr="10.0.0.0/16")


def test_pools_of_one_zone_are_counted_together() -> None:
    half = {"count": {"desired": 130}, **ZONE}

    def more(most: int) -> dict[str, Any]:
        return half | {"name": "more", "provisioner": "karpenter", "count": {"desired": 0, "max": most}}

    problem = refused(half, more(130))
    # Pool many has 130 nodes, and two more during an update.
    # Pool more has 130 nodes of Karpenter, and 15 replacements: a tenth of 145, rounded up.
    assert (
        "277 nodes of pool many, pool more need more than 8187 addresses in us-east-2a (of 10.0.0.0/16)"
        in problem.allowed
    )
    assert problem.fix.startswith("write 101, or name more zones")
    assert warning(half, more(101))


def test_pods_with_a_range_of_their_own_are_compared_with_it() -> None:
    problem = refused({"count": {"desired": 200}, **ZONE}, pods_cidr="100.64.0.0/18", cidr="10.8.0.0/20")
    assert problem.path == "cluster.create.pods_cidr"
    assert "write pods_cidr: 100.64.0.0/16" in problem.fix


def test_a_small_pool_has_no_warning() -> None:
    assert not warning({"count": {"desired": 20}, **ZONE})


def test_a_small_range_of_nodes_is_accepted_with_a_range_of_pods() -> None:
    assert not warning({"count": {"desired": 8}}, pods_cidr="100.64.0.0/16", cidr="10.8.0.0/20")
    assert "pods_cidr: 100.64.0.0/16" in refused({"count": {"desired": 8}}, cidr="10.8.0.0/20").fix


@pytest.mark.parametrize("prefix", range(19, NARROWEST_OF_NODES + 1))
def test_subnets_of_a_small_range_never_overlap(prefix: int) -> None:
    zones = [zone_subnets(f"10.0.0.0/{prefix}", f"us-east-1{letter}") for letter in ZONE_LETTERS]
    networks = [IPv4Network(text) for zone in zones for text in (zone.private_cidr, zone.public_cidr)]
    assert not any(one.overlaps(other) for i, one in enumerate(networks) for other in networks[i + 1 :])
    assert all(IPv4Network(zone.public_cidr).prefixlen <= 27 for zone in zones)
