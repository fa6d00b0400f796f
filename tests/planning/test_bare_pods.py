"""The clusters on which the policy pack and the API server refuse team pods without a controller, and the decision
that a plan reports.
"""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.planning import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from tests.planning.conftest import environment, pool, team
from tests.support.planned_rules import rules_of

EKS = {"provider": "eks", "name": "ml", "region": "us-east-2"}
CREATED = {**EKS, "create": {"admins": ["arn:aws:iam::123456789012:role/admin"]}}
GKE = {"provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1"}
NODES: dict[str, dict[str, Any]] = {
    "eks": {"machine_type": "g6.12xlarge", "zones": ["us-east-2a"]},
    "gke": {"machine_type": "g2-standard-48", "zones": ["us-central1-a"], "placement": {"type": "none"}},
    "existing": {"nodes": {"names": ["a"]}, "count": {"desired": 1}},
    "sandbox": {},
}


def planned(cluster: dict[str, Any], **of_team: Any) -> EnvironmentPlan:
    gpus = pool(**{"workload": "inference", **NODES[cluster["provider"]]})
    members = ["group:a@example.com"]
    teams = [team(members=members, **of_team), team("search", quota={}, members=members)]
    plan = plan_platform(environment(gpus, cluster=cluster, teams=teams), "test")
    assert plan.kind == "environment"
    return plan


def refuses(plan: EnvironmentPlan) -> dict[str, int]:
    """Count, for each team, the rules that refuse pods without a controller. Both the rules for pods and the rules
    for members' requests count.
    """
    return {
        one.namespace: sum(
            rule.id == "bare-pod" for rule in (*rules_of(one, "pods-of"), *rules_of(one, "objects-of"))
        )
        for one in plan.teams
    }


def decisions(plan: EnvironmentPlan) -> dict[str, str]:
    return {one.subject: one.chosen for one in plan.decisions if one.what == "pods without a controller"}


@pytest.mark.parametrize("cluster", [CREATED, EKS], ids=["created", "existing"])
def test_on_eks_pods_of_every_team_need_a_controller_for_pack_and_api_server(cluster: dict[str, Any]) -> None:
    plan = planned(cluster)
    assert refuses(plan) == {"vision": 3, "search": 3}
    assert plan.policy.config["bare-pod"] == {"namespaces": ["search", "vision"]}
    assert decisions(plan) == {"team vision": "refused", "team search": "refused"}


@pytest.mark.parametrize("cluster", [EKS, CREATED], ids=["existing", "created"])
def test_a_team_that_may_have_them_is_named_and_no_other_team_may(cluster: dict[str, Any]) -> None:
    plan = planned(cluster, allow_bare_pods=True)
    assert refuses(plan) == {"vision": 0, "search": 3}
    assert plan.policy.config["bare-pod"] == {"namespaces": ["search"]}
    assert decisions(plan) == {"team vision": "admitted", "team search": "refused"}
    (why,) = [one.why for one in plan.decisions if (one.subject, one.chosen) == ("team vision", "admitted")]
    assert "allow_bare_pods is set; AWS does not guarantee" in why


@pytest.mark.parametrize(
    "cluster", [GKE, {"provider": "existing"}, {"provider": "sandbox"}], ids=lambda one: one["provider"]
)
def test_elsewhere_they_are_admitted(cluster: dict[str, Any]) -> None:
    plan = planned(cluster)
    assert set(refuses(plan).values()) == {0}
    assert "bare-pod" not in plan.policy.config
    assert decisions(plan) == {}


def test_the_rule_skips_templates_and_is_reported_first() -> None:
    (vision, _) = planned(EKS).teams
    assert rules_of(vision, "pods-of")[0].id == "bare-pod"
    assert "bare-pod" not in {rule.id for rule in rules_of(vision, "templates-of")}
