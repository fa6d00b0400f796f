"""An API server that hangs, or whose etcd is down, results in one clear error within the time limits."""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.base.errors import ExitCode, UnknownOutcome
from gpu_platform.base.progress import Progress
from gpu_platform.deploy.embedded.applyset import ApplySet
from gpu_platform.deploy.embedded.wait import Awaited, NotReady, Waiter
from gpu_platform.deploy.taints import apply_over
from gpu_platform.live.client import KubernetesClient, Refused
from gpu_platform.live.cluster_access import client_of
from gpu_platform.live.connection import Limits
from gpu_platform.live.objects import ObjectKey
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.stack.loaded import load_stack
from sandbox import diagnosis
from tests.deploy.conftest import config_map
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.http_servers import start_server, stop_server

LISTED = {"Event": "events", "Node": "nodes", "Pod": "pods"}
SHORT = Limits(connect=1.0, read=0.2, total=1.0)  # limits for a server that does not answer
ANSWERED = Limits(
    connect=PATIENCE_SECONDS, read=PATIENCE_SECONDS, total=1.0
)  # limits for a server that answers slowly


def kubeconfig(folder: Path, port: int) -> Path:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "a", "user": {}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture
def silent() -> Iterator[tuple[int, list[str]]]:
    """The port and the connections of a fake API server that accepts connections but never answers."""
    got: list[str] = []
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    connection, address = server.accept()
                except OSError:
                    return
                held.append(connection)
                got.append(str(address))

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1], got
        server.shutdown(socket.SHUT_RDWR)
    for connection in held:
        connection.close()


def attempts(silent: tuple[int, list[str]]) -> int:
    """Return how many connections the silent server received before this call. It accepts them in order."""
    port, connections = silent
    with socket.create_connection(("127.0.0.1", port)) as last:
        own = str(last.getsockname())
        eventually(lambda: own in connections)
    connections.remove(own)
    return len(connections)


@contextmanager
def answering(answer: Callable[[str, str], tuple[int, dict[str, Any]]]) -> Generator[int]:
    """Run a fake API server, and yield its port. `answer` returns the response for a method and a path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answer(self.command, self.path)
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def do_PATCH(self) -> None:
            self.do_POST()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    start_server(server)
    try:
        yield server.server_address[1]
    finally:
        stop_server(server)


def test_the_limits_of_a_request_are_about_a_minute() -> None:
    assert Limits() == Limits(connect=5, read=30, total=60)


def test_a_silent_server_is_an_unknown_outcome_with_a_fix(
    silent: tuple[int, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_platform.live.connection._RETRY_PAUSES_SECONDS", (0.0, 0.0))
    port, _ = silent
    limits = Limits(connect=1.0, read=0.2, total=PATIENCE_SECONDS)
    client = KubernetesClient(kubeconfig(tmp_path, port), limits=limits)

    with pytest.raises(UnknownOutcome) as caught:
        client.apply(config_map("one", "default")["manifest"])

    text = str(caught.value)
    assert caught.value.exit_code is ExitCode.UNKNOWN
    assert f"(http://127.0.0.1:{port}) does not answer: no answer within " in text
    assert "Nothing more was changed. Run the command again" in text
    assert attempts(silent) == 3


def test_a_refused_connection_is_reported_as_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    client = KubernetesClient(kubeconfig(tmp_path, port), limits=Limits(connect=PATIENCE_SECONDS, read=1, total=0))
    with pytest.raises(UnknownOutcome, match=r"does not answer: .*Connection refused \("):
        client.get("v1", "Node", "a")


def test_a_connection_that_is_not_accepted_is_reported_with_the_limit(tmp_path: Path) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):  # fill the server's queue of connections that it has not accepted
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        config = kubeconfig(tmp_path, server.getsockname()[1])
        client = KubernetesClient(config, limits=Limits(connect=0.6, read=PATIENCE_SECONDS, total=0))
        with pytest.raises(UnknownOutcome, match=r"does not answer: no connection within 1 s \("):
            client.get("v1", "Node", "a")


def test_clean_up_tries_a_silent_server_only_once(silent: tuple[int, list[str]], tmp_path: Path) -> None:
    port, _ = silent
    client = KubernetesClient(kubeconfig(tmp_path, port), limits=SHORT)
    with pytest.raises(UnknownOutcome):
        client.get("v1", "Node", "a")
    before = attempts(silent)

    with pytest.raises(UnknownOutcome):
        client.get("v1", "Node", "a")

    assert attempts(silent) == before + 1


def test_clean_up_after_an_interruption_tries_a_silent_server_once(
    silent: tuple[int, list[str]], tmp_path: Path
) -> None:
    port, connections = silent
    client = KubernetesClient(kubeconfig(tmp_path, port), limits=Limits(connect=0.2, read=3600, total=3600))

    main = threading.get_ident()

    def interrupt() -> None:
        eventually(lambda: connections)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        client.get("v1", "Node", "a")

    with pytest.raises(UnknownOutcome):
        client.get("v1", "Node", "a")

    assert attempts(silent) == 2


def test_a_server_that_answers_later_is_not_given_up(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(method: str, path: str) -> tuple[int, dict[str, Any]]:
        asked.append(path)
        return (200, {"resources": []}) if len(asked) > 2 else (503, {"message": "starting"})

    with answering(answer) as port:
        client = KubernetesClient(kubeconfig(tmp_path, port), limits=Limits(total=3600))
        assert client.find_resource("v1", "Node") is None
    assert len(asked) == 3


def test_a_create_that_finds_the_server_starting_is_sent_again(tmp_path: Path) -> None:
    asked: list[str] = []
    served = {"resources": [{"kind": "Namespace", "name": "namespaces", "namespaced": False}]}
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}

    def answer(method: str, path: str) -> tuple[int, dict[str, Any]]:
        if method == "GET":
            return 200, served
        asked.append(path)
        return (201, made) if len(asked) > 1 else (503, {"message": "starting"})

    with answering(answer) as port:
        assert KubernetesClient(kubeconfig(tmp_path, port), limits=Limits(total=3600)).create(made) == made


def test_a_node_that_changed_meanwhile_is_read_again_at_once(tmp_path: Path) -> None:
    asked: list[str] = []
    served = {"resources": [{"kind": "Node", "name": "nodes", "namespaced": False}]}
    declared = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "spec": {"taints": []}}
    live = {**declared, "metadata": {"name": "a", "resourceVersion": "7"}}

    def answer(method: str, path: str) -> tuple[int, dict[str, Any]]:
        if path == "/api/v1":
            return 200, served
        asked.append(method)
        return (409, {"reason": "Conflict", "message": "it has changed"}) if len(asked) == 1 else (200, live)

    with answering(answer) as port:
        client = KubernetesClient(kubeconfig(tmp_path, port), limits=ANSWERED)
        assert apply_over(client, declared, live) == live
    assert asked == ["PATCH", "GET", "PATCH"]


def test_a_refused_manifest_is_explained_by_its_field_causes(tmp_path: Path) -> None:
    causes = [{"field": "spec.a", "message": "too long"}, {"message": "no field"}]
    refusal = {"reason": "Invalid", "message": "in all", "details": {"causes": causes}}
    with answering(lambda method, path: (422, refusal)) as port:
        client = KubernetesClient(kubeconfig(tmp_path, port))
        with pytest.raises(Refused) as caught:
            client.find_resource("v1", "Node")
    assert (caught.value.status, caught.value.message) == (422, "spec.a: too long")


def test_rejected_credentials_differ_from_a_refused_request(tmp_path: Path) -> None:
    with answering(lambda method, path: (401, {"reason": "Unauthorized", "message": "Unauthorized"})) as port:
        client = KubernetesClient(kubeconfig(tmp_path, port))
        with pytest.raises(UnknownOutcome) as caught:
            client.find_resource("v1", "Node")
    assert f"http://127.0.0.1:{port} does not accept the credentials of " in str(caught.value)


def test_what_waits_in_vain_names_its_newest_warnings_first(tmp_path: Path) -> None:
    place = {"namespace": "a"}
    daemon_set = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", **place, "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}},
        "status": {},
    }
    events = [
        {
            "metadata": {"name": f"e{hour}", **place, "creationTimestamp": f"2026-11-25T{hour:02}:00:00Z"},
            "involvedObject": {"name": "agent"},
            "reason": "FailedCreate",
            "message": f"at {hour}",
        }
        for hour in (9, 11, 10)
    ]
    answers: dict[str, dict[str, Any]] = {
        "/api/v1": {"resources": [{"kind": k, "name": n, "namespaced": True} for k, n in LISTED.items()]},
        "/apis/apps/v1": {"resources": [{"kind": "DaemonSet", "name": "daemonsets", "namespaced": True}]},
        "/apis/apps/v1/namespaces/a/daemonsets/agent": daemon_set,
        "/api/v1/namespaces/a/events": {"items": events},
    }
    with answering(lambda _method, path: (200, answers.get(path.partition("?")[0], {"items": []}))) as port:
        client = KubernetesClient(kubeconfig(tmp_path, port), limits=ANSWERED)
        key = ObjectKey("apps", "DaemonSet", namespace="a", name="agent")
        over = Awaited(key=key, api_version="apps/v1", since=time.monotonic() - 2.0, timeout=1.0)
        with pytest.raises(NotReady) as caught:
            Waiter(client, ApplySet(client, "a"), Progress(quiet=True)).until_ready([over])
    (unready,) = caught.value.unready
    assert unready.details == tuple(f"FailedCreate: at {hour}" for hour in (11, 10, 9))


@pytest.mark.parametrize(
    ("status", "message"),
    [(500, "etcdserver: request timed out"), (503, "the server is currently unable to handle the request")],
)
def test_a_dead_etcd_is_unknown_and_not_a_finding(tmp_path: Path, status: int, message: str) -> None:
    with answering(lambda _method, _path: (status, {"message": message})) as port:
        client = KubernetesClient(kubeconfig(tmp_path, port), limits=ANSWERED)
        with pytest.raises(UnknownOutcome, match=f"does not answer: HTTP {status}: {message}"):
            client.get("v1", "Node", "a")


def test_a_failing_webhook_is_a_refusal(tmp_path: Path) -> None:
    message = 'failed calling webhook "a": context deadline exceeded'
    with answering(lambda _method, _path: (500, {"message": message, "reason": "InternalError"})) as port:
        client = KubernetesClient(kubeconfig(tmp_path, port), limits=ANSWERED)
        with pytest.raises(Refused, match="failed calling webhook"):
            client.get("v1", "Node", "a")


def test_a_silent_sandbox_is_explained_by_disk_space_components_and_logs(
    silent: tuple[int, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = load_stack("local").plan
    assert isinstance(plan, EnvironmentPlan)
    folder = tmp_path / plan.cluster.name
    folder.mkdir()
    kubeconfig(folder, silent[0])
    monkeypatch.setenv("GPU_PLATFORM_SANDBOX_DIR", str(tmp_path))
    monkeypatch.setattr(diagnosis, "free_mib", lambda _folder: 3)

    with pytest.raises(UnknownOutcome) as caught:
        client_of(plan).limited(SHORT).get("v1", "Node", "a")

    text = str(caught.value)
    assert f"The disk of {folder} has only 3 MiB left: delete files first." in text
    assert "etcd of the sandbox is not running" in text
    assert f"{folder}/logs/kube-apiserver.log" in text
    assert f"`gpu-platform sandbox up --name {plan.cluster.name}`" in text


def test_a_sandbox_does_not_start_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sandbox import control_plane

    monkeypatch.setenv("GPU_PLATFORM_SANDBOX_DIR", str(tmp_path))
    monkeypatch.setattr(diagnosis, "free_mib", lambda _folder: 3)
    monkeypatch.setattr(control_plane.build, "binaries", lambda _progress: pytest.fail("the command continued"))

    with pytest.raises(UnknownOutcome, match=r"has 3 MiB left; .*nothing was started"):
        control_plane.up("full")


def test_free_space_is_measured_in_the_nearest_folder_that_exists(tmp_path: Path) -> None:
    assert abs(diagnosis.free_mib(tmp_path / "not" / "there") - diagnosis.free_mib(tmp_path)) < 1024
