"""The impact of a changed stack file on nodes, GPUs, running pods, data and access."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import pytest

from gpu_platform.base import names
from gpu_platform.catalog import load_catalog
from gpu_platform.planning.changes import classify, pool_changes, pool_facts, software_facts, team_facts
from gpu_platform.planning.changes.budgets import Block, daemon_block
from gpu_platform.planning.changes.effects import Effect, worst
from gpu_platform.planning.changes.impact import Impact, MigNodeChange, ObjectChange
from gpu_platform.planning.changes.live_types import DataObject, LiveState, RunningPod
from gpu_platform.planning.changes.objects import ChangedField, object_effect
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from tests.support.eks_stacks import EXISTING, plan_eks

TEAM = {
    "name": "vision",
    "quota": {"gpus": 8, "cpu": 100, "memory": "1Ti"},
    "priority": "training",
    "members": ["group:vision", "user:ada"],
}
GPU = "nvidia.com/gpu"
CLAIM = DataObject(kind="PersistentVolumeClaim", namespace="vision", name="scratch", size="2Ti")


def plan_of(
    *,
    teams: Any = (TEAM,),
    operator: Any = None,
    queueing: Any = None,
    cleanup: Any = None,
    changes: Any = None,
    **pool: Any,
) -> EnvironmentPlan:
    entry = {
        "name": "train",
        "machine_type": "p4de.24xlarge",
        "count": {"desired": 2},
        "workload": "training",
        **pool,
    }
    document = {"kind": "environment", "cluster": {"provider": "sandbox"}, "pools": [entry], "teams": list(teams)}
    others = {"operator": operator, "queueing": queueing, "cleanup": cleanup, "changes": changes}
    plan = plan_platform(document | {key: value for key, value in others.items() if value is not None}, "test")
    assert plan.kind == "environment"
    return plan


def outputs_of(plan: EnvironmentPlan) -> Mapping[str, Any]:
    """Return the stack outputs as they are read from the state of a deployment."""
    facts = {"pools": pool_facts(plan), "software": software_facts(plan), "teams": team_facts(plan)}
    return json.loads(json.dumps(facts), parse_int=float)


def pod(name: str, node: str = "train-0", gpus: int = 8, owner: str = "Job pretrain", *budgets: str) -> RunningPod:
    units = {GPU: gpus} if gpus else {}
    block = Block(pods=(f"vision/{name}",), budgets=budgets, forever=False, why="held") if budgets else None
    return RunningPod(namespace="vision", name=name, owner=owner, node=node, units=units, block=block)


def test_a_stacks_software_names_the_operator_release_or_none() -> None:
    planned = plan_of()
    assert software_facts(planned)["operator"] == planned.operator.release
    without = dataclasses.replace(planned, operator=dataclasses.replace(planned.operator, install="none"))
    assert software_facts(without)["operator"] == "(none)"


def live(*pods: RunningPod, data: Mapping[str, tuple[DataObject, ...]] | None = None) -> LiveState:
    return LiveState(nodes={"train": ("train-0", "train-1")}, pods=pods, data=data or {})


def impacts(before: EnvironmentPlan, after: EnvironmentPlan, *pods: RunningPod, **rest: Any) -> tuple[Impact, ...]:
    outputs = outputs_of(before)
    pools = pool_changes(json.loads(json.dumps(pool_facts(before))), after, load_catalog())
    arguments: dict[str, Any] = {"live": live(*pods), "pools": pools, **rest}
    return classify(outputs, after, load_catalog(), **arguments)


def test_a_stack_that_is_deployed_as_it_is_has_no_impact() -> None:
    assert impacts(plan_of(), plan_of(), pod("a")) == ()


def test_a_stack_that_is_not_deployed_has_no_impact() -> None:
    assert (
        classify(
            {},
            plan_of(),
            load_catalog(),
            live=live(),
            objects=[ObjectChange(action="create", kind="Namespace", namespace="", name="vision")],
        )
        == ()
    )


def test_a_deployment_of_an_older_release_is_compared_in_pools_alone() -> None:
    outputs = {"pools": outputs_of(plan_of())["pools"]}
    assert classify(outputs, plan_of(teams=()), load_catalog(), live=live()) == ()


def test_a_removed_pool_loses_the_gpus_of_all_nodes_that_an_autoscaler_created() -> None:
    plan = plan_of(count={"min": 0, "desired": 1, "max": 3})
    [impact] = impacts(plan, plan_of(name="other", count={"desired": 4}))
    assert (impact.nodes, impact.gpus) == (2, 16)


def test_a_removed_pool_removes_its_gpus_and_stops_the_pods_on_its_nodes() -> None:
    after = plan_of(name="other", count={"desired": 1})
    [impact] = impacts(plan_of(), after, pod("a"), pod("b", "elsewhere-0"))
    assert (impact.subject, impact.effect) == ("pool train", Effect.REMOVES_CAPACITY)
    assert (impact.nodes, impact.gpus) == (2, 16)
    assert [one.name for one in impact.pods or ()] == ["a"]


@pytest.mark.parametrize("gone", ["pool", "node"])
def test_held_nodes_that_leave_the_stack_are_named_with_what_frees_them(gone: str) -> None:
    def plan(**nodes: list[str]) -> EnvironmentPlan:
        machine = {"machine_type": "p4de.24xlarge", "workload": "training"}
        pools = [
            {"name": name, "count": {"desired": len(on)}, "nodes": {"names": on}, **machine}
            for name, on in nodes.items()
        ]
        platform = {"kind": "environment", "cluster": {"provider": "existing", "context": "lab"}, "pools": pools}
        found = plan_platform(platform, "test")
        assert found.kind == "environment"
        return found

    marks = {"a1": (names.FAILED_TAINT_KEY, names.CORDON_ANNOTATION), "b0": (names.FAILED_TAINT_KEY,)}
    live = LiveState(nodes={"a": ("a0", "a1"), "b": ("b0",)}, held=marks)
    after = plan(b=["b0"]) if gone == "pool" else plan(a=["a0"], b=["b0"])
    [found] = [one for one in impacts(plan(a=["a0", "a1"], b=["b0"]), after, live=live) if one.subject == "a1"]
    assert found.because.partition(": ")[2] == (
        f"kubectl taint node a1 {names.FAILED_TAINT_KEY}-; kubectl uncordon a1; "
        f"kubectl annotate node a1 {names.CORDON_ANNOTATION}-"
    )


def test_a_smaller_pool_removes_the_gpus_of_the_nodes_that_go() -> None:
    [impact] = impacts(plan_of(), plan_of(count={"desired": 1}), pod("stays"), pod("goes", "train-1"))
    assert (impact.effect, impact.nodes, impact.gpus) == (Effect.REMOVES_CAPACITY, 1, 8)
    assert [one.name for one in impact.pods or ()] == ["goes"]
    assert (impact.field, impact.old, impact.new) == ("pools[0].count.desired", "2", "1")


def test_fewer_replicas_are_shown_as_logical_gpus_of_the_pool_and_stop_no_pod() -> None:
    before = plan_of(sharing={"mode": "time-slicing", "replicas": 6}, workload="inference", teams=())
    after = plan_of(sharing={"mode": "time-slicing", "replicas": 4}, workload="inference", teams=())
    [impact] = impacts(before, after, pod("a"))
    assert (impact.subject, impact.effect) == ("pool train", Effect.REMOVES_CAPACITY)
    assert impact.old == "96 x gpu.shared"
    assert impact.new == "64 x gpu.shared"
    assert "time-slicing, 6 replicas becomes time-slicing, 4 replicas" in impact.because
    assert (impact.nodes, impact.pods) == (2, ())


def test_more_replicas_change_in_place() -> None:
    before = plan_of(sharing={"mode": "time-slicing", "replicas": 4}, workload="inference", teams=())
    after = plan_of(sharing={"mode": "time-slicing", "replicas": 6}, workload="inference", teams=())
    assert [impact.effect for impact in impacts(before, after)] == [Effect.IN_PLACE]


def test_another_driver_rolls_the_nodes_and_stops_their_gpu_pods_and_no_others() -> None:
    versions = load_catalog().operator_releases["v26.7.0"].drivers
    before, after = (plan_of(operator={"driver": {"version": one}}) for one in (versions[0], versions[1]))
    [impact] = impacts(before, after, pod("a"), pod("cpu", gpus=0))
    assert impact.effect is Effect.ROLLS_NODES
    assert (impact.old, impact.new) == (before.pools[0].driver_version, after.pools[0].driver_version)
    assert (impact.nodes, impact.gpus) == (2, 16)
    assert [one.name for one in impact.pods or ()] == ["a"]
    assert impact.order.startswith("1 node at a time across all pools: cordon, evict")


@pytest.mark.parametrize(
    ("nodes", "words", "duration"),
    [
        ({"driver_failed": ("train-0",)}, "train-0 has failed, so only 1 more at a time", "1 round of 1 node"),
        (
            {"not_ready": ("train-0",)},
            "train-0 cannot finish the upgrade while not ready, so only",
            "1 round of 1 node",
        ),
        (
            {"driver_failed": ("train-0",), "not_ready": ("train-1",)},
            "no other node starts its upgrade while the last upgrade of train-0 has failed and train-1 cannot",
            "waits for the nodes whose upgrade does not finish",
        ),
    ],
)
def test_another_driver_names_the_nodes_that_keep_others_from_theirs(
    nodes: Mapping[str, tuple[str, ...]], words: str, duration: str
) -> None:
    impact = another_driver(at_a_time=2, **nodes)
    assert words in impact.order
    assert duration in str(impact.duration)


def test_another_driver_waits_for_no_node_that_keeps_its_own() -> None:
    impact = another_driver(at_a_time=1, not_ready=("train-0",), driver_skipped=("train-0",))
    assert "not being ready" not in impact.order
    assert "1 round of 1 node" in str(impact.duration)


def test_cordoned_nodes_get_another_driver_besides_those_in_turn() -> None:
    impact = another_driver(at_a_time=1, cordoned=("train-0",))
    assert "in addition, all cordoned nodes (train-0) are upgraded at the same time" in impact.order
    assert "1 round of 1 node" in str(impact.duration)


def another_driver(at_a_time: int, **state: Any) -> Impact:
    """Return the impact of a new driver on two live nodes. `state` overrides parts of the live state that a
    preview reads.
    """
    versions = load_catalog().operator_releases["v26.7.0"].drivers
    before, after = (
        plan_of(operator={"driver": {"version": one}}, changes={"max_unavailable": at_a_time})
        for one in versions[:2]
    )
    cluster = dataclasses.replace(live(), **state)
    [impact] = [one for one in impacts(before, after, live=cluster) if one.field == "operator.driver.version"]
    return impact


def on_gke(version: str | None, **pool: Any) -> EnvironmentPlan:
    """Return a plan on GKE, where an installer sets up the driver on nodes with Container-Optimized OS."""
    entry = {
        "name": "train",
        "machine_type": "g2-standard-48",
        "count": {"desired": 2},
        "workload": "inference",
        "zones": ["us-central1-a"],
        **pool,
    }
    cluster = {"provider": "gke", "name": "prod", "project": "my-project", "location": "us-central1"}
    operator = {} if version is None else {"driver": {"version": version}}
    document = {"kind": "environment", "cluster": cluster, "pools": [entry], "operator": operator}
    plan = plan_platform(document, "test")
    assert plan.kind == "environment"
    return plan


@pytest.mark.parametrize(
    ("old", "new"), [("580.126.20", "580.173.02"), (None, "580.126.20"), ("580.126.20", None)]
)
def test_a_driver_for_new_nodes_explains_how_to_replace_others(old: str | None, new: str | None) -> None:
    [impact] = impacts(on_gke(old), on_gke(new), pod("a"))
    assert (impact.subject, impact.effect, impact.nodes) == ("pool train", Effect.IN_PLACE, 2)
    assert (impact.old, impact.new) == (old or "that of the node image", new or "that of the node image")
    assert "nodes get their driver when they boot" in impact.because
    assert ("`gpu-platform validate` lists the nodes" in impact.because) == (new is not None)
    assert "recreate-instances" in impact.because


def test_a_node_does_not_fail_for_a_driver_of_new_nodes() -> None:
    expected = on_gke("580.126.20").pools[0].expectations.expect["driver-version"]
    assert (expected.rolled, expected.at_boot) == (False, True)
    of_operator = on_gke("580.173.02", image={"family": "ubuntu"}).pools[0].expectations.expect["driver-version"]
    assert (of_operator.rolled, of_operator.at_boot) == (True, False)


def test_another_driver_of_an_operator_of_the_owner_rolls_no_node() -> None:
    found: list[EnvironmentPlan] = []
    for version in ("580.126.20", "580.173.02"):
        document = {
            "kind": "environment",
            "cluster": {"provider": "existing", "parts": {"gpu_operator": "present"}},
            "operator": {"driver": {"version": version}},
            "pools": [
                {
                    "name": "train",
                    "machine_type": "dgx-h100",
                    "count": {"desired": 1},
                    "nodes": {"names": ["h0"]},
                    "workload": "training",
                }
            ],
        }
        plan = plan_platform(document, "test")
        assert plan.kind == "environment"
        found.append(plan)
    before, after = found
    assert impacts(before, after) == ()


def on_hosts(operator: Mapping[str, Any], **parts: str) -> EnvironmentPlan:
    """Return a plan for existing nodes. `operator` configures the software that the program installs, and `parts`
    lists the software that the nodes already have.
    """
    document = {
        "kind": "environment",
        "cluster": {"provider": "existing", "kubernetes": "1.35", "parts": parts},
        "operator": operator,
        "pools": [
            {
                "name": "train",
                "machine_type": "dgx-h100",
                "count": {"desired": 2},
                "nodes": {"names": ["train-0", "train-1"]},
                "workload": "training",
            }
        ],
    }
    plan = plan_platform(document, "test")
    assert plan.kind == "environment"
    return plan


def test_a_removed_driver_takes_the_gpus_of_all_nodes_at_once() -> None:
    before, after = on_hosts({}), on_hosts({"driver": {"owner": "host"}})
    [impact] = impacts(before, after, pod("a", "train-0", 8, "Job pretrain", "vision/guard"), pod("cpu", gpus=0))
    assert (impact.effect, impact.field) == (Effect.REMOVES_CAPACITY, "operator.driver.owner")
    assert (impact.old, impact.new, impact.gpus) == (before.pools[0].driver_version, "(none)", 16)
    assert (impact.changes_nodes, impact.blocks) == (True, ())
    assert [one.name for one in impact.stopping] == ["a"]
    assert impact.order.startswith("all nodes at once")


def test_an_operator_driver_does_not_replace_the_hosts_driver() -> None:
    [impact] = impacts(on_hosts({"driver": {"owner": "host"}}), on_hosts({}), pod("a"))
    assert (impact.effect, impact.field) == (Effect.IN_PLACE, "operator.driver.owner")
    assert "a node whose host has a driver keeps it" in impact.because


@pytest.mark.parametrize(
    ("operator", "parts", "field"),
    [
        ({"toolkit": "host"}, {}, "operator.toolkit"),
        ({}, {"device_plugin": "present"}, "cluster.parts.device_plugin"),
    ],
)
def test_a_toolkit_or_device_plugin_that_changes_hands_has_a_row(
    operator: Mapping[str, Any], parts: Mapping[str, str], field: str
) -> None:
    of_operator, of_owner = on_hosts({}), on_hosts(operator, **parts)
    [ends] = impacts(of_operator, of_owner, pod("a"))
    assert (ends.effect, ends.field, ends.changes_nodes) == (Effect.RESTARTS_PODS, field, True)
    assert "new pods with GPUs need the owner's" in ends.because
    [starts] = impacts(of_owner, of_operator, pod("a"))
    assert (starts.field, starts.new) == (field, ends.old)


def test_an_operator_with_a_new_owner_takes_its_software_along() -> None:
    before, after = on_hosts({}), on_hosts({}, gpu_operator="present")
    rows = [one for one in impacts(before, after, pod("a")) if one.subject == "pool train"]
    assert [one.field for one in rows] == ["cluster.parts.gpu_operator"] * 3
    assert rows[0].effect is Effect.REMOVES_CAPACITY


def test_a_deployment_without_facts_about_operands_has_no_row_for_them() -> None:
    outputs = json.loads(json.dumps(outputs_of(on_hosts({}))))
    del outputs["software"]["pools"]["train"]["operands"]
    assert classify(outputs, on_hosts({"toolkit": "host"}), load_catalog(), live=live()) == ()


def test_a_pod_without_a_controller_blocks_a_new_driver() -> None:
    versions = load_catalog().operator_releases["v26.7.0"].drivers
    before, after = (plan_of(operator={"driver": {"version": one}}) for one in (versions[0], versions[1]))
    bare = dataclasses.replace(pod("bare", owner="Pod bare"), managed=False)
    [impact] = impacts(before, after, pod("a"), bare)
    assert [one.name for one in impact.stopping] == ["a"]
    [block] = impact.blocks
    assert (block.pods, block.forever, impact.blocked) == (("vision/bare",), True, True)
    assert not impacts(before, after, pod("a"))[0].blocked


def test_a_daemon_set_pod_with_gpus_blocks_only_a_new_driver() -> None:
    probe = dataclasses.replace(
        pod("probe", owner="DaemonSet probe"), block=daemon_block("vision/probe", "vision/probe"), stays=True
    )
    impact = another_driver(at_a_time=1, daemons=(probe,))
    assert (impact.blocked, impact.stopping) == (True, ())
    smaller = plan_of(count={"desired": 1})
    [removed] = impacts(plan_of(), smaller, live=dataclasses.replace(live(), daemons=(probe,)))
    assert not removed.blocked


def test_a_pod_that_nobody_starts_again_is_stopped_where_its_node_is_removed() -> None:
    bare = dataclasses.replace(pod("bare", "train-1", owner="Pod bare"), managed=False)
    [impact] = impacts(plan_of(), plan_of(count={"desired": 1}), bare)
    assert ([one.name for one in impact.stopping], impact.blocked) == (["bare"], False)


def test_a_mig_layout_rolls_nodes_and_names_budget_and_duration() -> None:
    before = plan_of(sharing={"mode": "mig", "layout": {"1g.10gb": 7}}, workload="development", teams=())
    after = plan_of(
        sharing={"mode": "mig", "layout": {"2g.20gb": 3, "1g.10gb": 1}}, workload="development", teams=()
    )
    nodes = [
        MigNodeChange(node=f"train-{index}", pool="train", old="7", new="3", at_a_time=1) for index in range(2)
    ]
    held = pod("a", "train-1", 1, "Deployment web", "vision/guard")
    impact, fewer = sorted(impacts(before, after, held, mig=nodes), key=lambda one: one.effect.rank)
    assert (fewer.subject, fewer.effect) == ("pool train", Effect.REMOVES_CAPACITY)
    assert (fewer.old, fewer.new) == ("112 x mig-1g.10gb", "16 x mig-1g.10gb, 48 x mig-2g.20gb")
    assert (impact.effect, impact.nodes, impact.gpus) == (Effect.ROLLS_NODES, 2, 16)
    assert impact.budgets == ("vision/guard",)
    assert impact.duration is not None
    # Before the partitioning, a node takes 15 min for budgets, 15 min for the drain and 5 min for the MIG manager.
    # The partitioning of a node takes 30 min, and its new resources take 1 min.
    assert impact.duration.seconds == 2 * 66 * 60
    assert str(impact.duration).startswith("at most 2 h 12 min (2 rounds of 1 node: disruption budgets 15 min")


def test_an_unreachable_clusters_mig_layout_is_known_from_the_state() -> None:
    before = plan_of(sharing={"mode": "mig", "layout": {"1g.10gb": 7}}, workload="development", teams=())
    after = plan_of(sharing={"mode": "mig", "layout": {"3g.40gb": 2}}, workload="development", teams=())
    gone, impact = impacts(before, after, live=None)
    assert (gone.effect, gone.old, gone.new) == (Effect.REMOVES_CAPACITY, "mig-1g.10gb", "(none)")
    assert (impact.effect, impact.pods) == (Effect.ROLLS_NODES, None)
    assert (impact.old, impact.new) == ("1g.10gb x7", "3g.40gb x2")


def test_a_team_that_leaves_loses_access_and_its_data_is_listed() -> None:
    outputs, after = outputs_of(plan_of()), plan_of(teams=())
    impact, quota = classify(outputs, after, load_catalog(), live=live(data={"vision": (CLAIM,)}))
    assert (quota.effect, quota.old, quota.new) == (Effect.REMOVES_CAPACITY, "gpu: 8", "gpu: 0")
    assert (impact.subject, impact.effect) == ("team vision", Effect.CUTS_ACCESS)
    assert impact.old == "Group vision, User ada"
    assert impact.data == (CLAIM,)


def test_an_empty_namespace_deletes_no_data_if_the_cluster_was_read() -> None:
    objects = [ObjectChange(action="delete", kind="Namespace", namespace="", name="vision")]
    read = classify(outputs_of(plan_of()), plan_of(teams=()), load_catalog(), live=live(), objects=objects)
    unread = classify(outputs_of(plan_of()), plan_of(teams=()), load_catalog(), live=None, objects=objects)
    others = [Effect.CUTS_ACCESS, Effect.REMOVES_CAPACITY]
    assert [impact.effect for impact in read] == others
    assert [impact.effect for impact in unread] == [Effect.DELETES_DATA, *others]


def test_the_running_workloads_of_a_team_that_leaves_or_is_renamed_stop() -> None:
    objects = [
        ObjectChange(action="delete", kind=kind, namespace="vision", name=name)
        for kind, name in (
            ("Deployment.apps", "web"),
            ("JobSet.jobset.x-k8s.io", "train"),
            ("RoleBinding", "team"),
        )
    ]
    served, trained = pod("a", owner="Deployment web"), pod("b", owner="Job train-node-0")
    for after in (plan_of(teams=()), plan_of(teams=[{**TEAM, "name": "images"}])):
        found = impacts(plan_of(), after, served, trained, pod("c", owner="Job own"), objects=objects)
        stopped = {one.subject: one.pods for one in found if one.effect is Effect.RESTARTS_PODS}
        assert stopped == {"Deployment vision/web": (served,), "JobSet vision/train": (trained,)}


def test_a_member_that_leaves_loses_access_and_a_new_one_takes_nothing_away() -> None:
    after = plan_of(teams=[{**TEAM, "members": ["group:vision", "user:bob"]}])
    [impact] = impacts(plan_of(), after)
    assert (impact.effect, impact.field) == (Effect.CUTS_ACCESS, "members")
    assert "User ada" in impact.because
    assert impacts(plan_of(), plan_of(teams=[{**TEAM, "members": [*TEAM["members"], "user:bob"]}])) == ()


def test_only_a_member_that_becomes_a_viewer_loses_access() -> None:
    only = {**TEAM, "members": ["group:vision"]}
    assert impacts(plan_of(), plan_of(teams=[{**only, "admins": ["user:ada"]}])) == ()
    [impact] = impacts(plan_of(), plan_of(teams=[{**only, "viewers": ["user:ada"]}]))
    assert (impact.effect, impact.field) == (Effect.CUTS_ACCESS, "members")


def test_an_admin_and_a_viewer_that_leave_lose_access() -> None:
    before = plan_of(teams=[{**TEAM, "admins": ["user:eve"], "viewers": ["user:tim"]}])
    read = [(impact.effect, impact.field) for impact in impacts(before, plan_of())]
    assert sorted(read, key=str) == [(Effect.CUTS_ACCESS, "admins"), (Effect.CUTS_ACCESS, "viewers")]


def test_only_a_revoked_permission_cuts_access() -> None:
    allowed = {
        **TEAM,
        "routes": {"hosts": ["ml.example.com"], "annotations": ["acme.io/waf"]},
        "scaling": {"servers": ["http://metrics.obs.svc:9090"], "triggers": ["kafka"]},
        "inline_csi_drivers": ["secrets-store.csi.k8s.io"],
    }
    [impact] = impacts(plan_of(teams=[allowed]), plan_of())
    assert (impact.effect, impact.field) == (Effect.CUTS_ACCESS, "permissions")
    assert impact.because.startswith(
        "routes of ml.example.com, annotation acme.io/waf, triggers that ask http://metrics.obs.svc:9090, "
        "triggers of type kafka, volumes of CSI driver secrets-store.csi.k8s.io: lost permission"
    )
    assert impacts(plan_of(), plan_of(teams=[allowed])) == ()


def test_a_cleanup_that_starts_to_delete_is_announced() -> None:
    def cleaning(*, delete: bool, after: str = "168h") -> EnvironmentPlan:
        return plan_of(cleanup={"delete": delete, "finished_after": after})

    [begins] = impacts(cleaning(delete=False), cleaning(delete=True))
    assert (begins.effect, begins.new) == (
        Effect.REMOVES_CAPACITY,
        "deletes objects that ended 168 h ago, objects that have expired",
    )
    [sooner] = impacts(cleaning(delete=True), cleaning(delete=True, after="24h"))
    assert (sooner.effect, sooner.old) == (Effect.REMOVES_CAPACITY, begins.new)
    [ends] = impacts(cleaning(delete=True), plan_of())
    assert ends.effect is Effect.IN_PLACE


def test_other_times_of_a_pool_are_announced_and_fewer_hours_remove_capacity() -> None:
    def on(start: str, stop: str) -> EnvironmentPlan:
        schedule = {"days": ["mon", "tue"], "start": start, "stop": stop}
        settings = {"machine_type": "g6.4xlarge", "workload": "development", "zones": ["us-east-2a"]}
        return plan_eks({**settings, "schedule": schedule}, cluster=EXISTING)

    [shorter] = impacts(on("07:00", "20:00"), on("07:00", "18:00"))
    [later] = impacts(on("07:00", "20:00"), on("08:00", "21:00"))
    assert (shorter.effect, later.effect) == (Effect.REMOVES_CAPACITY, Effect.IN_PLACE)
    assert (later.old, later.new) == ("mon, tue 07:00 to 20:00 (UTC)", "mon, tue 08:00 to 21:00 (UTC)")


def test_a_removed_bucket_or_pull_secret_cuts_access() -> None:
    bucket = {"name": "acme-datasets"}

    def with_buckets(*buckets: dict[str, str], **rest: Any) -> EnvironmentPlan:
        team = {**TEAM, "identity": {"buckets": list(buckets)}, "image_pull_secrets": ["registry"], **rest}
        return plan_eks({"count": {"desired": 2}, "zones": ["us-east-2a"]}, cluster=EXISTING, teams=[team])

    written = with_buckets({**bucket, "access": "write"})
    assert impacts(with_buckets(bucket), written) == ()
    [impact] = impacts(written, with_buckets(bucket))
    assert (impact.effect, impact.field) == (Effect.CUTS_ACCESS, "identity")
    assert impact.because.startswith("write s3://acme-datasets/: lost")
    [impact] = impacts(written, with_buckets({**bucket, "access": "write"}, image_pull_secrets=[]))
    assert (impact.effect, impact.field, impact.old) == (Effect.CUTS_ACCESS, "image_pull_secrets", "registry")
    fields = [impact.field for impact in impacts(written, with_buckets(identity=None))]
    assert fields == ["identity"]


def test_limits_of_objects_over_a_team_deployed_without_them_are_announced() -> None:
    outputs = dict(outputs_of(plan_of()))
    outputs["teams"] = {
        name: {key: value for key, value in facts.items() if key != "objects"}
        for name, facts in outputs["teams"].items()
    }
    [impact] = classify(outputs, plan_of(), load_catalog(), live=live())
    assert (impact.effect, impact.field, impact.old) == (Effect.REMOVES_CAPACITY, "quota.objects", "unlimited")
    assert "services.loadbalancers: 0" in impact.new


def test_a_raised_pod_security_level_is_announced_and_stops_no_pod() -> None:
    open_team = plan_of(teams=[{**TEAM, "pod_security": "baseline"}])
    [raised] = impacts(open_team, plan_of(), pod("a"))
    assert (raised.effect, raised.field) == (Effect.CUTS_ACCESS, "pod_security")
    assert (raised.old, raised.new, raised.pods) == ("baseline", "restricted", ())
    assert "running pods stay" in raised.because
    [lowered] = impacts(plan_of(), open_team, pod("a"))
    assert (lowered.effect, lowered.old, lowered.new) == (Effect.IN_PLACE, "restricted", "baseline")
    assert impacts(open_team, open_team) == ()


def test_a_team_deployed_before_the_level_could_be_chosen_had_baseline() -> None:
    outputs = dict(outputs_of(plan_of()))
    outputs["teams"] = {
        name: {key: value for key, value in facts.items() if key != "pod_security"}
        for name, facts in outputs["teams"].items()
    }
    [impact] = classify(outputs, plan_of(), load_catalog(), live=live())
    assert (impact.field, impact.old, impact.new) == ("pod_security", "baseline", "restricted")
    kept = plan_of(teams=[{**TEAM, "pod_security": "baseline"}])
    assert classify(outputs, kept, load_catalog(), live=live()) == ()


def test_a_lower_quota_removes_capacity_and_names_what_is_in_use_above_it() -> None:
    after = plan_of(teams=[{**TEAM, "quota": {**TEAM["quota"], "gpus": 4}}])
    [impact] = impacts(plan_of(), after, pod("a"))
    assert (impact.effect, impact.field) == (Effect.REMOVES_CAPACITY, "quota")
    assert "8 x gpu in use, 4 allowed" in impact.because
    raised = plan_of(teams=[{**TEAM, "quota": {**TEAM["quota"], "gpus": 16}}])
    assert impacts(plan_of(), raised) == ()


QUEUED = {"quota": {**TEAM["quota"], "gpus": {"train": 4, "other": 4}}}


def queued_plan(
    *teams: Mapping[str, Any], queueing: Mapping[str, Any] | None = None, **changed: Any
) -> EnvironmentPlan:
    """Return the plan of a stack with queues and two pools of different GPUs. `changed` sets fields of team
    vision.
    """
    pools = [
        {"name": name, "machine_type": machine, "count": {"desired": 1}, "workload": "training"}
        for name, machine in (("train", "p4de.24xlarge"), ("other", "g6.48xlarge"))
    ]
    document = {"kind": "environment", "cluster": {"provider": "sandbox"}, "pools": pools}
    own = {**TEAM, **QUEUED, **changed}
    plan = plan_platform({**document, "queueing": queueing or {}, "teams": [own, *teams]}, "test")
    assert plan.kind == "environment"
    return plan


OTHERS = {**TEAM, **QUEUED, "name": "nlp"}


@pytest.mark.parametrize(
    ("vision", "nlp"),
    [
        ({"queue": {"borrow": {}}}, {}),
        ({"queue": {"cohort": "solo", "borrow": {}}}, {}),
        ({}, {"queue": {"lend": {}}}),
    ],
    ids=["its own limit", "another cohort", "what another team lends"],
)
def test_a_team_that_may_borrow_less_loses_capacity(vision: Mapping[str, Any], nlp: Mapping[str, Any]) -> None:
    found = impacts(queued_plan(OTHERS), queued_plan({**OTHERS, **nlp}, **vision))
    [impact] = [one for one in found if (one.subject, one.field) == ("team vision", "queue.borrow")]
    assert impact.effect is Effect.REMOVES_CAPACITY
    assert (impact.old, impact.new) == (
        "gpu borrowed on train: 4, gpu borrowed on other: 4",
        "gpu borrowed on train: 0, gpu borrowed on other: 0",
    )


def test_a_lower_borrowing_limit_explains_what_happens_to_lost_pods() -> None:
    after = queued_plan(OTHERS, queue={"borrow": {}})
    [impact] = impacts(queued_plan(OTHERS), after, pod("a"), pod("b"))
    assert impact.field == "queue.borrow"
    assert "run until a team of cohort teams needs its own quota" in impact.because
    assert "a pod that is lost to a drain, an upgrade or spot capacity is not replaced" in impact.because
    assert impact.because.endswith("now 16 x gpu in use, 8 allowed")


def test_another_cohort_explains_how_to_end_work_on_borrowed_quota() -> None:
    after = queued_plan(OTHERS, queue={"cohort": "solo"})
    [impact] = [one for one in impacts(queued_plan(OTHERS), after) if one.field == "queue.cohort"]
    assert (impact.subject, impact.effect) == ("team vision", Effect.REMOVES_CAPACITY)
    assert (impact.old, impact.new) == ("cohort teams", "cohort solo")
    assert "Kueue reclaims quota only within a cohort" in impact.because
    assert (
        """kubectl patch clusterqueue vision --type merge -p '{"spec": {"stopPolicy": "None"}}'"""
        in impact.because
    )


@pytest.mark.parametrize(
    ("field", "fewer"),
    [
        ("queueing.preemption.reclaim", {"preemption": {"reclaim": "never"}}),
        ("queueing.preemption.reclaim", {"preemption": {"reclaim": "lower-priority"}}),
        ("queueing.preemption.within_team", {"preemption": {"within_team": "never"}}),
        ("queueing.fair_sharing", {"fair_sharing": False}),
    ],
    ids=["nothing", "lower classes", "own team", "no weights"],
)
def test_what_waiting_workloads_no_longer_stop_is_said_once_for_all_queues(
    field: str, fewer: Mapping[str, Any]
) -> None:
    before, after = queued_plan(OTHERS), queued_plan(OTHERS, queueing=fewer)
    [less] = impacts(before, after)
    assert (less.subject, less.field, less.effect) == ("queues", field, Effect.REMOVES_CAPACITY)
    [more] = impacts(after, before)
    assert (more.field, more.effect) == (field, Effect.RESTARTS_PODS)
    assert (more.old, more.new) == (less.new, less.old)


def test_fair_sharing_of_a_kueue_that_its_owner_configures_is_not_compared() -> None:
    outputs: Any = outputs_of(queued_plan(queueing={"fair_sharing": False}))
    outputs["software"]["fair_sharing"] = None
    assert classify(outputs, queued_plan(), load_catalog(), live=live()) == ()


def test_quota_that_becomes_the_teams_own_is_not_lost_to_borrow() -> None:
    own = {**TEAM["quota"], "gpus": {"train": 8, "other": 8}}
    assert impacts(queued_plan(), queued_plan(quota=own)) == ()


def test_quota_that_moves_to_other_gpus_is_lost_on_the_first_pool() -> None:
    moved = {**TEAM["quota"], "gpus": {"train": 2, "other": 6}}
    [impact] = impacts(queued_plan(), queued_plan(quota=moved))
    assert (impact.effect, impact.field) == (Effect.REMOVES_CAPACITY, "quota by pool")
    assert (impact.old, impact.new) == ("gpu on train: 4", "gpu on train: 2")
    lower = {**TEAM["quota"], "gpus": {"train": 2, "other": 4}}
    assert [one.field for one in impacts(queued_plan(), queued_plan(quota=lower))] == ["quota"]


@pytest.mark.parametrize(
    ("before", "after", "old", "new"),
    [("default", "refuse", "default", "vision"), ("refuse", "default", "vision", "default")],
)
def test_another_name_of_the_queue_tells_members_what_to_write(
    before: str, after: str, old: str, new: str
) -> None:
    first, second = (queued_plan(queueing={"without_queue": mode}) for mode in (before, after))
    [impact] = impacts(first, second)
    assert (impact.subject, impact.effect) == ("team vision", Effect.CUTS_ACCESS)
    assert (impact.old, impact.new) == (f"queue {old}", f"queue {new}")
    assert f"names queue {old}, which is deleted" in impact.because
    assert f"write the label kueue.x-k8s.io/queue-name: {new} on waiting Jobs" in impact.because


def test_a_deployment_of_a_release_that_did_not_write_the_queue_is_not_compared() -> None:
    outputs: Any = outputs_of(queued_plan(queueing={"without_queue": "refuse"}))
    del outputs["teams"]["vision"]["queue"]
    assert classify(outputs, queued_plan(), load_catalog(), live=live()) == ()


def mig_plan(layout: Mapping[str, int], quota: Mapping[str, int]) -> EnvironmentPlan:
    team = {**TEAM, "quota": {"mig": quota, "cpu": 100, "memory": "1Ti"}}
    return plan_of(sharing={"mode": "mig", "layout": layout}, workload="development", teams=[team])


def test_a_resource_that_a_team_loses_completely_is_a_lower_quota() -> None:
    before = mig_plan({"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2}, {"3g.40gb": 8, "2g.20gb": 8, "1g.10gb": 8})
    after = mig_plan({"1g.10gb": 7}, {"1g.10gb": 8})
    held = dataclasses.replace(pod("a"), units={"nvidia.com/mig-3g.40gb": 2})
    [impact] = [one for one in impacts(before, after, held) if one.subject == "team vision"]
    assert impact.effect is Effect.REMOVES_CAPACITY
    assert (impact.old, impact.new) == ("mig-2g.20gb: 8, mig-3g.40gb: 8", "mig-2g.20gb: 0, mig-3g.40gb: 0")
    assert "2 x mig-3g.40gb in use, 0 allowed" in impact.because


def test_a_resource_that_no_pool_offers_any_more_names_the_owners_of_its_pods() -> None:
    layout = {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2}
    before, after = (mig_plan(one, {"1g.10gb": 8}) for one in (layout, {"1g.10gb": 7}))
    waits = dataclasses.replace(pod("a", node="None"), units={"nvidia.com/mig-3g.40gb": 1})
    others = dataclasses.replace(pod("b", owner="Job other"), units={"nvidia.com/mig-1g.10gb": 1})
    [gone] = [one for one in impacts(before, after, waits, others) if one.subject == "resources"]
    assert (gone.effect, gone.old) == (Effect.REMOVES_CAPACITY, "mig-2g.20gb, mig-3g.40gb")
    assert gone.because.endswith("never start; now requested by vision: Job pretrain")


def test_the_resource_of_a_removed_pool_is_gone_unless_another_pool_offers_it() -> None:
    shared = plan_of(sharing={"mode": "time-slicing", "replicas": 4}, name="other", workload="inference", teams=())
    found = impacts(plan_of(teams=()), shared, pod("a"))
    assert [one.subject for one in found if one.because.endswith("vision: Job pretrain")] == ["resources"]
    renamed = impacts(plan_of(teams=()), plan_of(name="other", teams=()), pod("a"))
    assert [one.subject for one in renamed] == ["pool train"]


def test_a_machine_with_fewer_gpus_removes_capacity() -> None:
    found = impacts(plan_of(teams=()), plan_of(machine_type="g6.12xlarge", workload="inference", teams=()))
    [fewer] = [one for one in found if one.effect is Effect.REMOVES_CAPACITY]
    assert (fewer.subject, fewer.old, fewer.new) == ("pool train", "16 x gpu", "8 x gpu")


def test_a_pool_of_existing_nodes_that_goes_removes_capacity() -> None:
    outputs = json.loads(json.dumps(outputs_of(plan_of(teams=()))))
    outputs["pools"]["lab"] = {**outputs["pools"]["train"], "platform": "existing"}
    outputs["software"]["pools"]["lab"] = outputs["software"]["pools"]["train"]
    after = plan_of(teams=())
    pools = pool_changes(outputs["pools"], after, load_catalog())
    [impact] = classify(outputs, after, load_catalog(), live=LiveState(nodes={"lab": ("n1",)}), pools=pools)
    assert (impact.subject, impact.effect) == ("pool lab", Effect.REMOVES_CAPACITY)
    assert (impact.old, impact.nodes) == ("8 x gpu", 1)


def test_a_first_limit_of_memory_removes_capacity_and_its_end_does_not() -> None:
    free = plan_of(teams=[{**TEAM, "quota": {"gpus": 8, "cpu": 100}}])
    [impact] = impacts(free, plan_of())
    assert (impact.old, impact.new) == ("unlimited", "memory: 1Ti")
    assert impacts(plan_of(), free) == ()


@pytest.mark.parametrize(
    ("queue", "over"), [({"borrow": {}}, "; now 8 x gpu in use, 4 allowed"), ({}, "goes back to the queue")]
)
def test_lost_pods_above_a_lower_quota_are_not_replaced(queue: Mapping[str, Any], over: str) -> None:
    def queued(gpus: int) -> EnvironmentPlan:
        team = {**TEAM, "quota": {**TEAM["quota"], "gpus": gpus}, "queue": queue}
        return plan_of(teams=[team], queueing={})

    [impact] = [one for one in impacts(queued(8), queued(4), pod("a")) if one.field == "quota"]
    assert "the queue starts the next workload when usage is below the quota" in impact.because
    assert (
        "while the team uses more than its quota and borrowing limit together, a pod that is lost"
        in impact.because
    )
    assert impact.because.endswith(over)


def test_the_worst_change_comes_first() -> None:
    after = plan_of(teams=(), count={"desired": 1})
    objects = [ObjectChange(action="delete", kind="Namespace", namespace="", name="vision")]
    found = classify(
        outputs_of(plan_of()),
        after,
        load_catalog(),
        live=live(data={"vision": (CLAIM,)}),
        pools=pool_changes(pool_facts(plan_of()), after, load_catalog()),
        objects=objects,
    )
    assert [impact.effect for impact in found] == [
        Effect.DELETES_DATA,
        Effect.CUTS_ACCESS,
        Effect.REMOVES_CAPACITY,
        Effect.REMOVES_CAPACITY,
    ]
    assert found[0].data == (CLAIM,)


@pytest.mark.parametrize("action", ["update", "delete"])
def test_a_disruption_budget_does_not_block_pods_that_their_controller_deletes(action: str) -> None:
    template = ChangedField("spec.template.spec.containers[0].image", "a", "b")
    change = ObjectChange(
        action=action, kind="Deployment.apps", namespace="vision", name="web", fields=(template,)
    )
    why = Block(pods=("vision/a",), budgets=("vision/guard",), forever=True, why="never allows an eviction")
    held = dataclasses.replace(pod("a", owner="Deployment web"), block=why)
    [impact] = impacts(plan_of(), plan_of(), held, objects=[change])
    assert [one.name for one in impact.stopping] == ["a"]
    assert (impact.blocks, impact.blocked, impact.budgets) == ((), False, ())


def test_the_pods_of_a_changed_deployment_are_restarted() -> None:
    template = ChangedField("spec.template.spec.containers[main].image", "a", "b")
    change = ObjectChange(
        action="update", kind="Deployment.apps", namespace="vision", name="web", fields=(template,)
    )
    held = pod("a", owner="Deployment web")
    [impact] = impacts(plan_of(), plan_of(), held, pod("b"), objects=[change])
    assert impact.effect is Effect.RESTARTS_PODS
    assert impact.pods == (held,)


@pytest.mark.parametrize(
    ("kind", "own"),
    [
        ("Job.batch", ("Job pretrain",)),
        ("JobSet.jobset.x-k8s.io", ("Job pretrain-node-0", "Job pretrain-node-11")),
        ("TrainJob.trainer.kubeflow.org", ("Job pretrain-node-0",)),
        ("LeaderWorkerSet.leaderworkerset.x-k8s.io", ("StatefulSet pretrain", "StatefulSet pretrain-0")),
        ("RayCluster.ray.io", ("RayCluster pretrain",)),
    ],
)
def test_the_pods_of_a_job_that_begins_again_are_those_of_its_controllers(kind: str, own: tuple[str, ...]) -> None:
    change = ObjectChange(action="replace", kind=kind, namespace="vision", name="pretrain", fields=())
    others = ("Job pretrain-2-node-0", "Job pretrain-2", "StatefulSet pretrain-2-0", "RayCluster pretrain-2")
    running = [pod(f"p{number}", owner=owner) for number, owner in enumerate((*own, *others))]
    [impact] = impacts(plan_of(), plan_of(), *running, objects=[change])
    assert impact.effect is Effect.RESTARTS_PODS
    assert impact.pods == tuple(running[: len(own)])


@pytest.mark.parametrize(
    ("action", "kind", "fields", "effect"),
    [
        ("create", "PersistentVolumeClaim", (), Effect.IN_PLACE),
        ("update", "ConfigMap", (ChangedField("data.a", "1", "2"),), Effect.IN_PLACE),
        ("delete", "ConfigMap", (), Effect.IN_PLACE),
        ("replace", "ConfigMap", (), Effect.IN_PLACE),
        ("replace", "DaemonSet.apps", (), Effect.RESTARTS_PODS),
        ("replace", "Job.batch", (), Effect.RESTARTS_PODS),
        ("replace", "JobSet.jobset.x-k8s.io", (), Effect.RESTARTS_PODS),
        ("replace", "TrainJob.trainer.kubeflow.org", (), Effect.RESTARTS_PODS),
        ("delete", "Job.batch", (), Effect.RESTARTS_PODS),
        ("delete", "CronJob.batch", (), Effect.RESTARTS_PODS),
        ("delete", "RayCluster.ray.io", (), Effect.RESTARTS_PODS),
        ("delete", "LeaderWorkerSet.leaderworkerset.x-k8s.io", (), Effect.RESTARTS_PODS),
        (
            "update",
            "LeaderWorkerSet.leaderworkerset.x-k8s.io",
            (ChangedField("spec.leaderWorkerTemplate.leaderTemplate.spec.containers[main].image", "a", "b"),),
            Effect.RESTARTS_PODS,
        ),
        (
            "update",
            "RayCluster.ray.io",
            (ChangedField("spec.workerGroupSpecs", [{"groupName": "gpu"}], []),),
            Effect.RESTARTS_PODS,
        ),
        (
            "update",
            "CronJob.batch",
            (ChangedField("spec.jobTemplate.spec.template.spec.containers[main].image", "a", "b"),),
            Effect.IN_PLACE,
        ),
        ("replace", "RoleBinding.rbac.authorization.k8s.io", (), Effect.CUTS_ACCESS),
        ("replace", "Node", (), Effect.REPLACES),
        ("replace", "aws:eks/nodeGroup:NodeGroup", (), Effect.REPLACES),
        ("delete", "PersistentVolumeClaim", (), Effect.DELETES_DATA),
        ("replace", "PersistentVolumeClaim", (), Effect.DELETES_DATA),
        ("replace", "aws:eks/cluster:Cluster", (), Effect.DELETES_DATA),
        ("delete", "StatefulSet.apps", (), Effect.DELETES_DATA),
        ("delete", "CustomResourceDefinition.apiextensions.k8s.io", (), Effect.DELETES_DATA),
        ("delete", "RoleBinding.rbac.authorization.k8s.io", (), Effect.CUTS_ACCESS),
        ("delete", "aws:eks/accessEntry:AccessEntry", (), Effect.CUTS_ACCESS),
        ("delete", "DaemonSet.apps", (), Effect.RESTARTS_PODS),
        ("delete", "aws:eks/nodeGroup:NodeGroup", (), Effect.REMOVES_CAPACITY),
        ("update", "Deployment.apps", (ChangedField("spec.replicas", 2, 1),), Effect.IN_PLACE),
        (
            "update",
            "Role.rbac.authorization.k8s.io",
            (ChangedField("rules", ["get", "list"], ["get"]),),
            Effect.CUTS_ACCESS,
        ),
        (
            "update",
            "Role.rbac.authorization.k8s.io",
            (ChangedField("rules", ["get"], ["get", "list"]),),
            Effect.IN_PLACE,
        ),
        (
            "update",
            "RoleBinding.rbac.authorization.k8s.io",
            (ChangedField("metadata.labels.a", "1", "2"),),
            Effect.IN_PLACE,
        ),
    ],
)
def test_the_change_of_an_object_is_classified_by_kind_action_and_fields(
    action: str, kind: str, fields: tuple[ChangedField, ...], effect: Effect
) -> None:
    assert object_effect(action, kind, fields) is effect


def test_the_worst_of_no_effects_is_in_place() -> None:
    assert worst([]) is Effect.IN_PLACE
    assert worst([Effect.ROLLS_NODES, Effect.DELETES_DATA, Effect.IN_PLACE]) is Effect.DELETES_DATA


def test_only_changes_to_nodes_need_a_maintenance_window() -> None:
    base = plan_of(sharing={"mode": "time-slicing", "replicas": 4}, workload="inference", teams=())
    fewer = plan_of(sharing={"mode": "time-slicing", "replicas": 2}, workload="inference", teams=())
    [offers] = impacts(base, fewer)
    assert (offers.effect, offers.changes_nodes) == (Effect.REMOVES_CAPACITY, False)
    versions = load_catalog().operator_releases["v26.7.0"].drivers
    before, after = (plan_of(operator={"driver": {"version": one}}) for one in (versions[0], versions[1]))
    assert [impact.changes_nodes for impact in impacts(before, after)] == [True]
    whole = plan_of(sharing={"mode": "mig", "layout": {"1g.10gb": 7}}, workload="development", teams=())
    cut = plan_of(sharing={"mode": "mig", "layout": {"3g.40gb": 2}}, workload="development", teams=())
    changing = [impact.effect for impact in impacts(whole, cut) if impact.changes_nodes]
    assert changing == [Effect.ROLLS_NODES]


EVICTING = {"key": "maintenance", "value": "yes", "effect": "NoExecute"}


def tolerant(name: str, **toleration: Any) -> RunningPod:
    return dataclasses.replace(pod(name), tolerations=({"key": "maintenance", **toleration},))


def managed(cloud: str, **fields: Any) -> EnvironmentPlan:
    """Return the plan of a pool with nodes that a cloud creates and updates in place."""
    if cloud == "eks":
        return plan_eks({"machine_type": "g6.4xlarge", "workload": "inference", "count": {"desired": 2}, **fields})
    entry = {"name": "train", "machine_type": "g2-standard-48", "count": {"desired": 2}, "workload": "inference"}
    cluster = {"provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1", "create": {}}
    pools = [{**entry, "zones": ["us-central1-a"], **fields}]
    plan = plan_platform({"kind": "environment", "cluster": cluster, "pools": pools}, "test")
    assert plan.kind == "environment"
    return plan


@pytest.mark.parametrize("cloud", ["eks", "gke"])
def test_a_new_no_execute_taint_ends_the_pods_that_do_not_tolerate_it(cloud: str) -> None:
    pods = (
        pod("held", "train-0", 8, "Job pretrain", "vision/pdb"),
        tolerant("stays", operator="Exists"),
        tolerant("for-a-while", operator="Exists", tolerationSeconds=60),
        tolerant("other-value", operator="Equal", value="no"),
    )
    [impact] = impacts(managed(cloud), managed(cloud, taints=[EVICTING]), *pods)
    assert (impact.subject, impact.effect, impact.nodes) == ("pool train", Effect.ROLLS_NODES, 2)
    assert (impact.field, impact.new) == ("pools[0].taints", "maintenance=yes:NoExecute")
    assert [one.name for one in impact.stopping] == ["held", "for-a-while", "other-value"]
    assert not impact.blocked
    assert impact.budgets == ()
    assert impact.changes_nodes


@pytest.mark.parametrize("taints", [[], [EVICTING | {"effect": "NoSchedule"}]])
def test_taints_that_end_no_pod_are_not_announced(taints: list[dict[str, str]]) -> None:
    assert impacts(managed("eks"), managed("eks", taints=taints), pod("a")) == ()


def test_a_no_execute_taint_that_goes_ends_no_pod() -> None:
    assert impacts(managed("eks", taints=[EVICTING]), managed("eks"), pod("a")) == ()


def test_a_no_execute_taint_of_a_deployment_by_an_older_release_is_not_new() -> None:
    plan = managed("eks", taints=[EVICTING])
    outputs = json.loads(json.dumps(outputs_of(plan)))
    del outputs["software"]["pools"]["train"]["evicting_taints"]
    assert classify(outputs, plan, load_catalog(), live=live(pod("a"))) == ()


@pytest.mark.parametrize("cloud", ["eks", "gke"])
def test_a_label_that_running_nodes_lose_is_announced(cloud: str) -> None:
    before = managed(cloud, labels={"example.com/disk": "fast", "example.com/rack": "a"})
    after = managed(cloud, labels={"example.com/disk": "slow", "example.com/rack": "a"})
    [impact] = impacts(before, after)
    assert (impact.effect, impact.field) == (Effect.REMOVES_CAPACITY, "pools[0].labels")
    assert (impact.old, impact.new) == ("example.com/disk=fast", "example.com/disk=slow")
    assert "pods of DaemonSets that select the old label are deleted from these nodes" in impact.because


def test_a_label_that_running_nodes_get_is_not_announced() -> None:
    assert impacts(managed("eks"), managed("eks", labels={"example.com/disk": "fast"})) == ()
