"""Helpers for the agent's tests: a healthy node as a Snapshot, and readings of a simulated node."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from gpu_platform.catalog import load_catalog
from gpu_platform.planning.expectations import DeclaredNode, expectations_for_machine
from sandbox.nvml import NodeProfile, install
from validators.agent.calls import Journal
from validators.agent.checks import run_checks, verdict_of
from validators.agent.expectations import Expectations, parse_expectations
from validators.agent.nvml import read_nvml
from validators.agent.snapshot import GpuSnapshot, Reading, Snapshot

DRIVER = "580.65.06"
NOT_SUPPORTED = Reading(problem="not-supported", call="nvmlDeviceGetX")


def healthy_gpu(index=0, **changes):
    """Return the readings of a healthy H100 with some changes. A plain value is wrapped in a Reading."""
    readings = {
        "handle": True,
        "name": "NVIDIA H100 80GB HBM3",
        "uuid": f"GPU-{index}",
        "memory_mib": 81559,
        "ecc": (True, True),
        "mig_mode": (False, False),
        "mig_instances": {},
        "throttle_reasons": 0x1,
        "temperature": 31,
        "slowdown_threshold": 87,
        "temperature_margin": 54,
        "slowdown_margin": -2,
        "remapped_rows": (0, 0, False, False),
        "nvlinks": [True] * 18,
        "pcie_width": 16,
        "pcie_generation": 5,
        "numa_node": 0,
        "fabric": (3, 0),
        "serial": f"16500{index}",
        "vbios": "96.00.99.00.01",
        "inforom": "G520.0200.00.05",
        "gsp_firmware": DRIVER,
        "pci": (0, 0x10 + index, 0),
        "persistence": True,
        "compute_mode": 0,
        "graphics_clock": (1980, 1980),
        "power_limit": (700_000, 700_000),
        "ecc_errors": {},
        "sram_exceeded": False,
        "retired_pages": NOT_SUPPORTED,
        "banks_without_rows": 0,
        "recovery_action": 0,
        "pcie_replays": 0,
        "nvlink_errors": (0, 0, 0),
        "processes": [],
        "peers": {},
    } | changes
    return GpuSnapshot(
        index=index,
        **{name: value if isinstance(value, Reading) else Reading(value) for name, value in readings.items()},
    )


def node(*gpus, driver=DRIVER):
    """Return a Snapshot with these GPUs."""
    return Snapshot(gpus=gpus, driver_version=Reading(driver), gpu_count=Reading(len(gpus)))


def expecting(**values):
    """Return expectations. Each keyword is a check id with `_` instead of `-`."""
    expect = {
        check.replace("_", "-"): {"value": value, "source": f"source of {check}"}
        for check, value in values.items()
    }
    return parse_expectations(json.dumps({"version": 1, "expect": expect}), "test")


def tolerating(percent, **values):
    """Return expectations whose values may deviate by `percent`."""
    held = expecting(**values)
    return Expectations(
        expect={
            check: dataclasses.replace(entry, tolerance_percent=percent) for check, entry in held.expect.items()
        }
    )


def of_machine(machine_type, **choices):
    """Return the expectations for a machine type after a round trip through JSON."""
    catalog = load_catalog()
    document = expectations_for_machine(
        catalog.machine_types[machine_type], catalog, DeclaredNode(**choices)
    ).to_json()
    return parse_expectations(json.dumps(document), machine_type)


def simulated(machine_type, *faults, calls=None, **profile):
    """Return the Snapshot of a simulated node. The NVML calls are appended to `calls`."""
    given: dict[str, Any] = {"machine_type": machine_type, "faults": faults, "driver_version": DRIVER, **profile}
    with install(NodeProfile(**given)):
        return read_nvml(
            Journal(),
            lambda message: calls.append(message[1]) if calls is not None and message[0] == "call" else None,
        )


def findings(snapshot, expectations):
    """Return the entries that need attention as (check, device, verdict, observed)."""
    return [
        (entry["id"], entry["device"], entry["verdict"], entry["observed"])
        for entry in run_checks(snapshot, expectations)
        if entry["verdict"] in ("fail", "unknown")
    ]


def verdict(snapshot, expectations):
    """Return the node's verdict."""
    return verdict_of(run_checks(snapshot, expectations))
