"""The API server limits the number of objects of every kind that a team's Roles may create."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.planning.addons.known import KNOWN
from gpu_platform.planning.teams.access import ADDONS_BY_GROUP
from gpu_platform.planning.teams.object_limits import addon_object_quota
from gpu_platform.stack.team import ObjectLimits
from tests.planning.conftest import environment, pool, team
from tests.support.recorded import Recorded, record_platform

EKS = {"provider": "eks", "name": "prod", "region": "us-east-2"}
# The kinds that a ResourceQuota counts under the name of the resource, without the prefix `count/`.
NAMED = {"pods", "services", "configmaps", "secrets", "persistentvolumeclaims"}
# Controllers create objects of these kinds, and their number depends on the members' objects.
MADE_BY_CONTROLLERS = {"count/controllerrevisions.apps"}


def recorded(addons: dict[str, str] | None = None, **rest: Any) -> Recorded:
    vision = {**team(members=["group:a@acme.com"], admins=["group:b@acme.com"]), **rest}
    train = pool(count={"desired": 2}, zones=["us-east-2a"])
    return record_platform(environment(train, cluster=EKS, teams=[vision], addons=addons or {}))


def hard(found: Recorded, name: str) -> dict[str, str]:
    return dict(found.one("ResourceQuota", f"vision/{name}").inputs["spec"]["hard"])


def created(found: Recorded) -> Iterator[str]:
    """Yield the quota key of each kind that a team's Roles allow members to create."""
    for name in ("team-member", "team-admin"):
        for rule in found.one("Role", name).inputs["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    if "create" in rule["verbs"] and "/" not in resource:
                        key = f"count/{resource}.{group}" if group else f"count/{resource}"
                        yield resource if resource in NAMED else key


@pytest.mark.parametrize("addons", [{}, dict.fromkeys(KNOWN, "install")], ids=["none", "all"])
def test_every_kind_that_a_role_may_create_is_counted(addons: dict[str, str]) -> None:
    found = recorded(addons=addons)
    limits = hard(found, "objects") | (hard(found, "addon-object-quota") if addons else {})
    counted = {key for key in limits if key.startswith("count/") or key in NAMED}
    assert counted == {*created(found)} | MADE_BY_CONTROLLERS


def test_kinds_of_an_addon_have_a_quota_of_their_own() -> None:
    found = recorded(addons={"keda": "install"})
    late = {f"count/{kind}.keda.sh" for kind in ("scaledobjects", "scaledjobs", "triggerauthentications")}
    assert hard(found, "addon-object-quota").keys() == late
    assert not late & hard(found, "objects").keys()


def test_the_quota_of_addons_is_created_after_the_declared_workloads() -> None:
    service = {"name": "chat", "pool": "train", "image": "acme.example/a:1", "cpu": "1", "memory": "1Gi"}
    found = recorded(addons={"keda": "install"}, inference_services=[service])
    before = found.one("ResourceQuota", "vision/addon-object-quota").dependencies
    assert any("InferenceService$" in urn for urn in before), before


def test_compute_domains_are_counted_where_members_may_make_them() -> None:
    for allowed in (False, True):
        limits = addon_object_quota(ObjectLimits(other_kinds=7), [], compute_domains=allowed)
        assert limits == ({"count/computedomains.resource.nvidia.com": "7"} if allowed else {})


def test_the_groups_of_addons_name_all_addons_that_install_them() -> None:
    for addons in ADDONS_BY_GROUP.values():
        assert {*addons} <= KNOWN.keys()
        needing = {name for name, addon in KNOWN.items() if {*addon.needs} & {*addons}}
        assert needing <= {*addons}


def test_quotas_have_room_for_the_history_that_controllers_keep_by_default() -> None:
    limits = hard(recorded(quota={"gpus": 8, "objects": {"other_kinds": 3}}), "objects")
    assert limits["count/deployments.apps"] == "3"
    assert int(limits["count/replicasets.apps"]) >= 3 * (10 + 1)
    assert int(limits["count/controllerrevisions.apps"]) >= 3 * (10 + 1)


def test_the_page_on_teams_has_a_teams_maximum_etcd_usage() -> None:
    objects = recorded().one("ValidatingAdmissionPolicy", "objects-of-vision").inputs["spec"]["validations"]
    message = next(one["message"] for one in objects if one["message"].startswith("object-size"))
    sizes = [int(kib) for kib in re.findall(r"(\d+) KiB", message)]
    large, several, other = sizes
    limits = {key: int(count) for key, count in hard(recorded(), "objects").items() if count.isdigit()}
    templates = {
        *("jobsets", "trainjobs", "trainingruntimes", "leaderworkersets", "rayclusters", "rayjobs", "rayservices"),
        *("pytorchjobs", "mpijobs", "controllerrevisions"),
    }
    kib = 0
    for key, count in limits.items():
        kind = key.removeprefix("count/").partition(".")[0]
        kib += count * (large if kind in {"configmaps", "secrets"} else several if kind in templates else other)
    page = (Path(__file__).parents[2] / "docs" / "teams.md").read_text("utf-8")
    assert f"{kib / 2**20:.1f} GiB" in page
