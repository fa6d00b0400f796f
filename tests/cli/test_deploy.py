"""The output of `preview`, `up` and `destroy` with a fake engine, and the errors that these commands report before
they change anything.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from gpu_platform.base.console import console
from gpu_platform.base.errors import BadInput, ExitCode, Finding, UnknownOutcome
from gpu_platform.base.progress import Progress
from gpu_platform.cli import deploy
from gpu_platform.cli.engines import EmbeddedDeployment
from gpu_platform.cli.summary import show_changes
from gpu_platform.deploy.changes import Action, Change, Changes, ObjectsSkipped
from gpu_platform.deploy.embedded.applyset import ApplySet, Inventory
from gpu_platform.deploy.recorded.record import RecordedProgram
from gpu_platform.deploy.rollout.plan import Rollout
from gpu_platform.live.cluster_access import ClusterAccess
from gpu_platform.live.objects import ObjectKey
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.changes import pool_facts, protected
from gpu_platform.planning.clouds.eks.cluster_plan import CreateEksPlan, EksClusterPlan
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, load_stack
from tests.support.cloud_plans import environment, filled, on_cloud
from tests.support.eks_stacks import CREATED, plan_eks

NO_CHANGES: Mapping[str, Any] = {"counts": {}, "kinds": {}, "changes": []}


class Engine:
    """A fake engine that records each call, together with the output that was printed before the call."""

    engine, why = "pulumi", "requested"

    def __init__(self, outputs: Mapping[str, Any] | None, capture: pytest.CaptureFixture[str]) -> None:
        self._outputs, self._capture = outputs, capture
        self.asked: list[str] = []
        self.locked_for, self.asked_under_lock_for = "", ""
        self.told_before = ""
        self.changes = NO_CHANGES
        self.deployed = True

    @contextmanager
    def lock(self, command: str) -> Generator[None]:
        self.locked_for = command
        yield
        self.locked_for = ""

    def outputs(self) -> Mapping[str, Any] | None:
        return self._outputs

    def is_deployed(self) -> bool:
        return self.deployed

    def preview(self) -> Mapping[str, Any]:
        return self._asked("preview")

    def up(self, rolled: Mapping[str, str]) -> Mapping[str, Any]:
        del rolled
        self._asked("up")
        raise Finding("stopped here: nothing is deployed in this test")

    def destroy(self) -> Mapping[str, Any]:
        return self._asked("destroy")

    def _asked(self, what: str) -> Mapping[str, Any]:
        self.asked.append(what)
        self.asked_under_lock_for = self.locked_for
        printed = self._capture.readouterr()
        self.told_before += printed.out + printed.err
        return self.changes


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return a function that builds an engine from a stack's plan and the outputs of its last deployment."""

    def make(plan: EnvironmentPlan, outputs: Mapping[str, Any] | None) -> Engine:
        engine = Engine(outputs, capsys)
        loaded = LoadedStack(plan.stack, Path("Pulumi.test.yaml"), {}, plan)
        program = RecordedProgram("gpu-platform", plan.stack, (), {})
        monkeypatch.setattr(deploy, "load_stack", lambda _stack: loaded)
        monkeypatch.setattr(deploy, "record_stack", lambda _loaded: program)
        monkeypatch.setattr(deploy, "choose_deployment", lambda *_: engine)
        monkeypatch.setattr(deploy.control_plane, "up", lambda *_, **__: None)
        monkeypatch.setattr(deploy.control_plane, "status", lambda _name: SimpleNamespace(state="running"))
        monkeypatch.setattr(deploy.control_plane, "names", list)
        monkeypatch.setattr(deploy, "_observe", lambda *_, **__: None)
        monkeypatch.setattr("gpu_platform.live.cluster_access.client_of", unreachable)
        # No cluster exists, so no nodes can be read.
        monkeypatch.setattr(deploy, "preview_rollout", lambda *_: Rollout())
        monkeypatch.setattr(deploy, "change_nodes", lambda *_: ())
        return engine

    return make


def on_eks(protect: bool = False, retained: tuple[str, ...] = (), created: bool = False) -> EnvironmentPlan:
    create = filled(CreateEksPlan) if created else None
    cluster = filled(
        EksClusterPlan, name="ml", region="us-east-2", protect=protect, retained=retained, create=create
    )
    return on_cloud(environment({"train": 2}), cluster, train=filled(EksPoolPlan, protect=protect))


def outputs(plan: EnvironmentPlan) -> Mapping[str, Any]:
    return {"pools": pool_facts(plan), "protected": list(protected(plan))}


@pytest.mark.parametrize("to_json", [False, True])
def test_the_impact_is_printed_before_anything_is_changed(given: Any, to_json: bool) -> None:
    engine = given(environment({"serve": 1}), outputs(environment({"train": 2, "serve": 1})))

    deploy.deploy_stack("test", "auto", to_json=to_json)

    assert engine.asked == ["preview", "up"]
    [row] = [line for line in engine.told_before.splitlines() if line.startswith("pool train  ")]
    assert "removes-capacity" in row
    assert row.split()[-3:] == ["2", "16", "?"], "2 nodes, 16 GPUs, and an unknown number of pods"


def test_a_preview_shows_the_gpus_and_the_cost_that_a_change_adds(
    given: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    before = environment({"train": 2})
    given(environment({"train": 3}), {**outputs(before), "cost_usd_per_hour": before.cost.usd_per_hour})
    deploy.preview_stack("test", "auto", to_json=False)
    printed = capsys.readouterr().out
    assert "pool train: nodes 2 → 3\npool train: GPUs 16 → 24\ncost: USD a month " in printed
    deploy.preview_stack("test", "auto", to_json=True)
    assert json.loads(capsys.readouterr().out)["sizes"][1] == {
        "subject": "pool train",
        "what": "GPUs",
        "old": "16",
        "new": "24",
    }


def test_a_failed_deployment_is_reported_even_without_a_cluster(
    given: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given(environment({"train": 1}), None)

    def unreachable_cluster(*_: object, **__: object) -> NoReturn:
        raise UnknownOutcome("stack test is not deployed: it has no output kubeconfig")

    monkeypatch.setattr(deploy, "_observe", unreachable_cluster)

    assert deploy.deploy_stack("test", "auto", to_json=True) is ExitCode.FINDING
    printed = capsys.readouterr()
    assert json.loads(printed.out)["error"] == "stopped here: nothing is deployed in this test"
    assert printed.err.endswith("error: stopped here: nothing is deployed in this test\n")


def test_an_effect_that_ci_refuses_ends_preview_and_up_before_anything_is_changed(given: Any) -> None:
    engine = given(environment({"serve": 1}), outputs(environment({"train": 2, "serve": 1})))
    for run in (deploy.preview_stack, deploy.deploy_stack):
        with pytest.raises(Finding, match="pool train removes-capacity"):
            run("test", "auto", to_json=False, fail_on="deletes-data,removes-capacity")
    assert engine.asked == ["preview", "preview"]
    assert deploy.preview_stack("test", "auto", to_json=False, fail_on="deletes-data") is ExitCode.GOOD


@pytest.mark.parametrize("wrong", ["deletes-dta", "", "in-place"])
def test_an_unknown_effect_is_bad_input_that_names_the_known_ones(given: Any, wrong: str) -> None:
    engine = given(environment({"serve": 1}), None)
    with pytest.raises(BadInput, match="deletes-data") as caught:
        deploy.preview_stack("test", "auto", to_json=False, fail_on=wrong)
    assert caught.value.exit_code is ExitCode.BAD_INPUT
    assert engine.asked == []


def test_preview_lists_objects_only_on_request(given: Any, capsys: pytest.CaptureFixture[str]) -> None:
    change = {"action": "create", "kind": "Node", "namespace": "", "name": "a", "reason": "", "fields": []}
    engine = given(environment({"train": 1}), None)
    engine.changes = {"counts": {"create": 1}, "kinds": {}, "changes": [change]}
    deploy.preview_stack("test", "auto", to_json=False)
    said = capsys.readouterr().out
    assert "+ Node a" not in said
    assert "1 to create; --objects lists them" in said
    deploy.preview_stack("test", "auto", to_json=False, objects=True)
    assert "+ Node a" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["preview", "up"])
def test_the_json_of_a_command_has_the_changes_of_pools(
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


def test_a_deployment_of_an_older_release_is_not_compared(given: Any, capsys: pytest.CaptureFixture[str]) -> None:
    engine = given(environment({"train": 1}), {"kubeconfig": "x"})
    deploy.preview_stack("test", "auto", to_json=True)

    assert json.loads(capsys.readouterr().out)["pool_changes"] is None
    assert "not compared" in engine.told_before


def test_the_embedded_engine_returns_the_exported_pools(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Cluster:
        """A fake cluster that stores the single object with the engine's state."""

        kept: Mapping[str, Any] | None = None

        def apply(self, manifest: Mapping[str, Any]) -> None:
            self.kept = manifest

        def get(self, *_: str) -> Mapping[str, Any] | None:
            return self.kept

    loaded, cluster = load_stack("local"), Cluster()
    plan = loaded.plan
    assert plan.kind == "environment"
    exported = record_stack(loaded, preview=False).outputs
    ApplySet(cluster, "local").write_parent(Inventory(), exported)  # pyrefly: ignore[bad-argument-type]
    monkeypatch.setattr("gpu_platform.live.cluster_access.client_of", lambda _plan: cluster)

    access = ClusterAccess(plan)
    found = EmbeddedDeployment(loaded, record_stack(loaded), Progress(quiet=True), access, "requested").outputs()

    assert found is not None
    assert found["pools"] == pool_facts(plan)
    assert found["protected"] == []


@pytest.mark.parametrize(("command", "lock"), [("up", "up"), ("destroy", "destroy"), ("preview", "")])
def test_a_command_that_changes_a_stack_holds_its_lock_and_preview_does_not(
    given: Any, command: str, lock: str
) -> None:
    engine = given(on_eks(), None)

    if command == "destroy":
        deploy.destroy_stack("test", "auto", yes=True)
    else:
        (deploy.preview_stack if command == "preview" else deploy.deploy_stack)("test", "auto", to_json=True)

    assert (engine.asked, engine.asked_under_lock_for) == ([command], lock)


@pytest.mark.parametrize("command", ["preview", "up"])
def test_skipped_and_changed_objects_are_shown_and_end_with_exit_code_1(
    given: Any, command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = given(environment({"train": 1}), None)
    taken = Change(
        Action.UPDATE, ObjectKey("", "ConfigMap", "vision", "a"), notices=("changed by kubectl: data.a",)
    )
    foreign = Change(Action.SKIP, ObjectKey("", "ConfigMap", "vision", "b"), reason="already exists")

    def skip(_what: str) -> None:
        raise ObjectsSkipped(Changes("test", (taken, foreign)))

    monkeypatch.setattr(engine, "_asked", skip)
    monkeypatch.setattr(engine, "up", lambda rolled: skip("up"))
    monkeypatch.setattr(deploy, "hold_nodes", lambda *_: None)
    run = deploy.preview_stack if command == "preview" else deploy.deploy_stack

    assert run("test", "auto", to_json=False) is ExitCode.FINDING
    printed = capsys.readouterr()
    assert "changed by kubectl: data.a" in printed.out
    assert "ConfigMap b in namespace vision already exists" in printed.err


def test_a_preview_names_the_sandbox_that_it_started_and_what_deletes_it(
    given: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = environment({"train": 1})
    given(plan, None)
    name = plan.cluster.name
    deploy.preview_stack("test", "auto", to_json=False)
    assert "was started for this preview" not in capsys.readouterr().err, "the sandbox was already running"
    monkeypatch.setattr(deploy.control_plane, "status", lambda _name: SimpleNamespace(state="absent"))
    deploy.preview_stack("test", "auto", to_json=False)
    assert f"sandbox {name} was started for this preview and is still running" in capsys.readouterr().err


@pytest.mark.parametrize(("there", "said"), [(None, True), ({"train": 1}, False)])
def test_a_stack_that_is_deployed_in_a_sandbox_of_another_name_is_a_warning(
    given: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    there: dict[str, int] | None,
    said: bool,
) -> None:
    plan = environment({"train": 1})
    engine = given(plan, None if there is None else outputs(environment(there)))
    own = plan.cluster.name
    monkeypatch.setattr(deploy.control_plane, "names", lambda: ["old-sandbox", own, "empty"])
    monkeypatch.setattr(deploy, "KubernetesClient", lambda kubeconfig: kubeconfig)
    monkeypatch.setattr(deploy, "is_deployed", lambda kubeconfig, _stack: "old-sandbox" in Path(kubeconfig).parts)
    deploy.preview_stack("test", "auto", to_json=False)
    text = engine.told_before + capsys.readouterr().err
    warning = f"warning: stack test is deployed in sandbox old-sandbox, but the stack file names sandbox {own}"
    assert (warning in text) is said
    assert "in sandbox empty" not in text


def test_a_preview_shows_protection_that_up_lifts_although_no_object_changes(
    given: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    given(environment({"train": 2}), outputs(guarded({"train": 2}, stack=True, pool=True)))
    deploy.preview_stack("test", "auto", to_json=False)
    printed = " ".join(capsys.readouterr().out.split())
    assert "protection lifted by the next `up`: stack test (protect: true)" in printed
    assert "protection lifted by the next `up`: pool train (protect: true)" in printed
    given(guarded({"train": 2}, stack=True), outputs(environment({"train": 2})))
    deploy.preview_stack("test", "auto", to_json=True)
    assert json.loads(capsys.readouterr().out)["protection"] == [
        "protection added by the next `up`: stack test (protect: true)"
    ]


# -- destroy ----------------------------------------------------------------------------------------------


def test_a_protected_production_cluster_is_not_destroyed(given: Any) -> None:
    engine = given(on_eks(protect=True), outputs(on_eks(protect=True)))

    with pytest.raises(BadInput, match=r"cluster\.protect") as caught:
        deploy.destroy_stack("test", "auto")
    assert caught.value.exit_code is ExitCode.BAD_INPUT
    assert "protects cluster ml, pool train" in str(caught.value)
    assert "set cluster.protect: false, run `gpu-platform up test`, then destroy" in str(caught.value)
    assert engine.asked == []


def test_a_cluster_still_protected_in_its_deployment_is_not_destroyed(given: Any) -> None:
    engine = given(on_eks(protect=False), outputs(on_eks(protect=True)))

    with pytest.raises(BadInput, match="in the last deployment, which protects cluster ml"):
        deploy.destroy_stack("test", "auto")
    assert engine.asked == []


def guarded(pools: Mapping[str, int], *, stack: bool = False, pool: bool = False) -> EnvironmentPlan:
    plan = environment(pools)
    guarded = tuple(dataclasses.replace(one, protect=pool) for one in plan.pools)
    return dataclasses.replace(plan, protect=stack, pools=guarded)


@pytest.mark.parametrize("deployed_only", [False, True])
@pytest.mark.parametrize(("stack", "pool", "name"), [(True, False, "stack test"), (False, True, "pool train")])
def test_what_the_field_protect_protects_is_not_destroyed(
    given: Any, stack: bool, pool: bool, name: str, deployed_only: bool
) -> None:
    deployed = guarded({"train": 2}, stack=stack, pool=pool)
    engine = given(environment({"train": 2}) if deployed_only else deployed, outputs(deployed))

    with pytest.raises(BadInput, match=f"protects {name};") as caught:
        deploy.destroy_stack("test", "auto", yes=True)
    assert "protect: found true in the " in str(caught.value)
    assert "set protect: false, run `gpu-platform up test`, then destroy again" in str(caught.value)
    assert engine.asked == []


@pytest.mark.parametrize("pools", [{"serve": 1}, {"fit": 2}], ids=["removed", "renamed"])
def test_up_refuses_to_delete_a_protected_pool_with_a_fix(given: Any, pools: Mapping[str, int]) -> None:
    engine = given(environment(pools), outputs(guarded({"train": 2}, pool=True)))

    with pytest.raises(BadInput, match=r"pool train is re(moved|named)") as caught:
        deploy.deploy_stack("test", "auto", to_json=False)
    assert (
        "set pools[0].protect: false and run `gpu-platform up Pulumi.test.yaml` with only that change first"
        in str(caught.value)
    )
    assert "up" not in engine.asked


def test_up_refuses_an_upgrade_that_a_running_capacity_block_blocks(given: Any) -> None:
    block = {
        "capacity": {"type": "capacity-block", "reservation": "cr-0a1b2c3d4e5f60718", "zone": "us-east-2a"},
    }
    before, after = (plan_eks(block, cluster={**CREATED, "kubernetes": each}) for each in ("1.34", "1.35"))
    engine = given(after, outputs(before))

    with pytest.raises(BadInput, match="must have desired size 0 while EKS updates it") as caught:
        deploy.deploy_stack("test", "auto", to_json=False)
    assert "pools[0]" in str(caught.value)
    assert "up" not in engine.asked


def test_preview_and_up_refuse_a_capacity_block_that_has_ended(given: Any) -> None:
    block = {"type": "capacity-block", "reservation": "cr-0a1b2c3d4e5f60718", "zone": "us-east-2a"}
    engine = given(plan_eks({"capacity": {**block, "ends": "2020-12-14T11:30:00Z"}}), None)

    for run in (deploy.preview_stack, deploy.deploy_stack):
        with pytest.raises(BadInput, match="nodes cannot start on capacity that has ended"):
            run("test", "auto", to_json=False)
    assert engine.asked == []


def test_preview_and_up_accept_desired_nodes_of_a_capacity_block_that_has_not_begun(given: Any) -> None:
    block = {"type": "capacity-block", "reservation": "cr-0a1b2c3d4e5f60718", "zone": "us-east-2a"}
    times = {"starts": "2998-12-01T11:30:00Z", "ends": "2998-12-14T11:30:00Z"}
    engine = given(plan_eks({"capacity": {**block, **times}}), None)

    deploy.preview_stack("test", "auto", to_json=True)
    deploy.deploy_stack("test", "auto", to_json=True)
    assert "up" in engine.asked


def test_a_protected_pool_may_shrink(given: Any) -> None:
    engine = given(guarded({"train": 1}, pool=True), outputs(guarded({"train": 2}, pool=True)))
    deploy.deploy_stack("test", "auto", to_json=True)
    assert "up" in engine.asked


def test_a_field_without_a_value_is_shown_as_not_set(capsys: pytest.CaptureFixture[str]) -> None:
    field = {"path": "metadata.labels.team", "old": None, "new": "vision"}
    change = {"action": "update", "kind": "Node", "namespace": "", "name": "a", "reason": "", "fields": [field]}
    show_changes(console(), {"changes": [change], "counts": {"update": 1}})
    assert 'metadata.labels.team: (not set) → "vision"' in capsys.readouterr().out


def test_destroy_names_the_resources_that_it_keeps(given: Any, capsys: pytest.CaptureFixture[str]) -> None:
    plan = on_eks(retained=("log group /aws/eks/ml/cluster",))
    engine = given(plan, outputs(plan))

    assert deploy.destroy_stack("test", "auto", yes=True, delete_data=True) is ExitCode.GOOD
    assert engine.asked == ["destroy"]
    said = capsys.readouterr().out
    assert "these resources were kept, remove them by hand:\n  log group /aws/eks/ml/cluster" in said
    assert "nothing left" not in said


def test_a_destroy_report_lists_deleted_and_kept_resources(given: Any, capsys: pytest.CaptureFixture[str]) -> None:
    plan = on_eks(retained=("log group /aws/eks/ml/cluster",))
    engine = given(plan, outputs(plan))

    assert deploy.destroy_stack("test", "auto", yes=True, to_json=True) is ExitCode.GOOD
    report = json.loads(capsys.readouterr().out)
    assert report["pools"] == [{"pool": "train", "nodes": 2, "gpus": 16, "fate": "deleted"}]
    assert report["cluster"] == {"name": "ml", "fate": "kept"}
    assert report["kept"] == ["log group /aws/eks/ml/cluster"]
    assert (report["engine"]["name"], report["changes"], report["error"]) == ("pulumi", NO_CHANGES, None)
    assert report["cluster_read"] is False
    assert "pool train: 2 nodes with 16 GPUs; the nodes are deleted" in engine.told_before, (
        "the list is printed before the engine starts"
    )


def test_a_destroy_of_a_sandbox_that_does_not_exist_reports_in_the_same_form(
    given: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given(environment({"train": 1}), None)
    monkeypatch.setattr(deploy.control_plane, "status", lambda _name: SimpleNamespace(state="absent"))

    assert deploy.destroy_stack("test", "auto", to_json=True) is ExitCode.GOOD
    report = json.loads(capsys.readouterr().out)
    assert (report["cluster"]["fate"], report["pools"], report["retained"]) == ("absent", [], [])


@pytest.mark.parametrize("created", [False, True])
def test_a_destroy_of_a_stack_that_is_not_deployed_destroys_and_lists_nothing(
    given: Any, capsys: pytest.CaptureFixture[str], created: bool
) -> None:
    engine = given(on_eks(created=created, retained=("log group /aws/eks/ml/cluster",)), None)
    engine.deployed = False

    assert deploy.destroy_stack("test", "auto", yes=True) is ExitCode.GOOD
    printed = capsys.readouterr()
    assert printed.out == "stack test is not deployed, so it has nothing to destroy\n"
    assert engine.asked == []
    assert deploy.destroy_stack("test", "auto", to_json=True) is ExitCode.GOOD
    report = json.loads(capsys.readouterr().out)
    assert (report["pools"], report["changes"], report["kept"]) == ([], None, [])
    assert report["cluster"]["fate"] == ("absent" if created else "kept")


class Terminal(io.StringIO):
    """A fake terminal as standard input, with text that a user has typed."""

    def isatty(self) -> bool:
        return True


def test_destroy_without_a_terminal_lists_and_asks_for_yes_before_the_engine(
    given: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = given(on_eks(), None)
    monkeypatch.setattr("sys.stdin", io.StringIO("test\n"))

    with pytest.raises(BadInput, match=r"--yes.*nothing was changed") as caught:
        deploy.destroy_stack("test", "auto")
    assert caught.value.exit_code is ExitCode.BAD_INPUT
    assert engine.asked == []
    assert "pool train: 2 nodes with 16 GPUs; the nodes are deleted" in capsys.readouterr().out


@pytest.mark.parametrize(("typed", "asked"), [("test\n", ["destroy"]), ("tset\n", []), ("y\n", []), ("", [])])
def test_destroy_at_a_terminal_needs_the_name_of_the_stack(
    given: Any, monkeypatch: pytest.MonkeyPatch, typed: str, asked: list[str]
) -> None:
    engine = given(on_eks(), None)
    monkeypatch.setattr("sys.stdin", Terminal(typed))

    with contextlib.nullcontext() if asked else pytest.raises(BadInput, match="nothing was changed"):
        deploy.destroy_stack("test", "auto")
    assert engine.asked == asked


@pytest.mark.parametrize(("typed", "asked"), [("test and its data\n", ["destroy"]), ("test\n", [])])
def test_the_consent_to_delete_data_names_the_data(
    given: Any, monkeypatch: pytest.MonkeyPatch, typed: str, asked: list[str]
) -> None:
    engine = given(on_eks(), None)
    monkeypatch.setattr("sys.stdin", Terminal(typed))

    with contextlib.nullcontext() if asked else pytest.raises(BadInput, match="nothing was changed"):
        deploy.destroy_stack("test", "auto", delete_data=True)
    assert engine.asked == asked


def test_deleting_a_cluster_that_cannot_be_read_needs_consent(
    given: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = on_eks(created=True)
    engine = given(plan, outputs(plan))

    with pytest.raises(BadInput, match="--delete-data, because the cluster is deleted with everything in it"):
        deploy.destroy_stack("test", "auto", yes=True)
    assert engine.asked == []
    assert "load balancers and volumes could not be read: the cluster does not" in capsys.readouterr().out


def unreachable(_plan: object) -> NoReturn:
    raise UnknownOutcome("the cluster does not answer")


def test_destroy_of_a_stack_that_retains_nothing_names_no_resources(
    given: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = given(on_eks(), None)

    deploy.destroy_stack("test", "auto", yes=True)
    assert engine.asked == ["destroy"]
    assert "stack test: destroyed\n" in capsys.readouterr().out
