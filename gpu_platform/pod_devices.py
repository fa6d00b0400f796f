"""How a pod gets devices without a request: names that the policy pack and the rules at admission both check.

Sources: NVIDIA container toolkit, internal/config/image/devices.go (the values without devices, in lower case
alone); GPU Operator docs, "CDI support" (runtime classes nvidia, nvidia-cdi and nvidia-legacy); GKE's NRI device
injector (container-engine-accelerators). Read 2026-11-23.
"""

from __future__ import annotations

from typing import Final

VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
"""The environment variable by which the container toolkit gives a container GPUs of its node."""
NO_DEVICES: Final = ("", "void", "none")
"""Values of `VISIBLE_DEVICES` that give no GPU; a variable without a value is empty."""
DEVICE_ANNOTATIONS: Final = ("nvidia.cdi.k8s.io/", "cdi.k8s.io/", "devices.gke.io/")
"""Prefixes of annotations by which a runtime gives a container any device of its node, without the scheduler."""
RUNTIME_CLASS_PREFIX: Final = "nvidia"
"""Beginning of the names of all runtime classes of the GPU Operator."""
