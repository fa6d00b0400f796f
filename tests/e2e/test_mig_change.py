"""A MIG layout changes node by node on the real API server. Each node is drained with the Eviction API.

The pool has one of two layouts, and each test changes it to the other one. Returning to the same layout after each
test would double the number of changes.
"""

from __future__ import annotations

import copy
import os
import signal
import subprocess
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from gpu_platform.base import names
from gpu_platform.base.progress import Progress
from gpu_platform.deploy.rollout.annotations import field_manager, labels_by
from gpu_platform.deploy.rollout.hold import release
from gpu_platform.deploy.rollout.live_cluster import read_cluster
from gpu_platform.deploy.rollout.plan import plan_rollout
from gpu_platform.deploy.rollout.run import RolloutFailed, roll
from gpu_platform.live.client import Refused
from gpu_platform.stack.loaded import load_stack
from sandbox.simulator.kube import Api, ApiError, query
from tests.e2e.conftest import SANDBOX, TOLERATION, VALIDATION_TIMEOUT, Platform
from tests.support.command_line import COMMAND
from tests.support.eventually import eventually

pytestmark = [pytest.mark.sandbox, pytest.mark.xdist_group("e2e-mig")]

SMALL = "nvidia.com/mig-1g.10gb"
LAB: dict[str, Any] = {
    "kind": "environment",
    "cluster": {"provider": "sandbox", "name": SANDBOX},
    "pools": [
        {
            "name": "lab",
            "machine_type": "p4de.24xlarge",
            "count": {"desired": 2},
            "workload": "development",
            "sharing": {"mode": "mig", "layout": {"1g.10gb": 7}},
        }
    ],
    "teams": [],
    "validation": {"timeout": VALIDATION_TIMEOUT},
}


class Layout(NamedTuple):
    """A layout in the stack file, the resources that its nodes offer, and its name in the command's output."""

    devices: dict[str, int]
    offers: dict[str, str]
    text: str


SEVENS = Layout({"1g.10gb": 7}, {SMALL: "56"}, "8 GPUs: 1g.10gb x7")
MIXED = Layout(
    {"2g.20gb": 3, "1g.10gb": 1},
    {SMALL: "8", "nvidia.com/mig-2g.20gb": "24"},
    "8 GPUs: 1g.10gb x1 + 2g.20gb x3",
)


def lab_in(layout: Layout, **sharing: Any) -> dict[str, Any]:
    """Return the stack with the given MIG layout in pool `lab`."""
    stack = copy.deepcopy(LAB)
    stack["pools"][0]["sharing"] |= {"layout": layout.devices, **sharing}
    return stack


class Lab:
    """The pool `lab` with its current layout, the layout to change to, and the objects that a test creates on the
    pool.
    """

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self.client = platform.client
        self._made: list[dict[str, Any]] = []
        self._faulty: set[str] = set()
        node = self.client.get("v1", "Node", "lab-0")
        had_other = node is not None and self.offers("lab-0") == MIXED.offers
        self.layout, self.other = (MIXED, SEVENS) if had_other else (SEVENS, MIXED)
        self.before, self.after = self.layout.offers, self.other.offers

    def same(self) -> dict[str, Any]:
        """Return the stack with the pool's current layout."""
        return lab_in(self.layout)

    def stack(self, **sharing: Any) -> dict[str, Any]:
        """Return the stack with the layout that the pool does not have at the moment."""
        return lab_in(self.other, **sharing)

    def is_as_deployed(self) -> bool:
        """Return whether the previous test left the stack deployed with the pool's current layout."""
        return self.platform.state.get("shop") == self.same()

    def node(self, name: str) -> dict[str, Any]:
        found = self.client.get("v1", "Node", name)
        assert found is not None
        return found

    def is_cordoned(self, name: str) -> bool:
        return bool(self.node(name)["spec"].get("unschedulable"))

    def mark(self, name: str) -> str | None:
        return (self.node(name)["metadata"].get("annotations") or {}).get(names.MIG_ROLLOUT_ANNOTATION)

    def offers(self, name: str) -> dict[str, str]:
        return {resource: count for resource, count in self.platform.allocatable(name).items() if count != "0"}

    def fault(self, node: str, *faults: str) -> None:
        assert self.platform.run("sandbox", "fault", node, *faults, "--name", SANDBOX).code == 0
        (self._faulty.add if faults else self._faulty.discard)(node)

    def cordon(self, name: str, *, cordoned: bool = True) -> None:
        manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        self.client.merge({**manifest, "spec": {"unschedulable": cordoned or None}})

    def deployment(
        self, name: str, replicas: int, node: str | None, *, ready: int | None = None, **spec: Any
    ) -> list[dict[str, Any]]:
        """Run pods with one small instance each, initially all on `node` if it is given, and return them."""
        others = [one["metadata"]["name"] for one in self.client.objects("v1", "Node") if node is not None]
        others = [other for other in others if other != node]
        limits = {SMALL: "1", "cpu": "100m", "memory": "64Mi"}
        pod = {
            "containers": [{"name": "main", "image": "none", "resources": {"limits": limits}}],
            "tolerations": [TOLERATION],
            **spec,
        }
        manifest = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
            },
        }
        wanted = replicas if ready is None else ready
        try:
            for other in others:
                self.cordon(other)
            self.make(manifest)
            eventually(lambda: len(self.running(name)) == wanted)
        finally:
            for other in others:
                self.cordon(other, cordoned=False)
        return self.running(name)

    def budget(self, app: str, least: int, name: str = "") -> None:
        name = name or f"guard-{app}"
        self.make(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": app}}},
            }
        )
        eventually(
            lambda: (
                (self.client.get("policy/v1", "PodDisruptionBudget", name, "default") or {})
                .get("status", {})
                .get("expectedPods")
            )
        )

    def running(self, app: str) -> list[dict[str, Any]]:
        pods = self.client.objects("v1", "Pod", namespace="default", label_selector=f"app={app}")
        return [pod for pod in pods if _is_ready(pod)]

    def make(self, manifest: dict[str, Any]) -> None:
        self.client.create(manifest)
        self._made.append(manifest)

    def remove(self, kind: str) -> None:
        for manifest in [one for one in self._made if one["kind"] == kind]:
            self._made.remove(manifest)
            metadata = manifest["metadata"]
            named = (manifest["apiVersion"], kind, metadata["name"], metadata["namespace"])
            live = self.client.get(*named)
            if live is not None:
                self.client.delete(live)
                # A workload exists for a moment longer than its pods, and the next test reuses its name.
                eventually(lambda named=named: self.client.get(*named) is None)

    def clear(self) -> None:
        for node in list(self._faulty):
            self.fault(node)
        for kind in {one["kind"] for one in self._made}:
            self.remove(kind)
        eventually(lambda: not list(self.client.objects("v1", "Pod", namespace="default")))


@pytest.fixture
def lab(platform: Platform) -> Iterator[Lab]:
    hand = Lab(platform)
    if not hand.is_as_deployed():
        ran = platform.up(hand.same())
        assert ran.code == 0, ran.err
    assert [hand.offers(node) for node in ("lab-0", "lab-1")] == [hand.before, hand.before]
    yield hand
    hand.clear()


class Watched:
    """All changes that the API server reported during a rollout."""

    def __init__(self) -> None:
        self.most_cordoned = 0
        self.cordoned: set[str] = set()
        self.fewest_running = 1_000
        self.cut_under_pods: set[str] = set()
        self._nodes: dict[str, Mapping[str, Any]] = {}
        self._pods: dict[str, Mapping[str, Any]] = {}

    def see(self, event: Mapping[str, Any]) -> None:
        item = event["object"]
        known = self._nodes if item["kind"] == "Node" else self._pods
        known[item["metadata"]["name"]] = item
        if event["type"] == "DELETED":
            del known[item["metadata"]["name"]]
        nodes = self._nodes.values()
        running = [pod for pod in self._pods.values() if _is_ready(pod)]
        self.most_cordoned = max(self.most_cordoned, sum(bool(n["spec"].get("unschedulable")) for n in nodes))
        self.cordoned |= {node["metadata"]["name"] for node in nodes if node["spec"].get("unschedulable")}
        self.fewest_running = min(self.fewest_running, len(running))
        changing = {node["metadata"]["name"] for node in nodes if _state(node) == "pending"}
        self.cut_under_pods |= changing & {pod["spec"]["nodeName"] for pod in running}


@contextmanager
def watched(lab: Lab, app: str) -> Generator[Watched]:
    """Watch the nodes and the running pods of one app."""
    api, seen, lock = Api(lab.platform.kubeconfig), Watched(), threading.Lock()
    collections = {"/api/v1/nodes": {}, "/api/v1/namespaces/default/pods": {"labelSelector": f"app={app}"}}
    kinds = {"/api/v1/nodes": "Node"}

    def follow(path: str, selectors: Mapping[str, str], version: str) -> None:
        with suppress(ApiError):  # the API server may stop before this thread
            for event in api.watch(path, selectors, version):
                with lock:
                    seen.see(event)

    for path, selectors in collections.items():
        listed = api.get(path + query(selectors))
        first = [{"type": "ADDED", "object": {"kind": kinds.get(path, "Pod"), **item}} for item in listed["items"]]
        for event in first:
            seen.see(event)
        seen.fewest_running = 1_000
        version = listed["metadata"]["resourceVersion"]
        threading.Thread(target=follow, args=(path, selectors, version), daemon=True).start()
    yield seen


def _state(node: Mapping[str, Any]) -> str | None:
    return node["metadata"]["labels"].get(names.MIG_STATE_LABEL)


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = {one["type"]: one["status"] for one in pod["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


def _results(ran: Any) -> dict[str, str]:
    return {change["node"]: change["result"] for change in ran.json["mig_changes"]}


def test_a_change_of_the_layout_rolls_node_by_node_and_kills_no_protected_pod(lab: Lab) -> None:
    before = lab.deployment("web", 2, node="lab-0")
    lab.budget("web", least=1)
    with watched(lab, "web") as seen:
        ran = lab.platform.up(lab.stack())
    assert ran.code == 0, ran.err
    assert _results(ran) == {"lab-0": "changed", "lab-1": "changed"}
    assert seen.fewest_running >= 1, (
        "one of the two pods was always running: each pod ended only after its replacement ran"
    )
    assert seen.most_cordoned == 1
    assert seen.cut_under_pods == set()
    assert [lab.offers(node) for node in ("lab-0", "lab-1")] == [lab.after, lab.after]
    assert not lab.is_cordoned("lab-0")
    assert not lab.is_cordoned("lab-1")
    after = eventually(lambda: lab.running("web") if len(lab.running("web")) == 2 else None)
    assert after is not None
    assert {pod["metadata"]["uid"] for pod in after}.isdisjoint(pod["metadata"]["uid"] for pod in before)
    again = lab.platform.up(lab.stack())
    assert (again.json["mig_changes"], again.json["changes"]["changes"]) == ([], [])


def test_preview_and_up_name_nodes_layouts_and_evicted_gpu_pods(lab: Lab) -> None:
    [pod] = lab.deployment("web", 1, node="lab-1")
    file = lab.platform.write(lab.stack(max_unavailable=2))
    ran = lab.platform.run("preview", str(file), "--engine", "embedded", "--format", "json")
    assert ran.code == 0, ran.err
    empty, held = ran.json["mig_changes"]
    assert (empty["node"], empty["gpu_pods"]) == ("lab-0", []), (
        "empty nodes change first, because the evicted pods then move to them"
    )
    assert held["node"] == "lab-1"
    assert held["gpu_pods"] == [{"name": f"default/{pod['metadata']['name']}", "units": {SMALL: 1}}]
    assert (held["from"], held["to"]) == (lab.layout.text, lab.other.text)
    [row] = [one for one in ran.json["impact"]["changes"] if one["effect"] == "rolls-nodes"]
    assert (row["nodes"], row["node_names"]) == (2, ["lab-0", "lab-1"])
    assert row["order"].startswith("2 at a time")
    assert [one["name"] for one in row["pods"]] == [pod["metadata"]["name"]]
    assert "MIG" not in ran.err, "the impact is announced once"
    assert [lab.offers(node) for node in ("lab-0", "lab-1")] == [lab.before, lab.before], (
        "a preview changes nothing"
    )


@pytest.mark.long
def test_a_budget_that_never_allows_eviction_leaves_the_node_unchanged(lab: Lab) -> None:
    [guarded] = lab.deployment("web", 1, node="lab-0")
    [unrelated] = lab.deployment("other", 1, node="lab-0")
    lab.budget("web", least=1)
    seen = lab.platform.run("preview", str(lab.platform.write(lab.stack())), "--engine", "embedded")
    why = (
        "disruption budget default/guard-web (minAvailable: 1) never allows an eviction: "
        "it needs 1 healthy pod of 1"
    )
    held = (
        f"default/{guarded['metadata']['name']}: {why}; lower minAvailable, run more replicas, or delete the pod"
    )
    assert "lab-0 (stays unchanged: a disruption budget never allows an eviction)" in " ".join(seen.out.split())
    assert "MIG" not in seen.err, "the impact is announced once"
    assert "never evicted: default/web-" in " ".join(seen.out.split())
    with watched(lab, "other") as watch:
        ran = lab.platform.up(lab.stack(drain_timeout="10m"))
    assert ran.code == 1
    assert _results(ran) == {"lab-1": "changed", "lab-0": "left"}
    assert f"lab-0: not changed: {held}" in ran.err
    assert ran.json["changes"] is None, "the engine would have changed the label of lab-0"
    assert watch.cordoned == {"lab-1"}
    assert lab.mark("lab-0") is None
    assert (lab.offers("lab-0"), lab.offers("lab-1")) == (lab.before, lab.after)
    for app, pod in (("web", guarded), ("other", unrelated)):
        assert [one["metadata"]["uid"] for one in lab.running(app)] == [pod["metadata"]["uid"]]
    lab.remove("PodDisruptionBudget")
    assert lab.platform.up(lab.stack()).code == 0
    assert lab.offers("lab-0") == lab.after


@pytest.mark.long
def test_a_pod_with_two_budgets_leaves_its_node_unchanged(lab: Lab) -> None:
    lab.deployment("web", 2, node="lab-0")
    lab.budget("web", least=1)
    lab.budget("web", least=1, name="guard-too")
    ran = lab.platform.up(lab.stack())
    assert ran.code == 1
    assert _results(ran) == {"lab-1": "changed", "lab-0": "left"}
    assert "disruption budgets default/guard-too and default/guard-web select the same pods" in ran.err
    assert not lab.is_cordoned("lab-0")


@pytest.mark.long
def test_a_budget_that_allows_nothing_now_delays_the_first_eviction(lab: Lab) -> None:
    [unrelated] = lab.deployment("other", 1, node="lab-0")
    # Anti-affinity allows one pod per node, so the third pod has no node until a pod of the first two is evicted.
    apart = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    lab.deployment("web", 3, node=None, ready=2, affinity=affinity)
    lab.budget("web", least=2)
    ran = lab.platform.up(lab.stack(drain_timeout="3s"))
    assert ran.code == 1, ran.err
    assert _results(ran) == {"lab-0": "left", "lab-1": "left"}
    assert "its pods could not be evicted within 3 s" in ran.err
    assert "allows no eviction now: it needs 2 healthy pods and has 2" in ran.err
    assert not lab.is_cordoned("lab-0")
    assert [one["metadata"]["uid"] for one in lab.running("other")] == [unrelated["metadata"]["uid"]]
    lab.remove("PodDisruptionBudget")
    lab.budget("web", least=1)
    with watched(lab, "web") as seen:
        ran = lab.platform.up(lab.stack())
    assert ran.code == 0, ran.err
    assert _results(ran) == {"lab-0": "changed", "lab-1": "changed"}
    assert seen.fewest_running >= 1
    assert seen.most_cordoned == 1


def closed_window() -> dict[str, Any]:
    """Return a maintenance window that is closed today and tomorrow, whenever the test runs."""
    day = (datetime.now(UTC) + timedelta(days=3)).strftime("%a").lower()
    return {"window": {"days": [day], "start": "22:00", "duration": "4h", "time_zone": "Europe/Berlin"}}


@pytest.mark.long
def test_outside_the_window_a_change_of_nodes_is_refused_before_anything_changes(lab: Lab) -> None:
    [pod] = lab.deployment("web", 1, node="lab-0")
    stack = lab.stack() | {"changes": closed_window()}
    seen = lab.platform.run("preview", str(lab.platform.write(stack)), "--engine", "embedded")
    assert seen.code == 0, seen.err
    shown = " ".join(seen.out.split())
    assert "22:00 for 4 h (Europe/Berlin); closed, opens" in shown
    assert "until then, `up` without --outside-window refuses these changes: pool lab rolls-nodes" in shown
    ran = lab.platform.up(stack)
    assert ran.code == 2
    assert "pool lab: found rolls-nodes (pools[0].sharing.layout)" in ran.err
    assert "the maintenance window is closed; it opens" in ran.err
    assert "UTC)" in ran.err
    assert [lab.offers(node) for node in ("lab-0", "lab-1")] == [lab.before, lab.before]
    assert [one["metadata"]["uid"] for one in lab.running("web")] == [pod["metadata"]["uid"]]
    gentle = lab.same() | {"changes": closed_window(), "priorities": {"nightly": 5}}
    assert lab.platform.up(gentle).code == 0, "the window does not apply to a change that affects no node"
    ran = lab.platform.up(stack, "shop", "--outside-window")
    assert ran.code == 0, ran.err
    assert [lab.offers(node) for node in ("lab-0", "lab-1")] == [lab.after, lab.after]


@pytest.mark.long
def test_a_window_that_closes_lets_the_begun_node_end_and_starts_no_other(lab: Lab) -> None:
    loaded = load_stack(str(lab.platform.write(lab.stack())))
    plan = loaded.plan
    assert plan.kind == "environment"
    rollout = plan_rollout(plan, read_cluster(lab.client))

    def closed() -> str:
        return "the window is closed" if lab.mark("lab-0") or lab.offers("lab-0") == lab.after else ""

    lab.platform.state.clear()
    with pytest.raises(RolloutFailed) as failure:
        roll(lab.client, plan, rollout, Progress(quiet=True), closed)
    assert {one.change.node: (one.result, one.why) for one in failure.value.outcomes} == {
        "lab-0": ("changed", ""),
        "lab-1": ("not-begun", "the window is closed"),
    }
    assert "lab-1: not started: the window is closed" in str(failure.value)
    assert not lab.is_cordoned("lab-0")
    assert not lab.is_cordoned("lab-1")
    assert [lab.offers(node) for node in ("lab-0", "lab-1")] == [lab.after, lab.before]
    ran = lab.platform.up(lab.stack())
    assert (ran.code, _results(ran)) == (0, {"lab-1": "changed"})


@pytest.mark.long
def test_the_limits_of_all_pools_together_and_of_each_pool_hold(lab: Lab) -> None:
    def stack(layout: Layout, **more: Any) -> dict[str, Any]:
        pool = LAB["pools"][0]
        sharing = {"mode": "mig", "layout": layout.devices}
        pools = [{**pool, "name": name, "count": {"desired": 1}, "sharing": sharing} for name in ("lab", "lab-b")]
        return LAB | {"pools": pools} | more

    assert lab.platform.up(stack(lab.layout)).code == 0
    with watched(lab, "none") as seen:
        ran = lab.platform.up(stack(lab.other, changes={"max_unavailable": 1}))
    assert ran.code == 0, ran.err
    assert _results(ran) == {"lab-0": "changed", "lab-b-0": "changed"}
    assert seen.cordoned == {"lab-0", "lab-b-0"}
    assert seen.most_cordoned == 1


@pytest.mark.long
def test_a_failed_node_stays_cordoned_and_stops_the_rollout(lab: Lab) -> None:
    lab.fault("lab-0", '{"kind": "mig-change-failed"}')
    ran = lab.platform.up(lab.stack())
    assert ran.code == 1
    assert _results(ran) == {"lab-0": "failed", "lab-1": "not-begun"}
    assert ran.json["cost"]["wasted_usd_per_hour"] is None, "pods were running but were not counted"
    assert "lab-0: failed, the node stays cordoned: its MIG manager reports state failed" in ran.err
    assert "lab-1: not started: sharing.max_unavailable is 1, and these nodes are unavailable: lab-0; " in ran.err
    assert lab.is_cordoned("lab-0")
    assert "its MIG manager reports state failed" in (lab.mark("lab-0") or "")
    assert not lab.is_cordoned("lab-1")
    assert lab.offers("lab-1") == lab.before
    lab.fault("lab-0")
    ran = lab.platform.up(lab.stack())
    assert ran.code == 0, ran.err
    assert _results(ran) == {"lab-0": "changed", "lab-1": "changed"}
    assert [lab.offers(node) for node in ("lab-0", "lab-1")] == [lab.after, lab.after]
    assert not lab.is_cordoned("lab-0")
    assert lab.mark("lab-0") is None


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_change_is_finished_by_the_next_up(lab: Lab, how: signal.Signals) -> None:
    lab.fault("lab-0", '{"kind": "mig-change-slow", "seconds": 300}')
    file = lab.platform.write(lab.stack())
    lab.platform.state.clear()
    command = [*COMMAND, "up", str(file), "--engine", "embedded", "--format", "json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    eventually(lambda: lab.mark("lab-0") and _state(lab.node("lab-0")) == "pending")
    os.kill(process.pid, how)
    _, told = process.communicate()
    assert process.returncode == (130 if how is signal.SIGINT else -how)
    assert "Traceback" not in told
    if how is signal.SIGINT:
        doing, cordoned, go_on = told.splitlines()[-3:]
        assert doing == "interrupted while changing MIG layouts"
        assert cordoned.startswith("node lab-0 stays cordoned for its change to MIG config ")
        assert go_on == f"run `gpu-platform up {file}` to continue"
        ran = lab.platform.run("up", str(file), "--engine", "embedded", "--timeout", "5s")
        assert ran.code == 1
        assert "error: not finished within 5 s: " in ran.err
        assert f"run `gpu-platform up {file}` to continue" in ran.err
    assert lab.is_cordoned("lab-0")
    assert lab.offers("lab-1") == lab.before
    lab.fault("lab-0")
    seen = lab.platform.run("preview", str(file), "--engine", "embedded", "--format", "json")
    assert [(change["node"], change["begun"]) for change in seen.json["mig_changes"]] == [
        ("lab-0", True),
        ("lab-1", False),
    ]
    ran = lab.platform.up(lab.stack())
    assert ran.code == 0, ran.err
    assert [lab.offers(node) for node in ("lab-0", "lab-1")] == [lab.after, lab.after]
    assert not lab.is_cordoned("lab-0")
    assert lab.mark("lab-0") is None


# tests/deploy/rollout/test_rollout_plan.py covers a return to the old layout.
# A return to the old layout changes only nodes whose change had already begun.
@pytest.mark.thorough
def test_a_rollout_that_is_given_up_goes_back_with_the_stack_file(lab: Lab) -> None:
    lab.fault("lab-0", '{"kind": "mig-change-failed"}')
    assert lab.platform.up(lab.stack()).code == 1
    lab.fault("lab-0")
    ran = lab.platform.up(lab.same())
    assert ran.code == 0, ran.err
    assert _results(ran) == {"lab-0": "changed"}
    assert [lab.offers(node) for node in ("lab-0", "lab-1")] == [lab.before, lab.before]
    assert not lab.is_cordoned("lab-0")


@pytest.mark.long
def test_with_change_replace_only_nodes_without_gpu_pods_are_changed(lab: Lab) -> None:
    [pod] = lab.deployment("web", 1, node="lab-0")
    ran = lab.platform.up(lab.stack(change="replace"))
    assert ran.code == 1
    assert _results(ran) == {"lab-1": "changed", "lab-0": "left"}
    assert "sharing.change is replace, and the node runs default/web" in ran.err
    assert [one["metadata"]["uid"] for one in lab.running("web")] == [pod["metadata"]["uid"]]
    assert not lab.is_cordoned("lab-0")


def test_a_pod_without_a_controller_is_not_evicted(lab: Lab) -> None:
    lab.platform.pod("bare", SMALL, nodeSelector={"kubernetes.io/hostname": "lab-0"})
    eventually(lambda: lab.platform.find_pod("bare")["status"].get("phase") == "Running")
    ran = lab.platform.up(lab.stack())
    assert ran.code == 1
    assert _results(ran) == {"lab-1": "changed", "lab-0": "left"}
    assert "no controller manages these pods: default/bare; delete them, or wait until they end" in ran.err
    assert lab.platform.find_pod("bare")["status"]["phase"] == "Running"
    assert lab.offers("lab-0") == lab.before
    lab.platform.remove_pods()


@pytest.mark.long
def test_a_node_that_somebody_else_has_cordoned_is_changed_and_stays_cordoned(lab: Lab) -> None:
    lab.cordon("lab-1")
    try:
        ran = lab.platform.up(lab.stack())
        assert lab.offers("lab-1") == lab.after
        assert lab.is_cordoned("lab-1")
        assert lab.mark("lab-1") is None
        # The node is out of service and uses up the budget of one unavailable node.
        assert _results(ran) == {"lab-1": "changed", "lab-0": "not-begun"}, ran.err
    finally:
        lab.cordon("lab-1", cordoned=False)
    assert lab.platform.up(lab.stack()).code == 0
    assert lab.offers("lab-0") == lab.after


# test_rollout_plan.py covers the plan. The first test in this file covers the changes node by node.
@pytest.mark.thorough
def test_whole_gpus_are_partitioned_node_by_node(lab: Lab) -> None:
    whole = copy.deepcopy(LAB)
    whole["pools"][0]["sharing"] = {"mode": "none"}
    assert lab.platform.up(whole).code == 0
    assert [lab.offers(node) for node in ("lab-0", "lab-1")] == [{"nvidia.com/gpu": "8"}] * 2
    lab.fault("lab-1", '{"kind": "mig-change-slow", "seconds": 8}')
    offered: list[tuple[dict[str, str], dict[str, str]]] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.1):
            if lab.mark("lab-1"):
                offered.append((lab.offers("lab-0"), lab.offers("lab-1")))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        ran = lab.platform.up(lab.stack())
    finally:
        over.set()
        thread.join()
    assert ran.code == 0, ran.err
    assert offered
    assert all(one == lab.after for one, _ in offered), "the first node is done when the second one begins"
    assert {"nvidia.com/gpu": "8"} in [other for _, other in offered], (
        "the second node offered whole GPUs until its change began"
    )
    assert lab.offers("lab-1") == lab.after


@pytest.mark.long
def test_an_outdated_mig_manager_restarts_before_the_change(lab: Lab) -> None:
    lab.make(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "nvidia-mig-manager", "namespace": names.OPERATOR_NAMESPACE},
            "spec": {
                "selector": {"matchLabels": {"app": names.MIG_MANAGER_APP}},
                "template": {
                    "metadata": {"labels": {"app": names.MIG_MANAGER_APP}},
                    "spec": {
                        "containers": [{"name": "main", "image": "none"}],
                        "tolerations": [{"operator": "Exists"}],
                    },
                },
            },
        }
    )

    def managers() -> dict[str, str]:
        pods = lab.client.objects("v1", "Pod", namespace=names.OPERATOR_NAMESPACE)
        return {pod["spec"]["nodeName"]: pod["metadata"]["uid"] for pod in pods if _is_ready(pod)}

    before = eventually(lambda: managers() if len(managers()) == 2 else None)
    assert before is not None
    lab.fault("lab-1", '{"kind": "mig-change-failed"}')
    time.sleep(1.1)  # the API's timestamps are whole seconds
    assert _results(lab.platform.up(lab.stack())) == {"lab-0": "changed", "lab-1": "failed"}
    once = eventually(lambda: managers() if len(managers()) == 2 else None)
    assert once is not None
    assert not set(before.values()) & set(once.values())
    lab.fault("lab-1")
    assert lab.platform.up(lab.stack()).code == 0
    assert managers() == once, "the MIG managers are not restarted again, because the node already has the config"


def test_another_engine_may_not_change_the_layout_of_a_live_node(lab: Lab) -> None:
    held = lab.node("lab-0")["metadata"]["labels"][names.MIG_CONFIG_LABEL]
    manifest = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "lab-0", "labels": {names.MIG_CONFIG_LABEL: "lab-0123456789"}},
    }

    def apply_as_pulumi_does(manifest: dict[str, Any]) -> None:
        lab.client._connection.request(
            "PATCH",
            "/api/v1/nodes/lab-0",
            "applying",
            {"fieldManager": "pulumi-kubernetes-test", "dryRun": "All"},
            body=manifest,
            content_type="application/apply-patch+yaml",
            patient=False,
        )

    with pytest.raises(Refused, match=field_manager("shop")) as refusal:
        apply_as_pulumi_does(manifest)
    assert refusal.value.status == 409
    manifest["metadata"]["labels"][names.MIG_CONFIG_LABEL] = held
    apply_as_pulumi_does(manifest)  # a node that already has the config is not changed


@pytest.mark.long
def test_a_stack_that_releases_a_node_keeps_the_labels_of_other_field_managers(lab: Lab) -> None:
    manager = field_manager("shop")
    held = lab.node("lab-0")["metadata"]["labels"][names.MIG_CONFIG_LABEL]
    assert labels_by(manager, lab.node("lab-0")) == {names.MIG_CONFIG_LABEL: held}
    release(lab.client, "shop")
    assert labels_by(manager, lab.node("lab-0")) == {}
    assert lab.node("lab-0")["metadata"]["labels"][names.MIG_CONFIG_LABEL] == held, (
        "the engine also declares the label"
    )
    assert lab.platform.up(lab.same()).code == 0
    assert labels_by(manager, lab.node("lab-0")) == {names.MIG_CONFIG_LABEL: held}
