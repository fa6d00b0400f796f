"""`gpu-platform team remove`: deletes the retained namespace of a team with everything in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from gpu_platform.base.console import console
from gpu_platform.base.errors import BadInput, ExitCode, Problem
from gpu_platform.base.progress import Progress
from gpu_platform.cli.consent import ask_for
from gpu_platform.cli.export import write_manifests
from gpu_platform.cli.options import only_with
from gpu_platform.deploy.lock import StackLock
from gpu_platform.deploy.retention import kept_namespaces
from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.cluster_access import client_of
from gpu_platform.live.contents import Contents, names_by_kind, namespace_contents
from gpu_platform.planning import Plan
from gpu_platform.stack.loaded import LoadedStack, load_stack


def remove_team(
    stack: str,
    team: str,
    *,
    confirm: str | None,
    export: Path | None,
    with_secrets: bool,
    delete_claims: bool,
    dry_run: bool,
    to_json: bool,
) -> ExitCode:
    """List the objects that a team left behind, write their manifests, and delete the namespace after consent.

    `confirm` is the team's name, which gives consent without a terminal. Raises BadInput, before anything is
    changed, if the team is still deployed, if consent is missing, if claims are bound and `delete_claims` is not
    set, or if an option has no effect. If a deletion has already begun, it is continued.
    """
    command = f"gpu-platform team remove {stack} {team}"
    if with_secrets and export is None:
        raise BadInput(command, [only_with("--with-secrets", "set", "--export FILE")])
    loaded = load_stack(stack)
    plan = loaded.plan
    client = client_of(plan)
    namespace = _retained(client, loaded, team, command)
    contents = namespace_contents(client, team)
    if not to_json:
        _show(namespace, contents)
    if confirm is not None and confirm != team:
        raise BadInput(command, [Problem("--confirm", repr(confirm), repr(team), "nothing was changed")])
    if not dry_run and not namespace.is_being_deleted:
        _refuse_bound(contents, command, delete_claims=delete_claims)
        if confirm is None:
            ask_for(team, source=command, option=f"--confirm {team}")
    progress = Progress(quiet=to_json)
    if export is not None:
        count = write_manifests(contents, export, with_secrets=with_secrets)
        left_out = "" if with_secrets else ", Secrets without their data"
        progress.line(f"wrote {count} manifests to {export}{left_out}")
    if not dry_run:
        with StackLock(client, plan.stack, "team remove", progress).held():
            kept_namespaces.delete_namespaces(client, plan.stack, [team], progress)
        progress.line(f"namespace {team} was deleted")
    if to_json:  # JSON is printed only at the end, because an error would be printed as another document
        print(json.dumps(_document(plan, namespace, contents, dry_run=dry_run), indent=2))
    return ExitCode.GOOD


def _retained(
    client: KubernetesClient, loaded: LoadedStack, team: str, command: str
) -> kept_namespaces.TeamNamespace:
    """Return the retained namespace of a team. Raises BadInput if there is none, or if the team is still deployed.

    The stack file of a destroyed stack may still contain the team.
    """
    plan, untouched = loaded.plan, "nothing was changed"
    namespaces = {found.name: found for found in kept_namespaces.team_namespaces(client)}
    found = namespaces.get(team) or kept_namespaces.retained_and_deleted(client, team)
    retained = ", ".join(name for name, each in namespaces.items() if each.is_retained) or "there is none"
    if found is None:
        kept_namespaces.refuse_deleting(client, team)
        raise BadInput(
            command, [Problem(team, "not a team namespace", f"a retained namespace: {retained}", untouched)]
        )
    if not found.is_retained:
        argument = loaded.argument if found.stack == plan.stack else loaded.argument_of(found.stack)
        fix = (
            f"remove the team from the stack file of {found.stack} and run `gpu-platform up {argument}` first; "
            f"{untouched}"
        )
        problem = Problem(
            team, f"a team that stack {found.stack} deploys", f"a retained namespace: {retained}", fix
        )
        raise BadInput(command, [problem])
    if plan.kind == "team" and found.retained_from != plan.stack:
        own = loaded.argument_of(found.retained_from)
        fix = f"name the stack {own}, or its environment {loaded.environment_argument}; {untouched}"
        problem = Problem(team, f"retained from stack {found.retained_from}", f"a team of stack {plan.stack}", fix)
        raise BadInput(command, [problem])
    return found


def _refuse_bound(contents: Contents, command: str, *, delete_claims: bool) -> None:
    bound = [str(claim) for claim in contents.claims if claim.is_bound]
    if bound and not delete_claims:
        fix = "save the data, then add --delete-claims; nothing was changed"
        raise BadInput(command, [Problem("volume claims", f"bound: {', '.join(bound)}", "no bound claim", fix)])


def _document(
    plan: Plan, namespace: kept_namespaces.TeamNamespace, contents: Contents, *, dry_run: bool
) -> dict[str, Any]:
    return {
        "version": 1,
        "stack": plan.stack,
        "team": namespace.team,
        "dry_run": dry_run,
        "retained": {"since": namespace.retained_since, "from": namespace.retained_from},
        **contents.to_json(),
    }


def _show(namespace: kept_namespaces.TeamNamespace, contents: Contents) -> None:
    out, deleted = console(), "is being deleted, still " if namespace.is_being_deleted else ""
    out.print(
        escape(
            f"namespace {namespace.name}: retained from stack {namespace.retained_from} since "
            f"{namespace.retained_since}, {deleted}contains {contents}"
        )
    )
    show_contents(contents)


def show_contents(contents: Contents, indent: int = 2, out: Console | None = None) -> None:
    """Print the names of team members' objects by kind. For claims, also print the size and volume."""
    out, margin = out or console(), " " * indent
    for kind, found in names_by_kind(contents):
        out.print(escape(f"{margin}{kind}: {', '.join(found)}"))
    for reason in contents.unread:
        out.print(escape(f"{margin}not listed: {reason}"))
