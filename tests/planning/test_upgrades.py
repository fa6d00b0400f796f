"""Outdated software of a stack on a given day, and the order of upgrade steps."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from gpu_platform.planning.changes.node_impacts import impacts_of_replaced_nodes
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.upgrades import kubernetes_warnings, upgrade_items
from gpu_platform.planning.upgrades.report import Item, RunningVersions
from gpu_platform.planning.upgrades.steps import Steps, upgrade_steps
from gpu_platform.planning.upgrades.support import Status, driver_support, kubernetes_support, platform_of
from gpu_platform.stack.loaded import plan_platform

CATALOG = load_catalog()
TODAY = datetime.date(2026, 11, 22)
EKS = {"provider": "eks", "name": "ml", "region": "us-east-2"}
EXISTING = {"provider": "existing", "name": "dc"}


def plan_of(
    cluster: dict[str, Any],
    operator: dict[str, Any] | None = None,
    machine: str = "p4d.24xlarge",
    **fields: Any,
) -> EnvironmentPlan:
    pool: dict[str, Any] = {
        "name": "train",
        "machine_type": machine,
        "count": {"desired": 2},
        "workload": "training",
        **fields,
    }
    zone = {"eks": "us-east-2a", "gke": "us-central1-a"}.get(cluster["provider"])
    pool |= {"zones": [zone]} if zone is not None else {"nodes": {"names": ["a", "b"]}}
    document: dict[str, Any] = {"kind": "environment", "cluster": cluster, "pools": [pool]}
    plan = plan_platform(document | ({"operator": operator} if operator else {}), "test")
    assert plan.kind == "environment"
    return plan


def item(plan: EnvironmentPlan, subject: str, running: RunningVersions | None = None) -> Item:
    (found,) = [one for one in upgrade_items(plan, running, TODAY, CATALOG) if one.subject.startswith(subject)]
    return found


def steps_of(plan: EnvironmentPlan, running: RunningVersions | None = None, *, declared: bool = False) -> Steps:
    return upgrade_steps(plan, running, TODAY, CATALOG, declared_driver=declared)


def texts(steps: Steps) -> list[str]:
    return [f"{step.subject} {step.old} -> {step.new}" for step in steps.steps]


# -- support ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "today", "status", "until"),
    [
        ("1.34", "2026-06-01", Status.SUPPORTED, "2026-12-02"),
        ("1.34", "2026-11-22", Status.ENDING, "2026-12-02"),
        ("1.34", "2026-12-02", Status.ENDING, "2026-12-02"),
        ("1.34", "2026-12-03", Status.EXTENDED, "2027-12-02"),
        ("1.34", "2027-12-03", Status.ENDED, "2027-12-02"),
    ],
)
def test_a_version_of_eks_goes_through_standard_and_extended_support(
    version: str, today: str, status: Status, until: str
) -> None:
    found = kubernetes_support(
        CATALOG.kubernetes_platforms["eks"], version, datetime.date.fromisoformat(today), CATALOG
    )
    assert (found.status, str(found.until)) == (status, until)


def test_the_price_of_extended_support_is_named() -> None:
    found = item(plan_of(EKS | {"kubernetes": "1.33"}), "Kubernetes")
    assert found.support.status is Status.EXTENDED
    assert "0.60 instead of 0.10 USD/h per cluster" in found.support.text


def test_what_the_catalogue_does_not_know_is_unknown() -> None:
    support = kubernetes_support(CATALOG.kubernetes_platforms["gke"], "1.99", TODAY, CATALOG)
    assert (support.status, support.until) == (Status.UNKNOWN, None)
    assert driver_support("590.48.01", TODAY, CATALOG).status is Status.UNKNOWN
    assert driver_support(None, TODAY, CATALOG).status is Status.UNKNOWN


def test_an_ended_driver_branch_without_a_date_has_ended() -> None:
    found = driver_support("550.163.01", TODAY, CATALOG)
    assert (found.status, found.until) == (Status.ENDED, None)


@pytest.mark.parametrize(
    ("git_version", "platform"),
    [
        ("v1.35.2-eks-4f4795d", "eks"),
        ("v1.35.1-gke.1616000", "gke"),
        ("v1.35.4", "kubernetes"),
        (None, "kubernetes"),
    ],
)
def test_the_version_of_an_existing_cluster_tells_its_provider(git_version: str | None, platform: str) -> None:
    assert platform_of("existing", git_version, CATALOG).name == platform


# -- items -----------------------------------------------------------------------------------------------------


def test_the_support_is_that_of_the_running_version_where_it_was_read() -> None:
    plan = plan_of(EXISTING | {"kubernetes": "1.36"})
    running = RunningVersions(kubernetes="v1.33.4", drivers={"train": ("535.309.01",)})
    assert item(plan, "Kubernetes", running).support.status is Status.ENDED
    driver = item(plan, "driver", running)
    assert (driver.planned, driver.running, driver.support.status) == ("595.91.07", "535.309.01", Status.ENDED)


def test_nodes_older_than_the_control_plane_are_outdated() -> None:
    plan = plan_of(EXISTING | {"kubernetes": "1.35"})
    running = RunningVersions(kubernetes="v1.35.4", kubelets={"train": ("v1.34.2", "v1.35.4", "kwok-v0.8.0")})
    found = item(plan, "nodes of pool train", running)
    assert (found.running, found.support.status) == ("v1.34.2", Status.OUTDATED)


def test_nodes_more_than_three_minor_versions_behind_are_past_their_support() -> None:
    plan = plan_of(EXISTING | {"kubernetes": "1.36"})
    running = RunningVersions(kubernetes="v1.36.3", kubelets={"train": ("v1.32.9",)})
    assert item(plan, "nodes of pool train", running).support.status is Status.ENDED


def test_an_image_of_another_release_than_the_catalogues_is_outdated() -> None:
    plan = plan_of(EXISTING | {"kubernetes": "1.36"})
    old = "python:3.13-slim@sha256:" + "0" * 64
    current = CATALOG.images["pause"].reference
    running = RunningVersions(kubernetes="v1.36.3", images={"DaemonSet x/agent": (old, current, "other/app:1")})
    found = [one for one in upgrade_items(plan, running, TODAY, CATALOG) if one.subject.startswith("image")]
    assert [(one.subject, one.support.status) for one in found] == [("image node-agent-python", Status.OUTDATED)]
    assert "DaemonSet x/agent" in found[0].support.text


def test_check_warns_of_a_version_past_or_near_the_end_of_standard_support() -> None:
    (warning,) = kubernetes_warnings(plan_of(EKS | {"kubernetes": "1.34"}), "eks", TODAY, CATALOG)
    assert "standard support ends in 10 days" in warning
    assert "2026-12-02" in warning
    assert kubernetes_warnings(plan_of(EKS | {"kubernetes": "1.36"}), "eks", TODAY, CATALOG) == ()
    assert kubernetes_warnings(plan_of(EKS), "eks", TODAY, CATALOG) == ()


@pytest.mark.parametrize(("channel", "kept"), [("extended", True), ("regular", False)])
def test_the_warning_follows_the_channel_of_the_stack_file(channel: str, kept: bool) -> None:
    gke = {"provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1"}
    create = {"kubernetes": "1.33", "create": {"release_channel": channel}}
    plan = plan_of({**gke, **create}, machine="g2-standard-48")
    (warning,) = kubernetes_warnings(plan, "eks", TODAY, CATALOG)
    assert ("keeps this version" in warning, "unless" in warning) == (kept, not kept)


@pytest.mark.parametrize(
    ("cluster", "warns"),
    [
        ({"kubernetes": "1.33", "create": {}}, True),
        ({"kubernetes": "1.33", "create": {"release_channel": "extended"}}, False),
        ({"kubernetes": "1.35", "create": {}}, False),
        ({"kubernetes": "1.33"}, False),
        ({"create": {}}, False),
    ],
)
def test_a_version_that_gke_offers_no_new_cluster_is_named(cluster: dict[str, Any], warns: bool) -> None:
    gke = {"provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1"}
    plan = plan_of({**gke, **cluster}, machine="g2-standard-48")
    text = " ".join(kubernetes_warnings(plan, "ml", TODAY, CATALOG))
    assert ("GKE creates no cluster with a version" in text) is warns
    assert ("for a new cluster, remove cluster.kubernetes" in text) is warns


@pytest.mark.parametrize(("machine", "by_up"), [("a3-ultragpu-8g", True), ("g2-standard-48", False)])
def test_an_exclusion_until_the_end_of_support_leaves_upgrades_to_up(machine: str, by_up: bool) -> None:
    gke = {"provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1"}
    plan = plan_of({**gke, "kubernetes": "1.35", "create": {}}, machine=machine, capacity={"type": "spot"})
    (step,) = [one for one in steps_of(plan).steps if one.subject == "Kubernetes"]
    assert step.order.startswith("`up` upgrades the control plane") is by_up
    assert step.order.startswith("the release channel upgrades") is not by_up
    rolled = [one.subject for one in impacts_of_replaced_nodes(plan, None, "")]
    assert rolled == ([] if by_up else ["pool train"])


# -- steps -----------------------------------------------------------------------------------------------------


def test_nothing_is_to_do_on_the_newest_versions() -> None:
    assert steps_of(plan_of(EKS | {"kubernetes": "1.36"})) == Steps(())


def test_operator_first_then_kubernetes_one_minor_version_at_a_time() -> None:
    plan = plan_of(EKS | {"kubernetes": "1.34"}, {"release": "v26.3.1"})
    assert texts(steps_of(plan)) == [
        "GPU Operator v26.3.1 -> v26.7.0",
        "Kubernetes 1.34 -> 1.35",
        "Kubernetes 1.35 -> 1.36",
    ]


def test_kubernetes_comes_first_if_the_newest_operator_requires_it() -> None:
    plan = plan_of(EXISTING | {"kubernetes": "1.32"}, {"release": "v26.3.0"})
    assert texts(steps_of(plan))[:3] == [
        "GPU Operator v26.3.0 -> v26.3.3",
        "Kubernetes 1.32 -> 1.33",
        "GPU Operator v26.3.3 -> v26.7.0",
    ]


def test_a_declared_driver_stays_where_the_next_release_has_it() -> None:
    operator = {"release": "v26.3.3", "driver": {"owner": "operator", "version": "580.173.02"}}
    (step,) = steps_of(plan_of(EXISTING | {"kubernetes": "1.36"}, operator), declared=True).steps
    assert step.edits == {"operator.release": "v26.7.0"}


def test_a_driver_that_the_next_release_lacks_is_upgraded_too() -> None:
    operator = {"release": "v26.3.3", "driver": {"owner": "operator", "version": "580.126.20"}}
    (step,) = steps_of(plan_of(EXISTING | {"kubernetes": "1.36"}, operator), declared=True).steps
    assert step.edits == {"operator.release": "v26.7.0", "operator.driver.version": "580.173.02"}
    assert "580.126.20 to 580.173.02" in step.order


def test_a_driver_past_its_end_is_replaced_after_the_operator() -> None:
    operator = {"release": "v26.3.3", "driver": {"owner": "operator", "version": "535.309.01"}}
    steps = steps_of(plan_of(EXISTING | {"kubernetes": "1.36"}, operator), declared=True)
    assert texts(steps) == ["GPU Operator v26.3.3 -> v26.7.0", "driver 535.309.01 -> 595.91.07"]


def test_a_gpu_that_newer_branches_dropped_gets_the_newest_driver_that_it_can_use() -> None:
    operator = {"release": "v26.7.0", "driver": {"owner": "operator", "version": "535.309.01"}}
    plan = plan_of(EXISTING | {"kubernetes": "1.36"}, operator, machine="p3dn.24xlarge")
    assert texts(steps_of(plan, declared=True)) == ["driver 535.309.01 -> 580.173.02"]


def test_a_machine_whose_nics_need_an_older_driver_keeps_one_in_the_next_release() -> None:
    plan = plan_of(EXISTING | {"kubernetes": "1.36"}, {"release": "v26.3.3"}, machine="p6e-gb200.36xlarge")
    (step,) = steps_of(plan).steps
    assert step.edits == {"operator.release": "v26.7.0", "operator.driver.version": "580.173.02"}


def test_a_cluster_behind_its_stack_file_catches_up_first() -> None:
    plan = plan_of(EXISTING | {"kubernetes": "1.36"})
    steps = steps_of(plan, RunningVersions(kubernetes="v1.34.2"))
    assert texts(steps) == ["Kubernetes 1.34 -> 1.35", "Kubernetes 1.35 -> 1.36"]
    assert all("runs an older one" in step.why for step in steps.steps)


def test_upgrades_start_from_the_running_version() -> None:
    plan = plan_of(EXISTING | {"kubernetes": "1.34"})
    assert texts(steps_of(plan, RunningVersions(kubernetes="v1.35.2"))) == ["Kubernetes 1.35 -> 1.36"]


def test_a_cluster_of_unknown_version_gets_no_kubernetes_step() -> None:
    assert steps_of(plan_of(EXISTING)) == Steps(())


THEIRS = EXISTING | {"kubernetes": "1.35", "parts": {"gpu_operator": "present"}}


def test_an_owners_operator_does_not_delay_kubernetes() -> None:
    operator = {"release": "v25.10.1", "driver": {"version": "535.309.01"}}
    steps = steps_of(plan_of(THEIRS, operator), declared=True)
    assert (texts(steps), steps.blocked) == (["Kubernetes 1.35 -> 1.36"], ())
    assert "GPU Operator" in steps.steps[0].why
    assert "v25.10.1" not in steps.steps[0].why


# -- the fix for a version that the operator does not support -----------------------------------------------


def fix_of(kubernetes: str, release: str) -> str:
    with pytest.raises(BadInput) as raised:
        plan_of(EXISTING | {"kubernetes": kubernetes}, {"release": release})
    (problem,) = raised.value.problems
    return problem.fix


def test_a_cluster_too_new_for_the_operator_gets_a_newer_operator_as_fix() -> None:
    assert fix_of("1.36", "v26.3.1") == "use v26.7.0 or v26.3.3 or v26.3.2"


def test_a_cluster_too_old_for_the_operator_has_two_fixes() -> None:
    fix = fix_of("1.32", "v26.7.0")
    assert fix.startswith("use v26.3.3 or v26.3.2")
    assert fix.endswith("upgrade the cluster to 1.33 first, one minor version at a time")


def test_a_cluster_newer_than_all_releases_is_not_told_to_upgrade() -> None:
    assert "upgrade" not in fix_of("1.40", "v26.7.0")
