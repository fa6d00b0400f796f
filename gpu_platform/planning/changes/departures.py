"""Describe what happens when teams are removed from a stack file or added again, and recognise renamed teams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gpu_platform.planning.changes.deployed import mapping_of, member_text, teams_of, texts_of
from gpu_platform.planning.teams.section import TeamPlan

Fate = Literal["retained", "deleted", "adopted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamChange:
    """Planned change to the namespace of a team that is removed from a stack or added to it again.

    `fate` is `retained` if the team is removed, and its namespace stays with the objects that its members created.
    It is `deleted` if the team is removed, and the namespace is deleted because its members created nothing. It is
    `adopted` if the team is added again and gets its retained namespace. `stack` is the stack's name in commands.
    `holds` describes the members' objects as text. `renamed_to` is the new team that has the same members and
    quota.
    """

    team: str
    fate: Fate
    stack: str
    holds: str
    renamed_to: str | None = None

    def __str__(self) -> str:
        """Describe the change as text, with the command that deletes the data."""
        remove = f"`gpu-platform team remove {self.stack} {self.team}`"
        if self.fate == "adopted":
            return f"team {self.team} returns: its retained namespace {self.team} is adopted with {self.holds}"
        if self.fate == "deleted":
            return f"team {self.team} leaves: namespace {self.team} is deleted, because it holds {self.holds}"
        retained = (
            f"team {self.team} leaves: namespace {self.team} is retained with {self.holds}; the team's "
            f"members lose access, and new pods get no GPU there; to delete the namespace for good, run {remove}"
        )
        if self.renamed_to is None:
            return retained
        return (
            f"{retained}\n  team {self.team} → {self.renamed_to} looks like a rename (same members, same "
            f"quota): a namespace cannot be renamed, so the data stays in {self.team}. To keep working with "
            f"the data there, undo the rename. To move the data, write the manifests to a file with `gpu-platform "
            f"team remove {self.stack} {self.team} --dry-run --export FILE`, apply them to namespace "
            f"{self.renamed_to}, copy the data of the volumes, then run {remove}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the change for a JSON report."""
        return {
            "team": self.team,
            "fate": self.fate,
            "holds": self.holds,
            "renamed_to": self.renamed_to,
        }


def renamed(previous: object, teams: Sequence[TeamPlan], team: str) -> str | None:
    """Return the planned team that a deployed team seems to have been renamed to, or None.

    `previous` is the output `teams` of the deployed stack, and `team` is one of its teams. The result is the only
    new team with the same members and quota. If several new teams match, it is None.
    """
    before = {name: _identity(facts) for name, facts in teams_of({"teams": previous}).items()}
    if team not in before:
        return None
    now = {
        team_plan.namespace: (dict(team_plan.quota), sorted(map(member_text, team_plan.members)))
        for team_plan in teams
    }
    alike = [name for name, facts in now.items() if name not in before and facts == before[team]]
    return alike[0] if len(alike) == 1 else None


def _identity(facts: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a team's quota and members from a deployment output."""
    return dict(mapping_of(facts.get("quota"))), sorted(texts_of(facts.get("members")))
