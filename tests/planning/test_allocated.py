"""The quotas of all stacks in an environment are added up, whichever stack declares them."""

from __future__ import annotations

from gpu_platform.planning.teams.allocated import Quotas, over_allocated
from gpu_platform.planning.teams.section import TeamPlan
from gpu_platform.stack.loaded import load_stack

KEY = "requests.nvidia.com/mig-1g.10gb"


def team(name: str, units: int) -> TeamPlan:
    return TeamPlan(namespace=name, quota={KEY: str(units)}, members=())


def quotas(**units: int) -> Quotas:
    return {team: {KEY: str(count)} for team, count in units.items()}


def test_the_quotas_of_team_stacks_beside_each_other_are_added_up() -> None:
    [over] = over_allocated([team("audio", 14)], {KEY: 56}, {}, quotas(vision=28, search=14, speech=14))

    assert over.total == 70
    assert over.grows
    assert str(over) == (
        "70 nvidia.com/mig-1g.10gb in the quotas of all stacks (vision 28, search 14, speech 14, audio 14), "
        "at most 56"
    )


def test_quotas_up_to_the_limit_are_no_finding() -> None:
    assert over_allocated([team("speech", 14)], {KEY: 56}, {}, quotas(vision=28, search=14)) == ()


def test_a_lower_quota_does_not_grow_a_sum_that_was_too_large() -> None:
    [over] = over_allocated([team("audio", 10)], {KEY: 56}, quotas(audio=14), quotas(vision=28, speech=28))

    assert over.total == 66
    assert not over.grows


def test_a_team_that_moves_from_the_environment_to_its_own_stack_is_counted_once() -> None:
    assert over_allocated([team("vision", 28)], {KEY: 40}, {}, quotas(vision=28, search=12)) == ()


def test_a_stack_without_others_beside_it_is_checked_by_its_own_file_alone() -> None:
    assert over_allocated([team("vision", 60)], {KEY: 56}, {}, {}) == ()


def test_an_environment_and_its_team_stack_have_the_same_limit() -> None:
    environment, team = load_stack("local").plan, load_stack("speech").plan
    assert environment.quota_limits[KEY] == 56
    assert team.quota_limits == environment.quota_limits
