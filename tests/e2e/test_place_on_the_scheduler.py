"""`gpu-platform place` and the real kube-scheduler leave the same pods pending."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from extensions.capacity.pod_sources import read_workloads
from extensions.capacity.scheduling.model import Scenario
from extensions.capacity.scheduling.nodes import planned_nodes, quotas_of
from extensions.capacity.scheduling.schedule import admit, start
from extensions.capacity.scheduling.state import NodeState
from gpu_platform.base.progress import Progress
from gpu_platform.catalog import load_catalog
from gpu_platform.live.client import KubernetesClient, Refused
from gpu_platform.stack.loaded import load_stack
from sandbox.build import binaries
from tests.e2e.conftest import SANDBOX, TOLERATION, VALIDATION_TIMEOUT, Platform, quotas_are_free
from tests.e2e.impersonation import admitted
from tests.support.eventually import eventually
from tests.support.restricted import satisfying
from tests.support.size import size

pytestmark = [pytest.mark.long, pytest.mark.sandbox, pytest.mark.xdist_group("e2e-place")]

SAMPLES = size(4, 40)
GPU, SHARE = "nvidia.com/gpu", "nvidia.com/gpu.shared"
STACK: dict[str, Any] = {
    "kind": "environment",
    "cluster": {"provider": "sandbox", "name": SANDBOX},
    "pools": [
        {
            "name": "train",
            "machine_type": "p4de.24xlarge",
            "count": {"desired": 2},
            "workload": "training",
            "topology": {"policy": "none"},  # with other Topology Manager policies, kubelets could refuse pods
        },
        {
            "name": "serve",
            "machine_type": "g4dn.xlarge",
            "count": {"desired": 2},
            "workload": "inference",
            "sharing": {"mode": "time-slicing", "replicas": 4},
        },
        {"name": "cpu", "machine_type": "m7i.4xlarge", "count": {"desired": 1}, "workload": "general"},
    ],
    "teams": [
        {
            "name": "vision",
            "quota": {"gpus": 10, "shared": 5, "cpu": 130, "memory": "1Ti"},
            "priority": "training",
            "members": ["group:vision"],
        },
        {
            "name": "search",
            "quota": {"gpus": 6},
            "priority": "inference",
            "members": ["group:search"],
        },
    ],
    "validation": {"timeout": VALIDATION_TIMEOUT},
}


@pytest.fixture
def placing(platform: Platform) -> Platform:
    if platform.state.get("shop") != STACK:
        ran = platform.up(STACK)
        assert ran.code == 0, ran.err
    platform.write(STACK)
    for team in ("vision", "search"):
        probe = _pod("probe", {GPU: 1}, team)
        eventually(lambda one=probe: TOLERATION in _tolerations(admitted(platform.client, one)))
    return platform


def _tolerations(live: dict[str, Any]) -> list[dict[str, Any]]:
    return live.get("spec", {}).get("tolerations", [])


class Members:
    """Creates the teams' pods one by one, each after the scheduler has handled the previous pod."""

    def __init__(self, client: KubernetesClient) -> None:
        self._client = client
        self._made: list[dict[str, Any]] = []
        self.reasons: dict[str, str] = {}

    def create(self, manifest: dict[str, Any]) -> str | None:
        """Create a pod and return its node, or None if the quota refuses the pod or no node fits."""
        try:
            self._made.append(self._client.create(manifest))
        except Refused as error:
            if "exceeded quota" not in str(error):
                raise
            self.reasons[manifest["metadata"]["name"]] = str(error)
            return None
        decided = eventually(lambda: self._decided(manifest))
        assert decided is not None
        self.reasons[manifest["metadata"]["name"]] = "; ".join(
            str(one.get("message")) for one in decided.get("status", {}).get("conditions", ())
        )
        return decided["spec"].get("nodeName")

    def _decided(self, manifest: dict[str, Any]) -> dict[str, Any] | None:
        live = self._client.get("v1", "Pod", manifest["metadata"]["name"], manifest["metadata"]["namespace"])
        assert live is not None
        unschedulable = any(
            one.get("reason") == "Unschedulable" for one in live.get("status", {}).get("conditions", ())
        )
        return live if unschedulable or live["spec"].get("nodeName") else None

    def remove(self) -> None:
        for manifest in self._made:
            self._client.delete(manifest)
        names = {one["metadata"]["name"] for one in self._made}
        eventually(lambda: not names & {pod["metadata"]["name"] for pod in self._client.objects("v1", "Pod")})
        eventually(lambda: quotas_are_free(self._client))
        self._made.clear()


@pytest.fixture
def members(platform: Platform) -> Iterator[Members]:
    found = Members(platform.client)
    yield found
    found.remove()


def manifests(seed: int) -> list[dict[str, Any]]:
    """Return random pods, with higher priorities first, so that no pod preempts another."""
    draw = random.Random(seed)
    made: list[tuple[int, dict[str, Any]]] = []
    for index in range(12):
        team = draw.choice(["vision", "search"])
        urgent = team == "search" and draw.random() < 0.4
        device = draw.choice([{GPU: draw.choice([1, 2, 3, 5])}, {GPU: draw.choice([2, 4])}, {SHARE: 1}, {}])
        own = draw.choice(
            [
                {},
                {
                    "cpu": draw.choice(["500m", "1900m", "11", "33"]),
                    "memory": draw.choice(["1Gi", "7Gi", "300Gi"]),
                },
                {"cpu": draw.choice(["1", "22", "60"])},
            ]
        )
        spec: dict[str, Any] = {
            "priorityClassName": "inference" if urgent else "training",
            "containers": [
                {
                    "name": "main",
                    "image": "none",
                    "resources": {"requests": {**own, **device}, "limits": {**device, **own}},
                }
            ],
        }
        if draw.random() < 0.2:
            spec["nodeSelector"] = {"gpu-platform.dev/pool": draw.choice(["train", "serve", "cpu", "lab"])}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"s{seed}-{index}", "namespace": team},
            "spec": satisfying(spec),
        }
        made.append((not urgent, pod))
    return [pod for _, pod in sorted(made, key=lambda one: one[0])]


def outcomes(scenario: Scenario) -> set[frozenset[str]]:
    """Return every possible set of pending pods, because the scheduler chooses at random between equal nodes."""
    admitted = admit(scenario)[0]
    states: list[tuple[list[NodeState], frozenset[str]]] = [(start(scenario)[0], frozenset())]
    for group, count in zip(scenario.groups, admitted, strict=True):
        later: dict[tuple[object, ...], tuple[list[NodeState], frozenset[str]]] = {}
        for nodes, pending in states:
            fitting = (
                [one for one in nodes if group.may_run_on(one.node) and one.fits(group.needs())] if count else []
            )
            best = max((one.score(group, 0, 0) for one in fitting), default=0)
            for chosen in [one for one in fitting if one.score(group, 0, 0) == best] or [None]:
                after = [one.copy() for one in nodes]
                if chosen is not None:
                    after[chosen.index].take(group)
                waiting = pending | (frozenset() if chosen is not None else {group.name})
                # Identical nodes are interchangeable.
                key = (waiting, *sorted((one.node.pool, tuple(sorted(one.free.items()))) for one in after))
                later[key] = (after, waiting)
        states = list(later.values())
    return {pending for _, pending in states}


def test_the_same_pods_stay_pending_as_on_the_real_scheduler(placing: Platform, members: Members) -> None:
    file = placing.folder / "pods.yaml"
    stack = str(placing.folder / "Pulumi.shop.yaml")
    plan = load_stack(stack).plan
    assert plan.kind == "environment"
    checked = with_pending = 0
    for seed in range(10 * SAMPLES):
        if checked == SAMPLES:
            break
        pods = manifests(seed)
        file.write_text(yaml.safe_dump_all(pods), "utf-8")
        scenario = Scenario(
            nodes=planned_nodes(plan, load_catalog()),
            groups=read_workloads(Path(file), plan).groups,
            quotas=quotas_of(plan),
        )
        if len(outcomes(scenario)) > 1:
            continue  # which pods stay pending depends on chance
        checked += 1
        ran = placing.run("place", stack, "--workloads", str(file), "--format", "json")
        expected = {one["name"] for one in ran.json["groups"] if one["pending"]}
        assert ran.code == (1 if expected else 0)
        found = {pod["metadata"]["name"] for pod in pods if members.create(pod) is None}
        assert found == expected, (seed, {name: members.reasons[name] for name in found ^ expected})
        with_pending += bool(expected)
        members.remove()
    assert checked == SAMPLES
    assert with_pending >= SAMPLES // 2


@pytest.fixture
def packed(placing: Platform, tmp_path: Path) -> Iterator[None]:
    """Run a second kube-scheduler with the configuration that `scheduler-config` prints."""
    config = yaml.safe_load(placing.run("scheduler-config", str(placing.folder / "Pulumi.shop.yaml")).out)
    config["clientConnection"] = {"kubeconfig": str(placing.kubeconfig)}
    config["leaderElection"]["leaderElect"] = False
    (tmp_path / "scheduler.yaml").write_text(yaml.safe_dump(config), "utf-8")
    program = binaries(Progress(quiet=True)).path("kube-scheduler")
    command = [str(program), f"--config={tmp_path / 'scheduler.yaml'}", "--secure-port=0"]
    with (tmp_path / "log").open("w") as log, subprocess.Popen(command, stderr=log) as scheduler:
        yield
        scheduler.terminate()


def test_a_scheduler_with_the_printed_configuration_packs_pods_with_gpus(
    placing: Platform, members: Members, packed: None
) -> None:
    """The default profile would put the second pod on the other node. Each pod requests CPU and memory in
    proportion to its GPUs.
    """
    del packed
    nodes = set()
    for index in range(3):
        pod = _pod(f"small-{index}", {GPU: 2, "cpu": "22", "memory": "250Gi"})
        pod["spec"]["schedulerName"] = "gpu-packed"
        nodes.add(members.create(pod))
    assert len(nodes) == 1
    assert None not in nodes


@pytest.fixture
def two_services(placing: Platform) -> Iterator[list[dict[str, Any]]]:
    """Two Deployments with two GPUs each. The scheduler puts each on a separate node."""
    made: list[dict[str, Any]] = []
    for name in ("left", "right"):
        made.append(placing.client.create(_deployment(name)))
        eventually(
            lambda: len(_places(placing.client)) == len(made) and None not in _places(placing.client).values()
        )
    yield made
    for one in made:
        placing.client.delete(one)
    eventually(lambda: not _places(placing.client))


def test_live_names_the_move_after_which_a_pending_pod_runs(
    placing: Platform, members: Members, two_services: list[dict[str, Any]]
) -> None:
    """Two GPUs are in use on each node, and a pod needs eight on one node."""
    client, stack = placing.client, str(placing.folder / "Pulumi.shop.yaml")
    assert len(two_services) == 2
    assert len(set(_places(client).values())) == 2
    assert members.create(_pod("large", {GPU: 8, "cpu": "1", "memory": "1Gi"})) is None
    ran = placing.run("place", stack, "--live", "--format", "json")
    assert ran.code == 1, ran.err
    assert [(one["name"], one["pending"]) for one in ran.json["groups"]] == [("large", 1)]
    assert ran.json["pending"][0]["reasons"] == [
        {"resource": GPU, "text": f"{GPU}: at most 6 free on a node, 12 on 2 nodes together; the pod requests 8"}
    ]
    [plan] = [one for one in ran.json["moves"] if one["purpose"] == "pod"]
    [move] = plan["moves"]
    assert (plan["for"], move["controller"] in {"Deployment left", "Deployment right"}) == ("vision/large", True)
    _cordon(client, plan["node"], wanted=True)
    moved = client.get("v1", "Pod", move["pod"].removeprefix("search/"), "search")
    assert moved is not None
    client.evict(moved)
    eventually(lambda: list(_places(client).values()) == [move["to"]] * 2)
    _cordon(client, plan["node"], wanted=False)
    eventually(lambda: placing.find_pod("large", "vision")["spec"].get("nodeName") == plan["node"])
    after = placing.run("place", stack, "--live", "--format", "json")
    assert (after.code, after.json["pending"], after.json["moves"]) == (0, [], [])


def _deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    pod = _pod(name, {GPU: 2, "cpu": "20", "memory": "200Gi"})
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "search"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod["spec"]},
        },
    }


def _pod(name: str, resources: dict[str, Any], team: str = "vision") -> dict[str, Any]:
    container = {"name": "main", "image": "none", "resources": {"limits": resources}}
    spec = satisfying({"containers": [container], "terminationGracePeriodSeconds": 1})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": team}, "spec": spec}


def _places(client: KubernetesClient) -> dict[str, str | None]:
    pods = client.objects("v1", "Pod", namespace="search")
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in pods}


def _cordon(client: KubernetesClient, node: str, *, wanted: bool) -> None:
    change = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "spec": {"unschedulable": wanted}}
    client.merge(change)
