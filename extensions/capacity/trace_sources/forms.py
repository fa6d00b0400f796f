"""Supported trace formats: a simple table, and the formats of published traces.

- table: columns that this project defines (docs/rehearse.md).
- openb: alibaba/clusterdata, cluster-trace-gpu-v2023, openb_pod_list_*.csv. Times are in seconds. A pod without
  `scheduled_time` never ran.
- helios: S-Lab-System-Group/HeliosData, cluster_log.csv. The format includes InternLM/AcmeTrace, trace_*.csv
  (without `vc`), and HeliosArtifact, philly_trace.csv (its jobs have a `jobname` and may lack a `job_id`).
- philly: msr-fiddle/philly-traces, cluster_job_log (JSON). Only the attempts of a job list its GPUs. The duration
  of a job is the total duration of its attempts.

Sources read on 2026-11-24.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from extensions.capacity.rehearsal import Trace, TraceEntry
from extensions.capacity.trace_sources.problems import TraceProblems
from extensions.capacity.trace_sources.table import Row, Table, seconds_of

_NEEDED: Final = ("team", "arrival", "duration", "gpus")
_OPTIONAL: Final = ("name", "pods", "resource", "cpu", "memory", "priority", "pool")
_OPENB: Final = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "creation_time", "deletion_time", "scheduled_time",
)  # fmt: skip
_HELIOS: Final = ("gpu_num", "submit_time", "duration")
_MIB: Final = 2**20
_NO_GPU: Final = "without GPUs"
_NEVER_RAN: Final = "that never ran"
_MOST_GPUS: Final = 1_000_000


def read_table(text: str, problems: TraceProblems) -> Trace | None:
    """Read a CSV table in any known format. Return None if its columns match no format."""
    table = Table(text, problems)
    columns = set(table.columns)
    if {"gpu_milli", "creation_time"} <= columns:
        return _openb(table)
    if {"gpu_num", "submit_time"} <= columns:
        return _helios(table)
    if {"sn", "model"} <= columns:
        allowed = "a list of jobs; the stack defines the nodes"
        problems.add("row 1", "columns of the openb node list", allowed, "name openb_pod_list_default.csv")
        return None
    if not table.require(_NEEDED, _OPTIONAL, strict=True):
        return None
    rows = [_row(row) for row in table.rows()]
    return Trace(form="table", entries=[entry for entry in rows if entry is not None])


def _row(row: Row) -> TraceEntry | None:
    resource = row.text("resource") or None
    arrival, duration = row.time("arrival"), row.seconds("duration")
    gpus = row.number_at_least("gpus", 0, unit="GPUs")
    pods = row.number_at_least("pods", 1, unit="pods", whole=True) if row.text("pods") else 1.0
    cpu, memory = row.amount("cpu", 1000), row.amount("memory", 1)
    if gpus is not None and (gpus == 0 or gpus > _MOST_GPUS or (gpus != int(gpus) and (gpus > 1 or resource))):
        allowed = (
            "whole units of the resource"
            if resource
            else "whole GPUs of one pod, or a fraction of one GPU such as 0.25"
        )
        row.add("gpus", allowed, "write the request of one pod")
        gpus = None
    if not row.text("team"):
        row.add("team", "a team of the stack", "write a team, or map it with --team")
    if pods is not None and pods > _MOST_GPUS:
        row.add("pods", f"at most {_MOST_GPUS}", "write the number of pods of one job")
        pods = None
    if arrival is None or duration is None or gpus is None or pods is None:
        return None
    return TraceEntry(
        row=row.number,
        name=row.text("name") or f"row {row.number}",
        team=row.text("team"),
        arrival=arrival,
        duration=duration,
        gpus=gpus,
        pods=int(pods),
        resource=resource,
        cpu=cpu,
        memory=memory,
        priority=row.text("priority") or None,
        pool=row.text("pool") or None,
    )


def _openb(table: Table) -> Trace | None:
    if not table.require(_OPENB, (), strict=False):
        return None
    entries: list[TraceEntry] = []
    left_out: Counter[str] = Counter()
    for row in table.rows():
        gpus = row.number_at_least("num_gpu", 0, unit="GPUs", whole=True)
        milli = row.number_at_least("gpu_milli", 0, unit="thousandths of a GPU", whole=True)
        cpu = row.number_at_least("cpu_milli", 0, unit="thousandths of a core", whole=True)
        memory = row.number_at_least("memory_mib", 0, unit="MiB", whole=True)
        created, deleted = row.time("creation_time"), row.time("deletion_time")
        if gpus == 0:
            left_out[_NO_GPU] += 1
            continue
        if not row.text("scheduled_time"):
            left_out[_NEVER_RAN] += 1
            continue
        scheduled = row.time("scheduled_time")
        if None in (gpus, milli, cpu, memory) or created is None or deleted is None or scheduled is None:
            continue
        if deleted < scheduled:
            row.add("deletion_time", "a time after scheduled_time")
            continue
        part = milli is not None and gpus == 1 and 0 < milli < 1000
        entries.append(
            TraceEntry(
                row=row.number,
                name=row.text("name"),
                team="",
                arrival=created,
                duration=deleted - scheduled,
                gpus=(milli or 0) / 1000 if part else gpus or 0,
                pods=1,
                cpu=int(cpu or 0),
                memory=int(memory or 0) * _MIB,
            )
        )
    return Trace(form="openb", entries=entries, left_out=left_out)


def _helios(table: Table) -> Trace | None:
    if not table.require(_HELIOS, (), strict=False):
        return None
    entries: list[TraceEntry] = []
    left_out: Counter[str] = Counter()
    for row in table.rows():
        gpus = row.number_at_least("gpu_num", 0, unit="GPUs", whole=True)
        if gpus == 0:
            left_out[_NO_GPU] += 1
            continue
        arrival = row.time("submit_time")
        duration = row.number_at_least("duration", 0, unit="seconds")
        if gpus is None or arrival is None or duration is None:
            continue
        entries.append(
            TraceEntry(
                row=row.number,
                name=row.text("job_id") or row.text("jobname") or f"row {row.number}",
                team=row.text("vc"),
                arrival=arrival,
                duration=duration,
                gpus=gpus,
            )
        )
    return Trace(form="helios", entries=entries, left_out=left_out, team_column="vc")


def read_philly(document: object, problems: TraceProblems) -> Trace | None:
    """Read the Philly job log from its JSON document."""
    if not isinstance(document, list):
        problems.add("the whole file", type(document).__name__, "a list of jobs", "name cluster_job_log")
        return None
    entries: list[TraceEntry] = []
    left_out: Counter[str] = Counter()
    for number, job in enumerate(cast("list[Any]", document), start=1):
        place = f"job {number}"
        if not isinstance(job, dict):
            problems.add(place, repr(job)[:40], "a mapping with submitted_time, vc and attempts")
            continue
        entry = _philly_job(cast("dict[str, Any]", job), number, place, problems)
        if isinstance(entry, str):
            left_out[entry] += 1
        elif entry is not None:
            entries.append(entry)
    return Trace(form="philly", entries=entries, left_out=left_out, team_column="vc")


def _philly_job(
    job: Mapping[str, Any], number: int, place: str, problems: TraceProblems
) -> TraceEntry | str | None:
    """Return the job, the reason why it is left out, or None if a problem was recorded."""
    attempts = job.get("attempts")
    arrival = seconds_of(str(job.get("submitted_time")))
    if not isinstance(attempts, list):
        problems.add(f"{place}, attempts", repr(attempts)[:40], "a list")
        return None
    if arrival is None:
        found = repr(job.get("submitted_time"))[:40]
        problems.add(f"{place}, submitted_time", found, "a date and time such as 2017-10-07 01:11:39")
        return None
    gpus, duration = 0, 0.0
    for attempt in cast("list[Any]", attempts):
        one = _mapping(attempt)
        gpus = max(gpus, _philly_gpus(one.get("detail")))
        start, end = seconds_of(str(one.get("start_time"))), seconds_of(str(one.get("end_time")))
        if start is not None and end is not None and end > start:
            duration += end - start
    if not duration:
        return _NEVER_RAN
    if not gpus:
        return _NO_GPU
    name, team = str(job.get("jobid", number)), str(job.get("vc", ""))
    return TraceEntry(row=number, name=name, team=team, arrival=arrival, duration=duration, gpus=gpus)


def _philly_gpus(detail: object) -> int:
    return sum(len(_list(_mapping(server).get("gpus"))) for server in _list(detail))


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: object) -> Sequence[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else ()
