"""`gpu-platform up`, `preview` and `destroy`, for both engines."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gpu_platform.base.console import console
from gpu_platform.base.errors import BadInput, ExitCode, Finding, GpuPlatformError, UnknownOutcome
from gpu_platform.base.paths import sandbox_dir, sandbox_kubeconfig
from gpu_platform.base.progress import Progress
from gpu_platform.catalog import load_catalog
from gpu_platform.cli.check import broken_rules, show_policies, verdict
from gpu_platform.cli.check_report import placed
from gpu_platform.cli.dead_ends import NodesGivenUp, ended_by_dead_ends, past_the_gate
from gpu_platform.cli.destroy import (
    Destruction,
    destroy_deployed,
    nothing_to_destroy,
    refuse_protected,
    refuse_protected_pools,
)
from gpu_platform.cli.engines import Deployment, choose_deployment
from gpu_platform.cli.held_queues import warn_of_held_queues
from gpu_platform.cli.impact import Impacts, find_impacts, parse_effects, refuse, refuse_impossible, show_impacts
from gpu_platform.cli.interrupted import explained, parse_timeout, time_limit
from gpu_platform.cli.mig_rollout import (
    change_nodes,
    hold_nodes,
    preview_rollout,
    rolled_configs,
    rollout_as_json,
)
from gpu_platform.cli.quotas import check_all_quotas
from gpu_platform.cli.summary import Summary, show_changes, show_summary
from gpu_platform.cli.team_changes import warn_of_teams
from gpu_platform.cli.window import MaintenanceWindow, window_of
from gpu_platform.deploy.changes import ObjectsSkipped
from gpu_platform.deploy.choice import EngineName
from gpu_platform.deploy.embedded.applyset import is_deployed
from gpu_platform.deploy.embedded.queues import release_deleted
from gpu_platform.deploy.embedded.wait import NotReady
from gpu_platform.deploy.recorded.policy_check import evaluate_policies
from gpu_platform.deploy.rollout.plan import Rollout
from gpu_platform.deploy.rollout.run import RolloutFailed
from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.cluster_access import ClusterAccess
from gpu_platform.live.live_objects import ObjectsOnce
from gpu_platform.live.node_reports import collect_report, wait_for_report
from gpu_platform.live.usage import gpu_usage
from gpu_platform.live.workload_status import wait_for_workloads
from gpu_platform.planning.changes import PoolChange, pool_changes, protected, protection_changes
from gpu_platform.planning.changes.departures import TeamChange
from gpu_platform.planning.changes.durations import SETTLE_SECONDS
from gpu_platform.planning.changes.sizes import size_changes
from gpu_platform.planning.clouds.offerings import offering_warnings
from gpu_platform.planning.operator import check_allocation
from gpu_platform.planning.pools import capacity_gaps, ended_capacity
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.queues import team_queues
from gpu_platform.planning.queues.section import QueuesPlan
from gpu_platform.planning.schedules import off_notices
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, load_stack
from gpu_platform.stack.project import VERSION_OUTPUT, version, version_change
from policies import PolicyReport
from sandbox import control_plane
from sandbox.versions import check_kubernetes, kubernetes_of

_WORKLOAD_SECONDS = 30.0  # time for pods to start; a workload that takes longer is reported, but is not a failure


@dataclass(frozen=True, slots=True)
class _Prepared:
    loaded: LoadedStack
    report: PolicyReport
    deployment: Deployment
    progress: Progress
    cluster: ClusterAccess
    is_new_sandbox: bool = False


def _prepare(stack: str, engine: str, *, quiet: bool, with_policies: bool = True) -> _Prepared:
    """Check a stack, start its sandbox and choose its engine. Errors are raised before anything changes.

    With `with_policies`, a violation of a mandatory rule raises Finding, and reserved capacity that has already
    ended raises BadInput. `destroy` needs neither check.
    """
    loaded = load_stack(stack)
    progress = Progress(quiet=quiet)
    recorded = record_stack(loaded)
    report = evaluate_policies(recorded, loaded.plan) if with_policies else PolicyReport()
    if verdict(report) is not ExitCode.GOOD:
        if not quiet:
            show_policies(console(), placed(report, loaded))
        head = f"stack {loaded.stack} violates mandatory policies; nothing was changed"
        # JSON output has no table of violations, so the error itself lists the violations.
        raise Finding("\n".join([head, *broken_rules(placed(report, loaded))]) if quiet else head)
    if loaded.plan.kind == "environment" and with_policies:
        for warning in (
            *offering_warnings(loaded.plan, load_catalog()),
            *capacity_gaps(loaded.plan.pools),
            *off_notices(loaded.plan),
        ):
            print(f"warning: {warning}", file=sys.stderr)
    is_new = loaded.plan.cluster.access == "sandbox" and _start_sandbox(loaded, progress)
    cluster = ClusterAccess(loaded.plan)
    deployment = choose_deployment(loaded, recorded, engine, progress, cluster)
    if with_policies:
        _refuse_ended_capacity(loaded)
    progress.line(f"engine: {deployment.engine} ({deployment.why})")
    return _Prepared(loaded, report, deployment, progress, cluster, is_new)


def _refuse_ended_capacity(loaded: LoadedStack) -> None:
    pools = loaded.plan.pools if loaded.plan.kind == "environment" else ()
    if problems := ended_capacity(pools, datetime.now(UTC)):
        raise BadInput(str(loaded.path), list(problems))


def _start_sandbox(loaded: LoadedStack, progress: Progress) -> bool:
    """Start the sandbox of a stack.

    A new sandbox has the declared Kubernetes version, and an existing sandbox keeps its version. Returns whether
    the sandbox is new. Raises BadInput if the sandbox cannot run the declared version.
    """
    name, wanted = loaded.plan.cluster.name, loaded.declared_kubernetes
    check_kubernetes(sandbox_dir(name), name, wanted, "cluster.kubernetes")
    new = control_plane.status(name).state == "absent"
    pools = loaded.plan.pools if loaded.plan.kind == "environment" else ()
    offers = {pool.machine_type: pool.units_per_node for pool in pools if pool.autoscaler is not None}
    control_plane.up(
        name,
        kubernetes=wanted if new else None,
        kueue=bool(loaded.plan.queues),
        karpenter=bool(offers),
        karpenter_offers=offers,
        progress=progress,
    )
    return new


def _warn_of_other_sandboxes(loaded: LoadedStack) -> None:
    """Warn if the stack is deployed in a sandbox other than the one that the stack file names."""
    own = loaded.plan.cluster.name
    for name in control_plane.names():
        if name == own or control_plane.status(name).state != "running":
            continue
        try:
            deployed = is_deployed(KubernetesClient(sandbox_kubeconfig(name)), loaded.stack)
        except UnknownOutcome:
            continue  # the sandbox is stopping or does not answer
        if deployed:
            print(
                f"warning: stack {loaded.stack} is deployed in sandbox {name}, but the stack file names sandbox "
                f"{own}: the deployment in {name} stays unchanged. To change it, write cluster.name: {name}. To "
                f"move it, first write that name and run `gpu-platform destroy {loaded.argument}`",
                file=sys.stderr,
            )


def _upgrade_sandbox(prepared: _Prepared) -> None:
    """Upgrade a sandbox to the declared Kubernetes version.

    This happens only after the changes have been announced, because a preview must not change anything.
    """
    cluster, wanted = prepared.loaded.plan.cluster, prepared.loaded.declared_kubernetes
    if cluster.access == "sandbox" and wanted not in (None, kubernetes_of(sandbox_dir(cluster.name))):
        control_plane.up(cluster.name, kubernetes=wanted, progress=prepared.progress)
        prepared.cluster.forget()


@dataclass(frozen=True, slots=True)
class _Announced:
    """Planned changes and their impact, as `preview` prints them.

    `pools` and `teams` are None if unknown. `skipped` is set if some of the objects belong to other owners.
    """

    outputs: Mapping[str, Any]
    pools: tuple[PoolChange, ...] | None
    teams: tuple[TeamChange, ...] | None
    rollout: Rollout | None
    changes: Mapping[str, Any] | None
    impacts: Impacts
    skipped: ObjectsSkipped | None = None


def preview_stack(
    stack: str, engine: str, *, to_json: bool, objects: bool = False, fail_on: str | None = None
) -> ExitCode:
    """Print what `up` would change. With `objects`, also print each object.

    Raises Finding for a violation of a mandatory policy, and for a change that has one of the effects in
    `fail_on`.
    """
    refused = _refused_effects(fail_on)
    prepared = _prepare(stack, engine, quiet=to_json)
    announced = _announce(prepared, always_compare=True)
    changes = announced.changes or {}
    window = window_of(prepared.loaded.plan)
    sizes = size_changes(announced.outputs, prepared.loaded.plan, announced.pools or ())
    protection = protection_changes(announced.outputs, prepared.loaded.plan)
    if to_json:
        document = {
            "version": 1,
            "policies": prepared.report.to_json(),
            "program": {"installed": version(), "deployed": announced.outputs.get(VERSION_OUTPUT)},
            "impact": announced.impacts.to_json(),
            "sizes": [size.to_json() for size in sizes],
            "protection": list(protection),
            "window": window.to_json(announced.impacts.found),
            "pool_changes": _as_json(announced.pools),
            "team_changes": _as_json(announced.teams),
            "mig_changes": rollout_as_json(announced.rollout),
            "changes": changes,
        }
        print(json.dumps(document, indent=2))
    else:
        show_impacts(console(), announced.impacts)
        for line in (*protection, *map(str, sizes), window.line(announced.impacts.found)):
            if line:
                console().print(line, markup=False)
        show_changes(console(), changes, objects=objects)
        show_policies(console(), placed(prepared.report, prepared.loaded))
    if prepared.is_new_sandbox:
        name = prepared.loaded.plan.cluster.name
        print(
            f"sandbox {name} was started for this preview and is still running: `gpu-platform sandbox down "
            f"--name {name}` deletes it",
            file=sys.stderr,
        )
    refuse(announced.impacts, refused)
    if announced.skipped is not None:
        print(f"error: {announced.skipped}", file=sys.stderr)
        return announced.skipped.exit_code
    return ExitCode.GOOD


def _refused_effects(fail_on: str | None) -> frozenset[str]:
    return frozenset() if fail_on is None else parse_effects(fail_on)


def _announce(prepared: _Prepared, *, always_compare: bool) -> _Announced:
    """Return the planned changes and their impact.

    The engine compares objects if the stack is deployed, or with `always_compare`. Raises BadInput if the plan is
    not compatible with the last deployment, or if the stack raises the sum of all quotas above the limit.
    """
    plan = prepared.loaded.plan
    outputs, objects = _outputs(prepared), ObjectsOnce(prepared.cluster)
    if change := version_change(outputs):
        print(change, file=sys.stderr)
    if plan.cluster.access == "sandbox" and not outputs:
        _warn_of_other_sandboxes(prepared.loaded)
    pools = _pool_changes(prepared, outputs)
    check_all_quotas(plan, prepared.cluster, is_deployed=bool(outputs) or plan.kind == "team")
    teams = warn_of_teams(plan, prepared.loaded.argument, outputs, prepared.cluster)
    if outputs:
        warn_of_held_queues(plan, prepared.cluster)
    rollout = preview_rollout(plan, outputs, objects)
    skipped: ObjectsSkipped | None = None
    try:
        changes = prepared.deployment.preview() if outputs or always_compare else None
    except ObjectsSkipped as error:
        skipped, changes = error, error.changes.to_json()
    impacts = find_impacts(plan, outputs, objects, pools, rollout, changes)
    return _Announced(outputs, pools, teams, rollout, changes, impacts, skipped)


def _outputs(prepared: _Prepared) -> Mapping[str, Any]:
    """Return the outputs of the last deployment, or an empty mapping if there is none.

    Raises BadInput if the plan is not compatible with these outputs.
    """
    plan = prepared.loaded.plan
    outputs = prepared.deployment.outputs() or {}
    if plan.kind == "environment":
        problems = Problems()
        check_allocation(outputs, plan.pools, problems)
        if problems.found:
            raise BadInput(str(prepared.loaded.path), problems.found)
    return outputs


def _pool_changes(prepared: _Prepared, outputs: Mapping[str, Any]) -> tuple[PoolChange, ...] | None:
    """Return the changes to the pools of the last deployment, or None if they are unknown."""
    plan = prepared.loaded.plan
    if plan.kind != "environment" or not outputs:
        return ()
    if "pools" not in outputs:
        print("pools were not compared with the last deployment: its outputs do not list them", file=sys.stderr)
        return None
    return pool_changes(outputs["pools"], plan, load_catalog(), datetime.now(UTC))


def _as_json(changes: Sequence[PoolChange | TeamChange] | None) -> list[dict[str, Any]] | None:
    return None if changes is None else [change.to_json() for change in changes]


def deploy_stack(
    stack: str,
    engine: str,
    *,
    to_json: bool,
    fail_on: str | None = None,
    timeout: str | None = None,
    outside_window: bool = False,
) -> ExitCode:
    """Deploy a stack, wait until its nodes pass validation, print the report and return the worst exit code.

    The impact of all changes is printed before the first change is made. Raises Finding, before anything is
    changed, for a change that has one of the effects in `fail_on`. Raises BadInput for a change to nodes outside
    the stack's maintenance window, unless `outside_window` is set. Raises TimedOut after `timeout`, a duration.
    """
    refused, seconds = _refused_effects(fail_on), parse_timeout(timeout)
    with time_limit(seconds):
        prepared = _prepare(stack, engine, quiet=to_json)
        window = window_of(prepared.loaded.plan, ignored=outside_window)
        with (
            explained(f"gpu-platform up {stack}", prepared.loaded.plan, prepared.cluster, prepared.progress),
            prepared.deployment.lock("up"),
        ):
            return _deploy(prepared, refused, window, to_json=to_json)


def _deploy(prepared: _Prepared, refused: frozenset[str], window: MaintenanceWindow, *, to_json: bool) -> ExitCode:
    announced = _announce(prepared, always_compare=False)
    if not to_json:
        show_policies(console(), placed(prepared.report, prepared.loaded))
    # With JSON, standard output contains only one document, which is printed at the end.
    show_impacts(console(stderr=to_json), announced.impacts)
    refuse(announced.impacts, refused)
    refuse_protected_pools(prepared.loaded.argument, announced.pools)
    refuse_impossible(prepared.loaded.stack, announced.impacts)
    window.refuse(prepared.loaded.stack, announced.impacts.found)
    _upgrade_sandbox(prepared)
    outputs = announced.outputs
    failure: GpuPlatformError | None = None
    summary = Summary(
        engine=prepared.deployment.engine,
        why=prepared.deployment.why,
        pool_changes=_as_json(announced.pools),
        team_changes=_as_json(announced.teams),
        impact=announced.impacts.to_json(),
    )
    plan = prepared.loaded.plan
    try:
        # MIG layouts are changed before the engine runs, because the engine would change all nodes at the same
        # time.
        summary.mig_changes = change_nodes(plan, outputs, prepared.cluster, prepared.progress, window.closed)
        window.check_still_open(announced.impacts.found)
        _release_queues(prepared, outputs)
        with ended_by_dead_ends(plan, prepared.cluster):
            summary.changes = prepared.deployment.up(rolled_configs(plan))
        hold_nodes(plan, prepared.cluster)
    except RolloutFailed as error:
        failure, summary.mig_changes = error, error.outcomes
    except ObjectsSkipped as error:
        failure, summary.changes = error, error.changes.to_json()
        hold_nodes(plan, prepared.cluster)
    except Finding as error:
        failure = error
    # After any other failure, the Pulumi CLI may have applied some of the changes.
    # The embedded engine tries all objects in a dry run first, so it has usually applied none.
    partly = summary.engine == EngineName.PULUMI and not isinstance(failure, RolloutFailed)
    applied = failure is None or isinstance(failure, NotReady | NodesGivenUp | ObjectsSkipped) or partly
    if applied:
        try:
            _observe(summary, prepared, failed=failure is not None)
        except GpuPlatformError as error:
            if failure is None:
                raise
            # The cluster may not exist yet. The failure of the deployment is reported below.
            print(f"nodes were not read after the failure: {error}", file=sys.stderr)
    if to_json:
        print(json.dumps(summary.to_json(plan, failure), indent=2))
    else:
        show_summary(console(), summary, plan)
    if failure is not None:
        print(f"error: {failure}", file=sys.stderr)
        if way_round := past_the_gate(plan, failure):
            print(way_round, file=sys.stderr)
        return failure.exit_code
    gated = plan.kind == "environment" and plan.validation.gate
    return summary.report.exit_code if gated and summary.report is not None else ExitCode.GOOD


def _release_queues(prepared: _Prepared, outputs: Mapping[str, Any]) -> None:
    """Finish the deletion of declared Kueue objects, so that the engine can create them again."""
    plan = prepared.loaded.plan
    declared = [("ClusterQueue", one.namespace) for one in team_queues(plan.queues)]
    if isinstance(plan.queues, QueuesPlan):
        declared += [("ResourceFlavor", one.name) for one in plan.queues.flavors]
        declared += [("Topology", one.name) for one in plan.queues.topologies]
    if not declared or (plan.kind == "environment" and not outputs):
        return  # the cluster may not exist yet
    for kind, name in release_deleted(prepared.cluster.client(), declared):
        prepared.progress.line(
            f"{kind} {name} was being deleted; it is created again, and running workloads continue"
        )


def _observe(summary: Summary, prepared: _Prepared, *, failed: bool) -> None:
    """Add the teams' workloads, the validation report of the nodes and the GPU usage to the summary."""
    plan, progress, client = prepared.loaded.plan, prepared.progress, prepared.cluster.client()
    if plan.workloads or any(team.workloads for team in plan.teams):
        with progress.step("waiting for the teams' workloads"):
            waits = not failed and _changed(summary.changes)  # after a change, give new pods time to start
            summary.unready = wait_for_workloads(client, plan, _WORKLOAD_SECONDS if waits else 0)
    if plan.kind != "environment":
        return
    if failed:
        summary.report = collect_report(client, plan)
    else:
        with progress.step("validating nodes"):
            seconds = min(SETTLE_SECONDS, plan.validation.timeout_seconds)
            summary.report = wait_for_report(client, plan, seconds)
    pools = {node.node: node.pool for node in summary.report.nodes if node.node}
    claimed = any(pool.devices for pool in plan.pools)
    claims = client.objects("resource.k8s.io/v1", "ResourceClaim") if claimed else ()
    summary.usage = gpu_usage(client.objects("v1", "Pod"), pools, claims)


def _changed(changes: Mapping[str, Any] | None) -> bool:
    counts: Mapping[str, int] = (changes or {}).get("counts") or {}
    return any(count for action, count in counts.items() if action != "unchanged")


def destroy_stack(
    stack: str,
    engine: str,
    *,
    yes: bool = False,
    delete_data: bool = False,
    timeout: str | None = None,
    to_json: bool = False,
) -> ExitCode:
    """Delete what a stack deployed, after consent. Objects of team members are kept unless `delete_data` is set.

    `yes` gives consent without a terminal. With `to_json`, one document is printed at the end, and the lists go to
    standard error. Raises BadInput, before anything is changed, if consent is missing, if a resource is protected,
    or if team stacks are deployed on the environment. Raises TimedOut after `timeout`, a duration.
    """
    with time_limit(parse_timeout(timeout)):
        return _destroy(stack, engine, yes=yes, delete_data=delete_data, to_json=to_json)


def _destroy(stack: str, engine: str, *, yes: bool, delete_data: bool, to_json: bool) -> ExitCode:
    plan = load_stack(stack).plan
    refuse_protected(stack, protected(plan), "the stack file")
    cluster = plan.cluster
    if cluster.access == "sandbox" and control_plane.status(cluster.name).state == "absent":
        absent = f"sandbox {cluster.name} does not exist: nothing to destroy"
        print(json.dumps(nothing_to_destroy(plan), indent=2) if to_json else absent)
        return ExitCode.GOOD
    prepared = _prepare(stack, engine, quiet=to_json, with_policies=False)
    outputs = prepared.deployment.outputs() or {}
    refuse_protected(stack, outputs.get("protected") or (), "the last deployment")
    destruction = Destruction(
        prepared.loaded,
        prepared.deployment,
        outputs,
        prepared.progress,
        prepared.cluster,
        to_json,
        is_deployed=bool(outputs) or prepared.deployment.is_deployed(),
    )
    with explained(f"gpu-platform destroy {stack}", plan, prepared.cluster, prepared.progress):
        destroy_deployed(destruction, yes, delete_data)
    return ExitCode.GOOD
