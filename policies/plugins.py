"""Rules about the device plugins of a node.

Sources: GKE docs on GPUs and NVIDIA GPU Operator docs, "Google GKE"; bottlerocket.dev, kubelet-device-plugins;
GPU Operator v26.7.0, controllers/state_manager.go (node labels of operands).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpu_platform.base import names
from policies._gpu_operator import operator
from policies._node_pool import NodePool
from policies._pools import pools
from policies._rule import Breach, Rule, Settings, Severity
from policies._stack import Stack

_KEEP_OFF: Final = (names.DEPLOY_OPERANDS_LABEL, "nvidia.com/gpu.deploy.device-plugin")


def _two_plugins(stack: Stack, pool: NodePool, _: Settings) -> Iterator[Breach]:
    own = pool.own_plugin
    if own is None or not _operators_plugin_runs(stack, pool):
        return
    yield Breach(
        at=own.field,
        found=f"two device plugins on pool {pool.name!r}: {own.owner} and the GPU Operator's",
        allowed="one device plugin, because two plugins would allocate the same GPU to two pods",
        fix=f"label the nodes {names.DEPLOY_OPERANDS_LABEL}=false, or {own.fix}",
    )


def _operators_plugin_runs(stack: Stack, pool: NodePool) -> bool:
    """Return whether the stack's operator runs its device plugin on the nodes. Raises NotVisible."""
    found = operator(stack)
    if found is None:
        return False
    enabled = found.values.get("devicePlugin", "enabled")
    if enabled.present and not enabled.truth():
        return False
    return all(pool.label(key).text() != "false" for key in _KEEP_OFF)


plugin_ownership = Rule(
    id="plugin-ownership",
    severity=Severity.CRITICAL,
    description="A node has one device plugin. Two would advertise and allocate the same GPUs twice.",
    subjects=lambda stack: stack.view(pools),
    check=_two_plugins,
    settings=Settings,
)

RULES = (plugin_ownership,)
