"""The node agent exports the sysfs counters of fabric NICs as metrics. A missing counter never becomes 0."""

from __future__ import annotations

import pytest
from prometheus_client.registry import CollectorRegistry

from validators.agent.fabric import SYSFS_VARIABLE
from validators.exporter.fabric import FabricCollector

EFA, MLX5, GPU = (
    ("0x1d0f", "0xefa2", "0x020000"),
    ("0x15b3", "0x101e", "0x020700"),
    ("0x10de", "0x2330", "0x030200"),
)


@pytest.fixture
def sysfs(tmp_path, monkeypatch):
    """Return a function that writes PCI devices with counters. For each address, it expects a tuple of the
    device's identity, its name and the files below port 1.
    """
    monkeypatch.setenv(SYSFS_VARIABLE, str(tmp_path))

    def write(devices):
        for address, (identity, name, files) in devices.items():
            folder = tmp_path / "bus/pci/devices" / address
            folder.mkdir(parents=True)
            for file, text in zip(("vendor", "device", "class"), identity, strict=True):
                (folder / file).write_text(text + "\n")
            for file, text in files.items():
                path = folder / "infiniband" / name / "ports/1" / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text + "\n")

    return write


def samples():
    registry = CollectorRegistry()
    registry.register(FabricCollector("train-0"))
    return {
        (sample.name, sample.labels["device"]): sample.value
        for family in registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def test_efa_and_mlx5_have_bytes_under_one_name_and_mlx5_counts_four_octets(sysfs):
    sysfs(
        {
            "0000:10:00.0": (EFA, "rdmap16s27", {"hw_counters/tx_bytes": "1000", "hw_counters/rx_bytes": "2000"}),
            "0000:20:00.0": (MLX5, "mlx5_0", {"counters/port_xmit_data": "1000", "counters/port_rcv_data": "0"}),
            "0000:30:00.0": (GPU, "", {}),
        }
    )
    assert samples() == {
        ("fabric_transmitted_bytes_total", "rdmap16s27"): 1000,
        ("fabric_received_bytes_total", "rdmap16s27"): 2000,
        ("fabric_transmitted_bytes_total", "mlx5_0"): 4000,
        ("fabric_received_bytes_total", "mlx5_0"): 0,
    }


def test_infiniband_nics_have_the_kind_of_their_driver(sysfs):
    sysfs({"0000:20:00.0": (MLX5, "mlx5_0", {"counters/port_xmit_data": "1"})})
    [family] = FabricCollector("n1").collect()
    assert [sample.labels["kind"] for sample in family.samples if not sample.name.endswith("_created")] == ["mlx5"]


def test_counters_of_errors_are_those_of_each_driver(sysfs):
    of_efa = {
        "rx_drops": "1",
        "retrans_timeout_events": "2",
        "retrans_bytes": "3",
        "unresponsive_remote_events": "4",
    }
    sysfs(
        {
            "0000:10:00.0": (EFA, "efa", {f"hw_counters/{file}": text for file, text in of_efa.items()}),
            "0000:20:00.0": (
                MLX5,
                "ib",
                {
                    "counters/port_xmit_discards": "5",
                    "counters/link_downed": "6",
                    "hw_counters/local_ack_timeout_err": "7",
                },
            ),
        }
    )
    assert samples() == {
        ("fabric_dropped_packets_total", "efa"): 1,
        ("fabric_timeouts_total", "efa"): 2,
        ("fabric_retransmitted_bytes_total", "efa"): 3,
        ("fabric_unresponsive_remotes_total", "efa"): 4,
        ("fabric_dropped_packets_total", "ib"): 5,
        ("fabric_link_downs_total", "ib"): 6,
        ("fabric_timeouts_total", "ib"): 7,
    }


def test_missing_nics_sysfs_and_counters_export_no_series(sysfs, tmp_path):
    assert samples() == {}
    sysfs({"0000:10:00.0": (EFA, "efa", {"hw_counters/tx_bytes": "N/A (no PMA)"})})
    assert samples() == {}
