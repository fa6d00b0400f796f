"""A recording of NVML's answers results in the same report on any machine, and contains no data that identifies
the node.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from agent_tables import DRIVER, of_machine

from gpu_platform.base.errors import BadInput, ExitCode
from gpu_platform.catalog import load_catalog
from gpu_platform.cli import node_check
from gpu_platform.cli.node_check import Recordings
from gpu_platform.planning.expectations import expected_matrix
from sandbox.nvml import NodeProfile, install, pack
from validators.agent import history, topology
from validators.agent.calls import Journal
from validators.agent.checks import run_checks
from validators.agent.nvml import read_nvml
from validators.agent.recording import BadRecording, Recorded, parse_recording, read_recording, to_recording

# Recorded on 2026-11-26 on virtual machines with one passed-through GPU and driver 580.159.04.
_RECORDINGS = Path(__file__).parents[1] / "recordings"
H200 = _RECORDINGS / "h200-one-gpu-vm.json"
H100 = _RECORDINGS / "h100-one-gpu-vm.json"
LAYOUT = ({"1g.10gb": 7}, {"3g.40gb": 2})


def read(machine_type, *faults, **profile):
    """Return the Snapshot of a simulated node, and the Journal with NVML's answers."""
    journal = Journal()
    with install(NodeProfile(machine_type=machine_type, driver_version=DRIVER, faults=faults, **profile)):
        return read_nvml(journal, lambda _: None), journal


def replayed(recording):
    return Recorded(parse_recording(json.dumps(recording), "test")).read(1)


@pytest.mark.parametrize("machine_type", sorted(n for n, one in load_catalog().machine_types.items() if one.gpu))
def test_a_recording_gives_the_report_of_its_node(machine_type):
    snapshot, journal = read(machine_type)
    again = replayed(to_recording(journal, with_serials=True))
    assert again == snapshot
    expected = of_machine(machine_type)
    assert run_checks(replayed(to_recording(journal)), expected) == run_checks(snapshot, expected)


def test_a_recording_keeps_mig_instances_faults_and_calls_without_an_answer():
    faults = ({"kind": "nvlink-degraded", "index": 5}, {"kind": "gpu-lost", "index": 7})
    snapshot, journal = read("p4de.24xlarge", *faults, mig_layout=LAYOUT)
    journal.lose("nvmlDeviceGetEccMode on GPU 3", "did-not-return")
    again = replayed(to_recording(journal, with_serials=True))
    assert again.gpus[0].mig_instances == snapshot.gpus[0].mig_instances
    assert again.gpus[5].nvlinks == snapshot.gpus[5].nvlinks
    assert again.gpus[7].handle.problem == "gpu-lost"
    assert again.gpus[3].ecc.problem == "did-not-return"


def test_nvlink_errors_are_read_without_the_ones_that_the_driver_lacks():
    """HGX machines with H100 report no CRC errors (NVIDIA/DCGM#173)."""
    recording = json.loads(H100.read_text())
    answers = json.dumps(recording).replace("null, null, null, null", "null, null, 4, 2", 1)
    assert replayed(json.loads(answers)).gpus[0].nvlink_errors.value == (None, 4, 2)
    assert replayed(recording).gpus[0].nvlink_errors.problem == "not-supported"


def test_a_recording_has_no_uuids_and_serial_numbers_unless_asked_for():
    snapshot, journal = read("p5.48xlarge", {"kind": "duplicate-uuid", "index": 5})
    secrets = {gpu.uuid.value for gpu in snapshot.gpus} | {gpu.serial.value for gpu in snapshot.gpus}
    assert not [secret for secret in secrets if str(secret) in json.dumps(to_recording(journal))]
    assert all(str(secret) in json.dumps(to_recording(journal, with_serials=True)) for secret in secrets)
    uuids = [gpu.uuid.value for gpu in replayed(to_recording(journal)).gpus]
    assert (uuids[5], len(set(uuids))) == (uuids[0], 7)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"version": 3, "answers": {"a": [1, ""]}}', '{"version": 2, "answers": {"a": 1}}'],
)
def test_a_file_that_is_no_recording_is_refused_with_its_name(text):
    with pytest.raises(BadRecording, match=r"node\.json: .*allowed: "):
        parse_recording(text, "node.json")


def test_the_command_records_replays_and_compares(tmp_path, capsys, monkeypatch):
    _, journal = read("p4de.24xlarge", {"kind": "power-brake", "index": 2})
    monkeypatch.setattr(node_check, "reader_of", lambda replay: Recorded(journal))
    file = tmp_path / "node.json"
    code = node_check.check_node(None, "p4de.24xlarge", Recordings(record=file), to_json=False)
    first = capsys.readouterr().out
    monkeypatch.undo()
    assert code is ExitCode.FINDING
    assert node_check.check_node(None, "p4de.24xlarge", Recordings(replay=file), to_json=False) is code
    again = capsys.readouterr().out
    assert "FAIL throttle-reasons GPU 2: hardware slowdown, hardware power brake" in again
    assert again.splitlines()[1:] == first.splitlines()[1:]


@pytest.mark.parametrize(
    ("recording", "machine_type", "product", "memory"),
    [
        (H200, "p5en.48xlarge", "NVIDIA H200", "143771 MiB"),
        (H100, "p5.48xlarge", "NVIDIA H100 80GB HBM3", "81559 MiB"),
    ],
)
def test_a_recorded_gpu_passes_and_is_one_of_eight_on_larger_machines(
    recording, machine_type, product, memory, capsys
):
    real = Recordings(replay=recording)
    assert node_check.check_node(None, None, real, to_json=False) is ExitCode.GOOD
    assert "pass xid: none" in capsys.readouterr().out
    assert node_check.check_node(None, machine_type, real, to_json=True) is ExitCode.FINDING
    checks = json.loads(capsys.readouterr().out)
    verdicts = {(one["id"], one["verdict"]): one["observed"] for one in checks}
    assert verdicts["gpu-count", "fail"] == "1"
    assert verdicts["gpu-product", "pass"] == product
    assert verdicts["gpu-memory", "pass"] == memory


def test_options_that_exclude_each_other_are_all_named(tmp_path):
    recordings = Recordings(record=tmp_path / "a", replay=tmp_path / "b")
    with pytest.raises(BadInput) as error:
        node_check.check_node(tmp_path / "c", "p5.48xlarge", recordings, to_json=False, watch_seconds=1)
    assert len(error.value.problems) == 3


def test_watching_prints_a_report_when_a_verdict_changes(capsys, monkeypatch):
    hot = read("g4dn.xlarge", {"kind": "thermal", "index": 0})
    readings = [read("g4dn.xlarge"), hot, hot]

    class Changing:
        def read(self, deadline_seconds):
            return readings.pop(0)[0]

    def sleep(_):
        if not readings:
            raise KeyboardInterrupt

    monkeypatch.setattr(node_check, "reader_of", lambda replay: Changing())
    monkeypatch.setattr(history.time, "sleep", sleep)
    code = node_check.check_node(None, None, Recordings(), to_json=False, watch_seconds=5)
    assert code is ExitCode.FINDING
    shown = capsys.readouterr().out
    assert shown.count("nvml: answers") == 2
    assert "FAIL temperature" in shown


# -- topology ---------------------------------------------------------------------------------------------


def test_gpus_on_nvlink_switches_reach_each_other_over_all_links():
    catalog = load_catalog()
    found = topology.matrix(read("p5.48xlarge")[0])
    assert found == expected_matrix(catalog.machine_types["p5.48xlarge"], catalog)
    assert found[0] == ["X", *["NV18"] * 7]
    assert len(topology.best_sets(found, 2)) == 28


def test_gpus_without_nvlink_reach_each_other_by_their_numa_nodes():
    snapshot = read("g5.48xlarge")[0]
    found = topology.matrix(snapshot)
    nodes = [gpu.numa_node.value for gpu in snapshot.gpus]
    for one, two in ((0, 1), (0, 7), (4, 7)):
        assert found[one][two] == ("NODE" if nodes[one] == nodes[two] != -1 else "SYS")


def test_the_text_of_a_topology_ends_each_row_with_the_numa_node():
    snapshot = read("g5.48xlarge")[0]
    rows = [line.split() for line in topology.as_text(snapshot).splitlines() if line.startswith("GPU")]
    assert [row[-1] for row in rows] == [str(gpu.numa_node.value) for gpu in snapshot.gpus]


def test_the_text_of_a_topology_says_that_no_set_is_better_than_another():
    lines = topology.as_text(read("p5.48xlarge")[0]).splitlines()
    assert lines[-2:] == ["best sets of 2 GPUs: all sets are equal", "best sets of 4 GPUs: all sets are equal"]


def test_the_best_sets_avoid_the_slowest_pair():
    found = [
        ["X", "PIX", "SYS", "SYS"],
        ["PIX", "X", "SYS", "SYS"],
        ["SYS", "SYS", "X", "PXB"],
        ["SYS", "SYS", "PXB", "X"],
    ]
    assert topology.best_sets(found, 2) == [(0, 1)]
    assert topology.best_sets(found, 4) == [(0, 1, 2, 3)]
    assert topology.best_sets(found, 5) == []


def test_a_pair_that_is_not_as_expected_of_the_machine_type_is_named():
    catalog = load_catalog()
    expected = expected_matrix(catalog.machine_types["p4de.24xlarge"], catalog)
    broken = read("p4de.24xlarge", {"kind": "peer-access-lost", "index": 2, "peer": 6})[0]
    text = topology.as_text(broken, expected)
    assert "expected: GPU2 to GPU6 NV12, not SYS" in text
    assert text.count("expected:") == 1
    assert "as expected for the machine type" in topology.as_text(read("p4de.24xlarge")[0], expected)
    assert "expected: 8 GPUs" in topology.as_text(
        read("p4de.24xlarge", {"kind": "gpu-missing", "index": 1})[0], expected
    )


@pytest.mark.parametrize("machine_type", sorted(n for n, one in load_catalog().machine_types.items() if one.gpu))
def test_the_topology_of_every_machine_type_is_as_expected(machine_type):
    catalog = load_catalog()
    text = topology.as_text(read(machine_type)[0], expected_matrix(catalog.machine_types[machine_type], catalog))
    assert "expected:" not in text


# -- replay in the simulator ------------------------------------------------------------------------------

REPLAYED = (
    (),
    ({"kind": "gpu-missing", "index": 0},),
    ({"kind": "gpu-lost", "index": 0},),
    ({"kind": "duplicate-uuid", "index": 0},),
    ({"kind": "ecc-errors", "index": 0, "location": "L2 cache"},),
    ({"kind": "thermal", "index": 0}, {"kind": "pcie-width", "index": 0}, {"kind": "stray-process", "index": 0}),
    ({"kind": "xid", "index": 0, "code": 48}, {"kind": "wrong-driver"}),
    ({"kind": "function-missing", "call": "nvmlDeviceGetMigMode"}, {"kind": "numa-unknown"}),
    ({"kind": "nvml-missing"},),
    ({"kind": "nvml-unloadable"},),
)


def replaying(recording, machine_type):
    """Return the Snapshot of a simulated node that replays a recording, and the Journal with NVML's answers."""
    return read(machine_type, {"kind": "recorded-node", "recording": pack(json.dumps(recording))})


@pytest.mark.parametrize("machine_type", ["g4dn.xlarge", "p4de.24xlarge", "p5.48xlarge", "a4x-highgpu-4g"])
@pytest.mark.parametrize("faults", REPLAYED, ids=lambda faults: " ".join(fault["kind"] for fault in faults))
def test_a_simulated_node_that_replays_a_recording_has_its_verdicts(machine_type, faults):
    layout = LAYOUT if machine_type == "p4de.24xlarge" else ()
    snapshot, journal = read(machine_type, *faults, mig_layout=layout)
    recording = to_recording(journal)
    again, journal = replaying(recording, machine_type)
    assert to_recording(journal)["answers"] == recording["answers"]
    expected = of_machine(machine_type)
    assert run_checks(again, expected) == run_checks(replayed(recording), expected)
    assert {entry["id"] for entry in run_checks(snapshot, expected) if entry["verdict"] == "fail"} == {
        entry["id"] for entry in run_checks(again, expected) if entry["verdict"] == "fail"
    }


def test_a_simulated_node_that_replays_a_real_one_answers_as_it_did():
    text = H200.read_text()
    snapshot, journal = read("p5en.48xlarge", {"kind": "recorded-node", "recording": pack(text)})
    recorded = Recorded(read_recording(H200)).read(1)
    assert recorded.locked_memory.problem == "not-called"  # the recording is older than this reading
    assert dataclasses.replace(snapshot, locked_memory=recorded.locked_memory) == recorded
    assert journal.answers["nvmlDeviceGetVbiosVersion on GPU 0"] == ["96.00.A5.00.1A", ""]


@pytest.mark.parametrize("kind", ["did-not-return", "ended-the-process"])
def test_a_recorded_call_without_an_answer_leaves_nvml_unknown_as_on_its_node(kind):
    _, journal = read("g4dn.xlarge")
    journal.lose("nvmlDeviceGetEccMode on GPU 0", kind)
    entries = {
        entry["id"]: entry for entry in run_checks(replayed(to_recording(journal)), of_machine("g4dn.xlarge"))
    }
    assert entries["nvml"]["verdict"] == "unknown"
    assert entries["nvml"]["observed"].startswith("nvmlDeviceGetEccMode on GPU 0 ")
    assert entries["nvml"]["remediation"]


def test_a_node_replays_one_recording_alone_and_none_of_more_gpus_than_it_has():
    fault = {"kind": "recorded-node", "recording": pack(json.dumps(to_recording(read("p5.48xlarge")[1])))}
    with pytest.raises(BadInput, match=r"8 GPUs.*at most 1"):
        read("g4dn.xlarge", fault)
    with pytest.raises(BadInput, match="only recorded-node"):
        read("p5.48xlarge", fault, {"kind": "nvml-hang"})
    with pytest.raises(BadInput, match="no packed recording"):
        read("p5.48xlarge", {"kind": "recorded-node", "recording": "x"})
