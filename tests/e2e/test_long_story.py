"""The life of a platform in one test: teams with data, changes while pods run, killed commands, and `destroy`.

Before each change, `preview` announces its impact. After the change, the test compares the impact with the events
that it has watched on the API server. No member's object is lost without consent, and nothing happens unannounced.
"""

from __future__ import annotations

import copy
import os
import random
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.base import names
from tests.e2e.conftest import SANDBOX, TOLERATION, VALIDATION_TIMEOUT, Platform
from tests.e2e.members import members_objects
from tests.support.command_line import Ran
from tests.support.eventually import eventually
from tests.support.killed import kill_at_a_random_moment
from tests.support.pulumi_cli import NEEDS_PULUMI, environment
from tests.support.restricted import satisfying
from tests.support.size import THOROUGH, size
from tests.support.witness import Gone, Witness

# The test runs the command line dozens of times, which takes minutes, and longer on a loaded machine.
pytestmark = [pytest.mark.long, pytest.mark.sandbox, pytest.mark.timeout(7200)]

KILLS = size(4, 20)
DATA = {"PersistentVolumeClaim", "Secret", "StatefulSet"}
TAKES_NODES = {"replaces", "removes-capacity"}
STACK: dict[str, Any] = {
    "kind": "environment",
    "cluster": {"provider": "sandbox", "name": SANDBOX},
    "pools": [
        {"name": "train", "machine_type": "p4de.24xlarge", "count": {"desired": 1}, "workload": "training"},
        {
            "name": "serve",
            "machine_type": "g4dn.xlarge",
            "count": {"desired": 3},
            "workload": "inference",
            "sharing": {"mode": "time-slicing", "replicas": 4},
        },
        {
            "name": "lab",
            "machine_type": "p4de.24xlarge",
            "count": {"desired": 2},
            "workload": "development",
            "sharing": {"mode": "mig", "layout": {"1g.10gb": 7}, "drain_timeout": "5s"},
        },
    ],
    "teams": [
        {"name": "vision", "quota": {"gpus": 8}, "priority": "training", "members": ["group:vision"]},
        {"name": "search", "quota": {"shared": 8}, "priority": "inference", "members": ["group:search"]},
        {"name": "audio", "quota": {"mig": {"1g.10gb": 40}}, "priority": "training", "members": ["group:audio"]},
    ],
    "validation": {"timeout": VALIDATION_TIMEOUT},
}
TEAMS = ("vision", "search", "audio")
RUNNING = {
    ("vision", "pretrain", 2): "nvidia.com/gpu",
    ("search", "api", 6): "nvidia.com/gpu.shared",
    ("audio", "notebooks", 3): "nvidia.com/mig-1g.10gb",
}
"""Deployments of team members. A key contains the team, the name and the number of replicas. Each pod requests
one unit of the resource.
"""
NEWER_DRIVER = "580.173.02"
LINES = {"embedded": 14, "pulumi": 90}
"""Approximate number of lines that an `up` of this stack prints, by engine."""
UNLOCKS = re.compile(r"`(pulumi -C .* cancel --yes --stack \S+)`")


class Story:
    """The platform, its members, a witness that watches the API server, and the number of kills so far."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self.client = platform.client
        self.stack = copy.deepcopy(STACK)
        self.witness = Witness(platform.kubeconfig)
        self.random = random.Random(12)
        self.kills = 0
        self.data: dict[tuple[str, str, str], str] = {}
        """Uids of members' objects by kind, namespace and name."""

    @property
    def file(self) -> str:
        return str(self.platform.write(self.stack))

    # -- members ---------------------------------------------------------------------------------------------

    def members_have_data(self, team: str) -> None:
        for manifest in members_objects(team):
            live = self.client.create(manifest)
            self.data[live["kind"], team, live["metadata"]["name"]] = live["metadata"]["uid"]

    def members_run(self, team: str, name: str, resource: str, replicas: int) -> None:
        labels = {"app": name}
        limits = {resource: "1", "cpu": "100m", "memory": "64Mi"}
        pod = satisfying(
            {
                "containers": [{"name": "main", "image": "none", "resources": {"limits": limits}}],
                "tolerations": [TOLERATION],
            }
        )
        self.client.create(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name, "namespace": team},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": pod},
                },
            }
        )
        eventually(lambda: self.running(team, name) == replicas)

    def running(self, team: str, name: str) -> int:
        pods = self.client.objects("v1", "Pod", namespace=team, label_selector=f"app={name}")
        return sum(pod["status"].get("phase") == "Running" for pod in pods)

    def budget(self, team: str, name: str, least: int) -> dict[str, Any]:
        live = self.client.create(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": f"guard-{name}", "namespace": team},
                "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": name}}},
            }
        )

        def counted() -> bool:
            found = self.client.get("policy/v1", "PodDisruptionBudget", f"guard-{name}", team) or {}
            return bool(found.get("status", {}).get("expectedPods"))

        eventually(counted)
        return live

    def nodes(self, pool: str) -> set[str]:
        found = self.client.objects("v1", "Node", label_selector=f"{names.POOL_LABEL}={pool}")
        return {node["metadata"]["name"] for node in found}

    def drivers(self) -> set[str]:
        nodes = self.client.objects("v1", "Node")
        return {node["metadata"]["labels"].get(names.DRIVER_VERSION_LABEL, "") for node in nodes}

    # -- operators -------------------------------------------------------------------------------------------

    def change(self, *, kills: int, usual: int = 0, code: int = 0) -> dict[str, Any]:
        """Preview a change to the stack file, kill its `up`, and finish the change. Compare its effects with the
        preview, and return the preview's rows by subject.

        `kills` is the number of kills in `make test-thorough`. `usual` is the number in `make test-long`, which
        kills only changes that remove nodes. tests/deploy and test_mig_change.py test killed commands at a lower
        cost.
        """
        announced = self.announced()
        rows = list(announced)
        for _ in range(size(usual, kills)):
            self.killed("up")
            rows += self.announced()  # the remaining steps of an interrupted change are announced again
        ran = self.run("up", "--format", "json")
        assert ran.code == code, ran.err
        eventually(lambda: not self.orphans())
        self.compare(rows)
        worst = {row["subject"]: row for row in reversed(announced)}
        return worst | {row["subject"]: row for row in announced if row["changes_nodes"]}

    def orphans(self) -> list[str]:
        """Return the pods of deleted nodes, which Kubernetes removes a little later."""
        nodes = {node["metadata"]["name"] for node in self.client.objects("v1", "Node")}
        pods = self.client.objects("v1", "Pod", field_selector="spec.nodeName!=")
        return [pod["metadata"]["name"] for pod in pods if pod["spec"]["nodeName"] not in nodes]

    def announced(self) -> list[dict[str, Any]]:
        ran = self.run("preview", "--format", "json")
        assert ran.code == 0, ran.err
        return ran.json["impact"]["changes"]

    def killed(self, command: str, *options: str) -> None:
        # A command with nothing left to do may end before it is killed, which does not count as a kill.
        lines, env = LINES[self.platform.engine], self.platform.env
        arguments = self.arguments(command, *options)
        killed = kill_at_a_random_moment(self.random, *arguments, lines=lines, env=env)
        if self.unlocked(killed.err):
            killed = kill_at_a_random_moment(self.random, *arguments, lines=lines, env=env)
        self.kills += killed.in_time

    def run(self, command: str, *options: str) -> Ran:
        arguments = self.arguments(command, *options)
        ran = self.platform.run(*arguments)
        return self.platform.run(*arguments) if self.unlocked(ran.err) else ran

    def arguments(self, command: str, *options: str) -> tuple[str, ...]:
        return (command, self.file, "--engine", self.platform.engine, *options)

    def unlocked(self, err: str) -> bool:
        """Return whether a killed run left the stack locked. If so, unlock it with the command in the message."""
        unlocks = UNLOCKS.search(err)
        if unlocks is None:
            return False
        env = {**os.environ, **self.platform.env}
        subprocess.run(shlex.split(unlocks[1]), env=env, check=True, capture_output=True)
        return True

    def compare(self, rows: list[dict[str, Any]]) -> None:
        gone, cordoned = self.witness.take()
        stopped = {(pod["namespace"], pod["owner"]) for row in rows for pod in row["pods"] or ()}
        lost = [one for one in gone if one.kind == "Pod" and one.namespace in (*TEAMS, "sound")]
        unannounced = [one for one in lost if (one.namespace, one.owner) not in stopped]
        assert not unannounced, f"stopped without an announcement: {unannounced}; announced: {stopped}"
        self.compare_nodes(rows, gone, cordoned)
        deleted = [one for one in gone if one.kind in DATA and one.namespace in TEAMS]
        assert not deleted, f"lost without consent: {deleted}"
        assert not [one for one in gone if one.kind == "Namespace" and one.name in TEAMS]
        for (kind, team, name), uid in self.data.items():
            live = self.client.get("apps/v1" if kind == "StatefulSet" else "v1", kind, name, team)
            assert live is not None, (kind, team, name)
            assert live["metadata"]["uid"] == uid, (kind, team, name)

    def compare_nodes(self, rows: list[dict[str, Any]], gone: list[Gone], cordoned: set[str]) -> None:
        removed = {one.name for one in gone if one.kind == "Node"}
        for pool in {_pool_of(node) for node in removed}:
            effects = [row for row in rows if row["subject"] == f"pool {pool}" and row["effect"] in TAKES_NODES]
            assert effects, f"nodes of pool {pool} were deleted without an announcement"
            count = sum(_pool_of(node) == pool for node in removed)
            assert count <= max(row["nodes"] for row in effects)
        rolled = {row["subject"] for row in rows if row["effect"] == "rolls-nodes"}
        assert {f"pool {_pool_of(node)}" for node in cordoned} <= rolled


def _pool_of(node: str) -> str:
    return node.rpartition("-")[0]


@pytest.fixture(
    params=[
        pytest.param("embedded", marks=pytest.mark.xdist_group("e2e-story")),
        pytest.param("pulumi", marks=[*NEEDS_PULUMI, pytest.mark.xdist_group("e2e-pulumi-story")]),
    ]
)
def story(platform: Platform, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Story]:
    platform.engine = request.param
    if platform.engine == "pulumi":
        platform.env = environment(tmp_path / "backend")
    story = Story(platform)
    yield story
    story.witness.stop()


def test_members_lose_nothing_and_every_change_is_announced(story: Story) -> None:
    # The first day: three teams, each with data and GPU pods.
    for _ in range(size(1, 3)):
        story.killed("up")
    ran = story.run("up")
    assert ran.code == 0, ran.err
    for team in TEAMS:
        story.members_have_data(team)
    for (team, name, replicas), resource in RUNNING.items():
        story.members_run(team, name, resource, replicas)
    story.witness.take()

    # One team is renamed, and its data stays under the old name. Another team leaves, but its pods keep running.
    story.stack["teams"][2]["name"] = "sound"
    search = story.stack["teams"].pop(1)
    rows = story.change(kills=3)
    assert rows["team audio"]["effect"] == "cuts-access"
    assert story.running("audio", "notebooks") == 3
    assert story.running("search", "api") == 6

    # The team returns, and a pool shrinks while its pods run.
    story.stack["teams"].insert(1, search)
    story.stack["pools"][1]["count"]["desired"] = 2
    rows = story.change(kills=3, usual=1)
    assert (rows["pool serve"]["effect"], rows["pool serve"]["nodes"]) == ("removes-capacity", 1)
    assert story.nodes("serve") == {"serve-0", "serve-1"}

    # A pool is renamed, so its nodes are replaced despite a disruption budget, which `preview` names.
    # The renamed team gets its old name back and finds its data.
    guard = story.budget("search", "api", least=6)
    story.stack["pools"][1]["name"] = "infer"
    story.stack["teams"][2]["name"] = "audio"
    rows = story.change(kills=3, usual=1)
    assert rows["pool serve"]["budgets"] == ["search/guard-api"]
    assert story.nodes("serve") == set()
    eventually(lambda: story.running("search", "api") == 6)
    story.client.delete(guard)

    # A MIG layout changes node by node.
    story.stack["pools"][2]["sharing"]["layout"] = {"3g.40gb": 1, "1g.10gb": 4}
    if THOROUGH:
        a_budget_holds_the_layout(story)
    story.change(kills=3, usual=1)
    eventually(lambda: story.running("audio", "notebooks") == 3)

    # The driver is upgraded. The operator rolls every node and restarts its pods.
    story.stack["operator"] = {"driver": {"version": NEWER_DRIVER}}
    rows = story.change(kills=2)
    assert {name for name, row in rows.items() if row["effect"] == "rolls-nodes"} == {
        "pool train",
        "pool infer",
        "pool lab",
    }
    assert story.drivers() == {NEWER_DRIVER}
    for team, name, replicas in RUNNING:
        eventually(lambda team=team, name=name, replicas=replicas: story.running(team, name) == replicas)

    if THOROUGH:
        a_node_breaks(story)

    # The stack is destroyed after consent, and members' objects are kept.
    while story.kills < KILLS:
        story.killed("destroy", "--yes")
        story.killed("up")
    refused = story.run("destroy")
    assert refused.code == 2
    ended = story.run("destroy", "--yes")
    assert ended.code == 0, ended.err
    assert list(story.client.objects("v1", "Node")) == []
    for (kind, team, name), uid in story.data.items():
        live = story.client.get("apps/v1" if kind == "StatefulSet" else "v1", kind, name, team)
        assert live is not None, (kind, team, name)
        assert live["metadata"]["uid"] == uid
    for team in TEAMS:
        assert f"namespace {team} is retained" in ended.out
    assert story.kills >= KILLS


def a_budget_holds_the_layout(story: Story) -> None:
    """Change a MIG layout while a disruption budget allows no evictions. No pod is stopped. test_mig_change.py
    tests the same case.
    """
    guard = story.budget("audio", "notebooks", least=3)
    rows = story.change(kills=2, code=1)
    assert rows["pool lab"]["budgets"] == ["audio/guard-notebooks"]
    assert story.running("audio", "notebooks") == 3
    story.client.delete(guard)


def a_node_breaks(story: Story) -> None:
    """Break a node. `up` names the node and changes nothing for members, and it passes once the node is repaired.

    test_embedded_up.py tests one node and one fault in `make test-long`.
    """
    fault = ("sandbox", "fault", "train-0")
    assert story.platform.run(*fault, '{"kind": "gpu-missing", "index": 3}', "--name", SANDBOX).code == 0
    story.stack["validation"] = {"timeout": "20s"}
    broken = story.run("up", "--format", "json")
    assert broken.code == 1
    verdicts = {node["node"]: node["verdict"] for node in broken.json["validation"]["nodes"]}
    assert {name for name, verdict in verdicts.items() if verdict != "pass"} == {"train-0"}
    assert story.platform.run(*fault, "--name", SANDBOX).code == 0
    story.stack["validation"] = {"timeout": VALIDATION_TIMEOUT}
    story.change(kills=1)
