"""How traces are parsed, both from tables that users write and from the formats of published traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from extensions.capacity.rehearsal import Trace
from extensions.capacity.trace_sources import read_trace
from gpu_platform.base.errors import BadInput

HEAD = "name,team,arrival,duration,gpus,pods,cpu,memory,priority\n"


def read(folder: Path, text: str) -> Trace:
    file = folder / "trace"
    file.write_text(text, "utf-8")
    return read_trace(file)


def problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(BadInput) as caught:
        read(folder, text)
    return [str(one) for one in caught.value.problems]


def test_a_table_has_times_as_seconds_or_dates_and_quantities_of_kubernetes(tmp_path: Path) -> None:
    text = HEAD + "a,vision,10,90,8,2,500m,1Gi,training\n,search,1970-01-02 00:00:00,1h30m,0.25,,,,\n"
    first, second = read(tmp_path, text).entries
    assert (first.name, first.arrival, first.duration, first.gpus, first.pods) == ("a", 10, 90, 8, 2)
    assert (first.cpu, first.memory, first.priority) == (500, 2**30, "training")
    assert (second.name, second.arrival, second.duration, second.gpus, second.pods) == (
        "row 3", 86_400, 5_400, 0.25, 1,
    )  # fmt: skip
    assert (second.cpu, second.memory, second.priority, second.pool) == (None, None, None, None)


def test_every_mistake_of_a_table_is_named_with_row_and_column(tmp_path: Path) -> None:
    text = HEAD + "a,,soon,-1,1.5,0,lots,1Gi,\n\nb,vision,0,1\n"
    found = problems(tmp_path, text)
    places = [one.split(":")[0] for one in found]
    assert places == [
        "row 2, column arrival",
        "row 2, column duration",
        "row 2, column pods",
        "row 2, column cpu",
        "row 2, column gpus",
        "row 2, column team",
        "row 4",
    ]
    assert "'soon'" in found[0]
    assert "a number of seconds, or a date and time such as 2026-03-01 08:30:00" in found[0]


def test_missing_and_unknown_columns_are_named_with_a_suggestion(tmp_path: Path) -> None:
    found = problems(tmp_path, "team,arrival,duraton,gpus\nvision,0,1,1\n")
    assert len(found) == 2
    assert "add the column duration" in found[0]
    assert "did you mean 'duration'?" in found[1]


def test_the_first_of_many_mistakes_are_named_and_the_rest_counted(tmp_path: Path) -> None:
    found = problems(tmp_path, "team,arrival,duration,gpus\n" + "vision,x,1,1\n" * 50)
    assert len(found) == 21
    assert "30 more problems" in found[-1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("team,arrival,duration,gpus\n", "no rows"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "git lfs pull"),
        ("[{", "JSON"),
        ('{"status": "Pass"}', "a list of jobs"),
        ("sn,cpu_milli,memory_mib,gpu,model\n", "openb_pod_list_default.csv"),
        ("team,arrival,duration,gpus\n\x00\n", "readable UTF-8"),
        ("", "add the column team"),
        ("team,arrival,duration,gpus\nvision,0,inf,1\n", "column duration"),
        ("team,arrival,duration,gpus\nvision,nan,1,1\n", "column arrival"),
    ],
)
def test_what_is_no_trace_is_an_error_that_says_so(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in "\n".join(problems(tmp_path, text))


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="readable UTF-8 file"):
        read_trace(tmp_path / "none.csv")


def test_a_file_that_is_not_utf_8_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "latin.csv"
    file.write_bytes("größe".encode("latin-1"))
    with pytest.raises(BadInput, match="readable UTF-8 file"):
        read_trace(file)


def test_openb_pods_run_from_scheduling_to_deletion_with_gpu_shares(
    tmp_path: Path,
) -> None:
    text = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
        "share,6000,12288,1,460,,LS,Running,100,500,120\n"
        "whole,6000,12288,4,1000,,LS,Succeeded,200,300,200\n"
        "cpu,6000,12288,0,0,,LS,Succeeded,200,300,200\n"
        "pending,6000,12288,1,1000,,LS,Pending,200,300,\n"
    )
    found = read(tmp_path, text)
    assert (found.form, found.left_out) == ("openb", {"without GPUs": 1, "that never ran": 1})
    assert [(one.name, one.arrival, one.duration, one.gpus, one.pods, one.cpu) for one in found.entries] == [
        ("share", 100, 380, 0.46, 1, 6000),
        ("whole", 200, 100, 4, 1, 6000),
    ]
    assert found.entries[0].memory == 12288 * 2**20


def test_helios_jobs_have_total_gpus_and_the_virtual_cluster_as_team(tmp_path: Path) -> None:
    text = (
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
        "1425511,uX,vcJkd,16,1,2,COMPLETED,1970-01-01 00:01:00,1970-01-01 00:02:00,1970-01-01 00:03:00,60,60\n"
        "1425512,uX,vcJkd,0,16,1,FAILED,1970-01-01 00:01:00,1970-01-01 00:01:00,1970-01-01 00:03:00,120,0\n"
    )
    found = read(tmp_path, text)
    (job,) = found.entries
    assert (found.form, found.team_column, found.left_out) == ("helios", "vc", {"without GPUs": 1})
    assert (job.name, job.team, job.arrival, job.duration, job.gpus, job.pods) == (
        "1425511", "vcJkd", 60, 60, 16, None,
    )  # fmt: skip


def test_helios_jobs_without_an_id_have_the_name_that_they_have_or_their_row(tmp_path: Path) -> None:
    text = "user,vc,jobname,gpu_num,state,submit_time,duration\nu,a,application_1,8,Pass,60,5\nu,a,,8,Pass,60,5\n"
    assert [one.name for one in read(tmp_path, text).entries] == ["application_1", "row 3"]


def philly_job(**changed: Any) -> dict[str, Any]:
    attempt = {
        "start_time": "1970-01-01 00:02:00",
        "end_time": "1970-01-01 00:03:00",
        "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0"]}],
    }
    job: dict[str, Any] = {
        "vc": "ee9e8c",
        "jobid": "application_1",
        "submitted_time": "1970-01-01 00:01:00",
        "attempts": [attempt, {**attempt, "end_time": "1970-01-01 00:02:30"}],
    }
    return {**job, **changed}


def test_philly_jobs_last_as_long_as_all_their_attempts(tmp_path: Path) -> None:
    running = [{"start_time": "1970-01-01 00:02:00", "end_time": None, "detail": []}]
    text = json.dumps([philly_job(), philly_job(attempts=[]), philly_job(attempts=running)])
    found = read(tmp_path, text)
    (job,) = found.entries
    assert (found.form, found.left_out) == ("philly", {"that never ran": 2})
    assert (job.name, job.team, job.arrival, job.duration, job.gpus) == ("application_1", "ee9e8c", 60, 90, 3)


def test_philly_jobs_without_a_time_or_attempts_are_errors_with_their_place(tmp_path: Path) -> None:
    text = json.dumps([philly_job(submitted_time=None), philly_job(attempts=None), 7])
    places = [one.split(":")[0] for one in problems(tmp_path, text)]
    assert places == ["job 1, submitted_time", "job 2, attempts", "job 3"]
