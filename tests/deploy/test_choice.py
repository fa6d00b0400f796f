"""How the engine that deploys a stack is chosen. Fake `pulumi` programs replace the CLI on PATH."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput, ExitCode, Finding, UnknownOutcome
from gpu_platform.base.progress import Progress
from gpu_platform.cli.engines import PulumiDeployment
from gpu_platform.deploy.choice import EngineName, choose_engine
from gpu_platform.deploy.pulumi.pulumi_cli import find_cli
from gpu_platform.deploy.pulumi.pulumi_engine import PulumiEngine, _diagnostics
from gpu_platform.deploy.recorded.record import RecordedProgram
from gpu_platform.live.cluster_access import ClusterAccess
from gpu_platform.live.objects import ObjectKey
from gpu_platform.online.aws.lookups import AwsCloud
from gpu_platform.online.finding import NotLookedAt
from gpu_platform.planning.changes import pool_facts
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import load_stack
from tests.deploy.conftest import Record
from tests.support.api_server import resource_list, serving
from tests.support.eks_stacks import EXISTING, load_eks

SDK = version("pulumi")
PLAIN = RecordedProgram("gpu-platform", "local", (), {})


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a machine without the Pulumi CLI, a login or a network, and with an empty cache."""
    for name in ("PULUMI_BACKEND_URL", "GPU_PLATFORM_NO_INSTALL", "PULUMI_AUTOMATION_API_SKIP_VERSION_CHECK"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "path").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GPU_PLATFORM_CACHE", str(tmp_path / "cache"))
    for scheme in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(scheme, "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PULUMI_BACKEND_URL", "file:///states")
    return "file:///states"


def put_pulumi(folder: Path, told_version: str, otherwise: str = "exit 0") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "pulumi"
    program.write_text(f'#!/bin/sh\ncase "$*" in *version*) echo v{told_version} ;; *) {otherwise} ;; esac\n')
    program.chmod(0o755)
    return program


def test_pulumi_on_path_with_a_backend_is_taken(tmp_path: Path, backend: str) -> None:
    put_pulumi(tmp_path / "path", SDK)

    choice = choose_engine(PLAIN)

    assert (choice.engine, choice.why) == (
        EngineName.PULUMI,
        f"pulumi {SDK} is on PATH, with backend {backend}",
    )


def test_without_a_backend_the_embedded_engine_is_used_and_named(tmp_path: Path) -> None:
    put_pulumi(tmp_path / "path", SDK)

    choice = choose_engine(PLAIN)

    assert choice.engine is EngineName.EMBEDDED
    assert "PULUMI_BACKEND_URL" in choice.why


def test_a_login_is_a_backend(tmp_path: Path) -> None:
    put_pulumi(tmp_path / "path", SDK)
    (tmp_path / "home").mkdir()
    (tmp_path / "home/credentials.json").write_text(json.dumps({"current": "s3://states"}))

    assert choose_engine(PLAIN).why.endswith("with backend s3://states")


def test_a_pulumi_older_than_the_sdk_is_not_taken(tmp_path: Path, backend: str) -> None:
    put_pulumi(tmp_path / "path", "3.200.0")

    choice = choose_engine(PLAIN, install=False)

    assert choice.engine is EngineName.EMBEDDED
    assert "3.200.0" in choice.why


def test_the_installed_version_is_taken_where_path_has_none(tmp_path: Path, backend: str) -> None:
    program = put_pulumi(tmp_path / "cache/pulumi" / SDK / "bin", SDK)

    choice = choose_engine(PLAIN)

    assert choice.engine is EngineName.PULUMI
    assert choice.cli is not None
    assert choice.cli.command.command == str(program)


def test_an_installed_cli_version_is_used_if_downloads_are_off(
    tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_PLATFORM_NO_INSTALL", "1")
    put_pulumi(tmp_path / "cache/pulumi" / SDK / "bin", SDK)

    assert choose_engine(PLAIN, install=False).engine is EngineName.PULUMI


def test_without_a_network_the_embedded_engine_is_used(backend: str) -> None:
    choice = choose_engine(PLAIN)

    assert choice.engine is EngineName.EMBEDDED
    assert choice.why.startswith(f"pulumi is not on PATH; pulumi {SDK} cannot be installed: ")


def test_nothing_is_downloaded_where_that_is_forbidden(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_PLATFORM_NO_INSTALL", "1")

    assert choose_engine(PLAIN).why == "pulumi is not on PATH"


def test_a_stack_of_the_embedded_engine_stays_with_it(tmp_path: Path, backend: str) -> None:
    put_pulumi(tmp_path / "path", SDK)

    choice = choose_engine(PLAIN, already_embedded=True)

    assert choice.engine is EngineName.EMBEDDED
    assert "destroy" in choice.why


def test_the_requested_engine_is_chosen(tmp_path: Path, backend: str) -> None:
    put_pulumi(tmp_path / "path", SDK)

    assert choose_engine(PLAIN, "embedded").engine is EngineName.EMBEDDED
    assert choose_engine(PLAIN, "pulumi", already_embedded=True).engine is EngineName.PULUMI


def test_a_requested_pulumi_cli_that_is_missing_is_an_unknown_outcome(backend: str) -> None:
    with pytest.raises(UnknownOutcome, match="pulumi is not on PATH"):
        choose_engine(PLAIN, "pulumi", install=False)


@pytest.mark.parametrize("requested", ["embedded", "auto"])
def test_the_embedded_engine_deploys_only_to_sandboxes(requested: str) -> None:
    with pytest.raises(BadInput, match=r"a cluster that is not a sandbox.*Pulumi CLI"):
        choose_engine(PLAIN, requested, sandbox=False, install=False)


@pytest.mark.parametrize("requested", ["auto", "embedded"])
def test_a_stack_with_cloud_resources_needs_pulumi_and_the_error_says_so(record: Record, requested: str) -> None:
    with pytest.raises(BadInput, match=r"aws:eks/cluster:Cluster.*Pulumi CLI") as caught:
        choose_engine(record("cloud"), requested)
    assert caught.value.exit_code is ExitCode.BAD_INPUT


# -- the CLI's errors -------------------------------------------------------------------------------------


def engine(tmp_path: Path, otherwise: str) -> PulumiEngine:
    put_pulumi(tmp_path / "path", SDK, otherwise)
    (tmp_path / "project").mkdir()
    (tmp_path / "project/Pulumi.yaml").write_text("name: gpu-platform\nruntime: python\n")
    return PulumiEngine(find_cli(install=False), "local", project=tmp_path / "project")


def failing_preview(tmp_path: Path, told: str) -> PulumiEngine:
    return engine(
        tmp_path,
        f'case "$*" in *select*) exit 0 ;; *export*) echo "{{}}" ;; *) printf "{told}"; exit 255 ;; esac',
    )


def test_a_failed_preview_tells_the_diagnostics_and_no_more(tmp_path: Path, backend: str) -> None:
    told = "Previewing update\\n\\nDiagnostics:\\n  pool: error: no nodes\\n\\nResources:\\n    3 unchanged\\n"
    failing = failing_preview(tmp_path, told)

    with pytest.raises(Finding) as caught:
        failing.preview()
    assert str(caught.value) == "pulumi preview of stack local failed:\n  pool: error: no nodes"


def test_a_failed_preview_hides_the_traceback_of_the_program(tmp_path: Path, backend: str) -> None:
    told = (
        "Previewing update\\nDiagnostics:\\n  pool: error: no nodes\\n  Traceback (most recent call last):\\n"
        "    File program.py, line 3\\n  KeyboardInterrupt\\n"
    )
    failing = failing_preview(tmp_path, told)

    with pytest.raises(Finding) as caught:
        failing.preview()
    assert str(caught.value) == "pulumi preview of stack local failed:\n  pool: error: no nodes"


def test_a_refused_value_of_a_priority_class_tells_what_to_do() -> None:
    refused = (
        'PriorityClass.scheduling.k8s.io "training" is invalid: value: Forbidden: may not be changed in an update.'
    )
    told = _diagnostics(f"Diagnostics:\n  training:\n    error: {refused}\n")
    assert refused in told
    assert "run `kubectl delete priorityclass training`, then the same command again" in told


def test_a_release_that_a_killed_run_left_pending_tells_what_to_do() -> None:
    refused = "another operation (install/upgrade/rollback) is in progress"
    told = _diagnostics(f"Diagnostics:\n  kubernetes:helm.sh/v3:Release (gpu-operator):\n    error: {refused}\n")
    assert refused in told
    assert "`helm list --all-namespaces --pending`" in told
    assert "run `helm rollback RELEASE --namespace NAMESPACE`, then the same command again" in told


@pytest.mark.parametrize("cause", ["context deadline exceeded", "timed out waiting for the condition"])
def test_a_rolled_back_release_names_nodes_that_are_not_ready_as_a_cause(cause: str) -> None:
    refused = f"release gpu-operator failed, and has been rolled back due to atomic being set: {cause}"
    assert "nodes that are not ready" in _diagnostics(f"Diagnostics:\n  gpu-operator:\n    error: {refused}\n")


def test_a_release_that_was_refused_does_not_name_nodes() -> None:
    refused = "release gpu-operator failed, and has been rolled back due to atomic being set: exceeded quota"
    assert "not ready" not in _diagnostics(f"Diagnostics:\n  gpu-operator:\n    error: {refused}\n")


def test_a_release_that_was_deleted_after_its_upgrade_failed_tells_what_to_do() -> None:
    told = _diagnostics('Diagnostics:\n  gpu-operator:\n    error: "gpu-operator" has no deployed releases\n')
    assert "refresh --yes --stack STACK`, then the same command again" in told


def test_a_connection_that_google_still_holds_has_a_command_to_remove_it() -> None:
    refused = "Producer services (e.g. CloudSQL, Cloud Memstore, etc.) are still using this connection."
    told = _diagnostics(f"Diagnostics:\n  shop-services:\n    error: {refused}\n")
    assert "`gcloud lustre instances list`" in told
    assert "networks peerings delete servicenetworking-googleapis-com" in told


def test_a_cluster_that_is_gone_tells_how_to_remove_its_objects_from_the_state() -> None:
    told = _diagnostics(
        "Diagnostics:\n  operator:\n    error: can't delete Helm Release with unreachable cluster.\n"
    )
    assert "run `PULUMI_K8S_DELETE_UNREACHABLE=true pulumi -C" in told


def test_a_node_group_whose_creation_failed_is_not_refreshed_but_created_again(
    tmp_path: Path, backend: str
) -> None:
    type_ = "aws:eks/nodeGroup:NodeGroup"
    urn = f"urn:pulumi:local::gpu-platform::gpu-platform:index:EksNodePool${type_}::train"
    failed = {"type": type_, "urn": urn, "initErrors": ["unexpected state 'CREATE_FAILED'"]}
    (tmp_path / "state").write_text(json.dumps({"deployment": {"resources": [failed]}}), "utf-8")
    ended = {"kind": "refresh", "startTime": "2026-01-01T00:00:00.000Z", "message": "", "result": "succeeded"}
    (tmp_path / "runs").write_text(json.dumps([{**ended, "environment": {}, "config": {}}]), "utf-8")
    log = tmp_path / "log"
    script = (
        f'printf "%s %s\\n" "$GPU_PLATFORM_FAILED" "$*" >> {log}; '
        f'case "$*" in *export*) /bin/cat {tmp_path}/state ;; *history*) /bin/cat {tmp_path}/runs ;; '
        '*" up "*) exit 255 ;; esac'
    )
    with pytest.raises(Finding):
        engine(tmp_path, script).up()
    commands = log.read_text("utf-8").splitlines()
    (refresh,) = (one for one in commands if " refresh " in one)
    (update,) = (one for one in commands if " up " in one)
    assert f"--exclude {urn}" in refresh
    assert f"--replace {urn}" in update
    assert update.startswith(json.dumps([f"{type_}::train"]))


@pytest.mark.parametrize(
    ("method", "command", "ignores"), [("preview", "preview", "true"), ("up", "refresh", "unset")]
)
def test_only_a_preview_shows_the_deletion_of_protected_resources(
    tmp_path: Path, backend: str, method: str, command: str, ignores: str
) -> None:
    log = tmp_path / "log"
    ends = f'printf "%s" "${{PULUMI_OPTION_IGNORE_PROTECT:-unset}}" > {log}; exit 255'
    empty = 'echo "{}"'
    program = engine(
        tmp_path, f'case "$*" in *export*) {empty} ;; "--non-interactive {command} "*) {ends} ;; esac'
    )
    with pytest.raises(Finding):
        getattr(program, method)()
    assert log.read_text("utf-8") == ignores


def test_a_failure_without_diagnostics_tells_standard_error(tmp_path: Path, backend: str) -> None:
    with pytest.raises(Finding, match="passphrase must be set"):
        engine(tmp_path, 'echo "error: passphrase must be set" >&2; exit 255').up()


def test_a_stack_that_another_update_has_locked_is_an_unknown_outcome(tmp_path: Path, backend: str) -> None:
    with pytest.raises(UnknownOutcome, match=r"`pulumi -C \S+ cancel --yes --stack"):
        engine(tmp_path, 'echo "error: the stack is currently locked by 1 lock(s)" >&2; exit 255').up()


def test_destroying_a_stack_that_the_backend_does_not_know_is_no_error(tmp_path: Path, backend: str) -> None:
    gone = engine(tmp_path, "echo \"error: no stack named 'local' found\" >&2; exit 255")

    assert gone.destroy().changes == ()


def test_destroy_forgets_patches_of_nodes_that_the_cluster_no_longer_has(tmp_path: Path, backend: str) -> None:
    # To delete a patch of a node that does not exist, Pulumi creates the node.
    patch = "urn:pulumi:local::p::kubernetes:core/v1:NodePatch::dgx-01"
    namespace = "urn:pulumi:local::p::kubernetes:core/v1:Namespace::vision"
    resources = [{"type": urn.split("::")[2], "urn": urn} for urn in (patch, namespace)]
    exported, ran = tmp_path / "exported.json", tmp_path / "ran"
    exported.write_text(json.dumps({"version": 3, "deployment": {"resources": resources}}), "utf-8")

    moment = "2026-11-30T07:00:00.000Z"
    one = {
        "kind": "destroy",
        "startTime": moment,
        "message": "",
        "environment": {},
        "config": {},
        "result": "succeeded",
    }
    history = tmp_path / "history.json"
    history.write_text(json.dumps([one]), "utf-8")
    answers = f'*"stack export"*) /bin/cat {exported} ;; *"stack history"*) /bin/cat {history} ;;'
    engine(tmp_path, f'echo "$*" >> {ran}; case "$*" in {answers} esac').destroy()

    refresh, destroy = (line for line in ran.read_text("utf-8").splitlines() if "--yes" in line)
    assert " refresh " in f" {refresh} "
    assert patch in refresh
    assert namespace not in refresh
    assert " destroy " in f" {destroy} "


def test_outputs_of_the_last_deployment_mask_secrets_by_default(tmp_path: Path, backend: str) -> None:
    told = """case "$*" in *--show-secrets*) echo '{"a": "open"}' ;; *) echo '{"a": "[secret]"}' ;; esac"""
    deployed = engine(tmp_path, told)

    assert deployed.outputs() == {"a": "[secret]"}
    assert deployed.outputs(show_secrets=True) == {"a": "open"}


def test_a_stack_that_the_backend_does_not_know_has_no_outputs(tmp_path: Path, backend: str) -> None:
    assert engine(tmp_path, "echo \"error: no stack named 'local' found\" >&2; exit 255").outputs() is None


def test_the_state_says_which_objects_are_of_the_stack(tmp_path: Path, backend: str) -> None:
    inputs = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "vision"}}
    resources = [
        {"type": "pulumi:pulumi:Stack"},
        {"type": "pulumi:providers:kubernetes", "inputs": {"context": "dev"}},
        {"type": "kubernetes:apps/v1:Deployment", "inputs": inputs},
    ]
    exported = tmp_path / "exported.json"
    exported.write_text(json.dumps({"version": 3, "deployment": {"resources": resources}}), "utf-8")

    deployed = engine(tmp_path, f'case "$*" in *"stack export"*) /bin/cat {exported} ;; esac')

    assert deployed.objects() == {ObjectKey("apps", "Deployment", "vision", "web")}


def test_a_stack_that_the_backend_does_not_know_has_no_objects(tmp_path: Path, backend: str) -> None:
    assert engine(tmp_path, "echo \"error: no stack named 'local' found\" >&2; exit 255").objects() == frozenset()


def test_up_passes_the_mig_config_of_fully_rolled_pools_to_the_program(tmp_path: Path, backend: str) -> None:
    told = tmp_path / "told"
    script = f'printf "%s" "$GPU_PLATFORM_ROLLED" > {told}; echo "error: stop" >&2; exit 255'
    put_pulumi(
        tmp_path / "path",
        SDK,
        f'case "$*" in *"stack export"*|*"stack output"*) echo "{{}}" ;; *) {script} ;; esac',
    )
    loaded = load_stack("eks-training")
    cluster = ClusterAccess(loaded.plan)
    deployment = PulumiDeployment(
        loaded, record_stack(loaded), Progress(quiet=True), cluster, find_cli(install=False)
    )
    with pytest.raises(Finding, match="stop"):
        deployment.up({"train": "all-disabled"})
    assert json.loads(told.read_text()) == {"train": "all-disabled"}
    with pytest.raises(Finding, match="stop"):
        deployment.preview()
    assert told.read_text() == "", "a run without a rollout passes no nodes to the program"


def test_only_a_state_without_resources_is_empty(tmp_path: Path, backend: str) -> None:
    own = [{"type": "pulumi:pulumi:Stack"}, {"type": "pulumi:providers:aws", "custom": True}]
    exported = tmp_path / "exported.json"
    deployed = engine(tmp_path, f'case "$*" in *"stack export"*) /bin/cat {exported} ;; esac')
    for resources, empty in (
        ([], True),
        (own, True),
        ([*own, {"type": "aws:ec2/vpc:Vpc", "custom": True}], False),
    ):
        exported.write_text(json.dumps({"deployment": {"resources": resources}}), "utf-8")
        assert deployed.is_empty() is empty


def test_helm_releases_of_the_state_include_interrupted_ones(tmp_path: Path, backend: str) -> None:
    def release(name: str) -> dict[str, Any]:
        inputs = {"name": name, "namespace": "kube-system", "chart": "oci://...", "version": "1.2.3"}
        return {"type": "kubernetes:helm.sh/v3:Release", "custom": True, "inputs": inputs}

    exported = tmp_path / "exported.json"
    state = {"resources": [release("karpenter")], "pending_operations": [{"resource": release("efa")}]}
    exported.write_text(json.dumps({"deployment": state}), "utf-8")
    deployed = engine(tmp_path, f'case "$*" in *"stack export"*) /bin/cat {exported} ;; esac')
    assert deployed.helm_releases() == dict.fromkeys(
        [("kube-system", "karpenter"), ("kube-system", "efa")], "1.2.3"
    )


def test_creations_that_were_interrupted_are_named_and_nothing_is_created_twice(
    tmp_path: Path, backend: str
) -> None:
    def pending(operation: str, type_: str, name: str) -> dict[str, Any]:
        urn = f"urn:pulumi:eks::gpu-platform::{type_}::{name}"
        inputs = {"name": name, "namespace": "kube-system"}
        return {"type": operation, "resource": {"type": type_, "urn": urn, "inputs": inputs}}

    exported = tmp_path / "exported.json"
    operations = [
        pending("creating", "aws:eks/nodeGroup:NodeGroup", "train"),
        pending("updating", "aws:eks/nodeGroup:NodeGroup", "serve"),
        pending("creating", "kubernetes:core/v1:Namespace", "vision"),
        pending("creating", "kubernetes:helm.sh/v3:Release", "efa"),
    ]
    exported.write_text(json.dumps({"deployment": {"resources": [], "pending_operations": operations}}), "utf-8")
    put_pulumi(
        tmp_path / "path",
        SDK,
        f'case "$*" in *"stack export"*) /bin/cat {exported} ;; *"stack output"*) echo "{{}}" ;; '
        '*) echo "error: stop" >&2; exit 255 ;; esac',
    )
    loaded = load_stack("eks-training")
    deployment = PulumiDeployment(
        loaded, record_stack(loaded), Progress(quiet=True), ClusterAccess(loaded.plan), find_cli(install=False)
    )
    for run in (deployment.preview, lambda: deployment.up({})):
        with pytest.raises(UnknownOutcome, match="the stack's state does not record that the creation") as refusal:
            run()
        message = str(refusal.value)
        assert "\n  aws:eks/nodeGroup:NodeGroup train\n" in message
        assert "refresh --yes --stack eks-training --clear-pending-creates" in message
        assert "Release efa (deleted by `helm uninstall efa --namespace kube-system`)\n" in message
        assert "serve" not in message
        assert "vision" not in message
    with pytest.raises(Finding, match="stop"):  # a destroy continues despite unknown outcomes
        deployment.destroy()


def test_a_foreign_controller_is_refused_before_any_change(
    tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_pulumi(
        tmp_path / "path",
        SDK,
        'case "$*" in *"stack export"*|*"stack output"*) echo "{}" ;; *) echo "error: stop" >&2; exit 255 ;; esac',
    )
    loaded = load_eks({"zones": ["us-east-2a"]}, cluster=EXISTING)
    cluster = ClusterAccess(loaded.plan)
    live = {
        "metadata": {"name": "efa", "namespace": "kube-system"},
        "spec": {"template": {"spec": {"containers": [{"image": "eks/aws-efa-k8s-device-plugin:v0.5"}]}}},
    }

    class Client:
        def objects(self, api_version: str, kind: str) -> list[dict[str, Any]]:
            return [live] if (api_version, kind) == ("apps/v1", "DaemonSet") else []

        def find_resource(self, api_version: str, kind: str) -> object:
            return object()

    monkeypatch.setattr(ClusterAccess, "client", lambda _self: Client())
    deployment = PulumiDeployment(
        loaded, record_stack(loaded), Progress(quiet=True), cluster, find_cli(install=False)
    )
    for run in (deployment.preview, lambda: deployment.up({})):
        with pytest.raises(BadInput, match="efa_plugin: present to use the existing") as refusal:
            run()
        assert "DaemonSet efa in namespace kube-system, which this stack did not install" in str(refusal.value)


@pytest.fixture
def their_kubeconfig() -> Iterator[str]:
    """Yield the kubeconfig of an API server that lists only another owner's EFA device plugin."""
    pod = {"spec": {"containers": [{"name": "efa", "image": "eks/aws-efa-k8s-device-plugin:v0.5"}]}}
    plugin = {
        "metadata": {"name": "efa", "namespace": "kube-system", "labels": {"app": "efa"}},
        "spec": {"template": pod},
    }
    plurals = {kind: f"{kind.lower()}s" for kind in ("Deployment", "DaemonSet", "StatefulSet")}
    documents: dict[str, dict[str, Any]] = {
        "/apis/apps/v1": resource_list("apps/v1", **plurals),
        **{f"/apis/apps/v1/{plural}": {"items": [], "metadata": {}} for plural in plurals.values()},
        "/apis/apps/v1/daemonsets": {"items": [plugin], "metadata": {}},
    }
    with serving(documents) as text:
        yield text


def test_the_first_up_finds_controllers_of_an_existing_cluster_via_its_cloud(
    tmp_path: Path, backend: str, their_kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_pulumi(
        tmp_path / "path",
        SDK,
        'case "$*" in *"stack export"*|*"stack output"*) echo "{}" ;; *) echo "error: stop" >&2; exit 255 ;; esac',
    )
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(AwsCloud, "kubeconfig", lambda _self: their_kubeconfig)
    loaded = load_eks({"zones": ["us-east-2a"]}, cluster=EXISTING)
    deployment = PulumiDeployment(
        loaded, record_stack(loaded), Progress(quiet=True), ClusterAccess(loaded.plan), find_cli(install=False)
    )
    for run in (deployment.preview, lambda: deployment.up({})):
        with pytest.raises(BadInput, match="DaemonSet efa in namespace kube-system, which this stack did not"):
            run()


def test_preview_reports_that_the_cluster_was_not_read(
    tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put_pulumi(
        tmp_path / "path",
        SDK,
        'case "$*" in *"stack export"*|*"stack output"*) echo "{}" ;; *) echo "error: stop" >&2; exit 255 ;; esac',
    )

    def refuse(_self: AwsCloud) -> str:
        raise NotLookedAt("no credentials", "log in")

    monkeypatch.setattr(AwsCloud, "kubeconfig", refuse)
    loaded = load_eks({"zones": ["us-east-2a"]}, cluster=EXISTING)
    deployment = PulumiDeployment(
        loaded, record_stack(loaded), Progress(), ClusterAccess(loaded.plan), find_cli(install=False)
    )
    with pytest.raises(Finding, match="stop"):
        deployment.preview()
    captured = capsys.readouterr()
    assert "whether others own some of the objects: no credentials: log in" in captured.err + captured.out


@pytest.mark.parametrize(
    ("resources", "refused"), [([], True), ([{"type": "aws:ec2/vpc:Vpc", "custom": True}], False)]
)
def test_the_first_up_of_an_unreachable_private_cluster_is_refused(
    tmp_path: Path, backend: str, resources: list[dict[str, Any]], refused: bool
) -> None:
    exported = tmp_path / "exported.json"
    exported.write_text(json.dumps({"deployment": {"resources": resources}}), "utf-8")
    put_pulumi(
        tmp_path / "path",
        SDK,
        f'case "$*" in *"stack export"*) /bin/cat {exported} ;; *"stack output"*) echo "{{}}" ;; '
        '*) echo "error: stop" >&2; exit 255 ;; esac',
    )
    loaded = load_eks({})
    cluster = ClusterAccess(loaded.plan)
    deployment = PulumiDeployment(
        loaded, record_stack(loaded), Progress(quiet=True), cluster, find_cli(install=False)
    )
    with pytest.raises(
        BadInput if refused else Finding, match="the VPC does not exist yet" if refused else "stop"
    ):
        deployment.up({})


def test_preview_and_up_pass_changed_pool_counts_to_the_program(tmp_path: Path, backend: str) -> None:
    loaded = load_stack("eks-training")
    assert loaded.plan.kind == "environment"
    pools = json.loads(json.dumps(dict(pool_facts(loaded.plan))))
    managed = next(name for name, facts in pools.items() if facts["platform"] == "eks")
    pools[managed]["most_nodes"] += 1
    outputs, told = tmp_path / "outputs", tmp_path / "told"
    outputs.write_text(json.dumps({"pools": pools}), "utf-8")
    put_pulumi(
        tmp_path / "path",
        SDK,
        f'case "$*" in *"stack export"*) echo "{{}}" ;; *"stack output"*) /bin/cat {outputs} ;; '
        f'*) printf "%s" "$GPU_PLATFORM_RESIZED" > {told}; echo "error: stop" >&2; exit 255 ;; esac',
    )
    cluster = ClusterAccess(loaded.plan)
    deployment = PulumiDeployment(
        loaded, record_stack(loaded), Progress(quiet=True), cluster, find_cli(install=False)
    )
    for run in (deployment.preview, lambda: deployment.up({})):
        told.unlink(missing_ok=True)
        with pytest.raises(Finding, match="stop"):
            run()
        assert json.loads(told.read_text()) == [managed]
