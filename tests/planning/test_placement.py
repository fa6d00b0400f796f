"""The placement planner: what it places fits, nothing is above its bound, small cases are as good as can be."""

from __future__ import annotations

import time
from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_platform.planning.placement import WHOLE_GPU, NodeShape, OnlinePlacer, PodShape, pack
from gpu_platform.planning.placement.master import Master
from gpu_platform.planning.placement.pricing import Pricing
from tests.support.size import size

WORK = 50_000_000
"""Enough for the fleets of these tests to converge."""

NODES = st.lists(
    st.builds(
        NodeShape,
        st.sampled_from([16000, 32000, 96000]),
        st.sampled_from([65536, 131072, 393216]),
        st.sampled_from([1, 2, 4, 8]),
        st.sampled_from(["A", "B"]),
    ),
    min_size=1,
    max_size=6,
)
MODELS = st.sampled_from([(), (), ("A",), ("B",), ("A", "B")])
CPU, MEMORY = st.integers(0, 24).map(lambda cores: cores * 500), st.sampled_from([0, 4096, 30000, 98304])
PODS = st.lists(
    st.one_of(
        st.builds(PodShape, CPU, MEMORY, st.just(1), st.sampled_from([50, 130, 320, 470, 810]), MODELS),
        st.builds(PodShape, CPU, MEMORY, st.sampled_from([1, 1, 2, 4, 8]), st.just(WHOLE_GPU), MODELS),
        st.builds(PodShape, CPU, MEMORY, st.just(0), st.just(0)),
    ),
    max_size=40,
)


class Ledger:
    """Books pods on nodes by itself, and fails on any that does not fit."""

    def __init__(self, nodes: list[NodeShape]) -> None:
        self.nodes = nodes
        self.cpu = [node.cpu_milli for node in nodes]
        self.memory = [node.memory_mib for node in nodes]
        self.free = [[WHOLE_GPU] * node.gpus for node in nodes]

    def book(self, pod: PodShape, node: int, gpus: tuple[int, ...]) -> None:
        assert len(set(gpus)) == pod.gpus
        assert not pod.gpus or not pod.models or self.nodes[node].model in pod.models
        self.cpu[node] -= pod.cpu_milli
        self.memory[node] -= pod.memory_mib
        for gpu in gpus:
            self.free[node][gpu] -= pod.gpu_milli
        assert self.cpu[node] >= 0
        assert self.memory[node] >= 0
        assert min(self.free[node]) >= 0


@given(NODES, PODS)
@settings(max_examples=size(25, 600))
def test_a_packing_overfills_no_node_and_is_not_above_its_bound(nodes: list[NodeShape], pods: list[PodShape]):
    packing = pack(nodes, pods, work=WORK)
    ledger = Ledger(nodes)
    for one in packing.placed:
        ledger.book(pods[one.pod], one.node, one.gpus)
    assert len({one.pod for one in packing.placed}) == len(packing.placed)
    assert packing.allocated_milli == sum(pods[one.pod].demand_milli for one in packing.placed)
    assert packing.allocated_milli <= packing.bound_milli
    assert packing.bound_milli <= min(packing.capacity_milli, sum(pod.demand_milli for pod in pods))


@given(NODES, PODS)
@settings(max_examples=size(25, 600))
def test_pods_placed_one_by_one_overfill_no_node_and_are_turned_away_only_where_none_has_room(
    nodes: list[NodeShape], pods: list[PodShape]
):
    placer, ledger = OnlinePlacer(nodes, Counter(pods)), Ledger(nodes)
    for pod in pods:
        place = placer.place(pod)
        if place is not None:
            ledger.book(pod, place.node, place.gpus)
            continue
        for index, node in enumerate(nodes):
            enough = sum(milli >= pod.gpu_milli for milli in ledger.free[index]) >= pod.gpus
            assert (
                not enough
                or ledger.cpu[index] < pod.cpu_milli
                or ledger.memory[index] < pod.memory_mib
                or not pod.accepts(node.model)
            )


def test_a_bound_that_the_prices_of_the_linear_program_give_is_not_below_a_packing_that_exists():
    # With limits on both sides of its rows the linear program had negative prices here: 9330 placed, bound 9315.
    nodes = [
        *[NodeShape(96000, 131072, 1, "B")] * 2,
        NodeShape(16000, 393216, 1, "A"),
        NodeShape(32000, 131072, 8, "A"),
        NodeShape(32000, 393216, 1, "B"),
        NodeShape(16000, 393216, 1, "B"),
    ]
    pods = [
        PodShape(6000, 98304, 2, WHOLE_GPU, ("A",)),
        PodShape(1000, 30000, 1, 810, ("B",)),
        PodShape(5500, 30000, 1, 50, ("A", "B")),
        PodShape(10000, 30000, 1, 50, ("A",)),
        PodShape(5000, 4096, 2, WHOLE_GPU, ("B",)),
        PodShape(0, 0, 8, WHOLE_GPU, ("A",)),
        PodShape(8500, 98304, 1, 320, ("A",)),
        PodShape(10500, 4096, 1, 470, ("A",)),
    ]
    packing = pack(nodes, pods, work=WORK)
    assert packing.allocated_milli == 8000 + 810 + 470 + 50
    assert packing.bound_milli >= packing.allocated_milli
    assert packing.bound_by == "prices"
    assert packing.converged


def test_a_packing_does_not_depend_on_the_clock(monkeypatch: pytest.MonkeyPatch):
    nodes = [NodeShape(32000, 131072, 4, "A")] * 3
    pods = [PodShape(500 * number, 4096, 1, 50 * number + 100) for number in range(1, 18)] * 2
    first = pack(nodes, pods, work=WORK)
    for clock in ("monotonic", "perf_counter", "time", "process_time"):
        monkeypatch.setattr(time, clock, lambda: pytest.fail("the search reads a clock"))
    second = pack(nodes, pods, work=WORK)
    monkeypatch.undo()
    assert first == second


def test_a_search_with_too_little_work_says_that_its_bound_may_be_lower():
    nodes = [NodeShape(32000, 131072, 8, "A"), NodeShape(96000, 131072, 4, "B")] * 3
    pods = [PodShape(700 * number, 4096, 1, 50 * number + 100) for number in range(1, 18)] * 4
    little, enough = pack(nodes, pods, work=1), pack(nodes, pods, work=20 * WORK)
    assert not little.converged
    assert enough.converged
    assert little.bound_milli >= enough.bound_milli >= enough.allocated_milli


def test_shares_are_paired_so_that_gpus_come_out_full():
    nodes = [NodeShape(64000, 262144, 4)]
    pods = [PodShape(1000, 1024, 1, milli) for milli in (810, 190, 530, 470, 650, 350, 320, 230, 450)]
    packing = pack(nodes, pods, work=WORK)
    assert packing.allocated_milli == 4 * WHOLE_GPU
    assert packing.bound_milli == 4 * WHOLE_GPU


def test_pods_that_need_much_cpu_go_where_there_is_much_cpu_for_each_gpu():
    # Four GPUs want 24 CPUs each, four want 8: only one way of mixing them uses all eight GPUs.
    nodes = [NodeShape(64000, 262144, 4)] * 2
    pods = [PodShape(24000, 1024, 1, WHOLE_GPU)] * 4 + [PodShape(8000, 1024, 1, WHOLE_GPU)] * 4
    assert pack(nodes, pods, work=WORK).share == 1


def test_memory_limits_a_packing_too():
    nodes = [NodeShape(64000, 100000, 4)]
    pods = [PodShape(1000, 40000, 1, WHOLE_GPU)] * 4
    assert pack(nodes, pods, work=WORK).allocated_milli == 2 * WHOLE_GPU


def test_pods_that_ask_for_a_model_run_on_that_model_only():
    nodes = [NodeShape(8000, 8192, 1, "T4"), NodeShape(8000, 8192, 1, "A10")]
    pods = [PodShape(1000, 1024, 1, WHOLE_GPU, ("A10",))] * 2
    packing = pack(nodes, pods, work=WORK)
    assert [one.node for one in packing.placed] == [1]


@pytest.mark.parametrize(("gpus", "pods"), list(product([1, 2], [2, 3, 4])))
def test_small_packings_are_as_good_as_trying_everything(gpus: int, pods: int):
    nodes = [NodeShape(10000, 65536, gpus)] * 2
    waiting = [
        PodShape(cpu, 1024, 1, milli) for cpu, milli in [(6000, 700), (5000, 600), (3000, 400), (2000, 300)]
    ][:pods]

    def most(left: tuple[PodShape, ...], free: tuple[tuple[int, tuple[int, ...]], ...]) -> int:
        if not left:
            return 0
        pod, rest = left[0], left[1:]
        best = most(rest, free)
        for index, (cpu, shares) in enumerate(free):
            for gpu, milli in enumerate(shares):
                if cpu >= pod.cpu_milli and milli >= pod.gpu_milli:
                    taken = (*shares[:gpu], milli - pod.gpu_milli, *shares[gpu + 1 :])
                    after = (*free[:index], (cpu - pod.cpu_milli, taken), *free[index + 1 :])
                    best = max(best, pod.demand_milli + most(rest, after))
        return best

    free = tuple((node.cpu_milli, (WHOLE_GPU,) * node.gpus) for node in nodes)
    packing, best_of_all = pack(nodes, waiting, work=WORK), most(tuple(waiting), free)
    assert packing.allocated_milli == best_of_all
    assert packing.bound_milli >= best_of_all


def test_a_pod_that_nobody_expected_is_an_error_and_not_a_guess():
    placer = OnlinePlacer([NodeShape(8000, 8192, 1)], {PodShape(1000, 1024, 1, 500): 1})
    with pytest.raises(KeyError):
        placer.place(PodShape(1000, 1024, 1, 501))


def test_pods_without_gpus_leave_the_cpu_that_free_gpus_need():
    # One node has CPU for its GPUs and no more, the other has twice that.
    nodes = [NodeShape(64000, 262144, 8), NodeShape(128000, 262144, 8)]
    service, training = PodShape(16000, 1024, 0, 0), PodShape(8000, 1024, 1, WHOLE_GPU)
    placer = OnlinePlacer(nodes, {service: 2, training: 16})
    places = [placer.place(pod) for pod in [service] * 2 + [training] * 16]
    assert [place.node for place in places[:2] if place] == [1, 1]
    assert None not in places


def test_cpu_that_pods_without_gpus_find_elsewhere_is_not_kept_beside_gpus():
    # All CPU over all GPUs is 5.2 each, of which the first node has 4 and so seems in want: the small pod would go
    # there. Without the service, which has room on the second, pods take 3.6 a GPU, and both pairs fit the first.
    nodes = [NodeShape(16000, 65536, 4), NodeShape(32000, 65536, 1)]
    service, small = PodShape(8000, 1024, 0, 0), PodShape(2000, 1024, 1, WHOLE_GPU)
    pair = PodShape(8000, 1024, 2, WHOLE_GPU)
    placer = OnlinePlacer(nodes, {service: 1, small: 1, pair: 2})
    places = [placer.place(pod) for pod in (service, small, pair, pair)]
    assert [place and place.node for place in places] == [1, 1, 0, 0]


def test_cpu_of_pods_without_gpus_is_kept_where_the_nodes_have_little_to_spare():
    # They take 64 of the 76 CPUs that pods with GPUs leave. Two services and two small pods on one node, as if the
    # CPU of services did not count, would leave the other node CPU for one large pod only.
    nodes = [NodeShape(64000, 65536, 2)] * 2
    service, small = PodShape(16000, 1024, 0, 0), PodShape(2000, 1024, 1, WHOLE_GPU)
    large = PodShape(24000, 1024, 1, WHOLE_GPU)
    placer = OnlinePlacer(nodes, {service: 4, small: 2, large: 2})
    places = [placer.place(pod) for pod in [service] * 4 + [small] * 2 + [large] * 2]
    assert None not in places


def test_two_pods_of_a_kind_that_differ_in_cpu_are_one_request_of_gpus_and_both_are_thought_of():
    # On the second node the first pod leaves no CPU for the other kind; on the first it does.
    nodes = [NodeShape(10000, 262144, 2), NodeShape(13000, 262144, 2)]
    small, large = PodShape(1000, 1024, 1, WHOLE_GPU), PodShape(12000, 1024, 1, WHOLE_GPU)
    placer = OnlinePlacer(nodes, {small: 1, large: 1})
    places = [placer.place(pod) for pod in (small, large)]
    assert [place.node for place in places if place] == [0, 1]


def test_pods_that_accept_one_model_alone_are_bounded_by_the_gpus_of_that_model():
    nodes = [NodeShape(8000, 8192, 1, "T4")] * 2 + [NodeShape(8000, 8192, 1, "A10")] * 4
    pods = [PodShape(1000, 1024, 1, WHOLE_GPU, ("T4",))] * 5
    packing = pack(nodes, pods, work=1)
    assert packing.allocated_milli == packing.bound_milli == 2 * WHOLE_GPU
    assert packing.bound_by == "pools"


@given(NODES, PODS)
@settings(max_examples=size(20, 400))
def test_a_packing_is_no_worse_than_pods_placed_one_by_one_from_the_largest(
    nodes: list[NodeShape], pods: list[PodShape]
):
    largest_first = sorted((pod for pod in pods if pod.gpus), key=lambda pod: (-pod.demand_milli, -pod.cpu_milli))
    placer = OnlinePlacer(nodes, Counter(pods), spare_cpu=False)
    one_by_one = sum(pod.demand_milli for pod in largest_first if placer.place(pod) is not None)
    assert pack(nodes, pods, work=WORK).allocated_milli >= one_by_one


def test_pods_that_few_gpus_suit_get_them_before_pods_that_any_suit():
    nodes = [NodeShape(64000, 262144, 8, "T4"), NodeShape(64000, 262144, 8, "A10")]
    any_gpu, t4 = PodShape(1000, 1024, 1, WHOLE_GPU), PodShape(1000, 1024, 1, WHOLE_GPU, ("T4",))
    assert pack(nodes, [any_gpu] * 8 + [t4] * 8, work=WORK).share == 1


def test_nodes_of_a_model_are_packed_anew_with_what_has_no_place():
    # One by one the T4 gets what no other may run, 780 of it, and the whole search has no work to find better.
    nodes = [NodeShape(64000, 262144, 1, "T4"), NodeShape(64000, 262144, 2, "A10")]
    pods = [
        *(PodShape(1000, 1024, 1, milli) for milli in (810, 530, 530, 470)),
        *(PodShape(1000, 1024, 1, milli, ("T4",)) for milli in (320, 230, 230)),
    ]
    packing = pack(nodes, pods, work=1)
    # 810, 530 + 470 and, on the T4, 530 + 230 + 230.
    assert packing.allocated_milli == 810 + 1000 + 990


def test_what_pods_could_do_on_gpus_of_any_model_bounds_what_they_do_on_those_they_accept():
    # Without work, the prices of pods by model bound no more than 4000, which is every GPU.
    nodes = [NodeShape(12000, 262144, 1, "T4")] * 2 + [NodeShape(16000, 262144, 1, "A10")] * 2
    pods = [
        PodShape(6000, 1024, 1, 810, ("A10",)),
        PodShape(1000, 1024, 1, 650),
        *[PodShape(4000, 1024, 1, 650, ("T4",))] * 2,
        PodShape(3000, 1024, 1, 530, ("A10",)),
        PodShape(6000, 1024, 1, 350, ("T4",)),
        PodShape(6000, 1024, 1, 320),
        PodShape(6000, 1024, 1, 320, ("T4",)),
    ]
    packing = pack(nodes, pods, work=1)
    assert packing.bound_by == "prices"
    assert packing.allocated_milli <= packing.bound_milli < 4 * WHOLE_GPU


def test_nodes_with_most_gpu_free_are_packed_anew_together():
    # Model by model, what is on the other model stays there: 3690.
    nodes = [*(NodeShape(cpu, 32768, 1, "T4") for cpu in (16000, 24000)), NodeShape(8000, 32768, 2, "A10")]
    pods = [
        PodShape(2000, 8192, 1, 530, ("A10",)),
        PodShape(2000, 1024, 1, 810),
        PodShape(2000, 1024, 1, 470),
        PodShape(2000, 12288, 1, 470),
        PodShape(4000, 12288, 1, 350, ("A10",)),
        PodShape(4000, 1024, 1, 470),
        PodShape(4000, 8192, 1, WHOLE_GPU, ("A10",)),
        PodShape(6000, 1024, 1, WHOLE_GPU, ("A10",)),
        PodShape(4000, 12288, 1, 470),
        PodShape(1000, 8192, 1, 350, ("T4",)),
    ]
    assert pack(nodes, pods, work=2_000_000).allocated_milli >= 3760


def test_coarse_amounts_of_cpu_are_those_by_which_pods_lose_least():
    kind, odd = PodShape(12000, 1024, 1, WHOLE_GPU), PodShape(1, 1024, 1, WHOLE_GPU)
    node, large = NodeShape(96000, 262144, 8, "A100"), NodeShape(128000, 262144, 8, "A100")
    pricing = Pricing({kind: 16, odd: 1}, {node: 1, large: 1})
    assert pricing.best(np.array([1.0, 0.0])).worth(node) == 8


def test_a_kind_with_few_pods_gets_a_price_by_contents_of_which_there_is_only_a_part():
    # One pod of 320 thousandths of a GPU, five of 650, two GPUs: 320 alone is not worth a GPU, thrice 320 is.
    node = NodeShape(8000, 262144, 1, "T4")
    master = Master({node: 2}, np.array([1.0, 5.0]), np.array([320.0, 650.0]))
    assert master.add(node, ((1,),))
    assert master.solve() == pytest.approx(1300)
    thrice = ((0, 0, 0),)
    assert not master.add(node, thrice, only_if_worth=True)
    assert master.add(node, thrice, only_if_worth=True, in_parts=True)
    assert master.solve() == pytest.approx(2 / 3 * 650 + 650 + 320)  # a third of a node has it
    assert master.prices[0] == pytest.approx(320 - 650 / 3)
    assert not any(0 in pods for _, contents, _ in master.take() for pods in contents)


def test_the_bound_knows_that_memory_is_short():
    nodes = [NodeShape(16000, 32768, 1, "T4"), NodeShape(8000, 16384, 2, "A10")]
    pods = [
        PodShape(4000, 1024, 1, 810),
        PodShape(2000, 8192, 1, 650),
        PodShape(6000, 12288, 1, 320),
        PodShape(4000, 12288, 1, 320, ("A10",)),
        PodShape(6000, 12288, 1, 810),
        PodShape(2000, 1024, 1, 530),
        PodShape(2000, 8192, 1, 810, ("A10",)),
        PodShape(1000, 1024, 1, 810),
        PodShape(1000, 8192, 1, 350),
    ]
    packing = pack(nodes, pods, work=2_000_000)
    assert packing.bound_by == "prices"  # without a price of memory: 3000, by capacity
    assert 2660 <= packing.allocated_milli <= packing.bound_milli <= 2818
