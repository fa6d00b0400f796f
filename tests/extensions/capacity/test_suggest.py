"""Suggested pools have room for their workloads, keep trust domains apart, and cost what was computed by hand."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from extensions.capacity.suggest import Suggestion, suggest
from extensions.capacity.suggest.demands import Demands
from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from gpu_platform.planning.capacity import report_capacity
from gpu_platform.planning.nodes.allocatable import allocatable
from gpu_platform.stack.load import parse_document
from gpu_platform.stack.loaded import plan_platform
from tests.extensions.capacity.suggested import stack_of
from tests.support.size import size

_ADAPTER = TypeAdapter(Demands)


def _want(name: str = "chat", **rest: Any) -> dict[str, Any]:
    small = {
        "kind": "inference",
        "count": 1,
        "trust_domain": "a",
        "gpu_memory": "4GB",
        "cpu": "500m",
        "memory": "1Gi",
    }
    return {"name": name, **small, **rest}


def _suggest(*workloads: dict[str, Any], families: list[str] | None = None, **rest: Any) -> Suggestion:
    document = {"workloads": list(workloads), **rest}
    if families is not None:
        document["machine_families"] = families
    return suggest(parse_document(document, "workloads.yaml", _ADAPTER), "workloads.yaml", load_catalog())


def _pools(found: Suggestion) -> list[tuple[str, int, dict[str, Any]]]:
    return [
        (one.pool["machine_type"], one.pool["count"]["desired"], one.pool.get("sharing", {"mode": "none"}))
        for one in found.pools
    ]


def assert_planner_places(found: Suggestion, workloads: list[dict[str, Any]]) -> None:
    """Plan a stack with the suggested pools and a Deployment for each workload, and prove that the pods fit."""
    plan = plan_platform(stack_of(found, workloads), "suggested")
    assert plan.kind == "environment"
    report = report_capacity(plan, load_catalog())
    assert report.desired.proof.verdict == "placed"
    assert plan.cost.usd_per_hour == pytest.approx(found.usd_per_hour)
    held: Counter[str] = Counter()
    for one in found.pools:
        for pods in one.pods:
            held[pods.workload] += pods.pods
    assert held == Counter({each["name"]: each["count"] for each in workloads})


# The machine types, numbers of nodes and sharing modes that these tests expect are computed by hand.
@pytest.mark.parametrize(
    ("want", "families", "pools"),
    [
        # A T4 has 15 GiB, so five models of 3 GB fit on it. Eight models need two T4s, with four models each.
        (
            _want(count=8, gpu_memory="3GB", compute=0.1),
            ["g4dn"],
            [("g4dn.xlarge", 2, {"mode": "mps", "replicas": 4})],
        ),
        # Development pods take turns on a GPU.
        (
            _want(kind="development", count=8, gpu_memory="3GB", compute=0.1),
            ["g4dn"],
            [("g4dn.xlarge", 2, {"mode": "time-slicing", "replicas": 4})],
        ),
        # Pods with the objective latency never wait for time slices, even in development.
        (
            _want(kind="development", count=8, gpu_memory="3GB", compute=0.1, objective="latency"),
            ["g4dn"],
            [("g4dn.xlarge", 2, {"mode": "mps", "replicas": 4})],
        ),
        # Three pods that each need a third of a GPU's compute share one GPU, however little memory they need.
        (
            _want(count=3, gpu_memory="1GB", compute=0.33),
            ["g4dn"],
            [("g4dn.xlarge", 1, {"mode": "mps", "replicas": 3})],
        ),
        # Training jobs on one GPU share it only through MIG.
        (_want(kind="training", count=2, compute=0.5), ["g6"], [("g6.xlarge", 2, {"mode": "none"})]),
        # Training on several GPUs needs NVLink, but G6 and G6e have no NVLink.
        (
            _want(kind="training", gpus=4, count=2, gpu_memory="30GB"),
            ["g6e", "p4d"],
            [("p4d.24xlarge", 1, {"mode": "none"})],
        ),
        # For several GPUs without NVLink, the cheapest machine type is used.
        (_want(gpus=4, count=1, gpu_memory="20GB"), ["g6", "p4d"], [("g6.12xlarge", 1, {"mode": "none"})]),
        # Two pods with 3 CPUs need a g4dn.2xlarge (0.752 USD/h).
        # Pods can use only 3.92 CPUs of a g4dn.xlarge (0.526 USD/h).
        (
            _want(count=2, gpu_memory="1GB", compute=0.1, cpu="3"),
            ["g4dn"],
            [("g4dn.2xlarge", 1, {"mode": "mps", "replicas": 2})],
        ),
    ],
)
def test_the_cheapest_pools_equal_a_count_by_hand(
    want: dict[str, Any], families: list[str], pools: list[tuple[str, int, dict[str, Any]]]
) -> None:
    found = _suggest(want, families=families, provider="aws")
    assert _pools(found) == pools
    assert found.optimal
    assert_planner_places(found, [want])


def test_gpus_of_a_node_have_different_layouts_if_that_is_cheaper() -> None:
    # Computed by hand: 42 small pods fit on 6 GPUs, and 4 large pods on 2 GPUs.
    # With equal layouts, only 36 small pods fit.
    wants = [
        _want("small", count=42, gpu_memory="9GB", compute=0.1, cpu="1", memory="2Gi", trust_domain="a"),
        _want("large", count=4, gpu_memory="35GB", compute=0.4, cpu="1", memory="2Gi", trust_domain="b"),
    ]
    found = _suggest(*wants, families=["p4de"], provider="aws")
    ((machine, nodes, sharing),) = _pools(found)
    assert (machine, nodes) == ("p4de.24xlarge", 1)
    assert len(sharing["layouts"]) > 1
    assert sorted(device for entry in sharing["layouts"] for device in entry["devices"]) == list(range(8))
    assert found.usd_per_hour == pytest.approx(27.44705)
    assert found.optimal
    assert_planner_places(found, wants)


def test_gpus_of_an_own_machine_have_different_layouts_as_well() -> None:
    wants = [
        _want("small", count=42, gpu_memory="9GB", compute=0.1, cpu="1", memory="2Gi", trust_domain="a"),
        _want("large", count=4, gpu_memory="35GB", compute=0.4, cpu="1", memory="2Gi", trust_domain="b"),
    ]
    own = "dgx-a100-640gb"
    found = _suggest(*wants, families=[own], provider="on-prem", usd_per_hour={own: 10.0})
    ((machine, nodes, sharing),) = _pools(found)
    assert (machine, nodes) == (own, 1)
    assert len(sharing["layouts"]) > 1


def test_two_trust_domains_share_a_gpu_as_mig_instances_and_never_otherwise() -> None:
    wants = [
        _want("x", trust_domain="a", compute=0.1, count=3),
        _want("y", trust_domain="b", compute=0.1, count=4),
    ]
    cut = _suggest(*wants, families=["a2-ultragpu"])
    assert _pools(cut) == [("a2-ultragpu-1g", 1, {"mode": "mig", "layout": {"1g.10gb": 7}})]
    assert_planner_places(cut, wants)
    apart = _suggest(*wants, families=["g6"])
    # Computed by hand: with sharing, `y` needs one machine instead of four, and `x` one instead of three.
    assert sorted(_pools(apart), key=str) == [
        ("g6.xlarge", 1, {"mode": "mps", "replicas": 4}),
        ("g6.xlarge", 3, {"mode": "none"}),
    ]
    shared = next(one for one in apart.pools if "sharing" in one.pool)
    assert [taint["value"] for taint in shared.pool["taints"]] == ["b"]
    assert_planner_places(apart, wants)


def test_one_trust_domain_needs_no_taint() -> None:
    assert "taints" not in _suggest(_want(count=2, compute=0.5), families=["g6"]).pools[0].pool


def test_an_instance_gives_its_part_of_the_compute_and_no_more() -> None:
    want = _want(count=3, compute=0.2, gpu_memory="5GB", trust_domain="a")
    other = _want("y", count=1, compute=0.1, gpu_memory="5GB", trust_domain="b")
    found = _suggest(want, other, families=["a2-ultragpu"])
    (pool,) = found.pools
    assert {held.workload: held.slot for held in pool.pods} == {"chat": "2g.20gb", "y": "1g.10gb"}


def test_compute_that_was_measured_on_a_gpu_model_is_met_only_on_this_model() -> None:
    anywhere = _suggest(_want(compute=0.5, count=2), provider="aws")
    there = _suggest(_want(compute=0.5, count=2, measured_on="L40S"), provider="aws")
    assert anywhere.pools[0].pool["machine_type"].startswith("g4dn")
    assert there.pools[0].pool["machine_type"].startswith("g6e")


def test_the_next_best_avoids_the_machine_type_in_its_mode() -> None:
    found = _suggest(_want(count=8, gpu_memory="3GB", compute=0.1), families=["g4dn"], provider="aws")
    (pool,) = found.pools
    assert pool.next_best is not None
    assert "g4dn.xlarge (mps)" not in " ".join(pool.next_best.pools)
    assert pool.next_best.usd_per_hour >= pool.usd_per_hour
    # Computed by hand: two g4dn.2xlarge run five and three pods.
    # With whole GPUs, eight g4dn.xlarge are needed.
    assert pool.next_best.usd_per_hour == pytest.approx(2 * 0.752)


def test_without_another_way_there_is_no_next_best() -> None:
    found = _suggest(
        _want(kind="training", gpus=8, count=1, gpu_memory="70GB"), families=["p4de"], architecture="amd64"
    )
    assert found.pools[0].next_best is None


def test_without_a_provider_the_cheapest_is_chosen_and_the_others_are_listed() -> None:
    found = _suggest(_want(count=3, gpu_memory="20GB", compute=0.9))
    assert found.vendor == "gcp"  # both have one L4: g2-standard-4 for 0.71 USD/h, g6.xlarge for 0.80 USD/h
    assert set(found.others) == {"aws", "azure"}
    assert (found.others["aws"].usd_per_hour or 0) > found.usd_per_hour


def test_suggested_training_pools_of_azure_use_infiniband() -> None:
    found = _suggest(_want(kind="training", gpus=8, count=1, gpu_memory="70GB"), provider="azure")
    assert _pools(found) == [("Standard_ND96amsr_A100_v4", 1, {"mode": "none"})]
    assert "network" not in found.pools[0].pool


def test_unpriced_types_are_reported_and_a_given_price_includes_them() -> None:
    want = _want(kind="training", gpus=8, count=1, gpu_memory="70GB")
    with pytest.raises(BadInput, match="no known price of an allowed machine type"):
        _suggest(want, provider="on-prem")
    found = _suggest(want, provider="on-prem", usd_per_hour={"dgx-a100-640gb": 12.5})
    assert _pools(found) == [("dgx-a100-640gb", 1, {"mode": "none"})]
    assert found.usd_per_hour == 12.5
    assert "dgx-h100" in found.left_out


def test_more_nodes_are_taken_where_pods_fit_in_all_but_not_node_by_node() -> None:
    """Three pods with 5 GPUs and three pods with 3 GPUs fit on three nodes with 8 GPUs. Three pods with 5 GPUs and
    two pods with 4 GPUs need four nodes.
    """
    fits = [_want("five", gpus=5, count=3, gpu_memory="70GB"), _want("three", gpus=3, count=3, gpu_memory="70GB")]
    not_so = [_want("five", gpus=5, count=3, gpu_memory="70GB"), _want("four", gpus=4, count=2, gpu_memory="70GB")]
    assert _pools(_suggest(*fits, families=["p4de"])) == [("p4de.24xlarge", 3, {"mode": "none"})]
    found = _suggest(*not_so, families=["p4de"])
    assert _pools(found) == [("p4de.24xlarge", 4, {"mode": "none"})]
    assert found.optimal, "the bound takes into account that the pods do not fit node by node"


def test_no_more_pods_than_the_kubelet_runs_are_put_on_a_node() -> None:
    """On a node that allows 110 pods, 18 are reserved for DaemonSets. So 92 pods fit but 93 do not, however small
    the pods are.
    """
    tiny = _want(count=110, compute=0.1, gpu_memory="1GB", cpu="1m", memory="1Mi")
    found = _suggest(tiny, families=["a2-highgpu"])
    machines = load_catalog().machine_types
    most = 92
    for one in found.pools:
        assert sum(pods.pods for pods in one.pods) <= most * one.pool["count"]["desired"]
        assert machines[one.pool["machine_type"]].vendor == "gcp"
    assert_planner_places(found, [tiny])


@settings(max_examples=size(6, 200))
@given(
    count=st.integers(1, 14),
    memory=st.integers(1, 22),
    compute=st.sampled_from([0.1, 0.2, 0.3, 0.5, 1.0]),
    cpu=st.integers(1, 7),
    kind=st.sampled_from(["inference", "training"]),
)
def test_no_mix_of_machines_is_cheaper_for_one_workload_by_trying_them_all(
    count: int, memory: int, compute: float, cpu: int, kind: str
) -> None:
    catalog = load_catalog()
    machines = [one for one in catalog.machine_types.values() if one.name.split(".")[0] in ("g4dn", "g6")]
    holds: list[tuple[int, int]] = []  # price in millionths of a USD, pods per node
    for machine in machines:
        gpu = catalog.gpu_of(machine)
        each = min(gpu.memory_mib // (memory * 1024), int(1 / compute + 1e-9), 8) if kind == "inference" else 1
        each = each if memory * 1024 <= gpu.memory_mib else 0
        room = allocatable(machine)
        # The DaemonSets of EKS, of its volume drivers and of the program request 380m CPU and 488 MiB in total.
        # With EFA, they request 100m CPU and 50 MiB more.
        efa = (100, 50) if machine.rdma_interfaces else (0, 0)
        by_cpu = (room.cpu_millicores - 380 - efa[0]) // (cpu * 1000)
        by_memory = (room.memory_mib - 488 - efa[1]) // 1024
        pods = min(each * machine.gpu_count, by_cpu, by_memory)
        if pods:
            listed = catalog.price(machine, "us-east-1")
            assert listed is not None
            holds.append((round(listed.usd_per_hour * 1e6), pods))
    cheapest = [0] + [10**12] * count
    for wanted in range(1, count + 1):
        cheapest[wanted] = min(price + cheapest[max(0, wanted - pods)] for price, pods in holds)
    want = _want(count=count, gpu_memory=f"{memory}Gi", compute=compute, cpu=str(cpu), kind=kind)
    found = _suggest(want, families=["g4dn", "g6"])
    least = found.cheapest.usd_per_hour if found.cheapest is not None else found.usd_per_hour
    assert least == pytest.approx(cheapest[count] / 1e6, abs=1e-5)
    assert found.usd_per_hour <= least * 1.01 + 1e-5
    assert found.optimal


def _named(drawn: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give the drawn workloads names. A workload with several GPUs requires whole GPUs."""
    return [
        {**want, "name": f"w{index}", **({"compute": 1.0} if want["gpus"] > 1 else {})}
        for index, want in enumerate(drawn)
    ]


_WANTS = st.lists(
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["training", "inference", "development"]),
            "count": st.integers(1, 12),
            "trust_domain": st.sampled_from(["a", "b"]),
            "gpu_memory": st.integers(1, 38).map(lambda gib: f"{gib}Gi"),
            "compute": st.sampled_from([0.05, 0.14, 0.2, 0.3, 0.5, 1.0]),
            "objective": st.sampled_from(["latency", "throughput"]),
            "cpu": st.integers(1, 11).map(str),
            "memory": st.integers(1, 40).map(lambda gib: f"{gib}Gi"),
            "gpus": st.sampled_from([1, 1, 1, 2, 4]),
        }
    ),
    min_size=1,
    max_size=4,
).map(_named)


@settings(max_examples=size(5, 150))
@given(_WANTS)
def test_any_workloads_are_placed_by_the_planner_and_the_rules_hold(wants: list[dict[str, Any]]) -> None:
    found = _suggest(*wants, families=["a2-highgpu", "g2-standard"])
    by_name = {want["name"]: want for want in wants}
    for one in found.pools:
        held = [by_name[pods.workload] for pods in one.pods]
        mode = one.pool.get("sharing", {}).get("mode", "none")
        assert {want["kind"] for want in held} == {one.pool["workload"]}
        if mode in ("mps", "time-slicing"):
            assert len({want["trust_domain"] for want in held}) == 1
            assert all(want["kind"] != "training" and want["gpus"] == 1 for want in held)
            assert all(want["compute"] * one.pool["sharing"]["replicas"] <= 1 + 1e-9 for want in held)
        if mode == "time-slicing":
            assert all(want["kind"] == "development" and want["objective"] != "latency" for want in held)
        if any(want["kind"] == "training" and want["gpus"] > 1 for want in held):
            assert load_catalog().machine_types[one.pool["machine_type"]].nvlinks_per_gpu > 0
        if found.optimal and one.next_best is not None:
            spared = 0.01 * found.usd_per_hour if found.cheapest is not None else 0
            assert one.next_best.usd_per_hour >= one.usd_per_hour - spared - 1e-6
        assert one.reasons
    assert found.bound <= found.usd_per_hour + 1e-6
    assert_planner_places(found, wants)


def test_fewer_pools_are_preferred_within_one_percent_of_the_cheapest() -> None:
    # Computed by hand: three pods fit on an L4 (0.75 USD/h), and two pods on a T4 (0.526 USD/h).
    # A T4 is cheaper for the last two of 302 pods.
    want = _want(kind="development", count=302, gpu_memory="6Gi", compute=0.33)
    allowed: dict[str, Any] = {"families": ["g4dn", "g6"], "provider": "aws", "usd_per_hour": {"g6.xlarge": 0.75}}
    found = _suggest(want, **allowed)
    assert _pools(found) == [("g6.xlarge", 101, {"mode": "time-slicing", "replicas": 3})]
    assert found.usd_per_hour == pytest.approx(101 * 0.75)
    assert found.cheapest is not None
    assert found.cheapest.pools == ("100 x g6.xlarge (shared)", "1 x g4dn.xlarge (shared)")
    assert found.cheapest.usd_per_hour == pytest.approx(75.526)
    assert found.optimal


def test_more_pools_stay_where_fewer_cost_more_than_one_percent() -> None:
    want = _want(kind="development", count=32, gpu_memory="6Gi", compute=0.33)
    found = _suggest(want, families=["g4dn", "g6"], provider="aws", usd_per_hour={"g6.xlarge": 0.75})
    assert found.cheapest is None
    assert [nodes for _, nodes, _ in _pools(found)] == [10, 1]


def test_the_most_cost_effective_type_is_named_next_to_the_cheapest() -> None:
    """The A100 machine has 8 x 312 TFLOP/s at 27.44705 USD/h, which is 90.9 TFLOP/s per USD/h. The H100 machine
    has 8 x 989 TFLOP/s at 55.04 USD/h, which is 143.8.
    """
    job = _want(kind="training", gpu_memory="70GB", gpus=8, cpu="80", memory="500Gi")
    [pool] = _suggest(job, provider="aws", families=["p4de", "p5"]).pools
    assert (pool.pool["machine_type"], pool.throughput is not None) == ("p4de.24xlarge", True)
    assert pool.throughput is not None
    assert pool.throughput.tflops == 8 * 312
    assert pool.throughput.tflops_per_usd_hour == pytest.approx(90.9, abs=0.1)
    most = pool.throughput.most
    assert most is not None
    assert (most.machine_type, most.nodes) == ("p5.48xlarge", 1)
    assert (most.usd_per_hour, most.tflops_per_usd_hour) == (
        pytest.approx(55.04, abs=0.01),
        pytest.approx(143.8, abs=0.2),
    )


def test_a_cheapest_pool_with_the_most_work_for_the_money_names_no_other() -> None:
    job = _want(kind="training", gpu_memory="70GB", gpus=8, cpu="80", memory="500Gi")
    [pool] = _suggest(job, provider="aws", families=["p5"]).pools
    assert pool.throughput is not None
    assert pool.throughput.most is None


def test_a_pool_of_shares_has_no_throughput() -> None:
    [pool] = _suggest(_want(compute=0.2), provider="aws", families=["g6"]).pools
    assert pool.throughput is None
