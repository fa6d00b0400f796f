"""Which lines of the kernel's log count as Xid errors, which errors fail a node, and the remedies."""

from __future__ import annotations

import csv
import errno
import gc
import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from agent_tables import DRIVER, findings, of_machine, simulated

from sandbox.nvml import NodeProfile, _library, install, parse_faults
from validators.agent.calls import Journal
from validators.agent.checks import run_checks
from validators.agent.health import RECOVERY_ACTIONS
from validators.agent.nvml import read_nvml
from validators.agent.snapshot import Reading
from validators.agent.xid_check import Xid, XidTable
from validators.agent.xids import DRIVER_LOADED, LOG_BEGINS, read_xids

TABLE = XidTable(of_machine("p5.48xlarge").expect["xid"].value)
CATALOGUE = Path(os.environ.get("GPU_PLATFORM_XID_CATALOGUE", "none"))


def xid_entry(snapshot):
    [found] = [entry for entry in run_checks(snapshot, of_machine("p5.48xlarge")) if entry["id"] == "xid"]
    return found


def test_only_xid_errors_are_read_from_the_log(tmp_path, monkeypatch):
    now = time.monotonic()
    log = tmp_path / "kmsg"
    log.write_text(
        f"4,0,{round((now - 90) * 1e6)},-;NVRM: Xid (PCI:0000:3b:00): 31, pid=77, name=python, Ch 0\n"
        " SUBSYSTEM=pci\n"
        f"6,2,{round(now * 1e6)},-;nvidia 0000:3b:00.0: enabling device\n"
        f"4,3,{round((now - 5) * 1e6)},-;NVRM: Xid (PCI:0001:00:1e.0): 79, GPU has fallen off the bus.\n"
    )
    monkeypatch.setenv("GPU_PLATFORM_KMSG", str(log))
    assert read_xids() == [
        [31, 0, 0x3B, 0, 90, ", pid=77, Ch 0"],
        [79, 1, 0, 0x1E, 5, ", GPU has fallen off the bus."],
    ]


@pytest.mark.parametrize("name", ["NVRM: Xid (PCI:0000:3b:00): 79, ", "NVRM: loading NVIDIA "])
def test_a_file_name_of_a_pod_forges_no_line_of_the_driver(name, tmp_path, monkeypatch):
    fault = f"python[77]: segfault at 0 ip 00007f52 sp 00007ffd error 4 in {name}[7f5200000000+1000]"
    alone = f" in {name}[7f5200000000+1000]"  # the end of a line that another CPU's output has split
    (tmp_path / "kmsg").write_text(f"6,0,1,-;{fault}\n6,1,1,-;{alone}\n")
    monkeypatch.setenv("GPU_PLATFORM_KMSG", str(tmp_path / "kmsg"))
    assert read_xids() == []


@pytest.mark.parametrize("instance", ["GPU-I:05", "GPU-I:01 GPU-CI:00"])
def test_an_error_of_a_mig_instance_is_an_error_of_its_gpu(instance, tmp_path, monkeypatch):
    line = f"NVRM: Xid (PCI:0000:3b:00 {instance}): 95, pid=7194, name=python, Uncontained: LTC TAG (0x2,0x0)"
    (tmp_path / "kmsg").write_text(f"4,0,{round(time.monotonic() * 1e6)},-;{line}\n")
    monkeypatch.setenv("GPU_PLATFORM_KMSG", str(tmp_path / "kmsg"))
    assert read_xids() == [[95, 0, 0x3B, 0, 0, ", pid=7194, Uncontained: LTC TAG (0x2,0x0)"]]


@pytest.mark.parametrize(("number", "codes"), [(0, [31]), (7, [LOG_BEGINS, 31])])
def test_a_log_that_no_longer_begins_at_the_boot_is_marked(number, codes, tmp_path, monkeypatch):
    (tmp_path / "kmsg").write_text(f"6,{number},1,-;audit\n4,8,1,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=7, Ch 0\n")
    monkeypatch.setenv("GPU_PLATFORM_KMSG", str(tmp_path / "kmsg"))
    assert [code for code, *_ in read_xids()] == codes


def test_a_record_that_was_overwritten_is_skipped(tmp_path, monkeypatch):
    (tmp_path / "kmsg").write_text("4,0,1,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=77, name=python, Ch 0\n")
    monkeypatch.setenv("GPU_PLATFORM_KMSG", str(tmp_path / "kmsg"))
    answers = iter([BrokenPipeError(errno.EPIPE, "overwritten")])
    read = os.read

    def overwritten_first(file, size):
        for error in answers:
            raise error
        return read(file, size)

    monkeypatch.setattr(os, "read", overwritten_first)
    assert [code for code, *_ in read_xids()] == [31]
    answers = iter([OSError(errno.EINVAL, "the next record is larger")])
    with pytest.raises(OSError, match="larger"):
        read_xids()


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        (31, "the job accessed memory that it does not own"),
        (48, "uncorrectable memory error"),
        (74, "NVLink error"),
        (119, "GSP firmware does not respond"),
        (136, "link training failed"),
        (150, "NVLink error"),
    ],
)
def test_an_error_is_shown_with_its_meaning(code, meaning):
    assert TABLE.describe(Xid(code, "GPU 0", 1)) == f"GPU 0: Xid {code} ({meaning}) 1 s ago"


@pytest.mark.parametrize("code", [13, 31, 43, 45, 63, 94])
def test_an_error_of_a_job_is_shown_and_fails_nothing(code):
    snapshot = simulated("p5.48xlarge", {"kind": "xid", "index": 2, "code": code})
    assert findings(snapshot, of_machine("p5.48xlarge")) == []
    assert f"GPU 2: Xid {code}" in xid_entry(snapshot)["observed"]


@pytest.mark.parametrize(
    ("code", "words"),
    [(79, "power-cycle"), (48, "row is remapped"), (74, "nvlink-count"), (119, "reset the GPU"), (54, "cables")],
)
def test_an_error_of_the_gpu_fails_with_what_to_do(code, words):
    found = xid_entry(simulated("p5.48xlarge", {"kind": "xid", "index": 2, "code": code}))
    assert found["verdict"] == "fail"
    assert words in found["remediation"]


@pytest.mark.parametrize(
    ("code", "verdict"), [(79, "fail"), (119, "fail"), (48, "fail"), (54, "pass"), (33, "pass")]
)
def test_an_error_of_hours_ago_fails_where_only_a_reset_or_a_boot_ends_it(code, verdict):
    found = xid_entry(simulated("p5.48xlarge", {"kind": "xid", "index": 2, "code": code, "seconds_ago": 7300}))
    assert found["verdict"] == verdict
    assert found["observed"].startswith(f"GPU 2: Xid {code}")
    assert found["observed"].endswith("2 h ago")


@pytest.mark.parametrize("action", RECOVERY_ACTIONS)
def test_every_recovery_action_in_the_log_fails_as_the_check_of_nvml_does(action, monkeypatch, tmp_path):
    line = f"Xid (PCI:0000:10:00): 154, GPU recovery action changed from 0x0 (None) to 0x{action:x} (Any)"
    entry = logged(monkeypatch, tmp_path, line)
    assert entry["verdict"] == "fail"
    # If the remedy of `recovery-action` mentions IMEX, the remedy of `xid` also mentions IMEX.
    assert ("IMEX" in entry["remediation"]) == ("IMEX" in RECOVERY_ACTIONS[action][1])


def logged(monkeypatch, tmp_path, *lines, machine="p5.48xlarge"):
    """Return the check's entry for lines of the kernel's log. The first line is two hours old, and the
    lines are 10 s apart.
    """
    now = time.monotonic()
    records = (f"4,{n},{round((now - 7200 + 10 * n) * 1e6)},-;NVRM: {line}\n" for n, line in enumerate(lines))
    return judged(monkeypatch, tmp_path, records, machine)


def judged(monkeypatch, tmp_path, records, machine="p5.48xlarge"):
    log = tmp_path / "kmsg"
    log.write_text("".join(records))
    with install(NodeProfile(machine_type=machine, driver_version=DRIVER)):
        monkeypatch.setenv("GPU_PLATFORM_KMSG", str(log))
        snapshot = read_nvml(Journal(), lambda _: None)
    return xid_entry(snapshot)


GSP = "Xid (PCI:0000:10:00): 119, pid=7, name=python, Timeout after 6s of waiting for RPC response from GPU0 GSP!"
OFF = "Xid (PCI:0000:10:00): 79, pid=7, name=python, GPU has fallen off the bus."
LOAD = "loading NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build"
CHANGED = "Xid (PCI:0000:10:00): 154, GPU recovery action changed from {}"
RESET = CHANGED.format("0x0 (None) to 0x1 (GPU Reset Required)")
NONE = CHANGED.format("0x1 (GPU Reset Required) to 0x0 (None)")
OTHER = NONE.replace("10:00", "11:00")


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        pytest.param([GSP, LOAD], "pass", id="the driver was loaded again"),
        pytest.param([LOAD, GSP], "fail", id="the driver was loaded before"),
        pytest.param([GSP, RESET, NONE], "pass", id="the driver no longer asks for a reset"),
        pytest.param([GSP, NONE, GSP], "fail", id="it came back"),
        pytest.param([GSP, OTHER], "fail", id="another GPU was reset"),
        pytest.param([RESET], "fail", id="the driver asks for a reset"),
        pytest.param([OFF, LOAD, NONE], "fail", id="only a reboot brings the GPU back"),
    ],
)
def test_a_fault_stays_until_its_reset_is_in_the_log(lines, verdict, monkeypatch, tmp_path):
    assert logged(monkeypatch, tmp_path, *lines)["verdict"] == verdict


def test_a_fault_is_shown_although_newer_harmless_errors_fill_the_list(monkeypatch, tmp_path):
    ends = [f"Xid (PCI:0000:1{gpu}:00): 45, pid=7, name=python, Ch 00000001" for gpu in range(8)]
    assert "Xid 119" in logged(monkeypatch, tmp_path, GSP, *ends, *ends)["observed"]


NVLINK = "Xid (PCI:0000:10:00): 145, {} i0 Link 17 (0x04084507 0x00000004 0x00000000 0x0 0x0 0x0)"


@pytest.mark.parametrize(
    ("text", "verdict"), [("RLW_SRC_TRACK Nonfatal XC1", "pass"), ("RLW_RXPIPE Fatal XC0", "fail"), ("", "fail")]
)
def test_the_text_of_an_nvlink_error_decides_whether_it_is_fatal(text, verdict, monkeypatch, tmp_path):
    assert logged(monkeypatch, tmp_path, NVLINK.format(text))["verdict"] == verdict


@pytest.mark.parametrize(("action", "verdict"), [(0, "pass"), (1, "fail"), (None, "fail")])
def test_unlogged_nvlink_errors_fail_unless_no_action_is_required(action, verdict):
    snapshot = simulated("p5.48xlarge", {"kind": "xid", "index": 0, "code": 145, "seen_by": "event"})
    gpu = replace(snapshot.gpus[0], recovery_action=Reading(action, "" if action is not None else "not-supported"))
    assert xid_entry(replace(snapshot, gpus=(gpu, *snapshot.gpus[1:])))["verdict"] == verdict


@pytest.mark.parametrize(
    ("code", "processes", "verdict"),
    [(43, 60, "unknown"), (31, 60, "unknown"), (31, 29, "pass"), (45, 60, "pass")],
)
def test_errors_of_many_processes_on_one_gpu_may_be_the_gpus(code, processes, verdict, monkeypatch, tmp_path):
    now = time.monotonic()
    found = judged(
        monkeypatch,
        tmp_path,
        (
            f"4,{pid},{round((now - 60) * 1e6)},-;NVRM: Xid (PCI:0000:10:00): {code}, pid={pid}, name=app, Ch 8\n"
            for pid in range(processes)
        ),
    )
    assert found["verdict"] == verdict
    assert (f"Xid errors in {processes} processes" in found["observed"]) == (verdict == "unknown")


def test_one_process_with_many_errors_is_no_repetition(monkeypatch, tmp_path):
    now = time.monotonic()
    line = f"4,1,{round((now - 60) * 1e6)},-;NVRM: Xid (PCI:0000:10:00): 31, pid=7, name=app, Ch 8\n"
    assert judged(monkeypatch, tmp_path, [line] * 90)["verdict"] == "pass"


@pytest.mark.parametrize("name", ["secret-model", "secret,secret", "secret, secret ", r"\xc3\xa4\xc3\xb6, secret"])
def test_no_name_of_a_process_is_read(name, monkeypatch, tmp_path):
    line = f"NVRM: Xid (PCI:0000:3b:00): 31, pid=7, name={name}, Ch 00000008, intr 00000000. MMU Fault"
    (tmp_path / "kmsg").write_text(f"4,0,1,-;{line}\n")
    monkeypatch.setenv("GPU_PLATFORM_KMSG", str(tmp_path / "kmsg"))
    [(_, _, _, _, _, text)] = read_xids()
    assert text == ", pid=7, Ch 00000008, intr 00000000. MMU Fault"


@pytest.mark.parametrize("name", ["a, Nonfatal b", "a Nonfatal b", "x, Nonfatal , y"])
def test_the_name_of_a_process_makes_no_fatal_error_harmless(name, monkeypatch, tmp_path):
    process = f"145, pid=12, name={name}, "
    fatal, harmless = NVLINK.format("RLW_SRC_TRACK Fatal XC1"), NVLINK.format("RLW_SRC_TRACK Nonfatal XC1")
    assert logged(monkeypatch, tmp_path, fatal.replace("145, ", process))["verdict"] == "fail"
    assert logged(monkeypatch, tmp_path, harmless.replace("145, ", process))["verdict"] == "pass"


def test_a_load_of_the_driver_is_no_error(monkeypatch, tmp_path):
    (tmp_path / "kmsg").write_text(f"4,0,1,-;NVRM: {LOAD}\n")
    monkeypatch.setenv("GPU_PLATFORM_KMSG", str(tmp_path / "kmsg"))
    assert [code for code, *_ in read_xids()] == [DRIVER_LOADED]
    assert logged(monkeypatch, tmp_path, LOAD)["observed"] == "none"


def test_the_remedy_of_several_errors_is_that_of_the_worst():
    found = [Xid(code, "GPU 0", 1) for code in (13, 119, 79, 48)]
    assert "power-cycle" in TABLE.remedy(found)
    assert TABLE.remedy([]) == ""


def test_an_error_of_a_gpu_that_is_gone_is_named_by_its_address():
    faults = ({"kind": "xid", "index": 0, "code": 79}, {"kind": "gpu-lost", "index": 0})
    found = xid_entry(simulated("p5.48xlarge", *faults))
    assert found["observed"].startswith("PCI 0000:10:00: Xid 79")


def test_a_log_that_may_not_be_read_is_not_applicable(monkeypatch):
    snapshot = simulated("p5.48xlarge")
    # pyrefly: ignore[bad-argument-type] - this Reading has no value
    denied = replace(snapshot, xids=snapshot.gpus[0].retired_pages)
    assert (xid_entry(denied)["verdict"], xid_entry(denied)["observed"]) == (
        "not-applicable",
        "the kernel log is not readable",
    )


def test_errors_are_reported_although_nvml_does_not_answer():
    faults = ({"kind": "xid", "index": 0, "code": 79}, {"kind": "function-missing", "call": "nvmlInitWithFlags"})
    assert xid_entry(simulated("p5.48xlarge", *faults))["verdict"] == "fail"


def test_a_code_that_is_not_known_is_for_the_vendor():
    unknown = Xid(9999, "GPU 0", 1)
    assert "nvidia-bug-report" in TABLE.remedy([unknown])
    assert TABLE.fails(unknown, [])


@pytest.mark.skipif(not CATALOGUE.exists(), reason="the repository does not contain NVIDIA's catalogue as a table")
def test_every_xid_code_has_the_action_in_nvidias_catalogue():
    with CATALOGUE.open() as file:
        rows = [row for row in csv.DictReader(file) if row["description"] != "Unused"]
    wrong: set[tuple[str, str, str]] = set()
    for row in rows:
        xid = Xid(int(row["code"]), "GPU 0", 1)
        name = TABLE.class_of(xid)["name"]
        action = row["immediate_action"]
        harmless = action in ("RESTART_APP", "IGNORE")
        if harmless == TABLE.fails(xid, []) and (harmless or action in ("RESET_GPU", "RESTART_BM")):
            wrong.add((row["code"], action, name))
    assert not wrong


def test_the_log_of_a_simulated_node_outlives_its_installation():
    fault = {"kind": "xid", "index": 1, "code": 48}
    install(
        NodeProfile(machine_type="g4dn.12xlarge", driver_version=DRIVER, faults=parse_faults(json.dumps([fault])))
    )
    try:
        gc.collect()
        assert [code for code, *_ in read_xids()] == [48]
    finally:
        _library._installed[-1].remove()
