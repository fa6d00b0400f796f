"""The JSON document of `gpu-platform rehearse`; the text and the page are made from it.

Keys, all always there. Times and durations are seconds, those of jobs from the first arrival on; shares are 0 to
1; `usd` is null where a price is not known.

- `version` 1; `trace`: `file`, `form` (`table`, `openb`, `helios`, `philly`), `jobs`, `left_out` (jobs by reason).
- `stacks`: that of the command, then that of `--against`:
  - `stack`, `gpus` (of the desired nodes), `assumptions` (texts).
  - `seconds`: from the first arrival to the last end; `arrivals`: to the last arrival.
  - `fragmented`: share of all GPU hours that was free on nodes with pods; `idle_while_waiting`: share in which
    GPUs were idle while jobs waited for as many; `usd`: of all nodes.
  - `total` and `teams`, each: `team` (null: all), `jobs`, `ended`, `unfinished`, `impossible`, `wait` and
    `completion` (`median`, `p95`, `worst`, `mean`; null: no job started, or ended), `waited_for` (jobs by `quota`
    or `nodes`, whatever they waited for last), `preemptions`, `gpu_hours`, `lost_gpu_hours` (work done again),
    `utilisation` (share of all nodes' GPU hours), `usd` (of these GPU hours).
  - `pools`: `pool`, `nodes` (mean), `gpu_hours`, `held` and `fragmented` (shares; null: it had no nodes), `usd`.
  - `impossible`: jobs that no node or quota has room for: `team`, `count`, `pods`, `units`, `resource`.
  - `line`: `step`, `capacity`, `used` and `waiting` by team: mean GPUs in each step.
  - `jobs`: `name`, `team`, `arrival`, `start` (first, or null), `end` (or null), `waited`, `waited_for` (or null),
    `preemptions`, `state` (`ended`, `impossible`, or what it is still in).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from extensions.capacity.rehearsal import Recorded, RehearsalStack, Report, Trace


def rehearsal_document(trace: Trace, file: str, stacks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the whole document. `stacks`: from `stack_document`."""
    return {
        "version": 1,
        "trace": {
            "file": file,
            "form": trace.form,
            "jobs": len(trace.entries),
            "left_out": dict(trace.left_out),
        },
        "stacks": list(stacks),
    }


def stack_document(
    stack: RehearsalStack, recorded: Recorded, report: Report, assumptions: Sequence[str]
) -> dict[str, Any]:
    """Return what a rehearsal showed on one stack as plain JSON values."""
    found = asdict(report)
    return {
        "stack": stack.name,
        "gpus": sum(pool.desired * pool.gpus_per_node for pool in stack.platform.pools),
        "assumptions": [*stack.assumptions, *assumptions],
        **found,
        "impossible": _impossible(recorded),
        "jobs": [
            {
                "name": job.job.name,
                "team": job.job.team,
                "arrival": job.job.arrival - recorded.start,
                "start": None if job.first_start is None else job.first_start - recorded.start,
                "end": None if job.ended is None else job.ended - recorded.start,
                "waited": job.waited,
                "waited_for": job.reason,
                "preemptions": job.preemptions,
                "state": job.state,
            }
            for job in recorded.jobs
        ],
    }


def _impossible(recorded: Recorded) -> list[dict[str, Any]]:
    counts = Counter(
        (job.job.team, job.shape.pods, job.shape.units, job.shape.resource)
        for job in recorded.jobs
        if job.state == "impossible"
    )
    return [
        {"team": team, "count": count, "pods": pods, "units": units, "resource": resource}
        for (team, pods, units, resource), count in counts.most_common()
    ]
