"""KEDA and the HorizontalPodAutoscaler scale a deployed service by a metric from a real Prometheus.

`make test-keda` builds KEDA and runs these tests, which are skipped otherwise. The program writes the
ScaledObject. The tests only shorten its waiting times, so that they do not wait for the five-minute window.
"""

from __future__ import annotations

import http.server
import json
import subprocess
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from gpu_platform.base.progress import Progress
from gpu_platform.live.client import KubernetesClient
from sandbox import build
from sandbox.control_plane import Status
from tests.e2e.conftest import VALIDATION_TIMEOUT, Platform
from tests.support.eventually import eventually
from tests.support.http_servers import start_server
from tests.support.keda import definitions, keda
from tests.support.ports import free_port
from tests.support.prometheus_programs import PROMETHEUS, needs_prometheus

pytestmark = [
    pytest.mark.long,
    pytest.mark.sandbox,
    pytest.mark.timeout(5400),
    pytest.mark.xdist_group("e2e-keda"),
    pytest.mark.skipif(not build.has_keda(), reason="KEDA is not built: make test-keda"),
    needs_prometheus,
]

SCALED = ("keda.sh/v1alpha1", "ScaledObject", "chat", "search")


class Load(http.server.ThreadingHTTPServer):
    """A fake metrics endpoint of an inference server. It serves the number of waiting requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", free_port()), _Handler)
        self.waiting = 1

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore scrapes that Prometheus aborted."""


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Load)
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(f"vllm:num_requests_waiting {self.server.waiting}\n".encode())

    def log_message(self, format: str, *args: object) -> None:
        """Suppress the log line of each request."""


@pytest.fixture(scope="module")
def load() -> Iterator[Load]:
    with Load() as server:
        start_server(server)
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def prometheus(load: Load, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("prometheus")
    target = f"127.0.0.1:{load.server_port}"
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [{"job_name": "vllm", "static_configs": [{"targets": [target]}]}],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    command = [str(PROMETHEUS), f"--config.file={folder / 'prometheus.yaml'}"]
    command += [f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        eventually(lambda: _has_data(address))
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(timeout=30)


def _has_data(address: str) -> bool:
    url = f"http://{address}/api/v1/query?query=vllm:num_requests_waiting"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(json.loads(answer.read())["data"]["result"])
    except OSError:
        return False


def stack(sandbox: str, prometheus: str) -> dict[str, Any]:
    """Return a stack with a service that scales up to three replicas, in a team with a quota of three shares."""
    service = {
        "name": "chat",
        "image": "registry.example.com/vllm:1",
        "pool": "serve",
        "gpus": 1,
        "startup": "15s",
        "autoscaling": {
            "max_replicas": 3,
            "query": "sum(vllm:num_requests_waiting)",
            "threshold": 1,
            "server": prometheus,
        },
    }
    return {
        "kind": "environment",
        "cluster": {"provider": "sandbox", "name": sandbox},
        "pools": [
            {
                "name": "serve",
                "machine_type": "g4dn.xlarge",
                "count": {"desired": 1},
                "workload": "inference",
                "sharing": {"mode": "time-slicing", "replicas": 4},
            }
        ],
        "addons": {"keda": "present"},
        "teams": [
            {
                "name": "search",
                "quota": {"shared": 3},
                "priority": "inference",
                "members": ["group:search"],
                "inference_services": [service],
            }
        ],
        "validation": {"timeout": VALIDATION_TIMEOUT},
    }


@pytest.fixture
def scaled(
    platform: Platform, e2e_sandbox: Status, prometheus: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Platform]:
    binaries = build.binaries(Progress(quiet=True), keda=True)
    made = [platform.client.create(one) for one in definitions(binaries)]
    kinds = {one["spec"]["names"]["kind"]: one["spec"]["group"] for one in made}
    # A client caches the discovered kinds, so each attempt uses a new client.
    eventually(
        lambda: all(
            KubernetesClient(platform.kubeconfig).find_served(group, kind) for kind, group in kinds.items()
        )
    )
    with keda(binaries, platform.kubeconfig, tmp_path_factory.mktemp("keda")):
        ran = platform.up(stack(e2e_sandbox.name, prometheus))
        assert ran.code == 0, ran.out + ran.err
        soon = {"scaleDown": {"stabilizationWindowSeconds": 0}}
        cut = {"advanced": {"horizontalPodAutoscalerConfig": {"behavior": soon}}}
        version, kind, name, namespace = SCALED
        metadata = {"name": name, "namespace": namespace}
        platform.client.merge({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": cut})
        yield platform
        live = platform.client.get(*SCALED)
        assert live is not None
        platform.client.delete(live)
        eventually(lambda: platform.client.get(*SCALED) is None)
    for one in made:
        platform.client.delete(one)


def replicas(platform: Platform) -> tuple[int, int]:
    """Return how many replicas the autoscaler requests, and how many run."""
    found = platform.client.get("apps/v1", "Deployment", "chat", "search")
    assert found is not None
    return found["spec"]["replicas"], found["status"].get("readyReplicas", 0)


def refusal(platform: Platform) -> str:
    """Return why the Deployment has fewer pods than it requests."""
    found = platform.client.get("apps/v1", "Deployment", "chat", "search")
    assert found is not None
    reasons = (one for one in found["status"].get("conditions", ()) if one["type"] == "ReplicaFailure")
    return next((one["message"] for one in reasons), "")


def test_load_scales_a_shared_gpu_service_within_its_quota(scaled: Platform, load: Load) -> None:
    eventually(lambda: replicas(scaled), (1, 1))
    scaled.pod("other", "nvidia.com/gpu.shared", namespace="search")
    load.waiting = 7
    # The autoscaler requests its maximum of three replicas.
    # The quota allows the third replica once the pod `other` is deleted.
    eventually(lambda: "exceeded quota" in refusal(scaled))
    assert replicas(scaled) == (3, 2)
    scaled.remove_pods()
    eventually(lambda: replicas(scaled), (3, 3))
    load.waiting = 1
    eventually(lambda: replicas(scaled), (1, 1))
