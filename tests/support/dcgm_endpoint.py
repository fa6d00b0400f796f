"""A fake dcgm-exporter 4.8.3. Its HTTP endpoint serves metrics that it reads from the simulated NVML with pynvml.

XID errors and profiling metrics are not in NVML, so a test sets them. Format: internal/pkg/rendermetrics and
internal/pkg/collector/clock_events_collector.go of dcgm-exporter, read 2026-11-25.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType, TracebackType
from typing import Any, Final

from sandbox.nvml import Fault, NodeProfile, install
from tests.support.http_servers import start_server, stop_server

# The exporter's name for each bit of the clock event reasons. An idle GPU has bit 1.
_EVENTS: Final[Mapping[int, str]] = {
    0x1: "gpu_idle",
    0x4: "power_cap",
    0x8: "hw_slowdown",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
}
_SAMPLES: Final = 10  # samples in a window of 5 minutes


class DcgmEndpoint:
    """A fake exporter of one node at `/metrics`, and a fake kube-state-metrics of the cluster at `/kube-state`."""

    def __init__(self, machine_type: str, node: str, *, free: int) -> None:
        """Serve the metrics of a node. No pod uses the last `free` GPUs of the node."""
        self.machine_type, self.node, self.free = machine_type, node, free
        self.faults: tuple[Fault, ...] = ()
        self.xids: dict[int, str] = {}
        self.active = 0.6
        self.is_down = False
        """Whether scrapes of `/metrics` fail."""
        self._bindings = _own_bindings()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    @property
    def address(self) -> str:
        """Host and port of the endpoint."""
        return f"127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> DcgmEndpoint:
        start_server(self._server)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stop_server(self._server)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                is_exporter = self.path == "/metrics"
                lines = endpoint.metrics() if is_exporter else endpoint.kube_state()
                body = "".join(f"{line}\n" for line in lines).encode()
                self.send_response(500 if is_exporter and endpoint.is_down else 200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler

    def kube_state(self) -> list[str]:
        """Return kube-state-metrics samples for the node and its pods, and node_exporter samples for its NICs."""
        exporter = 'namespace="monitoring",pod="node-exporter-x"'
        port = f'{exporter},device="mlx5_0",port="1"'
        pod = 'namespace="vision",pod="train-0"'
        return [
            f'kube_node_info{{node="{self.node}"}} 1',
            f'kube_node_status_allocatable{{node="{self.node}",resource="nvidia_com_gpu"}} 8',
            f'kube_pod_info{{{exporter},node="{self.node}"}} 1',
            f"node_infiniband_port_data_transmitted_bytes_total{{{port}}} 1000",
            f"node_infiniband_port_data_received_bytes_total{{{port}}} 1000",
            f'kube_pod_owner{{{pod},owner_is_controller="true",owner_kind="Job",owner_name="train"}} 1',
        ]

    def metrics(self) -> list[str]:
        """Return all samples of the node's GPUs."""
        with self._lock:  # all threads share the library that the bindings have loaded
            profile = NodeProfile(
                machine_type=self.machine_type, driver_version="595.91.07", faults=self.faults, node=self.node
            )
            with install(profile, bindings=self._bindings):
                return list(self._samples())

    def _samples(self) -> Iterator[str]:
        nvml: Any = self._bindings
        nvml.nvmlInit()
        count = nvml.nvmlDeviceGetCount()
        for index in range(count):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            held = index < count - self.free
            active = self.active if held else 0.0
            labels = (
                f'gpu="{index}",UUID="{nvml.nvmlDeviceGetUUID(handle)}",device="nvidia{index}",'
                f'modelName="{nvml.nvmlDeviceGetName(handle)}",hostname="{self.node}"'
                + (',namespace="vision",pod="train-0",container="main"' if held else "")
            )
            memory = nvml.nvmlDeviceGetMemoryInfo(handle, nvml.nvmlMemory_v2)
            _, uncorrectable, pending, failed = nvml.nvmlDeviceGetRemappedRows(handle)
            values = {
                "DCGM_FI_DEV_GPU_TEMP": nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
                "DCGM_FI_DEV_GPU_MAX_OP_TEMP": nvml.nvmlDeviceGetTemperatureThreshold(
                    handle, nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
                ),
                "DCGM_FI_DEV_POWER_USAGE": nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
                "DCGM_FI_DEV_FB_USED": memory.used / 2**20,
                "DCGM_FI_DEV_FB_FREE": memory.free / 2**20,
                "DCGM_FI_DEV_SM_CLOCK": nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
                "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": nvml.nvmlDeviceGetPcieReplayCounter(handle),
                "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": uncorrectable,
                "DCGM_FI_DEV_ROW_REMAP_PENDING": pending,
                "DCGM_FI_DEV_ROW_REMAP_FAILURE": failed,
                "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": nvml.nvmlDeviceGetTotalEccErrors(
                    handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
                ),
                "DCGM_FI_PROF_GR_ENGINE_ACTIVE": active,
                "DCGM_FI_PROF_SM_ACTIVE": active / 2,
                "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": active / 4,
                "DCGM_FI_PROF_DRAM_ACTIVE": active / 4,
                "DCGM_FI_PROF_NVLINK_TX_BYTES": 1e9,
                "DCGM_FI_PROF_NVLINK_RX_BYTES": 1e9,
                "DCGM_FI_PROF_PCIE_TX_BYTES": 1e8,
                "DCGM_FI_PROF_PCIE_RX_BYTES": 1e8,
            }
            for metric, value in values.items():
                yield f"{metric}{{{labels}}} {float(value):g}"
            reasons = nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
            for bit, event in _EVENTS.items():
                if reasons & bit:
                    yield f'DCGM_EXP_CLOCK_EVENTS_COUNT{{{labels},clock_event="{event}"}} {_SAMPLES}'
            if index in self.xids:
                yield f'DCGM_EXP_XID_ERRORS_COUNT{{{labels},xid="{self.xids[index]}"}} 1'
            else:
                yield f"DCGM_EXP_XID_ERRORS_COUNT{{{labels}}} 0"
        nvml.nvmlShutdown()


def _own_bindings() -> ModuleType:
    """Return a separate copy of `pynvml`, so that other tests in this process are not affected."""
    found = importlib.util.find_spec("pynvml")
    assert found is not None
    assert found.origin is not None
    spec = importlib.util.spec_from_file_location("pynvml_of_endpoint", found.origin)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
