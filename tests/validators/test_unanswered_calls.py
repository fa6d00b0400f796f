"""Any NVML call may hang or crash. The report names the call, and the other checks still report."""

from __future__ import annotations

import time

import pynvml
import pytest
from agent_tables import DRIVER, expecting, healthy_gpu, node, of_machine

from sandbox.nvml import NodeProfile, install
from sandbox.nvml import _library as simulated_library
from validators.agent.calls import DID_NOT_RETURN, ENDED_THE_PROCESS, Call, Journal
from validators.agent.checks import run_checks, verdict_of
from validators.agent.nvml import close_nvml, read_nvml
from validators.agent.reading import End, NvmlReader
from validators.agent.snapshot import Reading

MACHINE = "p4de.24xlarge"
LAYOUT = (
    {"1g.10gb": 7},
)  # GPU 0 has MIG instances and the other GPUs have none, so that every function is called
HELD = {"driver_version": DRIVER, "mig_layouts": [*LAYOUT, *[{}] * 7], "mig_source": "stack"}
OPENING = {"nvmlInitWithFlags"}


class Ended(BaseException):
    """Raised in place of a call that would not return or would end the process."""


class InProcess:
    """Reads NVML in this process instead of a child process. The Journal gets the messages that the parent process
    would receive.
    """

    def __init__(self, profile, journal, made):
        self._profile, self._journal, self._made = profile, journal, made
        self._call = ""

    def follow(self, until, call_seconds):
        def emit(message):
            if message[0] == "call":
                self._call = message[1]
                self._made.append(message[1])

        snapshot = None
        with install(self._profile):
            try:
                snapshot = read_nvml(self._journal, emit)
                close_nvml(emit)
            except Ended as end:
                return End(snapshot, self._call, *end.args)
        return End(snapshot)

    def kill(self):
        return True

    def alive(self):
        return False


@pytest.fixture
def read(monkeypatch):
    """Return a function that reads a simulated node through NvmlReader, and returns the Snapshot and the calls
    made.
    """

    def hang():
        raise Ended(DID_NOT_RETURN, "did not return within 15 s")

    def crash():
        raise Ended(ENDED_THE_PROCESS, "ended the reading process: SIGSEGV")

    monkeypatch.setattr(simulated_library, "hang", hang)
    monkeypatch.setattr(simulated_library, "crash", crash)

    def run(*faults, machine_type=MACHINE, mig_layout=LAYOUT):
        profile = NodeProfile(
            machine_type=machine_type, driver_version=DRIVER, mig_layout=mig_layout, faults=faults
        )
        made = []
        reader = NvmlReader(start=lambda journal: InProcess(profile, journal, made))
        return reader.read(60), made

    return run


def functions():
    """Return the names of the NVML functions that one pass of the agent calls, except calls that load NVML."""
    made = []
    profile = NodeProfile(machine_type=MACHINE, driver_version=DRIVER, mig_layout=LAYOUT)
    with install(profile):
        read_nvml(Journal(), made.append)
        close_nvml(made.append)
    calls = {Call.parse(message[1]).function for message in made if message[0] == "call"}
    return sorted(call for call in calls if call.startswith("nvml"))


def test_a_pass_makes_no_call_twice(read):
    _, made = read()
    assert len(made) == len(set(made)) > 200


@pytest.mark.parametrize("kind", ["nvml-hang", "nvml-crash"])
@pytest.mark.parametrize("index", [None, 2], ids=["every GPU", "GPU 2"])
@pytest.mark.parametrize("function", functions())
def test_a_call_without_an_answer_is_named_and_the_other_checks_report(read, function, index, kind):
    held = of_machine(MACHINE, **HELD)
    snapshot, made = read({"kind": kind, "call": function, "index": index})
    entries = run_checks(snapshot, held)
    nvml, *others = entries
    asked = [call for call in made if Call.parse(call).function == function]
    if index is not None and not any("GPU 2" in call for call in asked):
        assert nvml["verdict"] == "pass"  # the agent does not call this function for GPU 2
        return
    assert nvml["verdict"] == "unknown"
    assert nvml["observed"].startswith(function)
    assert nvml["remediation"]
    assert verdict_of(entries) == "unknown"
    assert not [entry for entry in others if entry["verdict"] == "fail"]
    silent = {entry["id"] for entry in others if entry["verdict"] == "unknown"}
    if function in OPENING:
        return
    if index is not None:  # all other GPUs report all values
        devices = {entry["device"] for entry in others if entry["verdict"] == "unknown"} - {None}
        assert devices <= {"GPU 2"}
    elif function != "nvmlDeviceGetHandleByIndex":
        assert len(silent) <= 4, silent  # one unanswered function makes at most 4 of the 28 checks unknown


def test_a_call_that_hangs_on_every_gpu_is_tried_on_two_only(read):
    _, made = read({"kind": "nvml-hang", "call": "nvmlDeviceGetEccMode"})
    assert [call for call in made if "EccMode" in call] == [f"nvmlDeviceGetEccMode on GPU {gpu}" for gpu in (0, 1)]


def test_a_gpu_is_skipped_after_two_hanging_functions(read):
    journal = Journal()
    journal.lose("nvmlDeviceGetEccMode on GPU 1", DID_NOT_RETURN)
    journal.lose("nvmlDeviceGetName on GPU 1", DID_NOT_RETURN)
    assert journal.left_out(Call("nvmlDeviceGetUUID", "GPU 1"))
    assert journal.left_out(Call("nvmlDeviceGetGpuInstanceId", "MIG device 0 of GPU 1"))
    assert not journal.left_out(Call("nvmlDeviceGetUUID", "GPU 0"))
    assert not journal.left_out(Call("nvmlSystemGetDriverVersion"))


def test_the_gpus_are_asked_by_index_where_their_number_is_not_answered(read):
    snapshot, _ = read({"kind": "nvml-hang", "call": "nvmlDeviceGetCount"}, mig_layout=())
    assert len(snapshot.gpus) == 8
    verdicts = {entry["id"]: entry["verdict"] for entry in run_checks(snapshot, of_machine(MACHINE))}
    assert verdicts["gpu-count"] == "unknown"
    assert {verdicts[check] for check in ("gpu-product", "ecc", "nvlink-count", "temperature")} == {"pass"}


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"kind": "nvml-missing"}, "libnvidia-ml.so.1 was not found"),
        ({"kind": "nvml-unloadable"}, "exists, but cannot be loaded (libnvidia-ml.so.1: invalid ELF header"),
        ({"kind": "nvml-unloadable", "error": "undefined symbol: x"}, "cannot be loaded"),
        ({"kind": "function-missing", "call": "nvmlInitWithFlags"}, "libnvidia-ml.so.1 has no nvmlInitWithFlags"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_library_that_is_absent_is_told_from_one_that_cannot_be_used(read, fault, said):
    snapshot, _ = read(fault)
    assert snapshot.failure.startswith("NVML cannot be opened: ")
    assert said in snapshot.failure
    assert snapshot.remediation


@pytest.mark.parametrize("function", sorted(set(functions()) - {"nvmlInitWithFlags"}))
def test_a_function_that_the_library_lacks_fails_no_check(read, function):
    snapshot, _ = read({"kind": "function-missing", "call": function})
    entries = run_checks(snapshot, of_machine(MACHINE, **HELD))
    assert not snapshot.failure
    assert not [entry for entry in entries if entry["verdict"] == "fail"]
    if function not in ("nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex"):
        assert len({entry["id"] for entry in entries if entry["verdict"] == "unknown"}) <= 4


def test_an_answer_that_is_not_valid_is_unknown_and_nothing_else_is(monkeypatch):
    def name(_):
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    name.__name__ = "nvmlDeviceGetName"
    monkeypatch.setattr(pynvml, "nvmlDeviceGetName", name)
    with install(NodeProfile(machine_type="g4dn.xlarge", driver_version=DRIVER)):
        snapshot = read_nvml(Journal(), lambda _: None)
    found = {entry["id"]: entry for entry in run_checks(snapshot, of_machine("g4dn.xlarge"))}
    assert found["gpu-product"]["verdict"] == "unknown"
    assert "UnicodeDecodeError" in found["gpu-product"]["observed"]
    assert {entry["verdict"] for check, entry in found.items() if check != "gpu-product"} <= {
        "pass",
        "not-applicable",
    }


def test_an_unanswered_handle_is_unknown_and_a_lost_gpu_fails():
    silent = healthy_gpu(1, handle=Reading(problem=DID_NOT_RETURN, call="nvmlX"))
    [count] = [
        e for e in run_checks(node(healthy_gpu(0), silent), expecting(gpu_count=2)) if e["id"] == "gpu-count"
    ]
    assert (count["verdict"], count["observed"]) == ("unknown", "1 (GPU 1: did not return)")
    lost = healthy_gpu(0, handle=Reading(problem="gpu-lost", call="nvmlX"))
    _, count, *_ = run_checks(node(lost, silent), expecting(gpu_count=2))
    assert count["verdict"] == "fail"


def test_a_pass_whose_time_is_over_reports_what_it_has(read):
    class Slow:
        def __init__(self, journal):
            self._journal = journal

        def follow(self, until, call_seconds):
            self._journal.answers["loading libnvidia-ml.so.1"] = [True, ""]
            self._journal.answers["nvmlInitWithFlags"] = [True, ""]
            self._journal.answers["nvmlDeviceGetCount"] = [1, ""]
            while time.monotonic() < until:
                time.sleep(0.01)
            return End(None, "nvmlDeviceGetHandleByIndex on GPU 0", DID_NOT_RETURN, "did not return within 0.1 s")

        def kill(self):
            return True

        def alive(self):
            return False

    snapshot = NvmlReader(start=Slow).read(0.1)
    assert snapshot.unanswered == ("nvmlDeviceGetHandleByIndex on GPU 0 did not return within 0.1 s",)
    assert snapshot.gpu_count.value == 1
    assert snapshot.driver_version.problem == "not-called"
