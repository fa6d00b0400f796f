"""The JSON document of `gpu-platform rehearse`. The text and HTML output are rendered from it.

All keys are always present. Times and durations are in seconds. Times of jobs count from the first arrival. Shares
are between 0 and 1. `usd` is null if a price is unknown.

- `version` is 1. `trace` contains `file`, `form` (`table`, `openb`, `helios` or `philly`), `jobs` and `left_out`
  (number of jobs by reason).
- `stacks` contains the stack of the command, then the stack of `--against`. Each stack has these keys:
  - `stack`, `gpus` (on the desired nodes) and `assumptions` (sentences).
  - `seconds` is the time from the first arrival to the end of the last job, `arrivals` the time to the last
    arrival.
  - `fragmented` is the share of all GPU hours in which GPUs were free on nodes with pods. `idle_while_waiting` is
    the share in which GPUs were idle although waiting jobs requested GPUs. If more GPUs are idle than the waiting
    jobs request, only the requested number is counted. `usd` is the cost of all nodes.
  - `total` and each entry of `teams` contain `team` (null for all teams), `jobs`, `ended`, `unfinished`,
    `impossible`, `wait` and `completion` (`median`, `p95`, `worst` and `mean`, or null if no job started or
    ended), `waited_for` (number of jobs by what they waited for last, `quota` or `nodes`), `preemptions`,
    `gpu_hours`, `lost_gpu_hours` (repeated work), `utilisation` (share of the GPU hours of all nodes) and `usd`
    (cost of these GPU hours).
  - `pools` contains `pool`, `nodes` (mean), `gpu_hours`, `held` and `fragmented` (shares, or null if the pool had
    no nodes) and `usd`.
  - `impossible` contains the jobs that never fit on the nodes or within the quota: `team`, `count`, `pods`,
    `units` and `resource`.
  - `line` contains `step`, `capacity`, and `used` and `waiting` by team, as the mean number of GPUs in each step.
  - `jobs` contains `name`, `team`, `arrival`, `start` (of the first run, or null), `end` (or null), `waited`,
    `waited_for` (or null), `preemptions` and `state` (`ended`, `impossible`, or the state at the end of the
    rehearsal).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from extensions.capacity.rehearsal import Recorded, RehearsalStack, Report, Trace


def rehearsal_document(trace: Trace, file: str, stacks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the whole document. `stacks` are results of `stack_document`."""
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
    """Return the results of a rehearsal on one stack as plain JSON values."""
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
