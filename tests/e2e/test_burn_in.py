"""`gpu-platform burn-in` on the real API server and scheduler, with simulated results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from gpu_platform.burn_in.run import run_burn_in
from gpu_platform.planning.burn_in.section import LeastBandwidth
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from tests.e2e.conftest import Platform
from tests.e2e.transcripts import PLAIN, steady
from tests.support.command_line import Ran
from tests.support.eventually import eventually

pytestmark = [pytest.mark.long, pytest.mark.sandbox, pytest.mark.xdist_group("e2e-taints")]

NAMESPACE = "gpu-platform-burn-in"


@pytest.fixture
def measured(platform: Platform, base: dict[str, Any]) -> Iterator[Platform]:
    """The base stack with active checks and a second node in pool train. The first run tests all idle GPUs."""
    base["pools"][0]["count"] = {"desired": 2}
    base["pools"][0]["gate_nodes"] = "always"
    base["validation"] |= {"burn_in": {"matrix": "1s"}}
    if platform.state.get("shop") != base:
        ran = platform.up(base)
        assert ran.code == 0, ran.err
    platform.write(base)
    yield platform
    platform.write_faults()


def burn_in(platform: Platform, *options: str) -> Ran:
    file = str(platform.folder / "Pulumi.shop.yaml")
    return platform.run("burn-in", file, "--format", "json", *options)


def results(ran: Ran) -> dict[tuple[str, str], tuple[str, str]]:
    return {
        (node["node"], check["id"].removeprefix("burn-in-")): (check["verdict"], check["observed"])
        for node in ran.json["nodes"]
        for check in node["checks"]
        if check["id"].startswith("burn-in-")
    }


def idle_and_busy(platform: Platform) -> tuple[str, str]:
    """Return the node of pool train without team pods, and the node with team pods."""

    def busy() -> str:
        pods = platform.client.objects("v1", "Pod", namespace="vision")
        return next((pod["spec"].get("nodeName", "") for pod in pods), "")

    found = eventually(busy)
    return ("train-1", "train-0") if found == "train-0" else ("train-0", "train-1")


def test_an_idle_node_is_measured_a_busy_one_is_left_alone_and_nothing_stays(
    measured: Platform, snapshot: SnapshotAssertion
) -> None:
    idle, busy = idle_and_busy(measured)
    measured.env = PLAIN
    shown = measured.run("burn-in", str(measured.folder / "Pulumi.shop.yaml"), "--node", idle)
    assert steady(measured, shown.out + shown.err).replace(idle, "NODE") == snapshot
    before = [pod["metadata"]["uid"] for pod in measured.client.objects("v1", "Pod", namespace="vision")]
    ran = burn_in(measured)
    assert ran.code == 0, ran.out + ran.err
    found = results(ran)
    assert found[idle, "host-device"][0] == "pass"
    assert found[idle, "products"][0] == "pass"
    assert found[busy, "host-device"] == ("unknown", found[busy, "host-device"][1])
    assert "in use by vision/pretrain" in found[busy, "host-device"][1]
    after = [pod["metadata"]["uid"] for pod in measured.client.objects("v1", "Pod", namespace="vision")]
    assert before == after
    eventually(lambda: not list(measured.client.objects("batch/v1", "Job", namespace=NAMESPACE)))
    eventually(lambda: not list(measured.client.objects("v1", "Pod", namespace=NAMESPACE)))
    # `validate` reports the measured values.
    validated = measured.run("validate", str(measured.folder / "Pulumi.shop.yaml"), "--format", "json")
    assert validated.code == 0, validated.out
    assert results(validated)[idle, "all-reduce"][0] == "pass"
    assert results(validated)[busy, "all-reduce"][0] == "not-applicable"


def test_each_fault_that_only_an_active_check_shows_is_found(measured: Platform) -> None:
    idle, _ = idle_and_busy(measured)
    faults = [
        {"kind": "slow-host-link", "index": 2},
        {"kind": "slow-nvlink", "index": 5},
        {"kind": "wrong-products", "index": 1},
    ]
    measured.write_faults(**{idle: faults})
    seen: list[Ran] = []

    def failed() -> bool:
        seen.append(burn_in(measured, "--node", idle))
        return seen[-1].code == 1  # the exit code is 1 once the simulator has read the faults

    eventually(failed)
    found = results(seen[-1])
    assert found[idle, "host-device"][0] == "fail"
    assert found[idle, "host-device"][1].startswith("GPU 2: 5 GB/s")
    assert found[idle, "device-device"][0] == "fail"
    assert found[idle, "products"][0] == "fail"
    assert found[idle, "all-reduce"][0] == "fail"
    assert {node for node, _ in found} == {idle}
    validated = measured.run("validate", str(measured.folder / "Pulumi.shop.yaml"), "--format", "json")
    assert validated.code == 1, "a bad node stays bad until it is measured again"
    assert results(validated)[idle, "products"][0] == "fail"
    measured.write_faults()
    eventually(lambda: burn_in(measured, "--node", idle).code == 0)


def test_two_nodes_are_measured_together_and_a_slow_network_is_found(
    measured: Platform, base: dict[str, Any]
) -> None:
    base["teams"][0]["workloads"] = []
    assert measured.up(base).code == 0
    eventually(lambda: not list(measured.client.objects("v1", "Pod", namespace="vision")))
    plan = plan_platform(base, "shop")
    assert isinstance(plan, EnvironmentPlan)
    assert plan.burn_in is not None
    train = plan.burn_in.pools[0]
    assert train.alone is not None
    # Simulated nodes have no GPU NICs, so pods across two nodes request none.
    pod = replace(train.alone, env={**train.alone.env, "BURN_IN_PART": "nodes"})
    pair = replace(
        train,
        together=replace(pod, workload=replace(pod.workload, name="burn-in-train-nodes", replicas=2)),
        least={**train.least, "all-reduce-nodes": LeastBandwidth(gb_per_second=62, source="this test")},
    )
    told: list[str] = []
    records = run_burn_in(
        measured.client, plan, replace(plan.burn_in, pools=(pair,)), pools=[], nodes=[], tell=told.append
    )
    assert {record.node.name: record.together["nodes"] for record in records} == {
        "train-0": ["train-0", "train-1"],
        "train-1": ["train-0", "train-1"],
    }
    assert records[0].together["all_reduce"]["gb_per_second"] == 78.3
    assert "train-0, train-1: measured" in told


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--node", "train-9"), "--node: found train-9"),
        (("--pool", "serve"), "--pool: found serve, which is not measured"),
        (("--pool", "trian"), "did you mean 'train'?"),
    ],
)
def test_a_node_or_pool_that_cannot_be_measured_is_refused(
    measured: Platform, options: tuple[str, ...], message: str
) -> None:
    ran = burn_in(measured, *options)
    assert ran.code == 2
    assert message in " ".join(ran.err.split())
