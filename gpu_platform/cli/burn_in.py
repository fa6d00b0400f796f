"""`gpu-platform burn-in`: measure the idle nodes of a deployed stack."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from gpu_platform.base.console import console
from gpu_platform.base.errors import BadInput, ExitCode, Problem, UnknownOutcome, did_you_mean
from gpu_platform.base.progress import Progress
from gpu_platform.burn_in.run import NodeRecord, run_burn_in
from gpu_platform.live.cluster_access import client_of
from gpu_platform.planning.burn_in.section import BurnInPlan
from gpu_platform.stack.loaded import environment_of, load_stack
from validators.burn_in import burn_in_checks
from validators.render import print_report
from validators.report import NodeReport, ValidationReport


def burn_in_stack(stack: str, *, pools: Sequence[str], nodes: Sequence[str], to_json: bool) -> ExitCode:
    """Run active checks on idle nodes, print the results and store them for `validate`.

    Raises BadInput if `validation.burn_in` is not set, or if a pool or node does not exist.
    """
    plan = environment_of(load_stack(stack), ", because teams have no nodes", "burn-in {}")
    burn_in = plan.burn_in
    if burn_in is None:
        fix = "write validation: {burn_in: {}}, and run `gpu-platform up`"
        raise BadInput(
            stack, [Problem("validation.burn_in", "nothing", "burn_in, which configures the measurements", fix)]
        )
    _check_pools(burn_in, pools)
    client = client_of(plan)
    if client.get("v1", "Namespace", burn_in.namespace) is None:
        raise UnknownOutcome(
            f"namespace {burn_in.namespace} is not on this cluster: run `gpu-platform up {stack}` first"
        )
    progress = Progress(quiet=to_json)
    records = run_burn_in(client, plan, burn_in, pools=pools, nodes=nodes, tell=progress.line)
    report = report_of(records)
    if to_json:
        print(json.dumps(report.to_json(), indent=2))
    else:
        print_report(report, console())
    return report.exit_code


def report_of(records: Sequence[NodeRecord]) -> ValidationReport:
    """Return a validation report that contains only the results of active checks."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return ValidationReport(
        tuple(
            NodeReport(
                node=record.node.name,
                pool=record.pool.pool,
                machine_type=record.pool.machine_type,
                checks=burn_in_checks(record.to_json(now), record.pool, record.node.uid),
            )
            for record in records
        ),
        now,
    )


def _check_pools(burn_in: BurnInPlan, pools: Sequence[str]) -> None:
    """Raise BadInput for pools that are not in the stack or that cannot be measured."""
    known = {pool.pool: pool.skipped for pool in burn_in.pools}
    problems = [
        Problem("--pool", name, "a pool with GPUs: " + ", ".join(known), did_you_mean(name, known))
        if name not in known
        else Problem("--pool", f"{name}, which is not measured", known[name])
        for name in pools
        if known.get(name, "?")
    ]
    if problems:
        raise BadInput("burn-in", problems)
