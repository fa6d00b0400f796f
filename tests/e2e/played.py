"""Deployments to a simulated cloud by the real Pulumi CLI, which compare each step with its announcement."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_platform.base.paths import PROJECT_ROOT
from tests.e2e.conftest import Platform
from tests.support.command_line import COMMAND, Ran
from tests.support.eventually import eventually
from tests.support.played_cloud.cloud import Happened, PlayedCloud
from tests.support.pulumi_cli import environment

STACK = "shop"


def platform_of_the_cloud(cloud: PlayedCloud, folder: Path) -> Platform:
    """Return a platform that the Pulumi CLI deploys to a simulated cloud. `folder` contains its stack file."""
    unused: Any = None  # the cluster exists only after the first `up`
    env = {**environment(folder / "backend"), **cloud.env}
    return Platform(unused, unused, folder, {}, engine="pulumi", env=env)


@dataclass(frozen=True)
class Step:
    """The announced changes of one deployment, its result, and the events in the simulated cloud."""

    preview: dict[str, Any]
    up: Ran
    happened: Happened

    @property
    def pools(self) -> dict[str, str]:
        """Return the effect on each pool, as stated by the preview."""
        return {change["pool"]: change["effect"] for change in self.preview["pool_changes"]}


def deploy(platform: Platform, cloud: PlayedCloud, stack: dict[str, Any], *, preview: bool = True) -> Step:
    """Preview and deploy a stack, and compare the nodes and GPUs in the preview with those that the cloud removed.

    Without `preview`, the comparison uses the announcement that `up` prints before it changes anything.
    """
    mark = len(cloud.account.events)
    statement: dict[str, Any] | None = None
    if preview:
        previewed = platform.run("preview", str(platform.write(stack)), "--engine", "pulumi", "--format", "json")
        assert previewed.code == 0, previewed.err
        assert cloud.since(mark).events == (), "a preview changes nothing"
        statement = previewed.json
    ran = platform.up(stack)
    assert ran.code == 0, ran.err
    assert ran.json["validation"]["verdict"] == "pass"
    if statement is None:
        statement = ran.json
    done, planned = ran.json["changes"]["counts"], statement["changes"]["counts"]
    assert done == planned, f"done {done}, planned {planned}"
    happened = cloud.since(mark)
    stated = {
        row["subject"].removeprefix("pool "): (row["nodes"], row["gpus"])
        for row in statement["impact"]["changes"]
        if row["subject"].startswith("pool ") and row["changes_nodes"]
    }
    removed = {pool: lost for pool, lost in happened.removed.items() if pool is not None}
    assert stated == removed, f"stated {stated}, removed {removed}"
    return Step(statement, ran, happened)


def pending(platform: Platform) -> list[str]:
    """Return the resources whose creation or update has not finished according to the stack's state."""
    command = ["pulumi", "-C", str(PROJECT_ROOT), "stack", "export", "--stack", STACK]
    ran = subprocess.run(command, env={**os.environ, **platform.env}, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        return []  # the stack does not exist yet
    operations = json.loads(ran.stdout)["deployment"].get("pending_operations") or ()
    return [operation["resource"]["urn"].rpartition("::")[2] for operation in operations]


def run_pulumi(platform: Platform, text: str, *options: str) -> None:
    """Run the Pulumi CLI command that a message contains in backquotes."""
    command = text.partition("`pulumi ")[2].partition("`")[0]
    ran = subprocess.run(
        ["pulumi", *shlex.split(command), *options],
        env={**os.environ, **platform.env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def kill_up(platform: Platform, cloud: PlayedCloud, file: str, type_: str, resource: str) -> None:
    """Run `up`, and kill it with all its children while it waits for a resource that the cloud has already created
    or updated.
    """
    mark = len(cloud.account.events)

    def written() -> bool:
        own = (event for event in cloud.since(mark).events if event.get("type") == type_)
        return any(event["what"] in ("created", "updated") and resource in event["id"] for event in own)

    env, quiet = {**os.environ, **platform.env}, subprocess.DEVNULL
    command = [*COMMAND, "up", file, "--engine", "pulumi"]
    with cloud.holding(type_, resource):
        running = subprocess.Popen(command, env=env, stdout=quiet, stderr=quiet, start_new_session=True)
        try:
            eventually(written, True)
            eventually(lambda: pending(platform), [resource])
        finally:
            _kill_all(running.pid)
            running.wait()


def _kill_all(pid: int) -> None:
    """Kill a process and its children, as a power failure would."""
    children = Path(f"/proc/{pid}/task").glob("*/children")
    pids = [int(child) for found in children for child in found.read_text("ascii").split()]
    os.kill(pid, signal.SIGKILL)
    for child in pids:
        with suppress(ProcessLookupError):  # the child ended together with its parent
            os.kill(child, signal.SIGKILL)
