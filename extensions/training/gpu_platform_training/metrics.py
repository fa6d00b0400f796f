"""Metrics of a training job, which are logged periodically and served in Prometheus format on a port."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

_HELP: Final[Mapping[str, str]] = {
    "step": "Last finished training step.",
    "loss": "Loss of the last reported step.",
    "step_seconds": "Mean time of a step since the last report.",
    "tokens_per_second": "Tokens or samples of all processes per second.",
    "mfu_ratio": "Model FLOP per second as a share of the peak throughput of the GPUs.",
    "memory_allocated_bytes": "Peak GPU memory allocated by this process since the last report.",
    "memory_limit_bytes": "GPU memory that this process may use.",
    "checkpoint_step": "Step of the last complete checkpoint.",
    "checkpoint_seconds": "Time from the start of the last checkpoint until it was complete.",
    "checkpoint_blocked_seconds": "Time that training waited for the last checkpoint.",
}
_GIB: Final = 2**30


@dataclass(slots=True)
class Metrics:
    """Values by name without the prefix `training_`. Unknown metrics have no value."""

    values: dict[str, float] = field(default_factory=dict[str, float])

    def prometheus(self, labels: Mapping[str, str]) -> str:
        """Return the values in the Prometheus text format, version 0.0.4."""
        of_all = ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(labels.items()))
        lines: list[str] = []
        for name, value in list(self.values.items()):
            lines += [f"# HELP training_{name} {_HELP[name]}", f"# TYPE training_{name} gauge"]
            lines.append(f"training_{name}{{{of_all}}} {value!r}" if of_all else f"training_{name} {value!r}")
        return "\n".join(lines) + "\n"

    def line(self) -> str:
        """Return the values as a line for the log."""
        found = self.values
        parts = [f"step {int(found['step'])}"] if "step" in found else []
        if "loss" in found:
            parts.append(f"loss {found['loss']:.6g}")
        if "step_seconds" in found:
            parts.append(f"{found['step_seconds']:.3g} s a step")
        if "tokens_per_second" in found:
            parts.append(f"{found['tokens_per_second']:,.0f} tokens/s")
        if "mfu_ratio" in found:
            parts.append(f"MFU {found['mfu_ratio']:.1%}")
        if "memory_allocated_bytes" in found and "memory_limit_bytes" in found:
            used, limit = found["memory_allocated_bytes"] / _GIB, found["memory_limit_bytes"] / _GIB
            parts.append(f"GPU memory {used:.1f} of {limit:.1f} GiB")
        return ", ".join(parts)


def serve(metrics: Metrics, port: int, labels: Mapping[str, str]) -> int:
    """Serve GET /metrics until the process ends. Return the port, which the system chooses if `port` is 0."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404)
                return
            body = metrics.prometheus(labels).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Do not log scrapes."""

    server = ThreadingHTTPServer(("", port), Handler)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server.server_address[1]


def flops_utilisation(flops_per_second: float, gpus: int, peak_tflops: float) -> float:
    """Return the model FLOP utilisation (MFU) as a fraction of the GPUs' peak throughput."""
    return flops_per_second / (gpus * peak_tflops * 1e12)


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
