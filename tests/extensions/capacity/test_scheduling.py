"""The simulated scheduler's quota admission, filters and scores, and its reasons for pending pods."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from extensions.capacity.scheduling.explain import reason_of
from extensions.capacity.scheduling.fragmentation import fragmentation
from extensions.capacity.scheduling.model import (
    CPU,
    GIB,
    MEMORY,
    Expression,
    Node,
    PodGroup,
    ProfileName,
    Scenario,
    Toleration,
)
from extensions.capacity.scheduling.schedule import place
from extensions.capacity.scheduling.state import NodeState
from gpu_platform.planning.nodes.section import Taint
from tests.extensions.capacity.scheduling_cases import (
    GPU,
    SHARE,
    TOLERATES,
    assert_no_node_is_over,
    node,
    pending_of,
    pods,
    scenarios,
)
from tests.support.size import size


def reasons(scenario: Scenario) -> list[str]:
    return [reason_of(scenario, one).text for one in place(scenario).pending]


# -- pending pods ----------------------------------------------------------------------------------------


def test_pods_that_fit_all_get_a_node() -> None:
    scenario = Scenario(nodes=(node(gpus=8),), groups=(pods("a", 4, gpus=2),))
    assert place(scenario).pending == ()
    assert [one.gpus for one in place(scenario).assignments] == [(0, 1), (2, 3), (4, 5), (6, 7)]


def test_a_pod_of_four_gpus_does_not_fit_on_two_nodes_with_three_free_each() -> None:
    scenario = Scenario(
        nodes=(node("n0", gpus=4), node("n1", gpus=4)), groups=(pods("a", 2, gpus=1), pods("b", gpus=4))
    )
    assert pending_of(scenario, place(scenario)) == {"b": 1}
    assert reasons(scenario) == [f"{GPU}: at most 3 free on a node, 6 on 2 nodes together; the pod requests 4"]


def test_the_reason_names_cpu_where_gpus_are_free_and_cpu_is_not() -> None:
    scenario = Scenario(nodes=(node(cpu=27, gpus=4),), groups=(pods("a", 2, gpus=2, cpu=15.8),))
    assert reasons(scenario) == [
        f"cpu: 1 node has 2 or more free {GPU} but at most 11.2 cores free; the pod requests 15.8 cores"
    ]


def test_the_reason_for_a_pod_larger_than_every_node_names_the_largest() -> None:
    scenario = Scenario(nodes=(node(cpu=8, gpus=4),), groups=(pods("a", gpus=2, cpu=16),))
    assert reasons(scenario) == [
        "cpu: no node that the pod may run on has more than 8 cores; the pod requests 16 cores"
    ]


def test_a_resource_that_no_node_offers_is_the_reason() -> None:
    scenario = Scenario(nodes=(node(gpus=8),), groups=(pods("a", shares=1),))
    assert reasons(scenario) == [f"{SHARE}: no node that the pod may run on has any; the pod requests 1"]


def test_higher_priority_goes_first_whatever_the_order_of_the_file() -> None:
    scenario = Scenario(
        nodes=(node(gpus=4),), groups=(pods("low", 4, gpus=1), pods("high", 2, gpus=2, priority=100))
    )
    assert pending_of(scenario, place(scenario)) == {"low": 4}


def test_pods_above_a_quota_stay_pending_in_the_order_of_the_file() -> None:
    scenario = Scenario(
        nodes=(node(gpus=8),),
        groups=(pods("first", 2, gpus=2), pods("second", 2, gpus=2, priority=100)),
        quotas={"vision": {f"requests.{GPU}": 5}},
    )
    assert pending_of(scenario, place(scenario)) == {"second": 2}
    assert reasons(scenario) == [f"quota of team vision: 1 of requests.{GPU} left, but a pod requests 2"]


def test_pods_that_exist_already_need_no_quota() -> None:
    group = pods("a", 2, gpus=2, admitted=True)
    assert (
        place(Scenario(nodes=(node(gpus=8),), groups=(group,), quotas={"vision": {f"requests.{GPU}": 0}})).pending
        == ()
    )


def test_a_taint_keeps_pods_off_unless_they_tolerate_it() -> None:
    tainted = replace(node(gpus=8), taints=(Taint(key=GPU, value="present", effect="NoSchedule"),))
    scenario = Scenario(
        nodes=(tainted,), groups=(pods("plain", gpus=1), pods("fine", gpus=1, tolerations=TOLERATES))
    )
    assert pending_of(scenario, place(scenario)) == {"plain": 1}
    assert reasons(scenario) == [f"1 node with taint {GPU}=present:NoSchedule, which the pod does not tolerate"]


def test_a_node_selector_and_a_required_affinity_choose_the_nodes() -> None:
    nodes = (node("n0", pool="train", gpus=1), node("n1", pool="serve", gpus=1))
    selected = pods("selected", gpus=1, node_selector={"pool": "serve"})
    affine = pods("affine", gpus=1, affinity=((Expression(key="pool", operator="NotIn", values=("serve",)),),))
    lost = pods("lost", gpus=1, node_selector={"pool": "lab"})
    scenario = Scenario(nodes=nodes, groups=(selected, affine, lost))
    placement = place(scenario)
    assert [(one.group, one.node) for one in placement.assignments] == [(0, 1), (1, 0)]
    assert reasons(scenario) == ["2 nodes without the labels that the pod selects (pool=lab)"]


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration(operator="Exists"), True),
        (Toleration(key=GPU, operator="Exists", effect="NoExecute"), False),
        (Toleration(key=GPU, value="present"), True),
        (Toleration(key=GPU, value="absent"), False),
        (Toleration(key="other", operator="Exists"), False),
    ],
)
def test_tolerations_follow_the_rules_of_kubernetes(toleration: Toleration, *, expected: bool) -> None:
    assert toleration.tolerates(Taint(key=GPU, value="present", effect="NoSchedule")) is expected


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        ("In", ("8", "9"), True),
        ("NotIn", ("8",), False),
        ("Exists", (), True),
        ("DoesNotExist", (), False),
        ("Gt", ("7",), True),
        ("Lt", ("8",), False),
        ("Gt", ("x",), False),
    ],
)
def test_expressions_of_an_affinity_follow_the_rules_of_kubernetes(
    operator: str, values: tuple[str, ...], *, expected: bool
) -> None:
    assert Expression(key="size", operator=operator, values=values).matches({"size": "8"}) is expected


def test_the_number_of_pods_on_a_node_is_limited() -> None:
    scenario = Scenario(nodes=(node(gpus=8, pods=2),), groups=(pods("a", 3, gpus=1),))
    assert pending_of(scenario, place(scenario)) == {"a": 1}
    assert reasons(scenario) == [f"pods: 1 node has 6 or more free {GPU} but no room for another pod"]


# -- node selection --------------------------------------------------------------------------------------


def test_scores_equal_the_scores_of_kube_scheduler() -> None:
    """The expected scores are computed by hand, for a pod that uses 1 of 4 cores and 2 of 16 GiB.

    LeastAllocated is (75 + 87) // 2 = 81. The balance of the node is 100 without the pod, and int((1 - |0.25 -
    0.125| / 2) x 100) = 93 with it. The score of BalancedAllocation is 50 + (50 + 93 - 100) // 2 = 71.
    """
    state = NodeState(0, node(cpu=4, memory=16, gpus=1))
    assert state.score(pods("a", cpu=1, memory=2, gpus=1), 0, 0) == 81 + 71


def test_scores_of_the_profile_packed_equal_the_scores_of_kube_scheduler() -> None:
    """The expected scores are computed by hand. The pod requests 2 of 8 cores, 4 of 16 GiB and 2 of 4 GPUs. One
    GPU and one core are already in use.

    MostAllocated is 75, because 3 of 4 GPUs are used. The balance without the pod is 89, from (1/8, 0, 1/4) with
    a deviation of 0.10206. The balance with it is 78, from (3/8, 1/4, 3/4) with a deviation of 0.21246. The score
    of BalancedAllocation is 50 + (50 + 78 - 89) // 2 = 69.
    """
    state = NodeState(0, node(cpu=8, memory=16, gpus=4))
    state.take(pods("there", cpu=1, memory=0, gpus=1))
    assert state.score(pods("a", cpu=2, memory=4, gpus=2), 0, 0, "packed") == 75 + 30 * 69


def test_pods_without_gpus_have_the_default_profile_next_to_packed_pods() -> None:
    state, pod = NodeState(0, node(cpu=8, memory=16, gpus=4)), pods("a", cpu=2, memory=4)
    assert state.score(pod, 0, 0, "packed") == state.score(pod, 0, 0)


def test_pods_spread_over_equal_nodes_as_the_default_profile_prefers() -> None:
    scenario = Scenario(nodes=(node("n0", gpus=8), node("n1", gpus=8)), groups=(pods("a", 2, gpus=1, cpu=4),))
    assert [one.node for one in place(scenario).assignments] == [0, 1]


def test_a_taint_that_is_only_disliked_decides_between_equal_nodes() -> None:
    disliked = replace(node("n0", gpus=8), taints=(Taint(key="spot", value="", effect="PreferNoSchedule"),))
    scenario = Scenario(nodes=(disliked, node("n1", gpus=8)), groups=(pods("a", gpus=1),))
    assert [one.node for one in place(scenario).assignments] == [1]


def test_shares_of_a_pod_come_from_different_gpus() -> None:
    scenario = Scenario(nodes=(node(shares=2),), groups=(pods("a", shares=2), pods("b", shares=1)))
    assert [one.gpus for one in place(scenario).assignments] == [(0, 1), (0,)]


# -- fragmentation ---------------------------------------------------------------------------------------


def test_free_gpus_that_no_pod_of_the_list_can_use_are_fragmented() -> None:
    """Two of eight GPUs are free. The list contains two groups of pods, and the pods of one group request four
    GPUs each.
    """
    groups = (pods("a", 1, gpus=6), pods("b", 1, gpus=4))
    scenario = Scenario(nodes=(node(gpus=8),), groups=groups)
    before = fragmentation(scenario, [NodeState(0, scenario.nodes[0])])
    after = fragmentation(scenario, place(scenario).states)
    assert (before.free, before.unusable, before.idle, before.largest_pod) == (8, 0, 8, 8)
    assert (after.free, after.unusable, after.idle, after.largest_pod) == (2, 2, 2, 2)


def test_free_gpus_without_cpu_are_fragmented_and_no_pod_with_its_part_fits() -> None:
    scenario = Scenario(
        nodes=(node(cpu=32, gpus=8),), groups=(pods("a", gpus=1, cpu=30), pods("b", gpus=1, cpu=4))
    )
    after = fragmentation(scenario, place(scenario).states)
    assert (after.unusable, after.largest_pod, after.largest_with_part) == (7, 7, 0)


# -- random scenarios --------------------------------------------------------------------------------------


@settings(max_examples=size(20, 600))
@given(scenarios())
def test_no_node_is_over_its_allocatable_in_any_resource(scenario: Scenario) -> None:
    placement = place(scenario)
    assert_no_node_is_over(scenario, placement)
    counts = placement.placed(len(scenario.groups))
    pending = pending_of(scenario, placement)
    for index, group in enumerate(scenario.groups):
        assert counts[index] + pending.get(group.name, 0) == group.count
    for one in placement.assignments:
        assert scenario.groups[one.group].may_run_on(scenario.nodes[one.node])


@settings(max_examples=size(20, 600))
@given(scenarios())
def test_no_pending_pod_fits_on_the_nodes_that_are_left(scenario: Scenario) -> None:
    placement = place(scenario)
    for one in placement.pending:
        group = scenario.groups[one.group]
        if one.cause != "quota":
            assert not any(
                group.may_run_on(state.node) and state.fits(group.needs()) for state in placement.states
            )


def test_requests_count_as_kubernetes_counts_them() -> None:
    group = PodGroup(name="a", team="t", requests={CPU: 500, MEMORY: 2 * GIB, "empty": 0})
    assert group.needs() == {CPU: 500, MEMORY: 2 * GIB, "pods": 1}


# -- NUMA nodes ------------------------------------------------------------------------------------------


def on_two_numa_nodes(*, single: bool = False) -> Node:
    return replace(node(gpus=8), numa=(0, 0, 0, 0, 1, 1, 1, 1), single_numa=single)


def test_aligned_gpus_use_as_few_numa_nodes_as_possible() -> None:
    groups = (pods("three", gpus=3), pods("four", gpus=4), pods("one", gpus=1))
    scenario = Scenario(nodes=(on_two_numa_nodes(),), groups=groups)
    found = {scenario.groups[one.group].name: one.gpus for one in place(scenario).assignments}
    assert found == {"three": (0, 1, 2), "four": (4, 5, 6, 7), "one": (3,)}
    unaligned = place(replace(scenario, nodes=(node(gpus=8),)))
    assert [one.gpus for one in unaligned.assignments][1] == (3, 4, 5, 6)


def test_pods_with_scattered_free_gpus_stay_pending_with_the_reason() -> None:
    scenario = Scenario(nodes=(on_two_numa_nodes(),), groups=(pods("three", 2, gpus=3), pods("two", gpus=2)))
    assert pending_of(scenario, place(scenario)) == {"two": 1}
    assert reasons(scenario) == [
        f"{GPU}: 2 free on a node, but spread over more NUMA nodes than the pod needs, so the kubelet's "
        "Topology Manager would refuse the pod; the pod requests 2"
    ]
    assert pending_of(scenario, place(replace(scenario, nodes=(node(gpus=8),)))) == {}


def test_large_pods_start_unless_the_policy_is_single_numa_node() -> None:
    groups = (pods("five", gpus=5),)
    assert place(Scenario(nodes=(on_two_numa_nodes(),), groups=groups)).pending == ()
    single = Scenario(nodes=(on_two_numa_nodes(single=True),), groups=groups)
    assert pending_of(single, place(single)) == {"five": 1}


def test_most_allocated_fills_a_node_before_the_next() -> None:
    nodes = (node("one", gpus=8), node("two", gpus=8))
    scenario = Scenario(nodes=nodes, groups=(pods("a", 4, gpus=2),))
    used = {name: {one.node for one in place(replace(scenario, profile=name)).assignments} for name in _SCORES}
    assert {name: len(found) for name, found in used.items()} == {"default": 2, "most-allocated": 1}


_SCORES: tuple[ProfileName, ...] = ("default", "most-allocated")
