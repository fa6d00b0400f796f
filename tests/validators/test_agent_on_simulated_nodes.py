"""Every machine type passes the agent's checks on simulated nodes, and the right check finds each fault."""

from __future__ import annotations

import os
from pathlib import Path

import pynvml
import pytest
from agent_tables import DRIVER, findings, of_machine, simulated, verdict

from gpu_platform.catalog import load_catalog
from sandbox.nvml import NodeProfile, install
from validators.agent.calls import Journal
from validators.agent.checks import run_checks
from validators.agent.expectations import Expectation, Expectations, health_of
from validators.agent.fabric import DEVICES_VARIABLE
from validators.agent.nvml import read_nvml
from validators.agent.snapshot import Snapshot

SEVEN = {"1g.10gb": 7}


@pytest.mark.parametrize(
    "machine_type", sorted(name for name, one in load_catalog().machine_types.items() if one.gpu)
)
def test_every_machine_type_passes_what_is_expected_of_it(machine_type):
    catalog = load_catalog()
    first_branch = catalog.gpu_of(catalog.machine_types[machine_type]).minimum_driver_branch
    driver = f"{first_branch}.10.01"
    snapshot = simulated(machine_type, driver_version=driver)
    held = of_machine(machine_type, driver_version=driver)
    assert findings(snapshot, held) == []
    assert verdict(snapshot, held) == "pass"


@pytest.mark.parametrize("machine_type", ["p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge", "p5e.48xlarge"])
def test_a_machine_in_mig_mode_passes_its_layout(machine_type):
    catalog = load_catalog()
    machine = catalog.machine_types[machine_type]
    mig = catalog.gpu_of(machine).mig
    assert mig is not None
    smallest = min(mig.profiles, key=lambda profile: profile.memory_mib).name
    layouts = ({smallest: 7},) * machine.gpu_count
    held = of_machine(machine_type, driver_version=DRIVER, mig_layouts=layouts, mig_source="stack")
    assert findings(simulated(machine_type, mig_layout=layouts), held) == []


def test_gpus_with_and_without_instances_pass_a_mixed_layout():
    layouts = (SEVEN, SEVEN, *[{}] * 6)
    held = of_machine("p4de.24xlarge", mig_layouts=layouts, mig_source="stack")
    assert findings(simulated("p4de.24xlarge", mig_layout=(SEVEN, SEVEN)), held) == []


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (
            {"kind": "gpu-missing", "index": 3},
            [
                ("gpu-count", None, "fail", "7"),
                ("numa-nodes", None, "unknown", "7 GPUs: the indices have shifted"),
            ],
        ),
        (
            {"kind": "wrong-product", "index": 1, "product": "NVIDIA H200"},
            [("gpu-product", "GPU 1", "fail", "NVIDIA H200")],
        ),
        ({"kind": "memory-short", "index": 2}, [("gpu-memory", "GPU 2", "fail", "73367 MiB")]),
        ({"kind": "ecc-disabled", "index": 0}, [("ecc", "GPU 0", "fail", "off")]),
        ({"kind": "ecc-pending", "index": 7}, [("ecc", "GPU 7", "fail", "on, off after the next reset")]),
        ({"kind": "hardware-slowdown", "index": 1}, [("throttle-reasons", "GPU 1", "fail", "hardware slowdown")]),
        (
            {"kind": "power-brake", "index": 1},
            [("throttle-reasons", "GPU 1", "fail", "hardware slowdown, hardware power brake")],
        ),
        (
            {"kind": "thermal", "index": 4, "degrees_above": 0},
            [
                ("throttle-reasons", "GPU 4", "fail", "hardware slowdown, hardware thermal slowdown"),
                ("temperature", "GPU 4", "fail", "87 °C"),
            ],
        ),
        (
            {"kind": "row-remap-pending", "index": 2},
            [
                ("row-remapping", "GPU 2", "fail", "0 correctable, 1 uncorrectable, one pending"),
                ("recovery-action", "GPU 2", "fail", "reset the GPU"),
            ],
        ),
        (
            {"kind": "row-remap-failed", "index": 2},
            [("row-remapping", "GPU 2", "fail", "0 correctable, 8 uncorrectable, one failed")],
        ),
        (
            {"kind": "nvlink-degraded", "index": 0, "link": 5},
            [("nvlink-count", "GPU 0", "fail", "17 of 18 active; inactive: 5")],
        ),
        ({"kind": "pcie-width", "index": 6}, [("pcie-width", "GPU 6", "fail", "x8")]),
        ({"kind": "pcie-generation", "index": 6}, [("pcie-generation", "GPU 6", "fail", "generation 3")]),
        ({"kind": "ecc-errors", "index": 3}, [("ecc-errors", "GPU 3", "fail", "1 in memory")]),
        (
            {"kind": "ecc-errors", "index": 3, "location": "SRAM", "count": 2},
            [("ecc-errors", "GPU 3", "fail", "2 in SRAM")],
        ),
        ({"kind": "sram-errors", "index": 1}, [("sram-errors", "GPU 1", "fail", "above the GPU's threshold")]),
        (
            {"kind": "recovery-needed", "index": 1, "action": "node-reboot"},
            [("recovery-action", "GPU 1", "fail", "reboot the node")],
        ),
        ({"kind": "compute-prohibited", "index": 5}, [("compute-mode", "GPU 5", "fail", "prohibited")]),
        ({"kind": "clocks-lowered", "index": 5}, [("application-clocks", "GPU 5", "fail", "990 MHz")]),
        ({"kind": "power-lowered", "index": 5}, [("power-limit", "GPU 5", "fail", "200 W")]),
        (
            {"kind": "other-firmware", "index": 4},
            [("firmware", None, "fail", "GPU 4: VBIOS 92.00.19.00.01, not 92.00.45.00.03")],
        ),
        (
            {"kind": "peer-access-lost", "index": 2, "peer": 6},
            [("peer-access", None, "fail", "2-6: not supported")],
        ),
        (
            {"kind": "xid", "index": 3, "code": 79},
            [("xid", None, "fail", "GPU 3: Xid 79 (GPU has fallen off the bus) 1 min ago")],
        ),
        ({"kind": "wrong-driver", "version": "550.90.07"}, [("driver-version", None, "fail", "550.90.07")]),
        (
            {"kind": "mig-wrong-layout", "index": 0, "instances": {"3g.40gb": 2}},
            [("mig-mode", "GPU 0", "fail", "on")],
        ),
        (
            {"kind": "numa-unknown"},
            [("numa-nodes", f"GPUs {half}", "unknown", "unknown (-1)") for half in ("0-3", "4-7")],
        ),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)  # fmt: skip
def test_a_fault_is_found_by_its_check_and_by_no_other(fault, found):
    held = of_machine("p5.48xlarge", driver_version=DRIVER, mig_layouts=[{}] * 8, mig_source="stack")
    assert findings(simulated("p5.48xlarge", fault), held) == found


def test_a_gpu_of_a_rack_that_is_not_registered_in_the_fabric_is_found():
    fault = {"kind": "fabric-unregistered", "index": 2}
    found = findings(simulated("p6e-gb200.36xlarge", fault), of_machine("p6e-gb200.36xlarge"))
    assert found == [("fabric-state", "GPU 2", "fail", "registration in progress")]
    assert findings(simulated("p6e-gb200.36xlarge"), of_machine("p6e-gb200.36xlarge")) == []


def test_imex_channels_are_unknown_if_proc_devices_has_no_nvidia_driver():
    # /proc/devices does not list the driver in a container with a separate kernel.
    # A simulated NVML without device files has no entry in /proc/devices.
    with install(NodeProfile(machine_type="p6e-gb200.36xlarge", driver_version=DRIVER)):
        Path(os.environ[DEVICES_VARIABLE]).write_text(
            "Character devices:\n  1 mem\n\nBlock devices:\n259 blkext\n"
        )
        snapshot = read_nvml(Journal(), lambda message: None)
    assert findings(snapshot, of_machine("p6e-gb200.36xlarge")) == [
        ("imex-domain", None, "unknown", "IMEX channels of /proc/devices: no NVIDIA driver in it")
    ]


def test_a_duplicate_serial_number_is_found():
    [(check, _, verdict, observed)] = findings(
        simulated("p5.48xlarge", {"kind": "duplicate-serial", "index": 5}), of_machine("p5.48xlarge")
    )
    assert (check, verdict) == ("gpu-serial", "fail")
    assert observed.startswith("GPU 0 and GPU 5 are ")


def test_the_two_gpus_of_a_grace_blackwell_board_have_its_serial_number():
    with install(NodeProfile(machine_type="p6e-gb200.36xlarge", driver_version=DRIVER)):
        snapshot = read_nvml(Journal(), lambda message: None)
    serials = [gpu.serial.value for gpu in snapshot.gpus]
    assert serials[0] == serials[1] != serials[2] == serials[3]
    third = {"kind": "duplicate-serial", "index": 2}
    found = findings(simulated("p6e-gb200.36xlarge", third), of_machine("p6e-gb200.36xlarge"))
    [(check, _, verdict, observed)] = found
    assert (check, verdict) == ("gpu-serial", "fail")
    assert observed.startswith("GPU 0 and GPU 1 and GPU 2 are ")


@pytest.mark.parametrize("machine_type", ["g4dn.12xlarge", "g5.48xlarge", "g6.48xlarge", "g6e.12xlarge"])
def test_the_lanes_of_a_card_are_reported_but_not_judged(machine_type):
    snapshot = simulated(machine_type, {"kind": "pcie-width", "index": 1, "width": 4})
    assert findings(snapshot, of_machine(machine_type)) == []
    [width] = [entry for entry in run_checks(snapshot, of_machine(machine_type)) if entry["id"] == "pcie-width"]
    assert "x4" in width["observed"]


@pytest.mark.parametrize("machine_type", ["g4dn.xlarge", "g5.xlarge"])
def test_a_gpu_of_ec2_with_half_of_its_lanes_is_healthy(machine_type):
    snapshot = simulated(machine_type)
    assert [gpu.pcie_width.value for gpu in snapshot.gpus] == [8]
    assert findings(snapshot, of_machine(machine_type)) == findings(snapshot, health_of(snapshot)) == []


@pytest.mark.parametrize(
    ("pages", "remedy"),
    [
        ({"double_bit": 1, "pending": True}, "reset the GPU"),
        ({"single_bit": 64, "double_bit": 0, "pending": False}, "have the GPU replaced"),
        ({"double_bit": 16, "pending": False}, "have the GPU replaced"),
    ],
)
def test_retired_pages_of_gpus_before_ampere_are_found(pages, remedy):
    snapshot = simulated("g4dn.xlarge", {"kind": "retired-pages", "index": 0, **pages})
    [found] = [entry for entry in run_checks(snapshot, of_machine("g4dn.xlarge")) if entry["verdict"] == "fail"]
    assert found["id"] == "retired-pages"
    assert remedy in found["remediation"]


def test_few_retired_pages_are_no_failure():
    pages = {"kind": "retired-pages", "index": 0, "single_bit": 40, "double_bit": 15, "pending": False}
    assert findings(simulated("g4dn.xlarge", pages), of_machine("g4dn.xlarge")) == []


@pytest.mark.parametrize(
    ("fault", "found"),
    [("row-remap-pending", [("recovery-action", "GPU 3")]), ("row-remap-failed", [])],
)
def test_row_remapping_on_mig_is_found_only_by_the_recovery_action(fault, found):
    """NVML reports no remapped rows for MIG instances, and a bank without spare rows is not a failure."""
    layouts = (SEVEN,) * 8
    held = of_machine("p4de.24xlarge", mig_layouts=layouts, mig_source="stack")
    snapshot = simulated("p4de.24xlarge", {"kind": fault, "index": 3}, mig_layout=layouts)
    assert [(one[0], one[1]) for one in findings(snapshot, held)] == found


def test_processes_are_a_finding_only_on_nodes_that_should_be_idle():
    snapshot = simulated("g4dn.xlarge", {"kind": "stray-process", "index": 0})
    held = of_machine("g4dn.xlarge")
    assert findings(snapshot, held) == []
    idle = Expectations(expect={**held.expect, "processes": Expectation(True, "test")})
    assert findings(snapshot, idle) == [("processes", None, "fail", "PID 4242 with 1024 MiB")]


def test_with_mps_the_compute_mode_is_that_of_its_daemon():
    fault = {"kind": "compute-prohibited", "index": 0}
    assert findings(simulated("g4dn.xlarge", fault), of_machine("g4dn.xlarge", mps=True)) == []


def test_a_duplicate_uuid_is_found():
    [(check, _, verdict, observed)] = findings(
        simulated("p5.48xlarge", {"kind": "duplicate-uuid", "index": 5}), of_machine("p5.48xlarge")
    )
    assert (check, verdict) == ("gpu-uuid", "fail")
    assert observed.startswith("GPU 0 and GPU 5 are GPU-")


@pytest.mark.parametrize(
    ("fault", "observed"),
    [
        ({"kind": "mig-wrong-layout", "index": 1, "instances": {"3g.40gb": 2}}, [("GPU 1", "2 x 3g.40gb")]),
        ({"kind": "mig-config-failed"}, [(None, "no instances")]),
    ],
)
def test_a_wrong_mig_layout_is_found(fault, observed):
    layouts = (SEVEN,) * 8
    held = of_machine("p4de.24xlarge", mig_layouts=layouts, mig_source="stack")
    assert findings(simulated("p4de.24xlarge", fault, mig_layout=layouts), held) == [
        ("mig-instances", device, "fail", layout) for device, layout in observed
    ]


def test_a_lost_gpu_fails_the_count_and_every_other_check_of_it_is_unknown():
    found = findings(simulated("p5.48xlarge", {"kind": "gpu-lost", "index": 2}), of_machine("p5.48xlarge"))
    [(_, _, verdict, observed)] = [entry for entry in found if entry[0] == "gpu-count"]
    assert (verdict, observed) == ("fail", "7 (GPU 2: gpu lost)")
    others = [entry for entry in found if entry[0] not in ("gpu-count", "gpu-uuid", "gpu-serial")]
    assert len(others) == 18
    assert {(device, verdict, observed) for _, device, verdict, observed in others} == {
        ("GPU 2", "unknown", "nvmlDeviceGetHandleByIndex: gpu lost")
    }


def test_a_driver_older_than_535_is_asked_by_the_older_name():
    calls = []
    fault = {"kind": "function-missing", "call": "nvmlDeviceGetCurrentClocksEventReasons"}
    snapshot = simulated("g4dn.xlarge", fault, calls=calls)
    assert findings(snapshot, of_machine("g4dn.xlarge")) == []
    assert "nvmlDeviceGetCurrentClocksThrottleReasons on GPU 0" in calls


def test_used_memory_excludes_driver_memory_if_it_is_known():
    newer = simulated("p5.48xlarge").gpus[0]
    fault = {"kind": "function-missing", "call": "nvmlDeviceGetMemoryInfo_v2"}
    older = simulated("p5.48xlarge", fault).gpus[0]
    assert newer.memory_used_bytes.value == 0
    assert older.memory_used_bytes.value == 600 * 2**20
    assert newer.memory_mib == older.memory_mib


def test_a_gpu_without_an_absolute_threshold_is_compared_by_its_margin():
    fault = {"kind": "function-missing", "call": "nvmlDeviceGetTemperatureThreshold"}
    held = of_machine("p5.48xlarge")
    assert findings(simulated("p5.48xlarge", fault), held) == []
    hot = simulated("p5.48xlarge", fault, {"kind": "thermal", "index": 0, "degrees_above": 0})
    assert ("temperature", "GPU 0", "fail", "-2 °C to the limit") in findings(hot, held)


def test_a_mig_device_that_is_not_named_by_its_profile_is_known_by_its_size(monkeypatch):
    layouts = ({"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2},)
    by_name = simulated("p4de.24xlarge", mig_layout=layouts)
    named = pynvml.nvmlDeviceGetName

    def name_of_the_gpu(device):
        return named(device).partition(" MIG ")[0]

    monkeypatch.setattr(pynvml, "nvmlDeviceGetName", name_of_the_gpu)
    by_size = simulated("p4de.24xlarge", mig_layout=layouts)
    assert by_name.gpus[0].mig_instances.value == dict(layouts[0])
    assert by_size.gpus[0].mig_instances == by_name.gpus[0].mig_instances


def test_the_kernel_is_believed_before_nvml_about_numa_nodes(tmp_path, monkeypatch):
    monkeypatch.setenv("GPU_PLATFORM_SYSFS", str(tmp_path))
    for bus, node in ((0x10, "-1"), (0x11, "1")):
        device = tmp_path / f"bus/pci/devices/0000:{bus:02x}:00.0"
        device.mkdir(parents=True)
        (device / "numa_node").write_text(f"{node}\n")
    first, second, third, *_ = simulated("p5.48xlarge").gpus
    assert [gpu.numa_node.value for gpu in (first, second, third)] == [-1, 1, 0]


def test_a_numa_node_above_63_is_read_from_nvmls_second_word(monkeypatch):
    monkeypatch.setattr(
        pynvml, "nvmlDeviceGetMemoryAffinity", lambda _gpu, words, _scope: [0, 0b100] + [0] * (words - 2)
    )
    assert {gpu.numa_node.value for gpu in simulated("p5.48xlarge").gpus} == {66}


def test_a_snapshot_survives_json():
    snapshot = simulated("p4de.24xlarge", mig_layout=(SEVEN,))
    assert Snapshot.from_json(snapshot.to_json()) == snapshot
