"""Maps the jobs of a trace to the teams, priorities, GPU resources and node sizes of a stack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from extensions.capacity.rehearsal.model import RehearsalPool, Shape, TraceJob
from extensions.capacity.rehearsal.stack import RehearsalStack
from gpu_platform.base import names
from gpu_platform.base.errors import Problem, did_you_mean
from gpu_platform.base.quantity import counted

ALL_OTHERS = "*"
"""Key for all teams in the trace that are missing from the team mapping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEntry:
    """A job in a trace before it is mapped to a stack.

    `row` is its row in the file. `arrival` and `duration` are in seconds. `gpus` is the number of GPUs of each
    pod. If `pods` is None, `gpus` is the number for the whole job. The job is then split into the fewest equal
    pods that fit on a node of the stack. A value below 1 is a fraction of a GPU. If `resource` is set, `gpus`
    is the number of units of this resource. `cpu` (millicores) and `memory` (bytes) are for each pod.
    """

    row: int
    name: str
    team: str
    arrival: float
    duration: float
    gpus: float
    pods: int | None = None
    resource: str | None = None
    cpu: int | None = None
    memory: int | None = None
    priority: str | None = None
    pool: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The jobs of a trace.

    `left_out` contains the number of jobs that are not rehearsed, by reason. `team_column` is the name of the
    column with the team.
    """

    form: str
    entries: Sequence[TraceEntry]
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])
    team_column: str = "team"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The jobs of a trace mapped to a stack, or the problems that prevent their rehearsal."""

    jobs: tuple[TraceJob, ...]
    problems: tuple[Problem, ...]


def fit(trace: Trace, stack: RehearsalStack, teams: Mapping[str, str]) -> Fitted:
    """Return the jobs of a trace mapped to a stack. `teams` maps teams of the trace to teams of the stack.

    A fraction of a GPU becomes one unit of the smallest share or MIG instance that is at least as large. If the
    stack offers none, the fraction becomes a whole GPU.
    """
    problems = [*_team_problems(trace, stack, teams), *_name_problems(trace, stack, teams)]
    if problems:
        return Fitted(jobs=(), problems=tuple(problems))
    fitting = _Fitting(stack)
    jobs = tuple(
        TraceJob(
            name=entry.name,
            team=_team_of(entry.team, stack, teams) or "",
            arrival=entry.arrival,
            duration=entry.duration,
            shape=fitting.shape(entry, _team_of(entry.team, stack, teams) or ""),
        )
        for entry in trace.entries
    )
    return Fitted(jobs=jobs, problems=())


def _team_of(team: str, stack: RehearsalStack, teams: Mapping[str, str]) -> str | None:
    if team in teams:
        return teams[team]
    if team in stack.teams:
        return team
    if ALL_OTHERS in teams:
        return teams[ALL_OTHERS]
    return next(iter(stack.teams)) if len(stack.teams) == 1 and not team else None


def _team_problems(trace: Trace, stack: RehearsalStack, teams: Mapping[str, str]) -> Iterator[Problem]:
    known = f"one of {', '.join(stack.teams)}" if stack.teams else f"none, because stack {stack.name} has no teams"
    for name, target in teams.items():
        if target not in stack.teams:
            fix = did_you_mean(target, stack.teams) or "name a team of the stack"
            yield Problem(f"--team {name}={target}", repr(target), known, fix)
    counts = Counter(entry.team for entry in trace.entries)
    first = {entry.team: entry.row for entry in reversed(trace.entries)}
    example = next(iter(stack.teams), "TEAM")
    for name, count in counts.items():
        if _team_of(name, stack, teams) is not None:
            continue
        if name:
            found = f"{name!r} (of {counted(count, 'job')})"
            fix = f"--team {name}={example}, or --team '*={example}' for all teams that are not named"
            yield Problem(f"row {first[name]}, column {trace.team_column}", found, known, fix)
        else:
            nobody = f"no team (of {counted(count, 'job')})"
            yield Problem("the whole file", nobody, known, f"--team '*={example}'")


def _name_problems(trace: Trace, stack: RehearsalStack, teams: Mapping[str, str]) -> Iterator[Problem]:
    """Yield a problem for each priority, pool or resource that the stack does not have. Each name is reported
    once.
    """
    pools = [pool.name for pool in stack.platform.pools]
    resources = list(dict.fromkeys(name for pool in stack.platform.pools for name in pool.offers))
    seen: set[tuple[str, str, str]] = set()
    for entry in trace.entries:
        team = _team_of(entry.team, stack, teams)
        defaults = stack.teams.get(team or "")
        for column, value, allowed in (
            ("priority", entry.priority, list(defaults.priorities) if defaults is not None else []),
            ("pool", entry.pool, pools),
            ("resource", entry.resource, resources),
        ):
            if value is None or defaults is None or value in allowed:
                continue
            key = (column, value, team or "" if column == "priority" else "")
            if key not in seen:
                seen.add(key)
                of_team = f", the classes of team {team}" if column == "priority" else ""
                known = f"one of {', '.join(allowed) or '(none)'}{of_team}"
                fix = did_you_mean(value, allowed) or "write one of them, or leave the cell empty"
                yield Problem(f"row {entry.row}, column {column}", repr(value), known, fix)


class _Fitting:
    """Converts trace entries to shapes. Jobs with the same requests share one `Shape`."""

    def __init__(self, stack: RehearsalStack) -> None:
        self._stack = stack
        self._known: dict[tuple[object, ...], Shape] = {}

    def shape(self, entry: TraceEntry, team: str) -> Shape:
        key = (
            team, entry.gpus, entry.pods, entry.resource, entry.cpu, entry.memory, entry.priority, entry.pool,
        )  # fmt: skip
        if key not in self._known:
            self._known[key] = self._shape(entry, team)
        return self._known[key]

    def _shape(self, entry: TraceEntry, team: str) -> Shape:
        defaults = self._stack.teams[team]
        pools = [one for one in self._stack.platform.pools if entry.pool in (None, one.name)]
        resource, units, pods = _units(entry, pools, defaults.resources)
        return Shape(
            resource=resource,
            units=units,
            pods=pods,
            cpu=defaults.cpu if entry.cpu is None else entry.cpu,
            memory=defaults.memory if entry.memory is None else entry.memory,
            priority=defaults.priority if entry.priority is None else defaults.priorities[entry.priority],
            pool=entry.pool,
        )


def _units(entry: TraceEntry, pools: Sequence[RehearsalPool], usable: Set[str]) -> tuple[str, int, int]:
    """Return the resource, its number of units in each pod, and the number of pods.

    `usable` contains the resources for which the team has quota.
    """
    resource = entry.resource
    offered = [(share, name) for pool in pools for name, share in pool.gpus.items()]
    offered = [one for one in offered if one[1] in usable] or offered
    if resource is None and entry.gpus < 1:
        parts = [one for one in offered if one[0] >= entry.gpus]
        return (min(parts)[1] if parts else names.GPU_RESOURCE), 1, entry.pods or 1
    if resource is None:
        resource = next((name for share, name in offered if share == 1), names.GPU_RESOURCE)
    units = int(entry.gpus)
    if entry.pods is not None:
        return resource, units, entry.pods
    largest = max((pool.offers.get(resource, 0) for pool in pools), default=0)
    pods = next((count for count in range(1, units + 1) if units % count == 0 and units // count <= largest), 1)
    return resource, units // pods, pods
