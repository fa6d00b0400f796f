"""The clean-up of team namespaces is off by default, reads the teams from the stack file, and has minimal
permissions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_platform.base import names
from gpu_platform.base.errors import BadInput
from gpu_platform.cleanup.rules import IDLE_LABEL
from gpu_platform.guide.document import guide_to_markdown
from gpu_platform.guide.manifests import manifests
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, plan_platform
from tests.planning.conftest import environment, pool, team
from tests.support.recorded import Recorded

PROMETHEUS = "http://prometheus.monitoring:9090"
RUN = {"name": "search", "pool": "train", "image": "registry.example.com/a:1", "gpus": 1}


def platform(cleanup: dict[str, Any] | None, *teams: dict[str, Any]) -> dict[str, Any]:
    declared = list(teams) or [team(quota={"gpus": 8}, batch_jobs=[{**RUN, "command": ["run"]}])]
    return environment(pool(), teams=declared, **({} if cleanup is None else {"cleanup": cleanup}))


def planned(cleanup: dict[str, Any] | None) -> EnvironmentPlan:
    plan = plan_platform(platform(cleanup), "test")
    assert isinstance(plan, EnvironmentPlan)
    return plan


def recorded(cleanup: dict[str, Any] | None, folder: Path) -> Recorded:
    document = platform(cleanup)
    plan = plan_platform(document, "test")
    return Recorded(record_stack(LoadedStack("test", folder / "Pulumi.test.yaml", document, plan)))


def refused(document: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(BadInput) as caught:
        plan_platform(document, "test")
    return {one.path: one.found for one in caught.value.problems}


def test_without_a_section_there_is_no_clean_up(tmp_path: Path) -> None:
    assert planned(None).cleanup is None
    assert not recorded(None, tmp_path).has("CronJob")


def test_by_default_it_only_reports_what_ended_a_week_ago() -> None:
    found = planned({}).cleanup
    assert found is not None
    assert (found.delete, found.finished_after, found.idle_after) == (False, 7 * 24 * 3600, None)
    assert found.teams == {"vision": ("search",)}


def test_idle_gpus_need_prometheus_and_prometheus_a_time() -> None:
    for one in ({"idle_after": "2h"}, {"prometheus": PROMETHEUS}):
        assert list(refused(platform(one))) == ["cleanup"]
    assert planned({"idle_after": "2h", "prometheus": PROMETHEUS}).cleanup is not None


def test_a_clean_up_without_teams_is_refused() -> None:
    assert refused(environment(pool(), teams=[], cleanup={})) == {"cleanup": "a clean-up without team namespaces"}


@pytest.mark.parametrize(
    ("field", "value"), [("schedule", "daily"), ("prometheus", "prometheus:9090"), ("idle_after", "200h")]
)
def test_a_value_of_another_form_is_refused_at_its_place(field: str, value: str) -> None:
    found = refused(platform({"idle_after": "2h", "prometheus": PROMETHEUS, field: value}))
    assert list(found) == [f"cleanup.{field}"]


@pytest.mark.parametrize(("delete", "verbs"), [(False, {"list"}), (True, {"list", "delete", "create"})])
def test_the_account_may_delete_only_if_enabled_and_never_data(
    tmp_path: Path, delete: bool, verbs: set[str]
) -> None:
    role = recorded({"delete": delete}, tmp_path).one("Role", "gpu-cleanup-vision").inputs
    assert role["metadata"]["namespace"] == "vision"
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == verbs
    resources = {resource for rule in role["rules"] for resource in rule["resources"]}
    assert resources.isdisjoint({"persistentvolumeclaims", "secrets", "configmaps", "serviceaccounts"})
    assert "*" not in resources
    for rule in role["rules"]:
        if "create" in rule["verbs"]:
            assert rule["resources"] == ["events"]


def test_no_right_is_of_the_whole_cluster(tmp_path: Path) -> None:
    found = recorded({"delete": True}, tmp_path)
    assert not [one for one in found.of("ClusterRole") if "cleanup" in one.name]


def test_its_pod_meets_the_restricted_level_and_runs_one_at_a_time(tmp_path: Path) -> None:
    found = recorded({"schedule": "0 4 * * 1"}, tmp_path)
    cron = found.one("CronJob", "gpu-cleanup").inputs["spec"]
    assert (cron["schedule"], cron["timeZone"], cron["concurrencyPolicy"]) == ("0 4 * * 1", "Etc/UTC", "Forbid")
    pod = cron["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    [container] = pod["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    labels = found.one("Namespace", names.CLEANUP_NAMESPACE).inputs["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_notebooks_of_the_guide_have_the_label_that_the_clean_up_reads() -> None:
    plan = planned({})
    [guide], [team] = plan.guides, plan.teams
    [job] = manifests(guide, team, None)["notebook"]
    assert job["spec"]["template"]["metadata"]["labels"][IDLE_LABEL] == "true"


@pytest.mark.parametrize(
    ("delete", "said"), [(False, "reported to the operator, but not deleted"), (True, "is deleted")]
)
def test_members_are_told_what_is_cleaned_up_and_how_to_keep_it(delete: bool, said: str) -> None:
    plan = planned({"delete": delete, "finished_after": "48h"})
    [guide], [team] = plan.guides, plan.teams
    text = guide_to_markdown(guide, team, None)
    assert said in text
    assert "finished more than 48h ago" in text
    assert "`gpu-platform.dev/cleanup: never`" in text
    assert "cleaned up" not in guide_to_markdown(planned(None).guides[0], team, None)


def test_no_team_may_have_the_name_of_its_namespace() -> None:
    found = refused(platform({}, team(name=names.CLEANUP_NAMESPACE, quota={"gpus": 8})))
    assert list(found) == ["teams[0].name"]
