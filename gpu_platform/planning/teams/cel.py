"""CEL expressions that the mutations of pods and pod templates share."""

from __future__ import annotations

from typing import Final

from gpu_platform.base import names

IS_GPU_RESOURCE: Final = f"name.matches('^{names.GPU_RESOURCES}')"
"""CEL condition that is true if the resource `name` is a GPU, a share of a GPU, or a MIG instance."""


def container_asks_for_gpus(container: str) -> str:
    """Return a CEL condition that is true if a container requests GPUs."""
    return (
        f"has({container}.resources) && has({container}.resources.limits) && "
        f"{container}.resources.limits.exists(name, {IS_GPU_RESOURCE} && "
        f"quantity(string({container}.resources.limits[name])).isGreaterThan(quantity('0')))"
    )


def asks_for_gpus(spec: str) -> str:
    """Return a CEL condition that is true if a pod spec requests GPUs or claims devices."""
    claims = f"(has({spec}.resourceClaims) && size({spec}.resourceClaims) > 0)"
    containers = (
        f"(has({spec}.{kind}) && {spec}.{kind}.exists(one, {container_asks_for_gpus('one')}))"
        for kind in ("containers", "initContainers")
    )
    return " || ".join((claims, *containers))
