"""`gpu-platform validate`: compare every node of a deployed stack with the plan."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_platform.base.console import console
from gpu_platform.base.errors import BadInput, ExitCode, Problem, UnknownOutcome
from gpu_platform.catalog import load_catalog
from gpu_platform.cli.held_queues import warn_of_held_queues
from gpu_platform.cli.options import only_with
from gpu_platform.cli.validate_page import validation_page
from gpu_platform.deploy.embedded.applyset import stack_outputs
from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.cluster_access import ClusterAccess
from gpu_platform.live.node_reports import collect_report
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.changes import classify, pool_changes
from gpu_platform.stack.loaded import environment_of, load_stack
from validators.render import as_ctrf, as_junit, print_report


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFiles:
    """Files for the report in other formats. `earlier` contains JSON reports of earlier runs for the HTML page."""

    junit: Path | None = None
    ctrf: Path | None = None
    html: Path | None = None
    earlier: tuple[Path, ...] = ()


def validate_stack(stack: str, files: ReportFiles, *, to_json: bool) -> ExitCode:
    """Print a report about all nodes, and also write it to the files in other formats."""
    plan = environment_of(load_stack(stack), ", because teams have no nodes", "validate {}")
    earlier = _check_files(files)
    cluster = ClusterAccess(plan)
    client = cluster.client()
    if client.get("v1", "Namespace", plan.validation.namespace) is None:
        raise UnknownOutcome(
            f"stack {plan.stack} is not deployed on this cluster: run `gpu-platform up {stack}` first"
        )
    _warn_of_edits(client, plan, stack)
    warn_of_held_queues(plan, cluster)
    report = collect_report(client, plan)
    if files.junit is not None:
        files.junit.write_text(as_junit(report), "utf-8")
    if files.ctrf is not None:
        files.ctrf.write_text(json.dumps(as_ctrf(report), indent=1) + "\n", "utf-8")
    if files.html is not None:
        files.html.write_text(validation_page(report, plan.stack, load_catalog(), earlier), "utf-8")
    if to_json:
        print(json.dumps(report.to_json(), indent=2))
    else:
        print_report(report, console())
    return report.exit_code


def _warn_of_edits(client: KubernetesClient, plan: EnvironmentPlan, stack: str) -> None:
    """Warn if the stack file differs from the deployment.

    A stack that the Pulumi CLI deployed causes no warning, because the cluster does not contain the stack's
    outputs.
    """
    outputs = stack_outputs(client, plan.stack) or {}
    if "pools" not in outputs:
        return
    catalog = load_catalog()
    pools = pool_changes(outputs["pools"], plan, catalog)
    edits = [
        one for one in classify(outputs, plan, catalog, live=None, pools=pools) if one.changes_nodes or one.nodes
    ]
    for one in edits:
        print(f"warning: {one.subject}: {one.field} is {one.new}, and {one.old} is deployed", file=sys.stderr)
    if edits:
        print(
            "warning: nodes are compared with the stack file, which was changed after the last `up`: run "
            f"`gpu-platform preview {stack}`, then `up`",
            file=sys.stderr,
        )


def _check_files(files: ReportFiles) -> list[Mapping[str, Any]]:
    """Return the earlier reports, oldest first. Raises one BadInput that lists every file that cannot be read or
    written.
    """
    problems = [
        Problem(option, str(file), "a file in an existing folder", f"create {file.parent} first")
        for option, file in (("--junit", files.junit), ("--ctrf", files.ctrf), ("--html", files.html))
        if file is not None and not file.parent.is_dir()
    ]
    if files.earlier and files.html is None:
        problems.append(only_with("--earlier", str(files.earlier[0]), "--html FILE"))
    earlier: list[Mapping[str, Any]] = []
    for file in files.earlier:
        try:
            found: Any = json.loads(file.read_text("utf-8"))
            earlier.append({key: found[key] for key in ("time", "verdict", "summary", "nodes")})
        except (OSError, ValueError, KeyError, TypeError) as error:
            allowed = "a report of validate --format json"
            problems.append(Problem("--earlier", f"{file}: {type(error).__name__} {error}", allowed))
    if problems:
        raise BadInput("validate", problems)
    return sorted(earlier, key=lambda run: str(run["time"]))
