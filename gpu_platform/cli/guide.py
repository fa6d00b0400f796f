"""`gpu-platform guide`: how a team member logs in, submits workloads and views the queue."""

from __future__ import annotations

import json
import sys
from typing import Literal

from rich.markdown import Markdown

from gpu_platform.base.console import console
from gpu_platform.base.errors import BadInput, ExitCode, Problem, UnknownOutcome, did_you_mean
from gpu_platform.base.yaml_text import manifest_text
from gpu_platform.cli.options import not_with
from gpu_platform.guide import (
    LiveGuide,
    guide_to_html,
    guide_to_json,
    guide_to_markdown,
    manifests,
    read_live_guide,
)
from gpu_platform.live.cluster_access import client_of
from gpu_platform.planning.guide import guide_of
from gpu_platform.planning.plan import Plan
from gpu_platform.planning.queues import queue_of, team_queues
from gpu_platform.stack.loaded import load_stack


def show_guide(
    stack: str, team: str, *, output: Literal["text", "json", "html"], manifest: str | None, live: bool
) -> ExitCode:
    """Print the guide of a team, or one of its manifests.

    Raises BadInput for a team or manifest that the stack does not have, and for options that do not apply to a
    manifest. Raises UnknownOutcome if the cluster does not answer.
    """
    if manifest is not None:
        _check_options_of_manifest(output, live=live)
    plan = load_stack(stack).plan
    team_plan = next((one for one in plan.teams if one.namespace == team), None)
    guide = guide_of(team, plan.guides)
    if team_plan is None or guide is None:
        raise BadInput(stack, [_unknown_team(plan, team)])
    queue = queue_of(team, team_queues(plan.queues))
    if manifest is not None:
        found = {str(kind): objects for kind, objects in manifests(guide, team_plan, queue).items()}
        if manifest not in found:
            why = {str(kind): reason for kind, reason in guide.missing.items()}.get(manifest)
            fix = why or did_you_mean(manifest, found) or "name one of these manifests"
            raise BadInput(
                stack, [Problem("--manifest", repr(manifest), f"one of {', '.join(found) or 'none'}", fix)]
            )
        if output == "json":
            print(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(found[manifest])}, indent=2))
        else:
            print(manifest_text(*found[manifest]), end="")
        return ExitCode.GOOD
    now = _read_live(plan, team, stack) if live else None
    if output == "json":
        print(json.dumps(guide_to_json(guide, team_plan, queue, now), indent=2))
    elif output == "html":
        print(guide_to_html(guide, team_plan, queue, now), end="")
    elif sys.stdout.isatty():
        console().print(Markdown(guide_to_markdown(guide, team_plan, queue, now)))
    else:
        print(guide_to_markdown(guide, team_plan, queue, now), end="")
    return ExitCode.GOOD


def _read_live(plan: Plan, team: str, stack: str) -> LiveGuide:
    client = client_of(plan)
    if client.get("v1", "Namespace", team) is None:
        raise UnknownOutcome(f"team {team} is not deployed on this cluster: run `gpu-platform up {stack}` first")
    return read_live_guide(client, team)


def _check_options_of_manifest(output: str, *, live: bool) -> None:
    problems = [not_with("--live", "set", "--manifest")] if live else []
    if output == "html":
        problems.append(not_with("--format", output, "--manifest"))
    if problems:
        raise BadInput("guide", problems)


def _unknown_team(plan: Plan, team: str) -> Problem:
    known = [one.namespace for one in plan.teams]
    own_stack = "for a team with a separate stack, name that stack"
    fix = "; ".join(part for part in (did_you_mean(team, known), own_stack) if part)
    return Problem("TEAM", repr(team), f"a team of this stack: {', '.join(known) or 'it has none'}", fix)
