"""The start, repair, move, stop and removal of a sandbox."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from kubernetes import config
from kubernetes.client import ApiException, ApiextensionsV1Api, CoreV1Api, CustomObjectsApi
from kubernetes.client.exceptions import NotFoundException

from gpu_platform.base.errors import BadInput, UnknownOutcome
from gpu_platform.base.names import KWOK_NODE_ANNOTATION
from gpu_platform.base.paths import sandbox_dir, sandbox_kubeconfig
from gpu_platform.base.progress import Progress
from sandbox import _objects, control_plane
from sandbox._layout import Layout, Settings
from sandbox.control_plane import Status
from tests.support.eventually import eventually
from tests.support.processes import is_alive

# The tests run one after the other, because each may use the sandbox that the previous test left.
pytestmark = [pytest.mark.sandbox, pytest.mark.xdist_group("sandbox-life")]

NAME = "own"


def up(name: str = NAME, **options: Any) -> Status:
    return control_plane.up(name, progress=Progress(quiet=True), **options)


@pytest.fixture(scope="module", autouse=True)
def _no_sandbox_is_left() -> Iterator[None]:
    """Remove the sandbox after the last test. Until then, the tests share it, because a start takes seconds."""
    yield
    control_plane.down(NAME)


@pytest.fixture
def absent() -> None:
    """Remove the sandbox, so that the next `up` creates a new one."""
    control_plane.down(NAME)


def core(status: Status) -> Any:
    """Return the API client as Any, because its types do not allow a dict as a body."""
    return CoreV1Api(config.new_client_from_config(str(status.kubeconfig)))


def remember(status: Status, name: str) -> None:
    core(status).create_namespaced_config_map("default", {"metadata": {"name": name}})


def is_remembered(status: Status, name: str) -> bool:
    try:
        core(status).read_namespaced_config_map(name, "default")
    except NotFoundException:
        return False
    return True


def run_a_pod(status: Status, pod: str) -> None:
    """Run a pod on the node `simulated`, which is created if necessary."""
    api = core(status)
    if not api.list_node().items:
        api.create_node({"metadata": {"name": "simulated", "annotations": {KWOK_NODE_ANNOTATION: "fake"}}})
        api.patch_node_status("simulated", {"status": {"allocatable": {"cpu": "8", "pods": "20"}}})
    spec = {"containers": [{"name": "main", "image": "busybox"}]}
    api.create_namespaced_pod("default", {"metadata": {"name": pod}, "spec": spec})
    eventually(lambda: api.read_namespaced_pod(pod, "default").status.phase == "Running")


def processes_of(folder: Path) -> list[int]:
    """Return the ids of all processes whose working directory is below `folder`, even if `folder` was removed."""
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd").startswith(str(folder)):
                found.append(int(process.name))
        except OSError:  # the process has ended, or belongs to another user
            continue
    return found


def test_a_name_nobody_used_is_absent() -> None:
    assert control_plane.status("never-used").state == "absent"
    assert control_plane.down("never-used").state == "absent"


def test_up_twice_changes_nothing_and_down_leaves_nothing(absent: None) -> None:
    first = up()
    assert first.state == "running"
    assert up() == first
    assert control_plane.down(NAME).state == "absent"
    assert not sandbox_dir(NAME).exists()
    assert not any(is_alive(pid) for pid in first.pids.values() if pid)
    assert processes_of(first.data_dir) == []


@pytest.mark.long
def test_up_repairs_whatever_was_killed_and_nodes_go_on_at_once() -> None:
    first = up()
    run_a_pod(first, "before")
    for component, pid in first.pids.items():
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        eventually(lambda component=component: control_plane.status(NAME).pids[component] is None)
    assert control_plane.status(NAME).state == "stopped"
    second = up()
    assert second.server == first.server
    assert not set(first.pids.values()) & set(second.pids.values())
    run_a_pod(second, "after")


def test_up_restarts_only_the_dead_component_of_a_degraded_sandbox() -> None:
    first = up()
    victim = first.pids["kube-scheduler"]
    assert victim is not None
    os.kill(victim, signal.SIGKILL)
    eventually(lambda: control_plane.status(NAME).state == "degraded")
    second = up()
    assert second.state == "running"
    changed = {component for component in first.pids if first.pids[component] != second.pids[component]}
    assert changed == {"kube-scheduler"}


@pytest.mark.long
@pytest.mark.parametrize("component", ["kube-apiserver", "etcd"])
def test_a_component_that_hangs_ends_in_one_error_with_its_log(
    component: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = up()
    victim = first.pids[component]
    assert victim is not None
    monkeypatch.setattr(control_plane, "_ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(_objects, "REQUEST_SECONDS", 1.0)
    os.kill(victim, signal.SIGSTOP)
    try:
        with pytest.raises(UnknownOutcome, match=r"did not become ready within 1 s|does not answer") as caught:
            up()
        assert "logs/etcd.log" in str(caught.value)
        assert f"`gpu-platform sandbox up --name {NAME}`" in str(caught.value)
    finally:
        os.kill(victim, signal.SIGCONT)
    eventually(lambda: control_plane.status(NAME).state == "running")


@pytest.mark.long
def test_kept_data_survives_a_renewed_certificate() -> None:
    remember(up(), "kept")
    stopped = control_plane.down(NAME, keep_data=True)
    assert stopped.state == "stopped"
    assert processes_of(stopped.data_dir) == []
    certificate = stopped.data_dir / "pki" / "apiserver.crt"
    first, a_year_ago = certificate.read_text(), time.time() - 365 * 86_400
    os.utime(certificate, (a_year_ago, a_year_ago))
    again = up()
    assert certificate.read_text() != first
    assert is_remembered(again, "kept")
    run_a_pod(again, "renewed")


@pytest.mark.long
def test_two_sandboxes_run_side_by_side_and_know_nothing_of_each_other(sandbox: Status) -> None:
    mine = up()
    assert mine.server != sandbox.server
    remember(mine, "mine")
    assert is_remembered(mine, "mine")
    assert not is_remembered(sandbox, "mine")
    control_plane.down(NAME)
    assert control_plane.status(sandbox.name).state == "running"


@pytest.mark.long
def test_an_interrupted_up_can_be_repeated(absent: None) -> None:
    script = f"from sandbox import control_plane; control_plane.up({NAME!r})"
    with subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL) as interrupted:
        eventually(lambda: control_plane.status(NAME).pids["kube-apiserver"] is not None)
        interrupted.kill()
    assert up().state == "running"


@pytest.mark.long
def test_the_api_port_can_be_chosen_and_changed() -> None:
    with socket.socket() as taken, socket.socket() as free:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(BadInput, match="in use"):
            up(api_port=taken.getsockname()[1])
        free.bind(("127.0.0.1", 0))
        wanted: int = free.getsockname()[1]
    first = up()
    remember(first, "before")
    moved = up(api_port=wanted)
    assert moved.server == f"https://127.0.0.1:{wanted}"
    assert is_remembered(moved, "before")


@pytest.mark.long
def test_a_test_run_leaves_no_sandbox_behind(tmp_path: Path) -> None:
    one_test = f"{Path(__file__).parent}/test_control_plane.py::test_the_api_server_reports_the_pinned_version"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", one_test]
    env = {**os.environ, "TMPDIR": str(tmp_path)}  # the test run creates its sandboxes in this folder
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert "1 passed" in run.stdout
    assert processes_of(tmp_path) == []
    assert list(tmp_path.glob("gpu-platform-*")) == []


@pytest.mark.long
def test_the_data_can_live_elsewhere_and_are_found_by_name(absent: None, tmp_path: Path) -> None:
    elsewhere = tmp_path / "data"
    status = up(data_dir=elsewhere)
    assert status.data_dir == elsewhere
    assert sandbox_kubeconfig(NAME).samefile(elsewhere / "kubeconfig")
    assert up().pids == status.pids
    with pytest.raises(BadInput, match="its folder"):
        up(data_dir=tmp_path / "another")
    control_plane.down(NAME)
    assert not elsewhere.exists()
    assert not sandbox_dir(NAME).is_symlink()


def test_a_folder_with_files_of_others_is_refused_and_left_as_it_is(absent: None, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(BadInput, match="other files"):
        up(data_dir=tmp_path)
    assert control_plane.down(NAME).state == "absent"
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("name", ["", "Mine", "../mine", "a" * 43, "-a"])
def test_a_name_that_cannot_be_a_folder_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="lower-case"):
        up(name)


@pytest.mark.long
def test_a_component_that_dies_shows_the_end_of_its_log_and_up_can_be_repeated(
    absent: None, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    Layout(folder).write_settings(Settings(NAME, 1))
    Layout(folder).lock.touch()
    (folder / "etcd").write_text("no folder")
    with pytest.raises(UnknownOutcome, match=r"etcd ended during the start(.|\n)*not a directory"):
        up(data_dir=folder)
    (folder / "etcd").unlink()
    assert up().state == "running"


@pytest.mark.long
def test_definitions_from_a_folder_replace_permissive_ones(tmp_path: Path) -> None:
    def create(name: str, spec: dict[str, Any]) -> None:
        body = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": name}, "spec": spec}
        api.create_cluster_custom_object("nvidia.com", "v1", "clusterpolicies", body, field_validation="Strict")

    status = up()
    client = config.new_client_from_config(str(status.kubeconfig))
    api = CustomObjectsApi(client)
    create("any", {"anything": 1})

    permissive = ApiextensionsV1Api(client).read_custom_resource_definition("clusterpolicies.nvidia.com")
    strict = cast("dict[str, Any]", client.sanitize_for_serialization(permissive))
    mig = {"type": "object", "properties": {"strategy": {"type": "string"}}}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"mig": mig}}}}
    strict["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    for field in ("status", "metadata"):
        strict.pop(field)
    strict["metadata"] = {"name": "clusterpolicies.nvidia.com"}
    (tmp_path / "clusterpolicy.yaml").write_text(yaml.safe_dump(strict))
    up(crds_dir=tmp_path)
    up()

    def is_refused() -> bool:
        try:
            create("wrong", {"anything": 1})
        except ApiException as error:
            return "unknown field" in str(error.body)
        api.delete_cluster_custom_object("nvidia.com", "v1", "clusterpolicies", "wrong")
        return False

    eventually(is_refused)
    create("right", {"mig": {"strategy": "single"}})

    strict["spec"]["scope"] = "Nowhere"
    (tmp_path / "clusterpolicy.yaml").write_text(yaml.safe_dump(strict))
    with pytest.raises(BadInput, match=r"clusterpolicies\.nvidia\.com.*Nowhere"):
        up(crds_dir=tmp_path)


def test_a_folder_without_definitions_is_refused_with_every_reason(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: ConfigMap\n")
    (tmp_path / "b.yaml").write_text("a: [\n")
    with pytest.raises(BadInput) as refusal:
        up(crds_dir=tmp_path)
    assert len(refusal.value.problems) == 2
    with pytest.raises(BadInput, match="no YAML file"):
        up(crds_dir=tmp_path / "missing")
