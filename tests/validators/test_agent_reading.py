"""NVML is read in a child process.

If a call hangs, crashes or does not exist, the report names the call and does not pass.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pynvml
import pytest
from agent_tables import DRIVER

from sandbox.nvml import NodeProfile
from tests.support.eventually import DEADLINES_SECONDS, PATIENCE_SECONDS, eventually
from validators.agent import reading
from validators.agent.calls import Journal
from validators.agent.reading import End, NvmlReader
from validators.agent.snapshot import Reading, Snapshot
from validators.zipapp import build_agent


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    path = tmp_path_factory.mktemp("agent") / "agent.pyz"
    path.write_bytes(build_agent())
    return str(path)


@pytest.fixture
def simulated_reader(agent, tmp_path):
    """Return a reader whose child process has a simulated NVML with the given faults."""

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


def test_a_hanging_call_is_named_killed_and_other_values_are_read(simulated_reader):
    reader = simulated_reader({"kind": "nvml-hang", "call": "nvmlDeviceGetTemperature", "index": 1})
    snapshot, seconds = None, 0.0
    for seconds in DEADLINES_SECONDS:
        snapshot = reader.read(4 * seconds)
        # The next deadline is longer if this deadline passed before the other calls were answered.
        if snapshot.gpus and snapshot.gpus[-1].name.ok and len(snapshot.unanswered) == 1:
            break
    assert snapshot is not None
    assert snapshot.unanswered == (f"nvmlDeviceGetTemperature on GPU 1 did not return within {seconds:g} s",)
    assert "dmesg" in snapshot.remediation
    assert [gpu.temperature.problem for gpu in snapshot.gpus[:3]] == ["", "did-not-return", ""]
    assert [gpu.name.value for gpu in snapshot.gpus] == ["NVIDIA A10G"] * 8
    assert reader._stuck == []


def test_a_call_that_ends_the_process_is_named(simulated_reader):
    reader = simulated_reader({"kind": "nvml-crash", "call": "nvmlDeviceGetName", "index": 7})
    snapshot = reader.read(PATIENCE_SECONDS)
    assert snapshot.unanswered == ("nvmlDeviceGetName on GPU 7 ended the reading process: SIGSEGV",)
    assert [gpu.name.problem for gpu in snapshot.gpus] == [""] * 7 + ["ended-the-process"]


def test_a_process_that_cannot_start_reports_the_end_of_its_output():
    snapshot = NvmlReader([sys.executable, "-c", "import sys; sys.exit('no profile')"]).read(PATIENCE_SECONDS)
    assert snapshot.failure == "starting Python ended the reading process: exit code 1: no profile"


class Stuck:
    """A fake child process that a signal cannot kill, because it is in an uninterruptible call."""

    dead = False

    def __init__(self, call):
        self._call = call

    def follow(self, until, call_seconds):
        return End(None, self._call, "did-not-return", "did not return within 1 s")

    def kill(self):
        return False

    def alive(self):
        return not self.dead


def test_a_hanging_call_is_not_repeated_and_few_processes_may_hang():
    children = []

    def start(journal):
        children.append(Stuck(f"nvmlDeviceGetName on GPU {len(children)}"))
        return children[-1]

    reader = NvmlReader(start=start)
    assert len(reader.read(PATIENCE_SECONDS).unanswered) == len(children) == 3
    again = reader.read(PATIENCE_SECONDS)
    assert len(children) == 3
    assert again.unanswered[0] == "nvmlDeviceGetName on GPU 0 has not returned yet"
    children[0].dead = True
    reader.read(PATIENCE_SECONDS)
    assert len(children) == 4


def child_of(*lines):
    """Return a reader whose child process runs these lines of Python, which write messages with `emit`."""
    emit = "import os, json; out = os.dup(1); emit = lambda *m: os.write(out, json.dumps(m).encode() + b'\\n')"
    return NvmlReader([sys.executable, "-c", "\n".join([emit, *lines])])


EMPTY = Snapshot(gpu_count=Reading(0), driver_version=Reading("1")).to_json()


def test_what_a_library_prints_is_no_message(tmp_path):
    """A library prints to standard output, which is separate from the child's message pipe."""
    library = tmp_path / "pynvml.py"
    library.write_text(
        (Path(pynvml.__file__)).read_text() + "\nimport os; os.write(1, b'[\"snapshot\", {}]\\n')\n"
    )
    code = (
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(Path.cwd())!r}]\n"
        "from validators.agent.reading import write_snapshot; write_snapshot()"
    )
    snapshot = NvmlReader([sys.executable, "-c", code]).read(PATIENCE_SECONDS)
    assert snapshot.failure.startswith("NVML cannot be opened: libnvidia-ml.so.1")


def test_lines_that_are_no_messages_are_ignored():
    reader = child_of(
        'os.write(out, b\'WARNING: infoROM\\n[\\n[]\\n3\\n["snapshot"]\\n["answer", 1]\\n\')',
        f"emit('snapshot', {EMPTY!r}); emit('end')",
    )
    snapshot = reader.read(PATIENCE_SECONDS)
    assert (snapshot.failure, snapshot.unanswered, snapshot.gpu_count.value) == ("", (), 0)


def test_a_forked_process_neither_outlives_nor_delays_the_reading(tmp_path):
    pid = tmp_path / "pid"
    reader = child_of(
        "import time",
        "child = os.fork()",
        "time.sleep(0 if child else 600)",
        f"open({str(pid)!r}, 'w').write(str(child))",
        f"emit('snapshot', {EMPTY!r}); emit('end')",
    )
    assert reader.read(PATIENCE_SECONDS).unanswered == ()
    eventually(lambda: not is_alive(int(pid.read_text())))


def test_the_end_of_a_process_is_seen_while_one_that_it_forked_keeps_its_pipes():
    reader = child_of("import time", "emit('call', 'nvmlX on GPU 0')", "os.fork() or time.sleep(600); os._exit(3)")
    snapshot = reader.read(PATIENCE_SECONDS)
    assert snapshot.unanswered[0] == "nvmlX on GPU 0 ended the reading process: exit code 3"


def test_a_child_that_does_not_take_its_journal_does_not_block_the_reading(monkeypatch):
    """A pipe holds 64 KiB, but the journal of many GPUs may be larger."""
    monkeypatch.setattr(reading, "Journal", lambda: Journal({f"call {n}": ["x" * 100, ""] for n in range(2000)}))
    snapshot = child_of(f"emit('snapshot', {EMPTY!r}); emit('end')").read(PATIENCE_SECONDS)
    assert snapshot.unanswered == ()


def test_an_interrupted_reading_leaves_no_process_behind(tmp_path):
    pid = tmp_path / "pid"
    # The parent kills the child only after the child has read its input.
    # Therefore, the child writes its process id after it has read its input.
    # If the agent is interrupted earlier, the kernel ends the child together with the agent.
    told = f"sys.stdin.read(); open({str(pid)!r}, 'w').write(str(os.getpid()))"
    child = f"import os, sys, time; {told}; time.sleep(600)"
    code = (
        f"from validators.agent.reading import NvmlReader; NvmlReader({[sys.executable, '-c', child]!r}).read(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    eventually(lambda: pid.exists() and pid.read_text())
    parent.send_signal(signal.SIGINT)
    parent.wait()
    eventually(lambda: not is_alive(int(pid.read_text())))


@pytest.mark.skipif(
    sys.platform != "linux", reason="only the Linux kernel ends a process together with its parent"
)
def test_a_hanging_call_does_not_outlive_an_agent_that_is_killed():
    child = (
        "import os, time; from validators.agent import nvml, reading\n"
        "nvml.read_nvml = lambda *_: (os.write(2, f'pid {os.getpid()}\\n'.encode()), time.sleep(600))\n"
        "reading.write_snapshot()"
    )
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], stdin=subprocess.DEVNULL)"
    parent = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    assert parent.stderr is not None
    pid = int(parent.stderr.readline().split()[1])
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
