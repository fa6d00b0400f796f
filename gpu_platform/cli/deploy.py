"""`gpu-platform up`, `preview` and `destroy`, for both engines."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_platform.catalog import load_catalog
from gpu_platform.cli.check import show_policies, verdict
from gpu_platform.cli.console import console
from gpu_platform.cli.engines import Deployment, choose_deployment
from gpu_platform.cli.mig_rollout import (
    change_nodes,
    hold_nodes,
    preview_rollout,
    release_nodes,
    rollout_as_json,
)
from gpu_platform.cli.summary import Summary, show_changes, show_summary
from gpu_platform.cluster_access import client_of
from gpu_platform.engine.choice import EngineName
from gpu_platform.engine.wait import NotReady
from gpu_platform.errors import BadInput, ExitCode, Finding, GpuPlatformError, Problem
from gpu_platform.planning import EnvironmentPlan, Plan
from gpu_platform.planning.changes.pool_facts import protected
from gpu_platform.planning.changes.pools import PoolChange, pool_changes
from gpu_platform.planning.operator.allocation import check_allocation
from gpu_platform.planning.problems import Problems
from gpu_platform.policy_check import evaluate_policies
from gpu_platform.program import record_stack
from gpu_platform.progress import Progress
from gpu_platform.rollout.run import RolloutFailed
from gpu_platform.stacks import LoadedStack, load_stack
from gpu_platform.usage import gpu_usage
from gpu_platform.validation import collect_report, wait_for_report
from policies import PolicyReport
from sandbox import control_plane

_SETTLE_SECONDS = 60.0  # time for the operator to reconcile a change after all objects are ready


@dataclass(frozen=True, slots=True)
class _Prepared:
    loaded: LoadedStack
    report: PolicyReport
    deployment: Deployment
    progress: Progress


def _prepare(stack: str, engine: str, *, quiet: bool, with_policies: bool = True) -> _Prepared:
    """Check a stack, start its sandbox and choose its engine; raises what is wrong before anything changes.

    With `with_policies` a violation of a mandatory rule is raised as a Finding.
    """
    loaded = load_stack(stack)
    progress = Progress(quiet=quiet)
    recorded = record_stack(loaded)
    report = evaluate_policies(recorded, loaded.plan) if with_policies else PolicyReport()
    if verdict(report) is not ExitCode.GOOD:
        if not quiet:
            show_policies(console(), report)
        raise Finding(f"stack {loaded.stack} violates mandatory policies; nothing was changed")
    if loaded.plan.cluster.access == "sandbox":
        control_plane.up(loaded.plan.cluster.name, progress=progress)
    deployment = choose_deployment(loaded, recorded, engine, progress)
    progress.line(f"engine: {deployment.engine} ({deployment.why})")
    return _Prepared(loaded, report, deployment, progress)


def preview_stack(stack: str, engine: str, *, to_json: bool) -> ExitCode:
    """Print what `up` would change; raises Finding for a violation of a mandatory policy."""
    prepared = _prepare(stack, engine, quiet=to_json)
    outputs = _outputs(prepared)
    pools = _warn_of_pools(prepared, outputs)
    rollout = preview_rollout(prepared.loaded.plan, outputs)
    changes = prepared.deployment.preview()
    if to_json:
        document = {
            "version": 1,
            "policies": prepared.report.to_json(),
            "pool_changes": _as_json(pools),
            "mig_changes": rollout_as_json(rollout),
            "changes": changes,
        }
        print(json.dumps(document, indent=2))
    else:
        show_changes(console(), changes)
        show_policies(console(), prepared.report)
    return ExitCode.GOOD


def _outputs(prepared: _Prepared) -> Mapping[str, Any]:
    """Return the outputs of an environment's last deployment, empty if there is none.

    Raises BadInput if the plan is not compatible with them.
    """
    plan = prepared.loaded.plan
    if plan.kind != "environment":
        return {}
    outputs = prepared.deployment.outputs() or {}
    problems = Problems()
    check_allocation(outputs, plan.pools, problems)
    if problems.found:
        raise BadInput(str(prepared.loaded.path), problems.found)
    return outputs


def _warn_of_pools(prepared: _Prepared, outputs: Mapping[str, Any]) -> tuple[PoolChange, ...] | None:
    """Print to standard error how the pools of the last deployment change; None if that is unknown."""
    plan = prepared.loaded.plan
    if plan.kind != "environment" or not outputs:
        return ()
    if "pools" not in outputs:
        print("pools were not compared with the last deployment: its outputs do not list them", file=sys.stderr)
        return None
    changes = pool_changes(outputs["pools"], plan, load_catalog())
    for change in changes:
        print(f"warning: {change}", file=sys.stderr)
    return changes


def _as_json(changes: tuple[PoolChange, ...] | None) -> list[dict[str, Any]] | None:
    return None if changes is None else [change.to_json() for change in changes]


def deploy_stack(stack: str, engine: str, *, to_json: bool) -> ExitCode:
    """Deploy a stack, wait until its nodes pass validation, and print the report; return the worst exit code."""
    prepared = _prepare(stack, engine, quiet=to_json)
    if not to_json:
        show_policies(console(), prepared.report)
    outputs = _outputs(prepared)
    pools = _warn_of_pools(prepared, outputs)
    failure: GpuPlatformError | None = None
    summary = Summary(engine=prepared.deployment.engine, why=prepared.deployment.why, pool_changes=_as_json(pools))
    plan = prepared.loaded.plan
    try:
        # Before the engine, which would change all nodes at once.
        summary.mig_changes = change_nodes(plan, outputs, prepared.progress)
        summary.changes = prepared.deployment.up()
        hold_nodes(plan)
    except RolloutFailed as error:
        failure, summary.mig_changes = error, error.outcomes
    except Finding as error:
        failure = error
    # Only the Pulumi CLI may have applied a part before a failure of another kind.
    partly = summary.engine == EngineName.PULUMI and not isinstance(failure, RolloutFailed)
    applied = failure is None or isinstance(failure, NotReady) or partly
    if plan.kind == "environment" and applied:
        _observe(summary, plan, failed=failure is not None, progress=prepared.progress)
    if to_json:
        print(json.dumps(summary.to_json(plan, failure), indent=2))
    else:
        show_summary(console(), summary, plan)
    if failure is not None:
        print(f"error: {failure}", file=sys.stderr)
        return failure.exit_code
    gated = plan.kind == "environment" and plan.validation.gate
    return summary.report.exit_code if gated and summary.report is not None else ExitCode.GOOD


def _observe(summary: Summary, plan: EnvironmentPlan, *, failed: bool, progress: Progress) -> None:
    """Add the validation report of the nodes and the GPU usage of the pods to the summary."""
    client = client_of(plan)
    if failed:
        summary.report = collect_report(client, plan)
    else:
        with progress.step("validating nodes"):
            seconds = min(_SETTLE_SECONDS, plan.validation.timeout_seconds)
            summary.report = wait_for_report(client, plan, seconds)
    pools = {node.node: node.pool for node in summary.report.nodes if node.node}
    claimed = any(pool.devices for pool in plan.pools)
    claims = client.objects("resource.k8s.io/v1", "ResourceClaim") if claimed else ()
    summary.usage = gpu_usage(client.objects("v1", "Pod"), pools, claims)


def destroy_stack(stack: str, engine: str) -> ExitCode:
    """Delete all resources that a stack deployed, and nothing else; raises BadInput while one is protected."""
    plan = load_stack(stack).plan
    _refuse_protected(stack, protected(plan) if plan.kind == "environment" else (), "the stack file")
    cluster = plan.cluster
    if cluster.access == "sandbox" and control_plane.status(cluster.name).state == "absent":
        print(f"sandbox {cluster.name} does not exist: nothing to destroy")
        return ExitCode.GOOD
    prepared = _prepare(stack, engine, quiet=False, with_policies=False)
    outputs = prepared.deployment.outputs() or {}
    _refuse_protected(stack, outputs.get("protected") or (), "the last deployment")
    prepared.deployment.destroy()
    release_nodes(plan)
    _show_retained(plan)
    return ExitCode.GOOD


def _refuse_protected(stack: str, names: Sequence[str], source: str) -> None:
    if not names:
        return
    problem = Problem(
        "cluster.production",
        f"true in {source}, which protects {', '.join(names)}",
        "false in the stack file and in the last deployment: no single command destroys a production cluster",
        f"set production: false, run `gpu-platform up {stack}`, then destroy again; nothing was changed",
    )
    raise BadInput(stack, [problem])


def _show_retained(plan: Plan) -> None:
    """Print the resources that a destroy keeps."""
    retained = plan.cluster.cloud.retained if plan.kind == "environment" and plan.cluster.cloud is not None else ()
    print(
        f"stack {plan.stack}: destroyed"
        + ("; these resources were kept, remove them by hand:" if retained else "")
    )
    for name in retained:
        print(f"  {name}")
