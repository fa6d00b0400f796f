"""A team under a new name with the same members and quota is recognised as a rename."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gpu_platform.planning.changes.departures import TeamChange, renamed
from gpu_platform.planning.changes.deployed import member_text
from gpu_platform.planning.teams.section import TeamMember, TenantPlan

ADA = TeamMember(kind="User", name="ada@example.com")
GROUP = TeamMember(kind="Group", name="vision")
ROBOT = TeamMember(kind="ServiceAccount", name="deployer", namespace="ci")


def tenant(name: str, *members: TeamMember, gpus: str = "4") -> TenantPlan:
    return TenantPlan(namespace=name, quota={"requests.nvidia.com/gpu": gpus}, members=members or (GROUP,))


def outputs(*tenants: TenantPlan) -> Mapping[str, Any]:
    return {
        one.namespace: {"quota": dict(one.quota), "members": [member_text(member) for member in one.members]}
        for one in tenants
    }


def test_the_same_members_in_another_order_under_a_new_name_are_a_rename() -> None:
    before = outputs(tenant("vision", ADA, GROUP, ROBOT), tenant("search", GROUP))
    now = [tenant("perception", ROBOT, ADA, GROUP), tenant("search", GROUP)]

    assert renamed(before, now, "vision") == "perception"


@pytest.mark.parametrize(
    "now",
    [
        [tenant("perception", ADA)],
        [tenant("perception", GROUP, gpus="5")],
        [tenant("perception", GROUP), tenant("sight", GROUP)],
        [],
    ],
    ids=["other members", "another quota", "two that fit", "nobody"],
)
def test_anything_else_is_no_rename(now: list[TenantPlan]) -> None:
    assert renamed(outputs(tenant("vision")), now, "vision") is None


def test_a_team_that_was_there_before_is_no_new_name() -> None:
    before = outputs(tenant("vision"), tenant("search"))
    assert renamed(before, [tenant("search")], "vision") is None


@pytest.mark.parametrize("previous", [None, {}, "text"])
def test_a_deployment_of_an_older_release_tells_no_rename(previous: object) -> None:
    assert renamed(previous, [tenant("perception")], "vision") is None


def test_a_team_that_leaves_is_described_with_what_it_holds_and_the_command_that_removes_it() -> None:
    leaves = TeamChange(team="vision", fate="retained", stack="shop", holds="1 volume claim (2 TiB), 3 pods")
    assert str(leaves) == (
        "team vision leaves: namespace vision is retained with 1 volume claim (2 TiB), 3 pods; its members lose "
        "access, and no new pod gets a GPU there; remove it for good with `gpu-platform team remove shop vision`"
    )


def test_a_rename_says_that_the_data_stays_under_the_old_name() -> None:
    change = TeamChange(team="vision", fate="retained", stack="shop", holds="1 Secret", renamed_to="perception")
    assert "team vision → perception looks like a rename" in str(change)
    assert "the data stays in vision" in str(change)
