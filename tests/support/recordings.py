"""Recordings of simulated nodes, in the format of `node-check --record`."""

from __future__ import annotations

from pathlib import Path

from sandbox.nvml import NodeProfile, install, parse_faults
from validators.agent.calls import Journal
from validators.agent.nvml import read_nvml
from validators.agent.recording import write_recording


def record_node(file: Path, *faults: str, machine_type: str, driver_version: str) -> None:
    """Write the recording that `node-check --record` would write on a node with these faults."""
    journal = Journal()
    with install(
        NodeProfile(
            machine_type=machine_type, driver_version=driver_version, faults=parse_faults(f"[{', '.join(faults)}]")
        )
    ):
        read_nvml(journal, lambda _: None)
    write_recording(file, journal)
