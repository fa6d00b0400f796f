"""Metrics of the node agent: they use Prometheus' units, and a missing reading never becomes 0."""

from __future__ import annotations

import subprocess
import sys
import urllib.request

import pytest
from agent_tables import DRIVER
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import CollectorRegistry

from gpu_platform.planning.monitoring.recording import AGENT_METRICS
from sandbox.nvml import NodeProfile, install
from tests.support.eventually import eventually
from tests.support.ports import free_port
from validators.agent.calls import Journal
from validators.agent.nvml import read_nvml
from validators.agent.snapshot import Snapshot
from validators.exporter.collector import Latest, NodeCollector, Thresholds
from validators.zipapp import build_agent

MIB = 1 << 20


class Once:
    """A fake NVML reader that reads one simulated node in this process."""

    def __init__(self, machine_type, *faults, **profile):
        self.profile = NodeProfile(machine_type=machine_type, driver_version=DRIVER, faults=faults, **profile)

    def read(self, deadline_seconds):
        del deadline_seconds
        with install(self.profile):
            return read_nvml(Journal(), lambda _: None)


def samples(reader, thresholds=None):
    """Return the values of each metric in a reading, by GPU and by the value of the label that only this metric
    has.
    """
    latest = Latest(reader, clock=lambda: 1000.0)
    latest.read(1)
    registry = CollectorRegistry()
    registry.register(NodeCollector(latest, "train-0", thresholds))
    own = ("threshold", "clock_event", "link", "pid", "xid", "GPU_I_ID")
    found = {}
    for family in registry.collect():
        for sample in family.samples:
            assert sample.labels["node"] == "train-0"
            extra = next((sample.labels[name] for name in own if sample.labels.get(name)), "")
            found.setdefault(sample.name, {})[sample.labels.get("gpu", ""), extra] = sample.value
    return found


def test_values_are_in_base_units():
    found = samples(Once("p4de.24xlarge"))
    assert found["gpu_memory_size_bytes"]["0", ""] == 81920 * MIB
    assert (
        found["gpu_memory_used_bytes"]["0", ""] == 0
    )  # as in nvidia-smi, memory that the driver reserves does not count
    assert found["gpu_power_watts"]["0", ""] == pytest.approx(60)
    assert found["gpu_power_limit_watts"]["0", ""] == pytest.approx(400)
    assert found["gpu_energy_joules_total"]["0", ""] == pytest.approx(60 * 3600)
    assert found["gpu_sm_clock_hertz"]["0", ""] == pytest.approx(210e6)
    assert found["gpu_node_read_timestamp_seconds"]["", ""] == 1000
    assert len(found["gpu_temperature_celsius"]) == 8
    assert sum(found["gpu_nvlink_up"].values()) == 8 * 12


def test_a_gpu_instance_has_its_own_memory_and_no_utilisation():
    found = samples(Once("p4de.24xlarge", mig_layout=({"3g.40gb": 2}, *[None] * 7)))
    sizes = found["gpu_memory_size_bytes"]
    assert len([place for place in sizes if place[0] == "0"]) == 2
    assert all(35_000 * MIB < size < 41_000 * MIB for place, size in sizes.items() if place[0] == "0")
    assert ("0", "") not in found["gpu_utilization_percent"]
    assert ("1", "") in found["gpu_utilization_percent"]


@pytest.mark.parametrize(
    ("faults", "thresholds", "exceeded"),
    [
        ((), None, set()),
        (({"kind": "thermal", "index": 2},), None, {("2", "temperature")}),
        (({"kind": "stray-process", "index": 3, "memory_mib": 79_000},), None, {("3", "memory")}),
        (({"kind": "power-lowered", "index": 1},), Thresholds(power=25), {("1", "power")}),
        ((), Thresholds(power=15), {(str(gpu), "power") for gpu in range(8)}),
        ((), Thresholds(temperature=34), {("2", "temperature"), ("5", "temperature")}),
    ],
)
def test_a_value_at_its_threshold_is_exceeded(faults, thresholds, exceeded):
    found = samples(Once("p4de.24xlarge", *faults), thresholds)["gpu_threshold_exceeded"]
    assert {place for place, value in found.items() if value} == exceeded


def test_faults_are_seen_in_their_metrics():
    faults = (
        {"kind": "ecc-errors", "index": 1, "count": 3},
        {"kind": "row-remap-failed", "index": 2},
        {"kind": "nvlink-degraded", "index": 3, "link": 4},
        {"kind": "power-brake", "index": 4},
        {"kind": "stray-process", "index": 5, "pid": 77},
        {"kind": "xid", "index": 6, "code": 79},
    )
    found = samples(Once("p5.48xlarge", *faults))
    assert found["gpu_ecc_uncorrectable_errors_total"]["1", ""] == 3
    assert found["gpu_row_remap_failed"]["2", ""] == 1
    assert [place for place, up in found["gpu_nvlink_up"].items() if not up] == [("3", "4")]
    assert found["gpu_clock_event_active"]["4", "power_brake"] == 1
    assert found["gpu_process_memory_used_bytes"] == {("5", "77"): 1024 * MIB}
    assert found["gpu_xid_errors"] == {("", "79"): 1}


def test_what_nvml_does_not_say_has_no_series():
    found = samples(Once("p5.48xlarge", {"kind": "gpu-lost", "index": 7}))
    assert ("7", "") not in found["gpu_temperature_celsius"]
    assert ("7", "") not in found["gpu_memory_used_bytes"]
    t4 = samples(Once("g4dn.xlarge"))
    assert not t4.get("gpu_row_remap_failed")
    assert not t4.get("gpu_nvlink_up")


def test_a_node_whose_nvml_does_not_answer_says_so_and_has_no_gpus():
    class Broken:
        def read(self, deadline_seconds):
            del deadline_seconds
            return Snapshot(failure="NVML cannot be opened")

    found = samples(Broken())
    assert found.pop("gpu_node_read_ok") == {("", ""): 0}
    assert list(found) == ["gpu_node_read_timestamp_seconds"]


def test_old_values_are_not_exported_as_current_ones():
    """The agent does not read the GPUs while the MIG manager changes them."""
    now = [0.0]
    latest = Latest(Once("p4de.24xlarge"), clock=lambda: 1000.0, age_clock=lambda: now[0])
    latest.read(1)
    collector = NodeCollector(latest, "train-0", fresh_seconds=90)
    now[0] = 90.0
    assert "gpu_temperature_celsius" in {family.name for family in collector.collect()}
    now[0] = 91.0
    left = {family.name: family.samples[0].value for family in collector.collect()}
    assert left == {"gpu_node_read_ok": 0, "gpu_node_read_timestamp_seconds": 1000}
    latest.read(1)
    assert "gpu_temperature_celsius" in {family.name for family in collector.collect()}


def test_every_metric_that_the_recording_rules_name_is_exported():
    exported = samples(Once("p5.48xlarge"))
    assert {name for name, _ in AGENT_METRICS.values()} <= exported.keys()


def test_the_agent_serves_metrics_beside_its_probes(tmp_path):
    agent, profile = tmp_path / "agent.pyz", tmp_path / "profile.json"
    agent.write_bytes(build_agent(metrics=True))
    profile.write_text(NodeProfile(machine_type="g5.xlarge", driver_version=DRIVER).model_dump_json())
    (tmp_path / "expect.json").write_text('{"version": 1, "expect": {"gpu-count": {"value": 1}}}')
    port, metrics = free_port(), free_port()
    command = [sys.executable, "-m", "sandbox.nvml.run", "--profile", profile, "--", agent, "serve"]
    options = ["--expect", tmp_path / "expect.json", "--port", port, "--metrics-port", metrics]
    process = subprocess.Popen([*map(str, command), *map(str, options)], stderr=subprocess.DEVNULL)

    def scraped():
        assert process.poll() is None
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=30) as answer:
                families = text_string_to_metric_families(answer.read().decode())
                return {sample.name: sample.value for family in families for sample in family.samples}
        except OSError:
            return {}

    try:
        eventually(lambda: "gpu_temperature_celsius" in scraped())
        assert scraped()["gpu_memory_size_bytes"] == 23028 * MIB
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/live", timeout=30) as answer:
            assert answer.status == 200
    finally:
        process.terminate()
        process.wait(60)
