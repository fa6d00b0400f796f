"""Limits for devices in pods. The policy pack and the admission rules both check them.

Each limit is defined only here. The two checks are separate implementations, because the policy pack reads
resources before a deploy and an admission rule is an expression that the API server evaluates. A test compares
their verdicts.

Sources: NVIDIA container toolkit, internal/config/image/devices.go (values that select no devices; they must be in
lower case); GPU Operator docs, "CDI support" (runtime classes nvidia, nvidia-cdi and nvidia-legacy); GKE's NRI
device injector (container-engine-accelerators). Read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
"""Environment variable that selects the GPUs that the container toolkit adds to a container."""
NO_DEVICES: Final = ("", "void", "none")
"""Values of `VISIBLE_DEVICES` that select no GPU. A variable without a value counts as an empty string."""
DEVICE_ANNOTATIONS: Final = ("nvidia.cdi.k8s.io/", "cdi.k8s.io/", "devices.gke.io/")
"""Prefixes of annotations that can give a container any device of its node, bypassing the scheduler."""
RUNTIME_CLASS_PREFIX: Final = "nvidia"
"""Prefix of the names of all runtime classes of the GPU Operator."""
SHARES_PER_CONTAINER: Final = 1
"""Maximum number of shares of a GPU that a container may request. A second share adds no compute, and MPS refuses
it.
"""


def published_devices(devices: Iterable[str]) -> str:
    """Return a regular expression (RE2) for the value of a fabric daemon's annotation, which lists devices, one
    per line.

    `devices` are regular expressions for files in /dev, from the catalogue.
    """
    return f"^([ ]*- path: /dev/({'|'.join(devices)})[ ]*\\n*)+$"
