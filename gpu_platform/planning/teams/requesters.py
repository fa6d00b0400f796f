"""Team members that are service accounts in other namespaces."""

from __future__ import annotations

from gpu_platform.stack.team import Team


def accounts_of(team: Team) -> tuple[str, ...]:
    """Return the user names of a team's members that are service accounts in other namespaces."""
    named = (one.partition(":") for one in team.everybody)
    return tuple(
        f"system:serviceaccount:{name.replace('/', ':')}" for kind, _, name in named if kind == "serviceaccount"
    )
