"""Reads the GPU_PLATFORM_* variables, which contain the GPUs, memory and network of a pod.

Outside the platform, the variables are not set. In this case, nothing is checked or limited.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PREFIX: Final = "GPU_PLATFORM_"
CHECKPOINTS: Final = "CHECKPOINTS"


class WrongSetting(Exception):
    """A setting that cannot be read. The message contains the allowed values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """GPUs, memory, network and directories of a pod. A field is None if the platform did not set its variable."""

    gpus: int | None = None
    """Number of GPUs, shares or MIG instances of the pod."""
    gpu_memory_mib: int | None = None
    """Memory of each GPU or MIG instance in MiB. For a share, it is the memory that the pod may use."""
    gpu: str | None = None
    """Model name of the GPU."""
    sharing: str = "none"
    """How the GPU is shared: `none`, `time-slicing`, `mps` or `mig`."""
    interconnect: str | None = None
    """Network between the job's pods: `nvlink`, `efa`, `infiniband`, `tcpx`, `tcpxo`, `rdma` or `tcp`. None if
    there is only one pod.
    """
    peak_tflops: float | None = None
    """Dense bfloat16 or float16 throughput of one whole GPU in TFLOP/s, without sparsity."""
    memory_mib: int | None = None
    """Memory of the container in MiB."""
    scratch: Path | None = None
    """Directory on the node's local NVMe disks. Its contents are deleted with the pod."""
    checkpoints: Path | None = None
    """Directory whose contents outlive the pod."""
    grace_seconds: int | None = None
    """Seconds from SIGTERM to SIGKILL."""

    @property
    def shares_memory(self) -> bool:
        """Whether other pods allocate memory on the same GPU."""
        return self.sharing in {"time-slicing", "mps"}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Granted:
        """Read the variables. Raises WrongSetting for a variable that cannot be read."""
        read = _Reader(environment)
        return cls(
            gpus=read.number("GPUS"),
            gpu_memory_mib=read.number("GPU_MEMORY_MIB"),
            gpu=read.text("GPU"),
            sharing=read.text("SHARING") or "none",
            interconnect=read.text("INTERCONNECT"),
            peak_tflops=read.real("PEAK_TFLOPS"),
            memory_mib=read.number("MEMORY_MIB"),
            scratch=read.directory(PREFIX + "SCRATCH"),
            checkpoints=read.directory(CHECKPOINTS),
            grace_seconds=read.number("GRACE_SECONDS"),
        )


@dataclass(frozen=True, slots=True)
class _Reader:
    environment: Mapping[str, str]

    def text(self, name: str) -> str | None:
        return self.environment.get(PREFIX + name) or None

    def number(self, name: str) -> int | None:
        found = self.text(name)
        if found is None:
            return None
        if not found.isdecimal():
            raise WrongSetting(f"{PREFIX}{name}: found {found!r}, expected a whole number")
        return int(found)

    def real(self, name: str) -> float | None:
        found = self.text(name)
        if found is None:
            return None
        try:
            return float(found)
        except ValueError:
            raise WrongSetting(f"{PREFIX}{name}: found {found!r}, expected a number") from None

    def directory(self, variable: str) -> Path | None:
        found = self.environment.get(variable)
        if not found:
            return None
        if not found.startswith("/"):
            raise WrongSetting(f"{variable}: found {found!r}, expected an absolute path")
        return Path(found)
