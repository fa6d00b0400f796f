"""If the time limit is reached, the report contains the best mix found so far and its gap to the lower bound.

The limit never makes a workload impossible.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from extensions.capacity.suggest import Suggestion, suggest
from extensions.capacity.suggest.demands import Demands
from gpu_platform.catalog import load_catalog
from gpu_platform.stack.load import parse_document
from gpu_platform.stack.loaded import plan_platform
from tests.extensions.capacity.suggested import stack_of
from tests.support.size import size

_ADAPTER = TypeAdapter(Demands)


def _suggest(workloads: list[dict[str, Any]], seconds: float, **rest: Any) -> Suggestion:
    demands = parse_document({"workloads": workloads, **rest}, "workloads.yaml", _ADAPTER)
    return suggest(demands, "workloads.yaml", load_catalog(), seconds=seconds)


def _want(name: str = "chat", **rest: Any) -> dict[str, Any]:
    return {
        "name": name,
        "kind": "inference",
        "count": 3,
        "trust_domain": "a",
        "gpu_memory": "3Gi",
        "cpu": "500m",
        "memory": "1Gi",
        **rest,
    }


def test_without_any_time_each_provider_has_a_mix_and_its_gap() -> None:
    found = _suggest([_want(compute=0.3), _want("rank", count=5, compute=0.2)], 0)
    assert found.timed_out
    assert not found.optimal
    assert 0 < found.bound < found.usd_per_hour
    assert all(other.usd_per_hour is not None and not other.unfit for other in found.others.values())


def test_a_provider_without_a_fitting_machine_is_unfit_without_time() -> None:
    # Only a2-megagpu-16g of Google Cloud has 16 GPUs in one machine.
    found = _suggest([_want(), _want("wide", gpus=16, count=1)], 0)
    assert found.vendor == "gcp"
    assert found.others["aws"].usd_per_hour is None
    assert found.others["aws"].unfit == ("wide",)


def test_with_time_the_same_workloads_are_not_said_to_have_run_out_of_it() -> None:
    found = _suggest([_want(compute=0.3)], 60, machine_families=["g4dn"])
    assert found.optimal
    assert not found.timed_out


@settings(max_examples=size(4, 100))
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "kind": st.sampled_from(["inference", "training", "development"]),
                "count": st.integers(1, 9),
                "trust_domain": st.sampled_from(["a", "b"]),
                "compute": st.sampled_from([0.1, 0.3, 1.0]),
                "cpu": st.sampled_from(["1", "5"]),
            }
        ),
        min_size=1,
        max_size=4,
    )
)
def test_a_result_without_time_plans_and_its_bound_is_not_too_high(
    drawn: list[dict[str, Any]],
) -> None:
    wants = [_want(f"w{index}", **want) for index, want in enumerate(drawn)]
    families = {"machine_families": ["g2-standard", "a2-highgpu"]}
    cut, whole = _suggest(wants, 0, **families), _suggest(wants, 60, **families)
    plan_platform(stack_of(cut, wants), "suggested")
    assert whole.optimal
    assert cut.bound <= whole.usd_per_hour + 1e-6
    assert whole.usd_per_hour <= cut.usd_per_hour + 1e-6
    assert sum(pods.pods for one in cut.pools for pods in one.pods) == sum(want["count"] for want in wants)
