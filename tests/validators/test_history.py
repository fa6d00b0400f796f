"""The agent compares its passes to find growing counters, and remembers the errors of earlier passes."""

from __future__ import annotations

import dataclasses
import json

import pytest
from agent_tables import DRIVER, expecting, healthy_gpu, node, of_machine, simulated

from sandbox.nvml import NodeProfile, install, parse_faults
from sandbox.nvml import _library as simulated_library
from validators.agent.calls import DID_NOT_RETURN, Journal
from validators.agent.checks import run_checks
from validators.agent.history import Remembering
from validators.agent.nvml import wait_for_events
from validators.agent.reading import End, NvmlReader
from validators.agent.recording import Recorded, parse_recording, to_recording
from validators.agent.snapshot import Reading
from validators.agent.xid_check import XidTable
from validators.agent.xids import LOG_BEGINS

TABLE = XidTable.of(of_machine("p5.48xlarge").expect["xid"])
EVENT_FUNCTIONS = (
    "nvmlEventSetCreate",
    "nvmlDeviceGetSupportedEventTypes",
    "nvmlDeviceRegisterEvents",
    "nvmlEventSetWait",
    "nvmlEventSetFree",
)


def faults_of(*found):
    return parse_faults(json.dumps(found))


class Passes:
    """A fake NVML reader that returns the given Snapshots one after the other."""

    journal = Journal()

    def __init__(self, *snapshots):
        self._left = list(snapshots)

    def read(self, deadline_seconds):
        return self._left.pop(0)


def growth(*snapshots, seconds=60.0):
    """Return the `error-growth` entry of each pass. The passes are `seconds` apart."""
    times = iter(seconds * number for number in range(len(snapshots)))
    reader = Remembering(Passes(*snapshots), TABLE, clock=lambda: next(times))
    passes = [run_checks(reader.read(1), expecting(error_growth=True)) for _ in snapshots]
    return [next(entry for entry in entries if entry["id"] == "error-growth") for entries in passes]


def slowed(*passes, check="throttle-reasons", seconds=30.0):
    """Return a check's verdict in each pass over a GPU with these readings. The passes are `seconds` apart."""
    times = iter(seconds * number for number in range(len(passes)))
    reader = Remembering(
        Passes(*(node(healthy_gpu(0, **one)) for one in passes)), TABLE, clock=lambda: next(times)
    )
    read = [run_checks(reader.read(1), expecting(**{check.replace("-", "_"): True})) for _ in passes]
    return " ".join(next(entry["verdict"] for entry in entries if entry["id"] == check) for entries in read)


def test_a_slowdown_of_one_pass_is_no_fault_and_one_that_lasts_is():
    fine, slow = {"throttle_reasons": 0x4}, {"throttle_reasons": 0x24}
    assert slowed(slow) == "fail"
    assert slowed(fine, fine, slow, fine, slow) == "pass pass pass pass pass"
    assert slowed(fine, fine, slow, slow) == "pass pass pass fail"
    assert slowed(slow, slow, fine, seconds=600.0) == "fail fail pass"


def test_a_temperature_of_one_pass_is_no_fault_and_one_that_lasts_is():
    fine, hot = {"temperature": 60}, {"temperature": 90}
    assert slowed(fine, fine, hot, fine, check="temperature") == "pass pass pass pass"
    assert slowed(fine, fine, hot, hot, check="temperature") == "pass pass pass fail"


def replays(count, **changes):
    return node(healthy_gpu(0, pcie_replays=count, ecc_corrected=0, **changes))


def test_one_pass_alone_compares_nothing():
    assert growth(replays(1000))[0]["verdict"] == "not-applicable"


@pytest.mark.parametrize(
    ("changes", "verdict", "observed"),
    [
        ({"pcie_replays": 8}, "pass", "8 PCIe replays in 60 s"),
        ({"pcie_replays": 9}, "fail", "9 PCIe replays in 60 s"),
        ({"nvlink_errors": (6000, 0, 0)}, "pass", "6000 NVLink CRC errors in 60 s"),
        ({"nvlink_errors": (6001, 0, 0)}, "fail", "6001 NVLink CRC errors in 60 s"),
        ({"nvlink_errors": (0, 1, 0)}, "fail", "1 NVLink replays in 60 s"),
        ({"nvlink_errors": (None, 0, 1)}, "fail", "1 NVLink recoveries in 60 s"),
        ({"nvlink_errors": (0, 0, 1)}, "fail", "1 NVLink recoveries in 60 s"),
        ({"ecc_corrected": 11}, "fail", "11 corrected ECC errors in 60 s"),
        ({}, "pass", "none"),
    ],
)
def test_a_counter_fails_when_it_grows_faster_than_dcgm_allows(changes, verdict, observed):
    before = {"pcie_replays": 0, "nvlink_errors": (0, 0, 0), "ecc_corrected": 0}
    _, entry = growth(node(healthy_gpu(0, **before)), node(healthy_gpu(0, **before | changes)))
    assert (entry["verdict"], entry["observed"]) == (verdict, observed)


def test_a_burst_between_two_passes_is_compared_by_the_minute():
    _, entry = growth(replays(0), replays(8), seconds=1.0)
    assert entry["verdict"] == "pass"


def test_growth_is_forgotten_after_ten_minutes_or_a_driver_restart():
    entries = growth(replays(0), replays(99), *[replays(99)] * 10)
    assert entries[1]["verdict"] == "fail"
    assert [entry["observed"] for entry in entries[-2:]] == ["99 PCIe replays in 600 s", "none"]
    *_, entry = growth(replays(1000), replays(0), replays(3))
    assert entry["observed"] == "3 PCIe replays in 60 s"


# -- events -----------------------------------------------------------------------------------------------


def xid_of(snapshot):
    [entry] = [one for one in run_checks(snapshot, of_machine("p5.48xlarge")) if one["id"] == "xid"]
    return entry


def event(code=79, index=3):
    return {"kind": "xid", "index": index, "code": code, "seen_by": "event"}


def test_an_xid_of_an_event_fails_where_the_kernels_log_has_none():
    entry = xid_of(simulated("p5.48xlarge", event()))
    assert (entry["verdict"], entry["observed"]) == ("fail", "GPU 3: Xid 79 (GPU has fallen off the bus) 0 s ago")
    assert "power-cycle" in entry["remediation"]
    unread = dataclasses.replace(simulated("p5.48xlarge", event()), xids=Reading(problem="no-permission"))
    assert xid_of(unread)["verdict"] == "fail"


def test_an_xid_that_the_log_has_too_is_shown_once():
    snapshot = simulated("p5.48xlarge", event(), {"kind": "xid", "index": 3, "code": 79, "seconds_ago": 5})
    assert xid_of(snapshot)["observed"] == "GPU 3: Xid 79 (GPU has fallen off the bus) 5 s ago"


def with_energy(snapshot, millijoules):
    gpus = [dataclasses.replace(gpu, energy=Reading(millijoules)) for gpu in snapshot.gpus]
    return dataclasses.replace(snapshot, gpus=tuple(gpus))


@pytest.mark.parametrize(
    ("code", "energies", "verdicts"),
    [
        pytest.param(54, (9, 9, 9), ["fail", "fail", "pass"], id="an error that counts for an hour"),
        pytest.param(119, (9, 9, 9), ["fail", "fail", "fail"], id="an error that lasts until a reset"),
        pytest.param(119, (9, 10, 1), ["fail", "fail", "pass"], id="the GPU was reset"),
        pytest.param(79, (9, 10, 1), ["fail", "fail", "fail"], id="an error that lasts until a reboot"),
    ],
)
def test_an_event_of_an_earlier_pass_counts_as_long_as_its_fault_lasts(code, energies, verdicts):
    times = iter((0.0, 600.0, 3700.0))
    quiet = simulated("p5.48xlarge")
    passes = (simulated("p5.48xlarge", event(code)), quiet, quiet)
    reader = Remembering(Passes(*map(with_energy, passes, energies)), TABLE, clock=lambda: next(times))
    entries = [xid_of(reader.read(1)) for _ in range(3)]
    assert [entry["verdict"] for entry in entries] == verdicts
    assert "10 min ago" in entries[1]["observed"]


def test_a_fault_between_two_passes_is_not_ended_by_a_reset_that_may_be_older():
    times = iter((0.0, 30.0))
    after = simulated("p5.48xlarge", {"kind": "xid", "index": 3, "code": 119, "seconds_ago": 10})
    passes = (with_energy(simulated("p5.48xlarge"), 9), with_energy(after, 1))
    reader = Remembering(Passes(*passes), TABLE, clock=lambda: next(times))
    assert [xid_of(reader.read(1))["verdict"] for _ in range(2)] == ["pass", "fail"]


def of_gpu_3(logged_seconds_ago, **readings):
    """Return a Snapshot in which the log contains Xid 119 of GPU 3, and some readings of GPU 3 are changed."""
    quiet = simulated("p5.48xlarge")
    domain, bus, slot = quiet.gpus[3].pci.value or (0, 0, 0)
    line = (119, domain, bus, slot, logged_seconds_ago, ", pid=7, Timeout")
    gpus = [dataclasses.replace(gpu, energy=Reading(5_000)) for gpu in quiet.gpus]
    gpus[3] = dataclasses.replace(gpus[3], **readings)
    return dataclasses.replace(quiet, gpus=tuple(gpus), xids=Reading([line] if logged_seconds_ago >= 0 else []))


REQUIRED = Reading(problem="reset-required", call="nvmlDeviceGetTotalEnergyConsumption")
HANGS = Reading(problem="did-not-return", call="nvmlDeviceGetTotalEnergyConsumption")


@pytest.mark.parametrize(
    "between",
    [
        pytest.param({"energy": REQUIRED}, id="the GPU reports that it needs a reset"),
        pytest.param({"energy": HANGS}, id="the GPU does not answer"),
        pytest.param({"energy": Reading(6_000), "recovery_action": Reading(1)}, id="the driver asks for a reset"),
    ],
)
def test_a_gpu_that_needed_a_reset_after_its_error_was_reset(between):
    done = {"energy": Reading(10), "recovery_action": Reading(0)}
    passes = (of_gpu_3(-1), of_gpu_3(15, **between), of_gpu_3(3515, **between), of_gpu_3(3545, **done))
    clock = iter((0.0, 60.0, 3560.0, 3590.0))
    reader = Remembering(Passes(*passes), TABLE, clock=lambda: next(clock))
    assert [xid_of(reader.read(1))["verdict"] for _ in passes] == ["pass", "fail", "fail", "pass"]


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ({"energy": REQUIRED}, {"energy": Reading(9_000)}, "pass"),
        ({"recovery_action": Reading(1)}, {"recovery_action": Reading(0)}, "pass"),
        ({"energy": REQUIRED}, {"energy": HANGS}, "fail"),
        ({"recovery_action": Reading(1)}, {"recovery_action": Reading(2)}, "fail"),
        ({"recovery_action": Reading(1)}, {"recovery_action": Reading(3)}, "fail"),
        ({"recovery_action": Reading(3)}, {"recovery_action": Reading(0)}, "fail"),
        ({"recovery_action": Reading(4)}, {"recovery_action": Reading(0)}, "pass"),
        ({"recovery_action": Reading(5)}, {"recovery_action": Reading(0)}, "fail"),
    ],
)
def test_a_later_agent_infers_a_reset_from_the_ended_recovery_action(before, after, verdict):
    clock = iter((400.0, 430.0))
    reader = Remembering(Passes(of_gpu_3(355, **before), of_gpu_3(385, **after)), TABLE, clock=lambda: next(clock))
    assert [xid_of(reader.read(1))["verdict"] for _ in range(2)] == ["fail", verdict]


OFF, GSP, NVLINK, ENDED = (
    (79, ", GPU has fallen off the bus."),
    (119, ", pid=7, Timeout after 6s of waiting for RPC response from GPU0 GSP!"),
    (145, ", RLW_SRC_TRACK Nonfatal XC1 i0 Link 17"),
    (154, ", GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"),
)
CABLES, LOADED, BEGINS = (54, ""), (0, ""), (LOG_BEGINS, "")


def lines(snapshot, *logged, age=10):
    """Return a Snapshot whose kernel log contains errors of GPU 3, oldest first."""
    place = snapshot.gpus[3].pci.value
    found = [(code, *place, age - number, text) for number, (code, text) in enumerate(logged)]
    return dataclasses.replace(snapshot, xids=Reading(found))


def remembered(*passes, times=(0.0, 600.0, 7200.0)):
    """Return the `xid` entry of each pass."""
    clock = iter(times)
    reader = Remembering(Passes(*passes), TABLE, clock=lambda: next(clock))
    return [xid_of(reader.read(1)) for _ in passes]


@pytest.mark.parametrize(
    ("logs", "verdicts"),
    [
        pytest.param(([OFF], [], []), "fail fail fail", id="until a boot"),
        pytest.param(([OFF], [LOADED], []), "fail fail fail", id="loading the driver does not end the error"),
        pytest.param(([GSP], [], []), "fail fail fail", id="until a reset"),
        pytest.param(([GSP], [ENDED], []), "fail pass pass", id="the driver no longer asks for a reset"),
        pytest.param(([GSP], [LOADED], []), "fail pass pass", id="the driver was loaded again"),
        pytest.param(([GSP, ENDED], [GSP], []), "pass fail fail", id="it came back"),
        pytest.param(([CABLES], [], []), "fail fail pass", id="for an hour"),
        pytest.param(([NVLINK], [], []), "pass pass pass", id="never"),
    ],
)
def test_errors_count_after_the_log_has_lost_their_lines(logs, verdicts):
    quiet = simulated("p5.48xlarge")
    entries = remembered(*(lines(quiet, *log) for log in logs))
    assert [entry["verdict"] for entry in entries] == verdicts.split()


def test_processes_are_counted_after_the_log_has_lost_their_lines():
    jobs = [(43, f", pid={pid}, Ch 8") for pid in range(30)]
    quiet = simulated("p5.48xlarge")
    passes = (lines(quiet, *jobs[:20], age=50), lines(quiet, *jobs[20:], age=50), lines(quiet))
    assert [entry["verdict"] for entry in remembered(*passes)] == ["pass", "unknown", "pass"]


def test_an_unreadable_log_does_not_end_a_fault():
    unread = dataclasses.replace(simulated("p5.48xlarge"), xids=Reading(problem="did-not-return"))
    passes = (lines(simulated("p5.48xlarge"), OFF), unread)
    assert [entry["verdict"] for entry in remembered(*passes)] == ["fail", "fail"]


def test_an_error_is_remembered_once():
    spam = lines(simulated("p5.48xlarge"), *[(119, f", pid={pid}, Timeout") for pid in range(40)], age=50)
    reader = Remembering(Passes(spam, lines(simulated("p5.48xlarge"))), TABLE, clock=iter((0.0, 60.0)).__next__)
    reader.read(1)
    assert [line[0] for line in reader.read(1).xids.value or ()] == [119]


@pytest.mark.parametrize("log", [[NVLINK], [GSP, ENDED]])
def test_an_event_does_not_come_back_when_its_line_is_lost(log):
    old_driver = {"kind": "function-missing", "call": "nvmlDeviceGetFieldValues"}
    quiet = simulated("p5.48xlarge", old_driver)
    assert quiet.gpus[3].recovery_action.value is None
    reported = simulated("p5.48xlarge", old_driver, event(log[0][0]))
    passes = (lines(reported, *log), lines(quiet), lines(quiet))
    assert [entry["verdict"] for entry in remembered(*passes)] == ["pass", "pass", "pass"]


def test_a_log_that_lost_records_before_the_first_pass_is_named():
    quiet = simulated("p5.48xlarge")
    entries = remembered(lines(quiet, BEGINS, age=7200), lines(quiet, BEGINS, age=60))
    assert [entry["observed"] for entry in entries] == [
        f"none; errors in the kernel log before the last {age} are not known" for age in ("2 h", "2 h")
    ]
    entries = remembered(lines(quiet), lines(quiet, BEGINS))
    assert [entry["observed"] for entry in entries] == ["none", "none"]


def test_a_recording_keeps_events_and_a_simulated_node_replays_them():
    journal = Journal()
    with install(
        NodeProfile(machine_type="p5.48xlarge", driver_version=DRIVER, faults=faults_of(event(), event(48, 1)))
    ):
        from validators.agent.nvml import read_nvml

        read_nvml(journal, lambda _: None)
    again = Recorded(parse_recording(json.dumps(to_recording(journal)), "test")).read(1)
    assert again.events.value == [(48, 1, 0), (79, 3, 0)]


class Ended(BaseException):
    """Raised in place of a call that would not return."""


@pytest.mark.parametrize("function", EVENT_FUNCTIONS)
def test_a_hanging_event_call_loses_only_events(function, monkeypatch):
    slept = []
    monkeypatch.setattr("validators.agent.reading.time.sleep", slept.append)

    def hang():
        raise Ended

    monkeypatch.setattr(simulated_library, "hang", hang)
    faults = faults_of(event(), {"kind": "nvml-hang", "call": function})

    class InProcess:
        def __init__(self, journal):
            self.journal = journal

        def follow(self, until, call_seconds):
            with install(NodeProfile(machine_type="p5.48xlarge", driver_version=DRIVER, faults=faults)):
                try:
                    return End(wait_for_events(self.journal, lambda _: None))
                except Ended:
                    return End(None, function, DID_NOT_RETURN, "did not return")

        def kill(self):
            return True

        def alive(self):
            return False

    found = NvmlReader(start=InProcess).wait(0.5)
    assert found.value is None
    assert slept  # the reader slept for the remaining time until the next pass


def test_waiting_between_passes_returns_the_events_meanwhile():
    with install(NodeProfile(machine_type="p5.48xlarge", driver_version=DRIVER, faults=faults_of(event()))):
        journal = Journal(wait_seconds=0.001)
        assert wait_for_events(journal, lambda _: None).events.value == [(79, 3, 0)]
