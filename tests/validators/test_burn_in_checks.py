"""Results of active checks become report entries, whose verdict is pass, fail, not-applicable or unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_platform.burn_in.nodes import node_states, pairs_of
from gpu_platform.burn_in.run import result_of
from gpu_platform.planning.burn_in.section import BurnInPoolPlan
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from sandbox.nvml import NodeProfile
from sandbox.simulator.burn_in import measured
from tests.stack.field_cases import STACKS
from validators.burn_in import burn_in_checks, records_of
from validators.result import CheckResult

WHEN = "2026-11-25T19:00:00+00:00"


def pool(machine_type: str = "p5.48xlarge", **more: Any) -> BurnInPoolPlan:
    stack = STACKS["eks"]
    one = {**stack["pools"][0], "machine_type": machine_type, **more}
    plan = plan_platform({**stack, "pools": [one], "validation": {"burn_in": {}}}, "test")
    assert isinstance(plan, EnvironmentPlan)
    assert plan.burn_in is not None
    return plan.burn_in.pools[0]


def record(alone: dict[str, Any], together: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"node_uid": "u", "time": WHEN, "alone": alone, "together": together or {}}


def healthy(**changed: Any) -> dict[str, Any]:
    """Return the results that the burn-in program writes on a healthy p5.48xlarge."""
    result: dict[str, Any] = {
        "version": 1,
        "gpus": 8,
        "network": "",
        "host_to_device": [55.3] * 8,
        "device_to_host": [54.8] * 8,
        "device_to_device": [372.0] * 8,
        "wrong_products": [0] * 8,
        "products": ["5c1d"] * 8,
        "tflops": [612.0] * 7 + [598.4],
        "all_reduce": {"gb_per_second": 476.0, "bytes": 8589934592, "right": True},
    }
    return result | changed


def between(speed: float, network: str = "AWS Libfabric", *, right: bool = True) -> dict[str, Any]:
    reduced = {"gb_per_second": speed, "bytes": 8589934592, "right": right}
    return {"version": 1, "network": network, "all_reduce": reduced, "nodes": ["a", "b"]}


def checks(found: dict[str, Any] | None, of: BurnInPoolPlan | None = None) -> dict[str, CheckResult]:
    return {check.id.removeprefix("burn-in-"): check for check in burn_in_checks(found, of or pool(), "u")}


def verdicts(found: dict[str, CheckResult]) -> dict[str, str]:
    return {name: check.verdict for name, check in found.items()}


def test_a_healthy_node_passes_all_of_them() -> None:
    # 487.09 is from AWS's output of nccl-tests on two p5.48xlarge, 16 GiB (micro-benchmarks/nccl-tests/README.md).
    # 475.97 is from AWS's output for one node (aws-batch/README.md, 4 GiB).
    # Both files are in awsome-distributed-training, commit 0edaf152.
    reduced = {"gb_per_second": 475.97, "bytes": 4294967296, "right": True}
    found = checks(record(healthy(all_reduce=reduced), between(487.09)))
    assert set(verdicts(found).values()) == {"pass"}
    assert found["products"].observed == f"equal, 598.4 to 612 TFLOP/s ({WHEN})"
    assert found["all-reduce-nodes"].observed == f"487.09 GB/s between a, b over AWS Libfabric ({WHEN})"
    assert "azurehpc" in found["host-device"].source


def test_a_slow_gpu_is_named_with_its_figure_and_a_remedy() -> None:
    slow = healthy(host_to_device=[55.3] * 3 + [12.1] + [55.3] * 4, device_to_device=[372.0] * 7 + [25.0])
    found = checks(record(slow, between(487.0)))
    assert found["host-device"].verdict == "fail"
    assert found["host-device"].device == "GPU 3"
    assert found["host-device"].expected == "at least 48 GB/s"
    assert found["host-device"].observed.startswith("GPU 3: 12.1 GB/s")
    assert "pcie-width" in found["host-device"].remediation
    assert found["device-device"].device == "GPU 7"
    assert found["device-device"].remediation


def test_a_changed_product_or_a_differing_gpu_fails_the_node() -> None:
    bad = healthy(wrong_products=[0, 2] + [0] * 6, products=["5c1d"] * 5 + ["ffff"] + ["5c1d"] * 2)
    found = checks(record(bad, between(487.0)))["products"]
    assert (found.verdict, found.severity, found.device) == ("fail", "critical", "GPUs 1, 5")
    assert "GPU 1: 2 products changed" in found.observed
    assert "GPU 5: a different product from the other GPUs" in found.observed


@pytest.mark.parametrize(
    ("together", "observed"),
    [
        (between(120.0), "120 GB/s"),
        (between(487.0, right=False), "another sum"),
        (between(3.1, "Socket"), "NCCL over TCP between a, b ("),
    ],
)
def test_a_slow_wrong_or_missing_network_fails(together: dict[str, Any], observed: str) -> None:
    found = checks(record(healthy(), together))["all-reduce-nodes"]
    assert found.verdict == "fail"
    assert found.observed.startswith(observed)
    assert found.remediation


def test_what_was_not_measured_is_unknown_and_holds_nothing_up() -> None:
    found = checks(record({"not_run": "its GPUs are in use by vision/pretrain-0"}, {"error": "NCCL timeout"}))
    assert set(verdicts(found).values()) == {"unknown"}
    assert {check.severity for check in found.values()} == {"warning"}
    assert "in use by vision/pretrain-0" in found["host-device"].observed
    assert "NCCL timeout" in found["all-reduce-nodes"].observed


def test_a_result_of_fewer_gpus_or_another_program_is_no_pass() -> None:
    fewer = healthy(host_to_device=[55.3] * 7)
    assert checks(record(fewer, between(487.0)))["host-device"].verdict == "unknown"
    assert set(verdicts(checks(record(healthy(version=2), between(487.0)))).values()) == {"unknown", "pass"}


@pytest.mark.parametrize("found", [None, {"node_uid": "uid-of-an-earlier-node", "time": WHEN, "alone": healthy()}])
def test_a_node_that_was_never_measured_is_not_applicable(found: dict[str, Any] | None) -> None:
    results = checks(found)
    assert set(verdicts(results).values()) == {"not-applicable"}
    assert results["host-device"].observed == "not run yet: use gpu-platform burn-in"


def test_without_a_published_limit_the_figure_is_shown_and_decides_nothing() -> None:
    g6 = pool("g6.48xlarge")
    found = checks(record(healthy(device_to_device=[11.0] * 8), between(5.0)), g6)
    assert found["device-device"].verdict == "not-applicable"
    assert found["device-device"].observed.startswith("11 GB/s; no minimum bandwidth is published")
    assert found["products"].verdict == "pass"


def test_a_pool_that_is_not_measured_says_why() -> None:
    found = checks(None, replace(pool(), skipped="MIG instances have no NVLink"))
    assert set(verdicts(found).values()) == {"not-applicable"}
    assert found["all-reduce"].observed == "MIG instances have no NVLink"


@pytest.mark.parametrize(
    "machine_type", ["p3dn.24xlarge", "p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge", "p5en.48xlarge"]
)
def test_simulated_healthy_nodes_reach_the_published_limits(machine_type: str) -> None:
    profile = NodeProfile(machine_type=machine_type, driver_version="580.105.08")
    from gpu_platform.catalog import load_catalog

    catalog = load_catalog()
    alone, together = (measured(profile, catalog, nodes=nodes) for nodes in (1, 2))
    found = checks(record(alone, {**together, "nodes": ["a", "b"]}), pool(machine_type))
    assert "fail" not in verdicts(found).values()
    assert verdicts(found)["host-device"] == "pass"


def terminated(message: str, code: int = 0, **pod: Any) -> dict[str, Any]:
    end = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed", "message": message}}
    return {"status": {"containerStatuses": [{"state": end}], **pod}}


def test_the_result_of_a_job_is_the_last_message_of_the_pod_that_had_it() -> None:
    assert result_of([terminated(""), terminated('{"version":1,"gpus":16}')], None) == {"version": 1, "gpus": 16}


def test_a_failed_job_says_why() -> None:
    failed = {"type": "Failed", "reason": "BackoffLimitExceeded", "message": "Job has reached its backoff limit"}
    assert result_of([terminated("ImportError: no torch", 1)], failed) == {
        "error": "exit code 1: ImportError: no torch"
    }
    assert result_of([terminated('{"version":1,"error":"CUDA error"}', 1)], failed)["error"] == "CUDA error"
    late = {**failed, "reason": "DeadlineExceeded"}
    assert result_of([], late) == {"error": "did not finish within validation.burn_in.timeout"}
    moved = terminated("", 143, conditions=[{"type": "DisruptionTarget", "status": "True"}])
    assert result_of([moved], failed) == {"not_run": "pods were preempted, evicted, or lost with their node"}
    assert result_of([], failed) == {"error": "Job has reached its backoff limit"}


def node(name: str, *, ready: bool = True) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": str(ready)}]
    return {"metadata": {"name": name, "uid": name, "labels": {"p": "a"}}, "status": {"conditions": conditions}}


def pod(name: str, on: str, **spec: Any) -> dict[str, Any]:
    status = {"phase": spec.pop("phase", "Running")}
    return {"metadata": {"name": name, "namespace": "t"}, "spec": {"nodeName": on, **spec}, "status": status}


def test_nodes_whose_gpus_are_requested_or_claimed_are_busy() -> None:
    gpus = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
    claim = {
        "metadata": {"name": "c", "namespace": "t"},
        "status": {"allocation": {"devices": {"results": [{"device": "gpu-0"}]}}},
    }
    seen = {
        "metadata": {"name": "agent", "namespace": "t"},
        "status": {"allocation": {"devices": {"results": [{"device": "gpu-0", "adminAccess": True}]}}},
    }
    pods = [
        pod("asks", "n1", **gpus),
        pod("ended", "n2", phase="Succeeded", **gpus),
        pod("claims", "n3", resourceClaims=[{"name": "x", "resourceClaimName": "c"}]),
        pod("agent", "n4", resourceClaims=[{"name": "x", "resourceClaimName": "agent"}]),
    ]
    nodes = [node("n5", ready=False), *(node(f"n{number}") for number in range(1, 5))]
    states = {state.name: state.busy for state in node_states(nodes, pods, [claim, seen], {"p": "a"})}
    assert states == {
        "n1": "its GPUs are in use by t/asks",
        "n2": "",
        "n3": "its GPUs are in use by t/claims",
        "n4": "",
        "n5": "the node is not ready",
    }
    assert node_states(nodes, [], [], {"p": "b"}) == []


def test_nodes_are_paired_and_an_odd_one_joins_the_last_pair() -> None:
    assert pairs_of(["a"]) == []
    assert pairs_of(["a", "b", "c", "d"]) == [("a", "b"), ("c", "d")]
    assert pairs_of(["a", "b", "c", "d", "e"]) == [("a", "b"), ("c", "d", "e")]
    assert pairs_of(["a", "b", "c"]) == [("a", "b", "c")]


def test_records_are_read_by_the_name_of_their_config_map() -> None:
    maps = [
        {"metadata": {"name": "burn-in-n1"}, "data": {"record.json": '{"node": "n2"}'}},
        {"metadata": {"name": "burn-in-n3"}, "data": {"record.json": "{"}},
    ]
    assert list(records_of(maps)) == ["n1"]
