"""Pools that `capacity suggest` proposes pass `check`, which plans them and evaluates the policy rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from extensions.capacity.suggest import Suggestion, suggest
from extensions.capacity.suggest.demands import Demands
from extensions.capacity.suggest.options import MOST_REPLICAS
from gpu_platform.catalog import load_catalog
from gpu_platform.stack.load import parse_document
from policies.sharing import ReplicaLimits
from tests.extensions.capacity.suggested import CLUSTERS, SANDBOX, refusals, stack_of
from tests.support.size import size

_ADAPTER = TypeAdapter(Demands)


def _suggest(*workloads: dict[str, Any], **rest: Any) -> Suggestion:
    document = {"workloads": list(workloads), **rest}
    return suggest(parse_document(document, "workloads.yaml", _ADAPTER), "workloads.yaml", load_catalog())


def _want(name: str, **rest: Any) -> dict[str, Any]:
    small = {
        "kind": "development",
        "count": 1,
        "trust_domain": "a",
        "gpu_memory": "1Gi",
        "cpu": "100m",
        "memory": "256Mi",
    }
    return {"name": name, **small, **rest}


def test_the_most_replicas_are_those_that_the_policy_pack_allows_by_default() -> None:
    limits = ReplicaLimits()
    allowed = {"mps": limits.max_mps_replicas, "time-slicing": limits.max_time_slicing_replicas}
    assert allowed == MOST_REPLICAS


@pytest.mark.parametrize(
    ("kind", "mode", "replicas"), [("development", "time-slicing", 4), ("inference", "mps", 8)]
)
def test_tiny_pods_get_no_more_replicas_than_the_rule_allows(
    kind: str, mode: str, replicas: int, tmp_path: Path
) -> None:
    want = _want("tiny", kind=kind, count=40, compute=0.01)
    found = _suggest(want, machine_families=["g4dn"])
    assert max(one.pool["sharing"]["replicas"] for one in found.pools) == replicas
    assert {one.pool["sharing"]["mode"] for one in found.pools} == {mode}
    assert refusals(stack_of(found, [want]), tmp_path) == []


def test_only_one_trust_domain_shares_gpus_by_replicas(
    tmp_path: Path,
) -> None:
    wants = [
        _want("x", kind="inference", trust_domain="a", compute=0.3, count=3),
        _want("y", kind="inference", trust_domain="b", compute=0.2, count=4),
    ]
    found = _suggest(*wants, machine_families=["g6"])
    modes = {one.pool.get("sharing", {}).get("mode", "none"): one.pods[0].workload for one in found.pools}
    # Computed by hand: sharing saves three machines for `y` but only two machines for `x`.
    assert modes == {"mps": "y", "none": "x"}
    assert refusals(stack_of(found, wants), tmp_path) == []


def test_more_nodes_than_a_pool_may_have_are_pools_of_their_own(tmp_path: Path) -> None:
    want = _want("many", kind="training", count=1200)
    found = _suggest(want, machine_families=["g4dn"])
    assert [one.pool["count"]["desired"] for one in found.pools] == [1000, 200]
    assert sum(pods.pods for one in found.pools for pods in one.pods) == 1200
    assert found.usd_per_hour == pytest.approx(1200 * 0.526)
    assert found.usd_per_hour == pytest.approx(sum(one.usd_per_hour for one in found.pools))


RESERVED = {
    "aws": {"reservation": "cr-0a1b2c3d4e5f60718", "machine_type": "p4d.24xlarge", "zone": "us-east-1b"},
    "gcp": {"reservation": "a100-pool", "machine_type": "a2-highgpu-8g", "zone": "us-central1-a"},
}
_WANTS = st.lists(
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["training", "inference", "development"]),
            "count": st.integers(1, 30),
            "trust_domain": st.sampled_from(["a", "b", "c"]),
            "gpu_memory": st.sampled_from(["512Mi", "1Gi", "3Gi", "9Gi", "20Gi", "38Gi"]),
            "compute": st.sampled_from([0.01, 0.05, 0.14, 0.3, 0.5, 1.0]),
            "objective": st.sampled_from(["latency", "throughput"]),
            "cpu": st.sampled_from(["100m", "1", "6"]),
            "memory": st.sampled_from(["256Mi", "4Gi", "30Gi"]),
            "gpus": st.sampled_from([1, 1, 1, 2, 8]),
        }
    ),
    min_size=1,
    max_size=4,
).map(
    lambda drawn: [
        {**want, "name": f"w{index}", **({} if want["gpus"] == 1 else {"compute": 1.0})}
        for index, want in enumerate(drawn)
    ]
)


# Each example runs the program, so a failing example is reported without shrinking it.
@settings(
    max_examples=size(3, 100),
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    wants=_WANTS,
    provider=st.sampled_from(["aws", "gcp"]),
    capacity=st.sampled_from(["on-demand", "spot"]),
    in_cloud=st.booleans(),
    reserved=st.integers(0, 4),
)
def test_any_suggested_stack_passes_check(
    wants: list[dict[str, Any]], provider: str, capacity: str, in_cloud: bool, reserved: int, tmp_path: Path
) -> None:
    reservations = [{**RESERVED[provider], "count": reserved}] if reserved else []
    found = _suggest(*wants, provider=provider, capacity=capacity, reservations=reservations)
    taken = sum(one.pool["count"]["desired"] for one in found.pools if one.reservation)
    assert taken + sum(found.unused.values()) == reserved
    cluster = CLUSTERS[provider] if in_cloud else SANDBOX
    assert refusals(stack_of(found, wants, cluster), tmp_path) == []
