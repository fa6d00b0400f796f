"""`preview` reports how a changed field affects running resources.

This module lists the fields whose change is not reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from gpu_platform.planning.changes import (
    classify,
    cluster_facts,
    pool_changes,
    pool_facts,
    software_facts,
    team_facts,
)
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.stack import Environment
from gpu_platform.stack.loaded import plan_platform
from tests.stack.field_changes import stack_for, values_for
from tests.stack.stack_fields import Field, changed, fields_of, get, place_of

_OBJECTS = "Kubernetes objects, Helm releases or cloud resources, which a preview lists with their fields"
_LATER = "resources that are created later; running resources do not change"
_LIVE = "the preview has a row only if it has read the live nodes"
_UP = "the behaviour of `up` and `destroy`: time limits, refusals and connections"
_MONEY = "estimates"
# If one of these fields changes, the preview adds no row without a live cluster.
# Each entry is a regular expression for the paths of fields, with the reason.
WITHOUT_ROW: Mapping[str, str] = {
    r"teams\[\]\.(workloads|claims|training_jobs|inference_services)\[\]": _OBJECTS,
    r"teams\[\]\.(ray_clusters|notebooks|batch_jobs)\[\]": _OBJECTS,
    r"(device_classes|storage|charts)\{\}|(addons|images|objects|monitoring|cleanup)\.|chart_mirror$": _OBJECTS,
    r"cluster\(\w+\)\.parts\.(node_feature_discovery|dcgm_exporter|karpenter_node_role)$": _OBJECTS,
    r"operator\.compute_domains$": _OBJECTS,
    r"(pools\[\]\.sharing|sharing\{\})\([a-z-]+\)\.fail_requests_greater_than_one$": _OBJECTS,
    r"cluster\(eks\)\.(create\.(logs_retention_days|scheduling)|iam\.permissions_boundary)$": _OBJECTS,
    r"cluster\(gke\)\.(create\.(private_apis|kms_key|system\.min)|labels|fqdn_policies)$": _OBJECTS,
    r"cluster\(aks\)\.(tags|create\.(network\.outbound|system\.min))$": _OBJECTS,
    r"cluster\(gke\)\.create\.maintenance\.": _OBJECTS,
    r"(teams\[\]\.identity|team_identities\{\})\.buckets\[\]\.kms_key$": _OBJECTS,
    r"queueing\.(kueue|topology|pods_ready_timeout)$": _OBJECTS,
    r"compute_classes\[\]\.pools$|policy\.|budget\.": _OBJECTS,
    # The stack has only one team, so no team borrows. tests/planning/test_impact.py covers these fields.
    r"teams\[\]\.queue\.(weight|lend\.\w+)$|queueing\.reserve\.\w+$": _LATER,
    r"cluster\(eks\)\.(subnets|create\.network\.control_plane_subnets)$": _LATER,
    r"pools\[\]\.(headroom|karpenter\.(consolidate_after|limits)|upgrade\.\w+|repair|image\.driver)$": _LATER,
    r"pools\[\]\.taints\[\]\.(key|value)$": _LATER,
    r"pools\[\]\.capacity\([a-z-]+\)\.(blocks\[\]\.)?(zone|starts|ends)$": _LATER,
    r"pools\[\]\.(count\.max|per_node\[\]\.nodes|nodes\.(names|selector))$": _LIVE,
    r"(pools\[\]\.sharing|sharing\{\})\(mig\)\.(layouts\[\]\.gpu|change|max_unavailable|drain_timeout)$": _LIVE,
    r"(cluster\(\w+\)\.|pools\[\]\.|)(protect|production)$|validation\.|changes\.": _UP,
    r"cluster\(\w+\)\.(kubeconfig|context|account|assume_role|impersonate)$": _UP,
    r"pools\[\]\.(usd_per_hour|utilisation)$": _MONEY,
}
# These tests compute thousands of plans.
pytestmark = [pytest.mark.long, pytest.mark.xdist_group("announced-changes")]
_PROVIDERS = ("sandbox", "eks", "gke", "aks", "existing")


def _plan(platform: dict[str, Any]) -> EnvironmentPlan | None:
    """Return the plan, or None if the stack is refused."""
    try:
        plan = plan_platform(platform, "stack")
    except BadInput:
        return None
    assert plan.kind == "environment"
    return plan


def _outputs(plan: EnvironmentPlan) -> dict[str, Any]:
    """Return the stack outputs as they are read from the state of a deployment."""
    facts = {
        "cluster": cluster_facts(plan),
        "pools": pool_facts(plan),
        "software": software_facts(plan),
        "teams": team_facts(plan),
    }
    return json.loads(json.dumps(facts))


def _has_row(before: EnvironmentPlan, after: EnvironmentPlan) -> bool:
    outputs, catalog = _outputs(before), load_catalog()
    try:
        pools = pool_changes(outputs["pools"], after, catalog)
        return bool(classify(outputs, after, catalog, live=None, pools=pools))
    except BadInput:  # `up` refuses the change
        return True


def _changes(field: Field) -> Iterator[tuple[EnvironmentPlan, EnvironmentPlan]]:
    """For every provider that has the field, yield the plans before and after a change to the field, and then the
    same two plans in reverse order.
    """
    for provider in _PROVIDERS:
        stack = stack_for(field.path, provider)
        place = place_of(field.path, stack)
        try:
            values = values_for(field, get(stack, place), provider)
        except KeyError:  # a variant that this provider's stack does not have, such as cluster(gke)
            continue
        before = _plan(stack)
        if before is None or isinstance(values, str):
            continue
        for value in values:
            after = _plan(changed(stack, place, value))
            if after is not None and after != before:
                yield from ((before, after), (after, before))


def _silent() -> set[str]:
    """Return the fields whose change adds no row to the preview, in either direction."""
    found: set[str] = set()
    for field in fields_of(Environment):
        changes = list(_changes(field))
        if changes and not any(_has_row(before, after) for before, after in changes):
            found.add(field.path)
    return found


@pytest.fixture(scope="module")
def silent() -> set[str]:
    return _silent()


def test_a_field_whose_change_has_no_row_is_listed_with_the_reason(silent: set[str]) -> None:
    unlisted = sorted(path for path in silent if not any(re.match(one, path) for one in WITHOUT_ROW))
    assert unlisted == [], "the preview announces no change of these fields: add a row, or a reason in WITHOUT_ROW"


def test_every_entry_of_the_list_is_of_a_field_without_row(silent: set[str]) -> None:
    assert [one for one in WITHOUT_ROW if not any(re.match(one, path) for path in silent)] == []
