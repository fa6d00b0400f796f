"""The simulator's process survives a stop of its API server, reconnects after a restart, and ends cleanly."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from simulated_cluster import Cluster

from gpu_platform.base import names
from gpu_platform.base.progress import Progress
from sandbox import control_plane
from sandbox.control_plane import Status
from tests.support.eventually import eventually

pytestmark = [pytest.mark.sandbox, pytest.mark.xdist_group("sandbox-simulator")]

NAME = "simulator"
CONFIGS = {"default": "version: v1", "serve": "sharing: {mps: {resources: [{name: gpu, replicas: 4}]}}"}
MIG = "{version: v1, mig-configs: {seven: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}]}}"


def _up() -> Status:
    return control_plane.up(NAME, progress=Progress(quiet=True))


@pytest.fixture(scope="module")
def removed() -> Iterator[None]:
    """Remove the sandbox of these tests at the end."""
    yield
    control_plane.down(NAME)


@pytest.fixture
def own(removed: None) -> Status:
    """A running sandbox whose processes a test may stop."""
    return _up()


def _end(status: Status, component: str, how: signal.Signals) -> None:
    pid = status.pids[component]
    assert pid is not None
    os.kill(pid, how)
    eventually(lambda: control_plane.status(NAME).pids[component], None)


@pytest.mark.long
def test_the_simulator_outlives_its_api_server(own: Status) -> None:
    with Cluster(own) as cluster:
        cluster.operator(**CONFIGS)
        node = cluster.node("g4dn.xlarge")
        eventually(lambda: cluster.gpus(node), {"gpu": "1"})
        _end(own, "kube-apiserver", signal.SIGKILL)
        again = _up()
        assert again.pids["simulator"] == own.pids["simulator"]
        cluster.label(node, **{names.DEVICE_PLUGIN_CONFIG_LABEL: "serve"})
        eventually(lambda: cluster.gpus(node), {"gpu": "4"})


def test_a_restarted_simulator_finds_nodes_and_pods_as_they_are(own: Status) -> None:
    with Cluster(own) as cluster:
        cluster.operator(MIG, **CONFIGS, notebooks="flags: {migStrategy: mixed}")
        wish = {names.DEVICE_PLUGIN_CONFIG_LABEL: "notebooks", names.MIG_CONFIG_LABEL: "seven"}
        cut, shared = cluster.node("p4de.24xlarge", **wish), cluster.node("g4dn.xlarge")
        eventually(lambda: cluster.gpus(cut), {"mig-1g.10gb": "56"})
        eventually(lambda: cluster.gpus(shared), {"gpu": "1"})
        pod = cluster.pod(shared, gpu=1)
        eventually(lambda: cluster.phase(pod), "Running")
        _end(own, "simulator", signal.SIGKILL)
        before = cluster.get_node(cut)["metadata"]["resourceVersion"]
        _up()
        cluster.label(shared, **{names.DEVICE_PLUGIN_CONFIG_LABEL: "serve"})
        eventually(lambda: cluster.gpus(shared), {"gpu": "4"})
        assert cluster.get_node(cut)["metadata"]["resourceVersion"] == before
        assert cluster.phase(pod) == "Running"


def test_the_simulator_ends_on_sigterm_and_leaves_no_files(own: Status) -> None:
    log = own.data_dir / "logs" / "simulator.log"
    eventually(lambda: "watching" in log.read_text(), True)
    folders = set((own.data_dir / "tmp").glob("simulator-*"))
    _end(own, "simulator", signal.SIGTERM)
    assert log.read_text().endswith("simulator: stopped\n")
    assert len(folders - set((own.data_dir / "tmp").glob("simulator-*"))) == 1
