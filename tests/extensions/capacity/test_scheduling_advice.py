"""Changes after which pending pods can run, and moves that free GPUs. A second placement verifies each change and
move.
"""

from __future__ import annotations

from hypothesis import given, settings

from extensions.capacity.scheduling.advice import Advice, Adviser, NodeType, applied
from extensions.capacity.scheduling.model import RunningPod, Scenario
from extensions.capacity.scheduling.moves import plan_moves
from extensions.capacity.scheduling.schedule import place
from extensions.capacity.scheduling.state import NodeState
from tests.extensions.capacity.scheduling_cases import GPU, SHARE, node, pods, scenarios
from tests.support.size import size

TYPES = (
    NodeType(node=node("train-new", gpus=8), left=1),
    NodeType(node=node("serve-new", pool="serve", shares=2), left=0),
)


def advise(scenario: Scenario, trials: int = 400) -> list[Advice]:
    placement = place(scenario)
    adviser = Adviser(scenario, placement, TYPES, trials=trials)
    groups = dict.fromkeys(one.group for one in placement.pending)
    return [
        advice
        for index in groups
        for advice in adviser.advise([one for one in placement.pending if one.group == index])
    ]


def test_less_cpu_is_advised_with_the_largest_amount_that_fits() -> None:
    scenario = Scenario(
        nodes=(node(cpu=27, gpus=4),), groups=(pods("first", gpus=2, cpu=15.8), pods("second", gpus=2, cpu=16))
    )
    assert "request at most 11.2 cores (cpu: 11200m) a pod" in [one.text for one in advise(scenario)]


def test_the_smallest_amount_is_advised_where_no_other_fits() -> None:
    scenario = Scenario(nodes=(node(cpu=1),), groups=(pods("first", cpu=0.99), pods("second", cpu=0.02)))
    found = [one.requests for one in advise(scenario) if one.kind == "less"]
    assert [requests and requests["cpu"] for requests in found] == [10]


def test_less_cpu_is_no_advice_where_gpus_are_lacking() -> None:
    scenario = Scenario(nodes=(node(gpus=4),), groups=(pods("a", gpus=8),))
    assert [one.kind for one in advise(scenario)] == ["nodes"]


def test_the_fewest_new_nodes_are_advised_and_whether_the_pool_may_grow_so_far() -> None:
    scenario = Scenario(nodes=(node(gpus=8),), groups=(pods("a", 3, gpus=8),))
    assert [one.text for one in advise(scenario)] == ["2 more nodes of pool train, above its maximum size"]


def test_another_resource_is_advised_for_a_pod_of_one_unit() -> None:
    scenario = Scenario(nodes=(node(gpus=1), node("n1", pool="serve", shares=1)), groups=(pods("a", 2, gpus=1),))
    assert f"request one {SHARE} instead of {GPU}, if this part of a GPU is enough" in [
        one.text for one in advise(scenario)
    ]


def test_the_quota_that_suffices_is_advised() -> None:
    scenario = Scenario(
        nodes=(node(gpus=8),),
        groups=(pods("a", 2, gpus=2), pods("b", 2, gpus=2)),
        quotas={"vision": {f"requests.{GPU}": 5, "requests.cpu": 100_000}},
    )
    assert [one.text for one in advise(scenario)] == [f"raise the quota of team vision: requests.{GPU} by 3"]


def test_no_quota_is_advised_that_would_not_help_by_itself() -> None:
    scenario = Scenario(
        nodes=(node(gpus=2),), groups=(pods("a", gpus=4),), quotas={"vision": {f"requests.{GPU}": 2}}
    )
    assert "quota" not in [one.kind for one in advise(scenario)]


def test_what_a_change_displaces_is_part_of_the_advice() -> None:
    """With lower CPU requests, the pods with high priority use GPUs that other pods would otherwise use."""
    scenario = Scenario(
        nodes=(node(cpu=10, gpus=2),),
        groups=(pods("low", 2, gpus=1, cpu=2), pods("high", 2, gpus=1, cpu=6, priority=100)),
    )
    found = [one for one in advise(scenario) if one.kind == "less"]
    assert [one.displaces for one in found] == [(("vision/low", 1),)]


def test_advice_ends_with_its_work_limit() -> None:
    scenario = Scenario(nodes=(node(gpus=8),), groups=(pods("a", 3, gpus=8),))
    assert advise(scenario, trials=1) == []


@settings(max_examples=size(20, 400))
@given(scenarios())
def test_every_advice_lets_all_pods_of_its_group_run(scenario: Scenario) -> None:
    for one in advise(scenario, trials=60):
        after = applied(scenario, one)
        assert place(after).placed(len(after.groups))[one.group] == after.groups[one.group].count


# -- advised moves ---------------------------------------------------------------------------------------


def running(index: int, name: str, gpus: int, controller: str = "Deployment web", pinned: str = "") -> RunningPod:
    return RunningPod(node=index, pod=pods(name, gpus=gpus), controller=controller, pinned=pinned)


TWO = (node("n0", gpus=4), node("n1", gpus=4))


def test_a_pod_is_moved_where_another_node_has_its_gpus_free() -> None:
    scenario = Scenario(nodes=TWO, groups=(), running=(running(0, "a", 1), running(1, "b", 2)))
    [plan] = plan_moves(scenario, place(scenario))
    assert (plan.purpose, plan.node, [(one.running, one.target) for one in plan.moves]) == ("node", 0, [(0, 1)])
    assert (plan.idle_before, plan.idle_after) == (3, 4)


def test_moves_make_a_pending_pod_fit() -> None:
    scenario = Scenario(
        nodes=TWO, groups=(pods("large", gpus=4),), running=(running(0, "a", 1), running(1, "b", 2))
    )
    plans = plan_moves(scenario, place(scenario))
    assert [(one.purpose, one.node, one.group) for one in plans] == [("pod", 0, 0)]


def test_bare_pods_and_pods_under_a_budget_are_not_moved() -> None:
    alone = running(0, "a", 1, controller="")
    kept = running(1, "b", 2, pinned="disruption budget")
    scenario = Scenario(nodes=TWO, groups=(), running=(alone, kept))
    assert plan_moves(scenario, place(scenario)) == ()


def test_no_move_goes_to_an_empty_node_only_to_empty_another() -> None:
    scenario = Scenario(nodes=TWO, groups=(), running=(running(0, "a", 1),))
    assert plan_moves(scenario, place(scenario)) == ()


@settings(max_examples=size(25, 800))
@given(scenarios())
def test_moves_never_overfill_a_node_and_give_what_they_promise(scenario: Scenario) -> None:
    placement = place(scenario)
    where = [one.node for one in scenario.running]
    extra: list[tuple[int, int]] = [(one.node, one.group) for one in placement.assignments]
    for plan in plan_moves(scenario, placement):
        for move in plan.moves:
            assert scenario.running[move.running].movable
            assert where[move.running] == plan.node != move.target
            assert scenario.running[move.running].pod.may_run_on(scenario.nodes[move.target])
            where[move.running] = move.target
        if plan.group is not None:
            extra.append((plan.node, plan.group))
        assert plan.purpose == "pod" or plan.idle_after == len(scenario.nodes[plan.node].gpus)
        states = [NodeState(index, one) for index, one in enumerate(scenario.nodes)]
        for index, one in zip(where, scenario.running, strict=True):
            assert states[index].fits(one.pod.needs())
            states[index].take(one.pod)
        for index, group in extra:
            assert states[index].fits(scenario.groups[group].needs())
            states[index].take(scenario.groups[group])
