"""The maximum duration of a change, what limits it, and changes without a limit."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from gpu_platform.base import names
from gpu_platform.catalog import load_catalog
from gpu_platform.deploy.embedded.wait import DEFAULT_TIMEOUT_SECONDS
from gpu_platform.planning.changes import durations
from gpu_platform.planning.changes.classify import classify
from gpu_platform.planning.changes.deployed import software_facts, team_facts
from gpu_platform.planning.changes.impact import Impact, MigNodeChange, ObjectChange
from gpu_platform.planning.changes.live_types import LiveState
from gpu_platform.planning.changes.objects import ChangedField
from gpu_platform.planning.changes.pool_facts import pool_facts
from gpu_platform.planning.changes.pools import pool_changes
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan, KarpenterPoolPlan
from gpu_platform.planning.clouds.gke.plan import GkeClusterPlan, GkePoolPlan, UpgradeSettings
from gpu_platform.planning.clouds.windows import CapacityWindow
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from tests.support.cloud_plans import environment, filled, on_cloud, with_cloud

EKS = filled(EksClusterPlan, name="ml", region="us-east-2", kubernetes="1.35")
GKE = filled(GkeClusterPlan, name="ml", project="p", location="us-central1")
HOUR, MINUTE = 3600, 60
DRIVERS = load_catalog().operator_releases["v26.7.0"].drivers


def impacts(before: EnvironmentPlan, after: EnvironmentPlan, **rest: Any) -> tuple[Impact, ...]:
    facts = {"pools": pool_facts(before), "software": software_facts(before), "teams": team_facts(before)}
    outputs = json.loads(json.dumps(facts))
    pools = pool_changes(outputs["pools"], after, load_catalog())
    arguments: dict[str, Any] = {"live": None, "pools": pools, **rest}
    return classify(outputs, after, load_catalog(), **arguments)


def duration(before: EnvironmentPlan, after: EnvironmentPlan, **rest: Any) -> durations.Duration:
    [found] = [impact.duration for impact in impacts(before, after, **rest) if impact.duration is not None]
    return found


def eks(names: tuple[str, ...] = ("train",), nodes: int = 4, **fields: Any) -> EnvironmentPlan:
    group = filled(
        EksPoolPlan, node_group="train", instance_type="p4de.24xlarge", **{"max_unavailable": 3, **fields}
    )
    return on_cloud(environment(dict.fromkeys(names, nodes)), EKS, **dict.fromkeys(names, group))


def gke(**fields: Any) -> EnvironmentPlan:
    upgrade = UpgradeSettings(strategy="SURGE", max_surge=1, max_unavailable=1)
    pool = filled(GkePoolPlan, node_pool="train", **{"upgrade": upgrade, **fields})
    return on_cloud(environment({"train": 4}), GKE, train=pool)


def karpenter(requirement: str, *budgets: dict[str, Any], **fields: Any) -> EnvironmentPlan:
    spec = {"requirements": [{"key": "instance", "values": [requirement]}], "terminationGracePeriod": "12h"}
    node_pool = {"template": {"spec": spec}, "disruption": {"budgets": list(budgets)}}
    pool = filled(KarpenterPoolPlan, name="train", node_class={}, node_pool=node_pool, **fields)
    return on_cloud(environment({"train": 4}), EKS, train=pool)


def sandbox(**fields: Any) -> EnvironmentPlan:
    pools = [{"name": "train", "machine_type": "p4de.24xlarge", "count": {"desired": 2}, "workload": "training"}]
    document = {"kind": "environment", "cluster": {"provider": "sandbox"}, "pools": pools, **fields}
    plan = plan_platform(document, "test")
    assert plan.kind == "environment"
    return plan


# -- pools ------------------------------------------------------------------------------------------------------


def test_a_rolled_node_group_is_limited_by_engine_rounds_and_drain() -> None:
    found = duration(eks(ami="ami-1"), eks(ami="ami-2"))
    assert found.seconds == 6 * HOUR
    assert "2 rounds of 3 nodes, drain 15 min for each node, then the update fails" in found.why


def test_a_removed_node_group_ends_at_the_engines_limit_for_its_deletion() -> None:
    found = duration(eks(("train", "old")), eks())
    assert found.seconds == 2 * HOUR
    assert "drain 15 min for each node, then its pods are deleted" in found.why


def test_a_replaced_node_group_takes_its_creation_and_its_deletion() -> None:
    found = duration(eks(capacity_type="ON_DEMAND"), eks(capacity_type="SPOT"))
    assert found.seconds == HOUR + 2 * HOUR
    assert "1 h for the new pool, 2 h for the deletion of the old pool" in found.why


def test_a_renamed_node_group_takes_the_creation_of_its_successor_too() -> None:
    assert duration(eks(), eks(("training",))).seconds == HOUR + 2 * HOUR


def test_a_replaced_clusters_time_is_added_to_its_pools_time() -> None:
    before = eks()
    moved = dataclasses.replace(EKS, region="us-east-1")
    after = dataclasses.replace(before, cluster=with_cloud(before.cluster, moved, before.pools))
    assert "the replacement of the cluster takes additional time" in duration(before, after).why


def test_a_gke_pool_rolls_as_many_nodes_together_as_its_upgrade_settings_allow() -> None:
    found = duration(gke(image_type="COS_CONTAINERD"), gke(image_type="UBUNTU_CONTAINERD"))
    assert found.seconds == 24 * HOUR
    assert "2 rounds of 2 nodes, drain 1 h for each node" in found.why


def test_a_blue_green_pool_is_replaced_all_together() -> None:
    upgrade = UpgradeSettings(strategy="BLUE_GREEN", max_surge=None, max_unavailable=None)
    found = duration(gke(image_type="a", upgrade=upgrade), gke(image_type="b", upgrade=upgrade))
    assert "all nodes together" in found.why


@pytest.mark.parametrize(
    ("budgets", "allowed"),
    [
        (({"nodes": "10%"},), "10% of the nodes at a time"),
        (
            ({"nodes": "100%", "reasons": ["Empty"]}, {"nodes": "0", "reasons": ["Drifted"]}),
            "allows no replacement",
        ),
    ],
)
def test_nothing_limits_how_long_karpenter_replaces_nodes(
    budgets: tuple[dict[str, Any], ...], allowed: str
) -> None:
    found = duration(karpenter("a", *budgets), karpenter("b", *budgets))
    assert found.seconds is None
    assert str(found).startswith("no limit: Karpenter replaces the nodes after the deployment")
    assert allowed in found.why
    assert "at most 12 h (terminationGracePeriod)" in found.why


RESERVED = (CapacityWindow(reservation="cr-0a1b2c3d4e5f60718", zone="us-east-2a", starts=None, ends=None),)


@pytest.mark.parametrize(
    ("nodes", "reservations", "needs"), [("10%", RESERVED, True), ("10%", (), False), ("0", RESERVED, False)]
)
def test_karpenter_replaces_nodes_only_with_a_free_reserved_instance(
    nodes: str, reservations: tuple[CapacityWindow, ...], needs: bool
) -> None:
    before, after = (karpenter(one, {"nodes": nodes}, reservations=reservations) for one in ("p5", "p5e"))
    (impact,) = impacts(before, after)
    assert ("while the reservation has a free instance; the replacement is created first" in impact.order) is needs
    assert ("while the reservation has no free instance, a node" in str(impact.duration)) is needs


def test_simulated_nodes_are_deleted_within_the_engines_limit() -> None:
    found = duration(environment({"train": 1, "old": 2}), environment({"train": 1}))
    assert found.seconds == 10 * MINUTE
    assert "not drained" in found.why


def test_the_engines_limit_is_the_one_that_the_engine_has() -> None:
    assert durations.ENGINE_SECONDS == DEFAULT_TIMEOUT_SECONDS


# -- MIG --------------------------------------------------------------------------------------------------------


def mig(names: tuple[str, ...] = ("train",), layout: str = "1g.10gb", limit: int | None = None) -> EnvironmentPlan:
    sharing = {"mode": "mig", "layout": {layout: 2}, "drain_timeout": "10m"}
    pools = [
        {
            "name": name,
            "machine_type": "p4de.24xlarge",
            "count": {"desired": 3},
            "workload": "development",
            "sharing": sharing,
        }
        for name in names
    ]
    return sandbox(pools=pools, changes={"max_unavailable": limit})


def nodes(pool: str, count: int, **rest: Any) -> list[MigNodeChange]:
    fields: dict[str, Any] = {"at_a_time": 1, **rest}
    return [MigNodeChange(node=f"{pool}-{index}", pool=pool, old="a", new="b", **fields) for index in range(count)]


def test_a_layout_takes_rounds_of_all_limits_of_a_node() -> None:
    found = duration(mig(), mig(layout="2g.20gb"), live=LiveState(), mig=nodes("train", 3, at_a_time=2))
    assert found.seconds == 2 * (10 + 10 + 5 + 30 + 1) * MINUTE
    assert found.why == (
        "2 rounds of 2 nodes: disruption budgets 10 min, drain 10 min, restart of the MIG manager 5 min, "
        "partition 30 min, new resources 1 min"
    )


def test_a_node_whose_last_change_failed_is_partitioned_twice() -> None:
    found = duration(mig(), mig(layout="2g.20gb"), live=LiveState(), mig=nodes("train", 1, failed=True))
    assert found.seconds == (10 + 10 + 5 + 2 * 31) * MINUTE


def test_pools_that_share_a_limit_wait_for_each_other() -> None:
    both = ("lab", "train")
    changed = [*nodes("lab", 1), *nodes("train", 2)]
    found = impacts(mig(both, limit=1), mig(both, "2g.20gb", limit=1), live=LiveState(), mig=changed)
    assert [one.duration.seconds for one in found if one.duration is not None] == [3 * 56 * MINUTE] * 2
    alone = impacts(mig(both), mig(both, "2g.20gb"), live=LiveState(), mig=changed)
    assert sorted(one.duration.seconds or 0 for one in alone if one.duration) == [56 * MINUTE, 112 * MINUTE]


def test_the_only_pool_under_a_limit_waits_for_no_other() -> None:
    found = duration(mig(limit=1), mig(layout="2g.20gb", limit=1), live=LiveState(), mig=nodes("train", 2))
    assert found.seconds == 112 * MINUTE
    assert "other pools" not in found.why


def test_a_layout_is_limited_where_the_cluster_was_not_read_too() -> None:
    assert duration(mig(), mig(layout="2g.20gb")).seconds == 3 * 56 * MINUTE


# -- software ---------------------------------------------------------------------------------------------------


def test_nothing_limits_a_driver_and_the_limits_of_its_parts_are_named() -> None:
    before, after = (sandbox(operator={"driver": {"version": one}}) for one in DRIVERS[:2])
    found = duration(before, after)
    assert found.seconds is None
    assert "2 rounds of 1 node" in found.why
    assert "GPU pods have 15 min to terminate" in found.why
    assert "`up` waits for at most 15 min (validation.timeout)" in found.why


def test_the_duration_of_a_driver_says_that_a_window_does_not_end_it() -> None:
    window = {"window": {"days": ["sat"], "start": "22:00", "duration": "4h"}}
    before, after = (sandbox(operator={"driver": {"version": one}}, changes=window) for one in DRIVERS[:2])
    assert "the operator continues after the maintenance window closes" in str(duration(before, after))


def test_without_a_gate_up_does_not_wait_for_a_driver() -> None:
    gate = {"validation": {"gate": False}}
    before, after = (sandbox(operator={"driver": {"version": one}}, **gate) for one in DRIVERS[:2])
    assert "`up` does not wait for it" in duration(before, after).why


def test_helm_limits_another_operator_release_and_nothing_does_in_the_sandbox() -> None:
    plan = sandbox()
    assert durations.of_operator(plan).seconds is None
    by_helm = dataclasses.replace(plan, operator=dataclasses.replace(plan.operator, install="helm"))
    assert durations.of_operator(by_helm).seconds == 15 * MINUTE


def test_the_engine_limits_the_upgrade_of_a_control_plane_that_it_created() -> None:
    plan = eks()
    assert durations.of_kubernetes(plan).seconds is None
    created = dataclasses.replace(EKS, create=object())  # pyrefly: ignore[bad-argument-type]
    owned = dataclasses.replace(plan, cluster=dataclasses.replace(plan.cluster, cloud=created))
    assert durations.of_kubernetes(owned).seconds == 2 * HOUR
    assert durations.of_kubernetes(sandbox()).seconds is None


def test_replicas_have_no_limit_and_say_who_changes_them() -> None:
    def shared(replicas: int) -> EnvironmentPlan:
        sharing = {"mode": "time-slicing", "replicas": replicas}
        [pool] = [
            {
                "name": "serve",
                "machine_type": "p4de.24xlarge",
                "count": {"desired": 1},
                "workload": "inference",
                "sharing": sharing,
            }
        ]
        return sandbox(pools=[pool])

    assert "the device plugin of each node" in duration(shared(4), shared(2)).why


# -- objects ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "kind", "namespace", "seconds"),
    [
        ("update", "Deployment.apps", "gpu-monitoring", 10 * MINUTE),
        ("delete", "DaemonSet.apps", "gpu-monitoring", 10 * MINUTE),
        ("update", "DaemonSet.apps", names.VALIDATION_NAMESPACE, 20 * MINUTE),
        ("update", "Deployment.apps", "vision", None),
    ],
)
def test_an_object_has_the_limit_of_its_wait_and_workloads_of_teams_none(
    action: str, kind: str, namespace: str, seconds: int | None
) -> None:
    team = {"name": "vision", "quota": {"gpus": 1}, "priority": "training", "members": ["group:a"]}
    plan = sandbox(teams=[team], validation={"timeout": "20m"})
    field = ChangedField("spec.template.spec", "a", "b")
    change = ObjectChange(action=action, kind=kind, namespace=namespace, name="web", fields=(field,))
    assert duration(plan, plan, objects=[change]).seconds == seconds
