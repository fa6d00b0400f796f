"""Plans of AKS clusters: upgrades, what a preview compares, logins, system nodes and names."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.catalog import load_catalog
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.changes import classify, cluster_facts, pool_changes, pool_facts
from gpu_platform.planning.clouds.aks.names import (
    agent_pool_name,
    network_name,
    proximity_group_name,
    team_identity_name,
)
from gpu_platform.planning.clouds.aks.plan import AksClusterPlan
from gpu_platform.stack.loaded import plan_platform
from tests.components.aks.aks_recorded import CREATE, CREATED, EXISTING, ID, PRIVATE, SUBNET, TEAM, platform_of


def planned(*pools: dict[str, Any], cluster: dict[str, Any] = CREATED, **rest: Any) -> EnvironmentPlan:
    plan = plan_platform(platform_of(*pools, cluster=cluster, **rest), "test")
    assert plan.kind == "environment"
    return plan


def cloud(cluster: dict[str, Any] = CREATED, **rest: Any) -> AksClusterPlan:
    found = planned(cluster=cluster, **rest).cluster.cloud
    assert isinstance(found, AksClusterPlan)
    return found


def changed(before: EnvironmentPlan, after: EnvironmentPlan) -> list[tuple[str, list[str]]]:
    found = pool_changes(pool_facts(before), after, load_catalog())
    return [(one.effect, [cause.field for cause in one.causes]) for one in found]


@pytest.mark.parametrize(
    ("running", "words"),
    [("1.35", None), ("1.34", None), ("1.33", 'write kubernetes: "1.34"'), ("1.36", "does not downgrade")],
)
def test_aks_upgrades_by_one_minor_version_at_a_time(running: str, words: str | None) -> None:
    problem = cloud().kubernetes_problem(running)
    assert (problem is None) if words is None else (words in str(problem))


def test_the_version_of_an_existing_cluster_is_not_changed() -> None:
    assert cloud(EXISTING).kubernetes_problem("1.30") is None


def refusals(before: EnvironmentPlan, after: EnvironmentPlan) -> list[tuple[str, str]]:
    found = classify({"cluster": dict(cluster_facts(before))}, after, load_catalog(), live=None)
    return [(one.refusal.path, one.refusal.fix) for one in found if one.refusal is not None]


def created(**create: Any) -> EnvironmentPlan:
    return planned(cluster={**CREATED, "create": {**CREATE, **create}})


def test_up_refuses_a_new_range_of_nodes_which_azure_does_not_change() -> None:
    found = refusals(created(nodes_cidr="10.9.0.0/16"), created())
    assert found == [("cluster.create.nodes_cidr", "write nodes_cidr: 10.9.0.0/16")]


@pytest.mark.parametrize(("before", "after"), [("create", "existing"), ("existing", "create")])
def test_up_refuses_to_delete_or_create_the_resource_group_of_a_cluster(before: str, after: str) -> None:
    found = refusals(created(resource_group=before), created(resource_group=after))
    assert found == [("cluster.create.resource_group", f"write resource_group: {before}")]


def test_another_path_to_the_internet_ends_connections() -> None:
    before, after = (
        created(network={"subnet": SUBNET, "outbound": way}) for way in ("load-balancer", "user-defined-routing")
    )
    facts = {"cluster": dict(cluster_facts(before))}
    found = [one for one in classify(facts, after, load_catalog(), live=None) if "connections" in str(one)]
    assert [one.effect for one in found] == ["cuts-access"]


def test_a_new_kubernetes_version_rolls_the_nodes_of_a_new_cluster() -> None:
    newer = {**CREATED, "kubernetes": "1.36"}
    assert changed(planned(), planned(cluster=newer)) == [("rolled", ["cluster.kubernetes"])]


@pytest.mark.parametrize(
    ("pool", "field"),
    [
        ({"machine_type": "Standard_NC48ads_A100_v4"}, "pools[0].machine_type"),
        ({"disk": {"size_gb": 100}}, "pools[0].disk"),
        ({"zones": ["1"]}, "pools[0].capacity.zone or zones"),
        ({"bootstrap": {"kubelet": {"pod_pids_limit": 4096}}}, "bootstrap"),
    ],
)
def test_what_an_agent_pool_keeps_replaces_the_pool_delete_first(pool: dict[str, Any], field: str) -> None:
    before, after = planned(), planned(pool)
    (change,) = pool_changes(pool_facts(before), after, load_catalog())
    assert (change.effect, change.order) == ("replaced", "delete-first")
    assert any(field in cause.field for cause in change.causes)


def test_another_owner_of_the_driver_replaces_the_pool() -> None:
    by_aks = planned(operator={"driver": {"owner": "host"}})
    assert changed(planned(), by_aks) == [("replaced", ["operator.driver.owner"])]


def test_another_image_family_rolls_the_nodes() -> None:
    assert changed(planned(), planned({"image": {"family": "ubuntu2204"}})) == [
        ("rolled", ["pools[0].image.family"])
    ]


def test_a_preview_compares_access_and_system_nodes_of_a_new_cluster() -> None:
    names = {one.name for one in planned().cluster.settings}
    assert names >= {"api_access", "admins", "system_nodes", "system_template", "system_version"}
    assert planned(cluster=EXISTING).cluster.settings == ()


def test_members_log_in_with_the_azure_cli() -> None:
    guide = planned(teams=[TEAM]).guides[0]
    assert "az aks get-credentials" in str(guide)
    assert "kubelogin convert-kubeconfig -l azurecli" in str(guide)


def test_the_program_grants_no_roles_on_an_existing_cluster() -> None:
    plan = planned(cluster=EXISTING, teams=[TEAM])
    notes = [one for one in plan.decisions if one.what == "logins" and one.subject == "team vision"]
    assert cloud(EXISTING, teams=[TEAM]).logins == ()
    assert [f"group:{ID}" in one.chosen for one in notes] == [True]


def test_system_nodes_are_the_smallest_with_room_for_the_controllers() -> None:
    def machine_type(**rest: Any) -> str:
        created = cloud(**rest).create
        assert created is not None
        return created.system_machine_type

    requests = {"requests": {"cpu": "5"}, "limits": {"cpu": "5"}}
    large = {"jobset": {"values": {"controller": {"resources": requests}}}}
    assert machine_type() == "Standard_D4ds_v5"
    assert machine_type(addons={"jobset": "install"}, charts=large) == "Standard_D8ds_v5"


def test_long_names_of_the_group_of_nodes_end_in_a_hash() -> None:
    long = {**CREATED, "name": "a" * 60, "resource_group": "b" * 60}
    plan = cloud(long)
    assert plan.create is not None
    assert len(plan.create.node_resource_group) <= 80
    short = cloud()
    assert short.create is not None
    assert short.create.node_resource_group == "ml-group-ml-eastus2-nodes"


def test_a_private_cluster_names_what_its_dns_zone_requires() -> None:
    (note,) = (one for one in planned(cluster=PRIVATE).decisions if "name of the API server" in one.what)
    assert "ml-cluster needs Network Contributor" in note.why
    assert not [one for one in planned().decisions if one.what == note.what]


def test_names_in_azure_stay_within_its_limits() -> None:
    cluster, pool = "c" * 63, "p" * 40
    names = (network_name(cluster), proximity_group_name(cluster, pool), team_identity_name(cluster, "t" * 63))
    assert [len(name) for name in names] == [64, 80, 120]
    assert proximity_group_name(cluster, pool) != proximity_group_name(cluster, "p" * 39)
    assert (network_name("ml"), proximity_group_name("ml", "train")) == ("ml-network", "ml-train")


def test_two_pools_never_share_an_agent_pool() -> None:
    pools = ["train", "train-a", "traina", "serve-a100-large", "serve-a100-small"]
    assert len({agent_pool_name(pool) for pool in pools}) == len(pools)


def test_the_owner_of_a_network_must_admit_its_nodes() -> None:
    network = {"subnet": SUBNET, "outbound": "nat-gateway"}
    plan = planned(cluster={**EXISTING, "create": {**CREATE, "network": network}})
    assert "warning: nodes and the API server" in {one.what for one in plan.decisions}
