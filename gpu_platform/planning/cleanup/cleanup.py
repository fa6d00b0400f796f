"""Plan the clean-up of team namespaces."""

from __future__ import annotations

from typing import Final

from gpu_platform.base import names
from gpu_platform.base.quantity import parse_duration
from gpu_platform.planning.cleanup.section import CleanupPlan
from gpu_platform.planning.context import CompleteContext
from gpu_platform.stack.team import Team

_IMAGE: Final = "node-agent-python"  # image name in the catalogue
_LISTS: Final = ("workloads", "training_jobs", "inference_services", "ray_clusters", "notebooks", "batch_jobs")


def check(context: CompleteContext) -> None:
    """Record a problem if a clean-up is declared without teams."""
    if context.environment.cleanup is not None and not context.environment.teams:
        context.at("cleanup").add(
            "a clean-up without team namespaces",
            "cleanup in the stack that declares the teams; teams with their own stack declare cleanup there",
            "remove cleanup, or declare teams",
        )


def plan(context: CompleteContext) -> CleanupPlan | None:
    """Return the plan for the CronJob, or None if the stack file declares no clean-up."""
    cleanup = context.environment.cleanup
    if cleanup is None:
        return None
    return CleanupPlan(
        image=context.catalog.images[_IMAGE].reference,
        namespace=names.CLEANUP_NAMESPACE,
        schedule=cleanup.schedule,
        delete=cleanup.delete,
        finished_after=None if cleanup.finished_after is None else parse_duration(cleanup.finished_after),
        idle_after=None if cleanup.idle_after is None else parse_duration(cleanup.idle_after),
        prometheus=cleanup.prometheus,
        teams={team.name: _declared(team) for team in context.environment.teams},
    )


def _declared(team: Team) -> tuple[str, ...]:
    return tuple(one.name for field in _LISTS for one in getattr(team, field))
