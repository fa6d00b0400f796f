"""In docs/migrating-jobs.md, each kind of job keeps the values of the PyTorchJob at the listed paths."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
import yaml

from gpu_platform.base.paths import PROJECT_ROOT
from gpu_platform.planning.workloads.section import TrainingApi
from gpu_platform.stack.loaded import plan_platform
from gpu_platform.workload_manifests import TeamPods, training_job

PAGE = (PROJECT_ROOT / "docs" / "migrating-jobs.md").read_text("utf-8")
OLD, ENTRY = (yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
KINDS = ("Job", "JobSet", "TrainJob")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| PyTorchJob")
]


@pytest.fixture(scope="module")
def rendered() -> dict[str, dict[str, Any]]:
    """For each kind of job, the rendered spec of the example. The keys `job`, `pod`, `main` and `runtime` contain
    the objects that have these names on the page.
    """
    plan = plan_platform({"kind": "environment", **ENTRY}, "page")
    assert plan.kind == "environment"
    (team,), (workloads,) = plan.teams, plan.workloads
    found: dict[str, dict[str, Any]] = {}
    apis: tuple[TrainingApi, ...] = ("job", "jobset", "trainjob")
    for api, kind in zip(apis, KINDS, strict=True):
        objects = training_job(TeamPods(team, None), replace(workloads.training_jobs[0], api=api))
        by_kind = {one["kind"]: one["spec"] for one in objects}
        runtime = by_kind.get("TrainingRuntime")
        job_set = by_kind.get("JobSet") if runtime is None else runtime["template"]["spec"]
        job = by_kind["Job"] if job_set is None else job_set["replicatedJobs"][0]["template"]["spec"]
        pod = job["template"]["spec"]
        (main,) = pod["containers"]
        env = {one["name"]: one["value"] for one in main["env"]}
        policy = {} if runtime is None or job_set is None else {"mlPolicy": runtime["mlPolicy"], **job_set}
        found[kind] = {**by_kind[kind], "job": job, "pod": pod, "main": {**main, "env": env}, "runtime": policy}
    return found


def at(kind: dict[str, Any], path: str) -> Any:
    for part in path.split("."):
        kind = kind[part]
    return kind


PATHS = [
    (kind, path)
    for row in ROWS
    for kind, cell in zip(KINDS, row[2:], strict=True)
    for path in re.findall(r"`([\w.]+)`", cell)
]


def test_the_table_has_rows_of_every_kind() -> None:
    assert len(ROWS) > 15
    assert {kind for kind, _ in PATHS} == set(KINDS)
    assert len(PATHS) > 50


@pytest.mark.parametrize(("kind", "path"), PATHS)
def test_each_path_of_the_table_is_in_the_rendered_example(
    rendered: dict[str, dict[str, Any]], kind: str, path: str
) -> None:
    at(rendered[kind], path)


@pytest.mark.parametrize("kind", KINDS)
def test_the_example_has_the_values_of_the_pytorchjob(rendered: dict[str, dict[str, Any]], kind: str) -> None:
    spec, found = OLD["spec"], rendered[kind]
    replicas = sum(one["replicas"] for one in spec["pytorchReplicaSpecs"].values())
    pod = spec["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    (container,) = pod["containers"]
    assert at(found, "job.parallelism") == replicas
    assert at(found, "job.activeDeadlineSeconds") == spec["runPolicy"]["activeDeadlineSeconds"]
    assert at(found, "pod.terminationGracePeriodSeconds") == pod["terminationGracePeriodSeconds"]
    assert at(found, "main.image") == container["image"]
    assert at(found, "main.command") == container["command"]
    limits = at(found, "main.resources.limits")
    assert int(limits["nvidia.com/gpu"]) == container["resources"]["limits"]["nvidia.com/gpu"]
    assert {one["name"]: one["value"] for one in container["env"]}.items() <= at(found, "main.env").items()
    if kind == "TrainJob":
        assert at(found, "trainer.numProcPerNode") == int(spec["nprocPerNode"])
        assert at(found, "trainer.numNodes") == replicas
    else:
        assert at(found, "main.env.PET_NPROC_PER_NODE") == spec["nprocPerNode"]
    attempts = spec["runPolicy"]["backoffLimit"]
    if kind == "Job":
        assert at(found, "backoffLimit") == attempts * replicas
    else:
        assert at(found, {"JobSet": "", "TrainJob": "runtime."}[kind] + "failurePolicy.maxRestarts") == attempts


def test_fields_of_the_table_are_those_of_the_stack_file_and_of_the_pytorchjob() -> None:
    from gpu_platform.stack.team_workloads import TrainingJob

    mentioned = {name for row in ROWS for name in re.findall(r"`(\w+)`", row[1])}
    assert mentioned - {"priority"} <= set(TrainingJob.model_fields)
    left_out = {"name", "claim", "profile", "gpu_memory", "run_as_user", "topology", "api"}
    assert set(TrainingJob.model_fields) - mentioned == left_out
