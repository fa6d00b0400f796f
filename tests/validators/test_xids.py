"""Xid errors in the kernel's log: what is read, what fails a node, and what is to be done."""

from __future__ import annotations

import csv
import errno
import gc
import json
import os
import time
from pathlib import Path

import pytest
from agent_tables import DRIVER, findings, of_machine, simulated

from sandbox.nvml import NodeProfile, _library, install, parse_faults
from validators.agent.checks import run_checks
from validators.agent.xids import NOTHING, RESTART_APP, Xid, read_xids, worst_action

PCI = (0, 0x10, 0)
CATALOGUE = Path(os.environ.get("GPU_PLATFORM_XID_CATALOGUE", "none"))


def xid_entry(snapshot):
    [found] = [entry for entry in run_checks(snapshot, of_machine("p5.48xlarge")) if entry["id"] == "xid"]
    return found


def test_only_xid_errors_are_read_from_the_log(tmp_path, monkeypatch):
    now = time.monotonic()
    log = tmp_path / "kmsg"
    log.write_text(
        f"4,1,{round((now - 90) * 1e6)},-;NVRM: Xid (PCI:0000:3b:00): 31, pid=77, name=python, Ch 0\n"
        " SUBSYSTEM=pci\n"
        f"6,2,{round(now * 1e6)},-;nvidia 0000:3b:00.0: enabling device\n"
        f"4,3,{round((now - 5) * 1e6)},-;NVRM: Xid (PCI:0001:00:1e.0): 79, GPU has fallen off the bus.\n"
    )
    monkeypatch.setenv("GPU_PLATFORM_KMSG", str(log))
    assert read_xids() == [[31, 0, 0x3B, 0, 90], [79, 1, 0, 0x1E, 5]]


def test_a_record_that_was_overwritten_is_skipped(tmp_path, monkeypatch):
    (tmp_path / "kmsg").write_text("4,1,1,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=77, name=python, Ch 0\n")
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
        (31, "the job accessed memory that it does not have"),
        (48, "uncorrectable memory error"),
        (74, "NVLink error"),
        (119, "GSP firmware does not answer"),
        (136, "link training failed"),
        (150, "NVLink error"),
    ],
)
def test_an_error_is_shown_with_its_meaning(code, meaning):
    assert str(Xid(code, PCI, 1)) == f"Xid {code} ({meaning}) 1 s ago"


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


def test_an_error_of_hours_ago_is_shown_and_fails_nothing():
    found = xid_entry(simulated("p5.48xlarge", {"kind": "xid", "index": 2, "code": 79, "seconds_ago": 7300}))
    assert (found["verdict"], found["observed"]) == ("pass", "GPU 2: Xid 79 (GPU has fallen off the bus) 2 h ago")


def test_the_remedy_of_several_errors_is_that_of_the_worst():
    found = [Xid(code, PCI, 1) for code in (13, 119, 79, 48)]
    assert "power-cycle" in worst_action(found)
    assert worst_action([]) == NOTHING


def test_an_error_of_a_gpu_that_is_gone_is_named_by_its_address():
    faults = ({"kind": "xid", "index": 0, "code": 79}, {"kind": "gpu-lost", "index": 0})
    found = xid_entry(simulated("p5.48xlarge", *faults))
    assert found["observed"].startswith("PCI 0000:10:00: Xid 79")


def test_a_log_that_may_not_be_read_is_not_applicable(monkeypatch):
    snapshot = simulated("p5.48xlarge")
    denied = type(snapshot)(**{**vars(snapshot), "xids": snapshot.gpus[0].retired_pages})
    assert (xid_entry(denied)["verdict"], xid_entry(denied)["observed"]) == (
        "not-applicable",
        "the kernel's log is not readable",
    )


def test_errors_are_reported_although_nvml_does_not_answer():
    faults = ({"kind": "xid", "index": 0, "code": 79}, {"kind": "function-missing", "call": "nvmlInitWithFlags"})
    assert xid_entry(simulated("p5.48xlarge", *faults))["verdict"] == "fail"


def test_a_code_that_is_not_known_is_for_the_vendor():
    assert "nvidia-bug-report" in Xid(9999, PCI, 1).action
    assert Xid(9999, PCI, 1).fails


@pytest.mark.skipif(not CATALOGUE.exists(), reason="NVIDIA's catalogue as a table is not part of the repository")
def test_every_code_of_the_catalogue_has_the_kind_of_action_that_the_catalogue_has():
    with CATALOGUE.open() as file:
        rows = [row for row in csv.DictReader(file) if row["description"] != "Unused"]
    wrong = {
        (row["code"], row["immediate_action"], Xid(int(row["code"]), PCI, 1).action)
        for row in rows
        if (row["immediate_action"] == "RESTART_APP") != (Xid(int(row["code"]), PCI, 1).action == RESTART_APP)
        or (row["immediate_action"] in ("RESET_GPU", "RESTART_BM") and not Xid(int(row["code"]), PCI, 1).fails)
    }
    assert not wrong


def test_the_log_of_a_simulated_node_is_there_although_nobody_holds_the_installation():
    fault = {"kind": "xid", "index": 1, "code": 48}
    install(
        NodeProfile(machine_type="g4dn.12xlarge", driver_version=DRIVER, faults=parse_faults(json.dumps([fault])))
    )
    try:
        gc.collect()
        assert [code for code, *_ in read_xids()] == [48]
    finally:
        _library._installed[-1].remove()
