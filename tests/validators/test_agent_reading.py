"""NVML is read in a child process: what hangs, crashes or is missing there is named and never passes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from agent_tables import DRIVER

from sandbox.nvml import NodeProfile
from tests.support.eventually import DEADLINES_SECONDS, PATIENCE_SECONDS, eventually
from validators.agent.reading import NvmlReader
from validators.zipapp import build_agent


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    path = tmp_path_factory.mktemp("agent") / "agent.pyz"
    path.write_bytes(build_agent())
    return str(path)


@pytest.fixture
def simulated_reader(agent, tmp_path):
    """Return a reader whose child has a simulated NVML with the given faults."""

    def make(*faults):
        profile = tmp_path / "profile.json"
        given = NodeProfile(machine_type="g5.48xlarge", driver_version=DRIVER, faults=faults)
        profile.write_text(given.model_dump_json())
        run = [sys.executable, "-m", "sandbox.nvml.run", "--profile", str(profile), "--", agent]
        return NvmlReader([*run, "read-nvml"])

    return make


def test_a_node_is_read_through_the_zipapps_own_bindings(simulated_reader):
    snapshot = simulated_reader().read(PATIENCE_SECONDS)
    assert snapshot.failure == ""
    assert [gpu.name.value for gpu in snapshot.gpus] == ["NVIDIA A10G"] * 8


def test_a_call_that_hangs_is_named_and_its_process_is_gone(simulated_reader):
    reader = simulated_reader({"kind": "nvml-hang", "call": "nvmlDeviceGetTemperature"})
    snapshot, seconds = None, 0.0
    for seconds in DEADLINES_SECONDS:
        snapshot = reader.read(seconds)
        if "nvmlDeviceGetTemperature" in snapshot.failure:
            break
    assert snapshot is not None
    assert snapshot.failure == f"nvmlDeviceGetTemperature on GPU 0 did not return within {seconds:g} s"
    assert "dmesg" in snapshot.remediation
    assert reader._stuck is None


def test_a_call_that_ends_the_process_is_named(simulated_reader):
    snapshot = simulated_reader({"kind": "nvml-crash", "call": "nvmlDeviceGetName"}).read(PATIENCE_SECONDS)
    assert snapshot.failure == "nvmlDeviceGetName on GPU 0 ended the reading process: SIGSEGV"


def test_a_missing_library_is_a_failure_with_a_remedy(simulated_reader):
    snapshot = simulated_reader({"kind": "nvml-missing"}).read(PATIENCE_SECONDS)
    assert snapshot.failure == "NVML cannot be opened: NVML Shared Library Not Found"
    assert "install the NVIDIA driver" in snapshot.remediation


def test_a_process_that_cannot_start_reading_says_its_last_words():
    snapshot = NvmlReader([sys.executable, "-c", "import sys; sys.exit('no profile')"]).read(PATIENCE_SECONDS)
    assert snapshot.failure == "starting Python ended the reading process: exit code 1: no profile"


def test_no_second_process_is_started_while_one_hangs_in_the_driver(tmp_path):
    """A process in an uninterruptible call outlives its kill; a sleeping one that nobody killed plays it."""
    started = tmp_path / "started"
    reader = NvmlReader([sys.executable, "-c", f"open({str(started)!r}, 'w')"])
    hanging = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    reader._stuck, reader._stuck_in = hanging, "nvmlInit"
    try:
        assert reader.read(PATIENCE_SECONDS).failure == "nvmlInit has not returned yet"
        assert not started.exists()
    finally:
        hanging.kill()
        hanging.wait()
    reader.read(PATIENCE_SECONDS)
    assert started.exists()


def test_what_the_driver_prints_to_standard_output_does_no_harm():
    empty = {"gpus": [], "failure": "", "remediation": "", "driver_version": None, "gpu_count": None}
    reading = {"value": 1, "problem": "", "call": ""}
    text = json.dumps({**empty, "driver_version": reading, "gpu_count": reading})
    code = f"print('WARNING: infoROM'); print('snapshot ' + {text!r}); print('bye')"
    assert NvmlReader([sys.executable, "-c", code]).read(PATIENCE_SECONDS).gpu_count.value == 1


def test_an_interrupted_reading_leaves_no_process_behind(tmp_path):
    pid = tmp_path / "pid"
    child = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    code = (
        f"from validators.agent.reading import NvmlReader; NvmlReader({[sys.executable, '-c', child]!r}).read(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    eventually(lambda: pid.exists() and pid.read_text())
    parent.send_signal(signal.SIGINT)
    parent.wait()
    eventually(lambda: not is_alive(int(pid.read_text())))


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux ends a process with its parent")
def test_a_hanging_call_does_not_outlive_an_agent_that_is_killed():
    child = (
        "import os, time; from validators.agent import nvml, reading\n"
        "nvml.read_nvml = lambda announce: (print('pid', os.getpid(), flush=True), time.sleep(600))\n"
        "reading.write_snapshot()"
    )
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline().split()[1])
    parent.kill()
    parent.wait()
    try:
        eventually(lambda: not is_alive(pid))
    finally:
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
