"""GPU memory that workloads need, compared with the memory of GPUs, MIG instances, MPS shares and shared GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import BadInput, Problem
from tests.planning.conftest import PlanMaker, pool, team


def _problems(make_plan: PlanMaker, pools: list[dict[str, Any]], *workloads: dict[str, Any]) -> list[Problem]:
    by_mode = {
        "none": {"gpus": 8},
        "mig": {"mig": {"1g.10gb": 7}},
        "time-slicing": {"shared": 8},
        "mps": {"shared": 8},
    }
    granted = by_mode[pools[0].get("sharing", {}).get("mode", "none")]
    try:
        make_plan(*pools, teams=[team(quota=granted, workloads=list(workloads))], overcommit=10)
    except BadInput as error:
        return list(error.problems)
    return []


def _t4s(nodes: int = 1, **sharing: Any) -> dict[str, Any]:
    return pool("serve", "g4dn.xlarge", workload="inference", count={"desired": nodes}, sharing=sharing)


def test_eight_replicas_of_a_3_gb_model_do_not_fit_on_a_t4(make_plan: PlanMaker) -> None:
    serve = _t4s(mode="time-slicing", replicas=8)
    found = _problems(make_plan, [serve], {"name": "llm", "pool": "serve", "replicas": 8, "gpu_memory": "3GB"})
    assert [problem.path for problem in found] == ["teams[0].workloads[0].gpu_memory"]
    assert "8 x 2862 MiB (llm) = 22896 MiB" in found[0].found
    assert "at most 15360 MiB in all: Tesla T4" in found[0].allowed
    assert "write replicas: 5 in pools[0].sharing" in found[0].fix


def test_five_replicas_of_a_3_gb_model_fit_on_a_t4(make_plan: PlanMaker) -> None:
    serve = _t4s(mode="time-slicing", replicas=5)
    workload = {"name": "llm", "pool": "serve", "replicas": 5, "gpu_memory": "3GB"}
    assert _problems(make_plan, [serve], workload) == []


def test_pods_that_are_fewer_than_the_replicas_count_as_many_as_there_are(make_plan: PlanMaker) -> None:
    serve = _t4s(mode="time-slicing", replicas=8)
    workload = {"name": "llm", "pool": "serve", "replicas": 5, "gpu_memory": "3GB"}
    assert _problems(make_plan, [serve], workload) == []


def test_pods_of_two_workloads_that_may_meet_on_one_gpu_count_together(make_plan: PlanMaker) -> None:
    serve = _t4s(nodes=2, mode="time-slicing", replicas=3)
    big = {"name": "big", "pool": "serve", "replicas": 1, "gpu_memory": "10Gi"}
    small = {"name": "small", "pool": "serve", "replicas": 4, "gpu_memory": "4Gi"}
    found = _problems(make_plan, [serve], small, big)
    assert [problem.path for problem in found] == ["teams[0].workloads[1].gpu_memory"]
    assert "1 x 10240 MiB (big) + 2 x 4096 MiB (small) = 18432 MiB" in found[0].found


def test_an_mps_replica_has_its_part_of_the_memory_and_no_more(make_plan: PlanMaker) -> None:
    serve = _t4s(mode="mps", replicas=8)
    found = _problems(make_plan, [serve], {"name": "one", "pool": "serve", "replicas": 1, "gpu_memory": "3GB"})
    assert "at most 1920 MiB: Tesla T4, 1/8 of 15360 MiB for each MPS replica" in found[0].allowed
    assert found[0].fix == "write replicas: 5 or fewer in pools[0].sharing"
    assert (
        _problems(
            make_plan,
            [_t4s(mode="mps", replicas=5)],
            {"name": "one", "pool": "serve", "replicas": 5, "gpu_memory": "3GB"},
        )
        == []
    )


@pytest.mark.parametrize(("memory", "fits"), [("9Gi", True), ("12Gi", False)])
def test_an_instance_has_the_memory_of_its_profile(make_plan: PlanMaker, memory: str, fits: bool) -> None:
    cut = pool("cut", sharing={"mode": "mig", "layout": {"1g.10gb": 7}})
    found = _problems(make_plan, [cut], {"name": "lab", "pool": "cut", "gpu_memory": memory})
    assert [problem.path for problem in found] == ([] if fits else ["teams[0].workloads[0].gpu_memory"])


@pytest.mark.parametrize(("memory", "fits"), [("80GB", True), ("90GB", False)])
def test_a_whole_gpu_has_all_its_memory_whatever_the_number_of_gpus(
    make_plan: PlanMaker, memory: str, fits: bool
) -> None:
    workload = {"name": "big", "pool": "train", "gpus": 4, "gpu_memory": memory}
    found = _problems(make_plan, [pool()], workload)
    assert [problem.path for problem in found] == ([] if fits else ["teams[0].workloads[0].gpu_memory"])


@pytest.mark.parametrize("memory", ["10", 10, "ten", "-3GB", "0Gi", ""])
def test_gpu_memory_without_a_unit_or_above_zero_is_refused(make_plan: PlanMaker, memory: object) -> None:
    found = _problems(make_plan, [pool()], {"name": "big", "pool": "train", "gpu_memory": memory})
    assert [problem.path for problem in found] == ["teams[0].workloads[0].gpu_memory"]
    assert found[0].fix


def test_pods_that_meet_on_a_time_sliced_instance_share_its_memory(make_plan: PlanMaker) -> None:
    cut = pool("cut", "a2-ultragpu-1g", sharing={"mode": "mig", "layout": {"1g.10gb": 7}, "replicas": 3})
    found = _problems(make_plan, [cut], {"name": "lab", "pool": "cut", "gpu_memory": "4GB", "replicas": 7})
    told = [problem for problem in found if problem.path.endswith("gpu_memory")]
    assert len(told) == 1
    assert "may run on one 1g.10gb on NVIDIA A100-SXM4-80GB with 3 replicas" in told[0].found
    assert "at most 9728 MiB in all" in told[0].allowed
