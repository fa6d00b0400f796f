"""Limits of devices in pods, which the policy pack and the admission rules both check.

Each limit is defined here once. The two judge by code of their own, because the one reads resources before a
deploy and the other is an expression that the API server evaluates; a test compares their verdicts.

Sources: NVIDIA container toolkit, internal/config/image/devices.go (the values without devices, in lower case
alone); GPU Operator docs, "CDI support" (runtime classes nvidia, nvidia-cdi and nvidia-legacy); GKE's NRI device
injector (container-engine-accelerators). Read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
"""The environment variable by which the container toolkit gives a container GPUs of its node."""
NO_DEVICES: Final = ("", "void", "none")
"""Values of `VISIBLE_DEVICES` that give no GPU; a variable without a value is empty."""
DEVICE_ANNOTATIONS: Final = ("nvidia.cdi.k8s.io/", "cdi.k8s.io/", "devices.gke.io/")
"""Prefixes of annotations by which a runtime gives a container any device of its node, without the scheduler."""
RUNTIME_CLASS_PREFIX: Final = "nvidia"
"""Beginning of the names of all runtime classes of the GPU Operator."""
SHARES_PER_CONTAINER: Final = 1
"""Shares of one GPU that a container may request: a second adds no compute, and MPS refuses it."""


def published_devices(devices: Iterable[str]) -> str:
    """Return the value of a fabric daemon's annotation as a regular expression (RE2): these devices, one a line.

    `devices`: regular expressions of files in /dev, from the catalogue.
    """
    return f"^([ ]*- path: /dev/({'|'.join(devices)})[ ]*\\n*)+$"
