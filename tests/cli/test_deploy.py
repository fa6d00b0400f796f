"""`preview`, `up` and `destroy` around an engine: what is said, and refused, before anything changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.cli import deploy
from gpu_platform.cli.console import console
from gpu_platform.cli.engines import EmbeddedDeployment
from gpu_platform.cli.summary import show_changes
from gpu_platform.engine.applyset import ApplySet, Inventory
from gpu_platform.engine.record import RecordedProgram
from gpu_platform.errors import BadInput, ExitCode, Finding
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.changes.pool_facts import pool_facts, protected
from gpu_platform.planning.clouds.eks.plan import EksClusterPlan, EksPoolPlan
from gpu_platform.program import record_stack
from gpu_platform.progress import Progress
from gpu_platform.rollout.plan import Rollout
from gpu_platform.stacks import LoadedStack, load_stack
from tests.support.cloud_plans import environment, filled, on_cloud

NO_CHANGES: Mapping[str, Any] = {"counts": {}, "kinds": {}, "changes": []}


class Engine:
    """An engine that remembers what it was asked, and what had been printed by then."""

    engine, why = "pulumi", "requested"

    def __init__(self, outputs: Mapping[str, Any] | None, capture: pytest.CaptureFixture[str]) -> None:
        self._outputs, self._capture = outputs, capture
        self.asked: list[str] = []
        self.told_before = ""

    def outputs(self) -> Mapping[str, Any] | None:
        return self._outputs

    def preview(self) -> Mapping[str, Any]:
        return self._asked("preview")

    def up(self) -> Mapping[str, Any]:
        self._asked("up")
        raise Finding("stopped here: nothing is deployed in this test")

    def destroy(self) -> Mapping[str, Any]:
        return self._asked("destroy")

    def _asked(self, what: str) -> Mapping[str, Any]:
        self.asked.append(what)
        self.told_before = self._capture.readouterr().err
        return NO_CHANGES


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Returns the engine of a stack with this plan, whose last deployment had these outputs."""

    def make(plan: EnvironmentPlan, outputs: Mapping[str, Any] | None) -> Engine:
        engine = Engine(outputs, capsys)
        loaded = LoadedStack(plan.stack, Path("Pulumi.test.yaml"), {}, plan)
        program = RecordedProgram("gpu-platform", plan.stack, (), {})
        monkeypatch.setattr(deploy, "load_stack", lambda _stack: loaded)
        monkeypatch.setattr(deploy, "record_stack", lambda _loaded: program)
        monkeypatch.setattr(deploy, "choose_deployment", lambda *_: engine)
        monkeypatch.setattr(deploy.control_plane, "up", lambda *_, **__: None)
        monkeypatch.setattr(deploy, "_observe", lambda *_, **__: None)
        # There is no cluster to look at for nodes.
        monkeypatch.setattr(deploy, "preview_rollout", lambda *_: Rollout())
        monkeypatch.setattr(deploy, "change_nodes", lambda *_: ())
        return engine

    return make


def on_eks(protect: bool = False, retained: tuple[str, ...] = ()) -> EnvironmentPlan:
    cluster = filled(EksClusterPlan, name="ml", region="us-east-2", protect=protect, retained=retained)
    return on_cloud(environment({"train": 2}), cluster, train=filled(EksPoolPlan, protect=protect))


def outputs(plan: EnvironmentPlan) -> Mapping[str, Any]:
    return {"pools": pool_facts(plan), "protected": list(protected(plan))}


@pytest.mark.parametrize("to_json", [False, True])
@pytest.mark.parametrize("command", ["preview", "up"])
def test_what_becomes_of_pools_is_said_before_the_engine_is_asked(given: Any, command: str, to_json: bool) -> None:
    engine = given(environment({"serve": 1}), outputs(environment({"train": 2, "serve": 1})))

    run = deploy.preview_stack if command == "preview" else deploy.deploy_stack
    run("test", "auto", to_json=to_json)

    assert engine.asked == [command]
    assert "warning: pool train is removed: 16 GPUs go away" in engine.told_before


@pytest.mark.parametrize("command", ["preview", "up"])
def test_the_json_of_a_command_has_what_becomes_of_pools(
    given: Any, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given(environment({"serve": 1}), outputs(environment({"train": 2, "serve": 1})))

    run = deploy.preview_stack if command == "preview" else deploy.deploy_stack
    run("test", "auto", to_json=True)

    (change,) = json.loads(capsys.readouterr().out)["pool_changes"]
    assert (change["pool"], change["effect"], change["gpus"]) == ("train", "removed", 16)


def test_a_first_deployment_has_nothing_to_lose(given: Any, capsys: pytest.CaptureFixture[str]) -> None:
    given(environment({"train": 1}), None)
    deploy.preview_stack("test", "auto", to_json=True)

    printed = capsys.readouterr()
    assert json.loads(printed.out)["pool_changes"] == []
    assert "warning" not in printed.err


def test_a_deployment_of_an_older_release_is_not_compared_and_that_is_said(
    given: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = given(environment({"train": 1}), {"kubeconfig": "x"})
    deploy.preview_stack("test", "auto", to_json=True)

    assert json.loads(capsys.readouterr().out)["pool_changes"] is None
    assert "not compared" in engine.told_before


def test_the_embedded_engine_gives_back_the_pools_that_the_program_exports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Cluster:
        """Keeps the one object that the engine's state is."""

        kept: Mapping[str, Any] | None = None

        def apply(self, manifest: Mapping[str, Any]) -> None:
            self.kept = manifest

        def get(self, *_: str) -> Mapping[str, Any] | None:
            return self.kept

    loaded, cluster = load_stack("local"), Cluster()
    plan = loaded.plan
    assert plan.kind == "environment"
    exported = record_stack(loaded, preview=False).outputs
    ApplySet(cluster, "local").write_parent(Inventory(), exported)  # type: ignore[arg-type]
    monkeypatch.setattr("gpu_platform.cli.engines.client_of", lambda _plan: cluster)

    found = EmbeddedDeployment(loaded, Progress(quiet=True), "requested").outputs()

    assert found is not None
    assert found["pools"] == pool_facts(plan)
    assert found["protected"] == []


# -- destroy ----------------------------------------------------------------------------------------------


def test_a_production_cluster_is_not_destroyed_and_the_error_says_how_to_lift_that(given: Any) -> None:
    engine = given(on_eks(protect=True), outputs(on_eks(protect=True)))

    with pytest.raises(BadInput, match=r"cluster\.production") as caught:
        deploy.destroy_stack("test", "auto")
    assert caught.value.exit_code is ExitCode.BAD_INPUT
    assert "protects cluster ml, pool train" in str(caught.value)
    assert "set production: false, run `gpu-platform up test`, then destroy" in str(caught.value)
    assert engine.asked == []


def test_a_cluster_that_is_still_protected_where_it_is_deployed_is_not_destroyed(given: Any) -> None:
    engine = given(on_eks(protect=False), outputs(on_eks(protect=True)))

    with pytest.raises(BadInput, match="true in the last deployment"):
        deploy.destroy_stack("test", "auto")
    assert engine.asked == []


def test_a_field_without_a_value_is_shown_as_not_set(capsys: pytest.CaptureFixture[str]) -> None:
    field = {"path": "metadata.labels.team", "old": None, "new": "vision"}
    change = {"action": "update", "kind": "Node", "namespace": "", "name": "a", "reason": "", "fields": [field]}
    show_changes(console(), {"changes": [change], "counts": {"update": 1}})
    assert 'metadata.labels.team: (not set) → "vision"' in capsys.readouterr().out


def test_destroy_names_the_resources_that_it_keeps(given: Any, capsys: pytest.CaptureFixture[str]) -> None:
    plan = on_eks(retained=("log group /aws/eks/ml/cluster",))
    engine = given(plan, outputs(plan))

    assert deploy.destroy_stack("test", "auto") is ExitCode.GOOD
    assert engine.asked == ["destroy"]
    said = capsys.readouterr().out
    assert "these resources were kept, remove them by hand:\n  log group /aws/eks/ml/cluster" in said
    assert "nothing left" not in said


def test_destroy_of_a_stack_that_retains_nothing_names_no_resources(
    given: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = given(on_eks(), None)

    deploy.destroy_stack("test", "auto")
    assert engine.asked == ["destroy"]
    assert "stack test: destroyed\n" in capsys.readouterr().out
