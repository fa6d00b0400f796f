"""Pulumi components of a GPU platform.

`GpuPlatform`, `GpuNodePool`, `GpuOperator`, `GpuValidation` and `GpuTeam` are for your own Pulumi programs. They
take plain arguments and compute their own plans (see docs/components.md). Each of the other modules creates the
resources for one section of a plan.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from components.public.gpu_operator import GpuOperator, GpuOperatorArgs
    from components.public.node_pool import GpuNodePool, GpuNodePoolArgs
    from components.public.platform import GpuPlatform, GpuPlatformArgs
    from components.public.team import GpuTeam, GpuTeamArgs
    from components.public.validation import GpuValidation, GpuValidationArgs

__all__ = [
    "GpuNodePool",
    "GpuNodePoolArgs",
    "GpuOperator",
    "GpuOperatorArgs",
    "GpuPlatform",
    "GpuPlatformArgs",
    "GpuTeam",
    "GpuTeamArgs",
    "GpuValidation",
    "GpuValidationArgs",
]

_MODULES = {
    "GpuNodePool": "node_pool",
    "GpuOperator": "gpu_operator",
    "GpuPlatform": "platform",
    "GpuTeam": "team",
    "GpuValidation": "validation",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module's attribute
    """Import a public component when it is first used, because importing the Pulumi SDKs takes a second."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"components.public.{_MODULES[name.removesuffix('Args')]}"), name)
