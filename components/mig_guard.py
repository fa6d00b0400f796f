"""Prevents plain `pulumi up` from changing the MIG layout of live nodes without draining them.

A cloud applies the labels of a node group to its live nodes at once, and Pulumi applies the labels of a Node. The
MIG manager then partitions GPUs under running pods. `gpu-platform up` therefore first changes the nodes one after
another. It then passes the pools, with the MIG config of all their nodes, in the variable `ROLLED_VARIABLE`. A
resource hook refuses any other update of the label before the provider is called.

Your own programs have the same hook, but no rollout. After you have drained all nodes of a pool, set the variable
for one `pulumi up`. The plugin's components, for programs in other languages, register no hook, because a plugin's
process cannot serve hooks.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, cast

import pulumi
from pulumi.runtime.mocks import MockMonitor
from pulumi.runtime.settings import get_monitor

from components._run_settings import run_setting
from gpu_platform.base import names
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.stack.project import project_settings

# Paths of the labels in the inputs of a node group (EKS), a node pool (GKE), and a Node or NodePatch.
_LABELS: Final = (("labels",), ("nodeConfig", "labels"), ("metadata", "labels"))


_IN_PLUGIN: Final[ContextVar[bool]] = ContextVar("in_plugin", default=False)


@contextmanager
def without_hooks() -> Generator[None]:
    """Disable the registration of Pulumi hooks in the body of the `with` statement, where the plugin constructs a
    component.
    """
    before = _IN_PLUGIN.set(True)
    try:
        yield
    finally:
        _IN_PLUGIN.reset(before)


class DrainNeeded(Exception):
    """An update would change the MIG layout of all nodes of a pool at once."""


def guarded(pool: PoolPlan) -> pulumi.ResourceOptions:
    """Return options with the hook for a resource whose labels reach live nodes of a pool."""
    if pool.sharing.mig_config is None or not pool.cloud_nodes.relabels_in_place:
        return pulumi.ResourceOptions()
    # A plugin cannot serve hooks, and the mock monitor of `check` and `render` updates nothing.
    if _IN_PLUGIN.get() or isinstance(get_monitor(), MockMonitor):
        return pulumi.ResourceOptions()

    def before_update(args: pulumi.ResourceHookArgs) -> None:
        refuse_relabelling(pool.name, args)

    return pulumi.ResourceOptions(hooks=pulumi.ResourceHookBinding(before_update=[before_update]))


def refuse_relabelling(pool: str, args: pulumi.ResourceHookArgs) -> None:
    """Raise DrainNeeded if an update changes a pool's MIG config to one that its nodes do not have yet."""
    old, new = _config(args.old_inputs), _config(args.new_inputs)
    # A node without the label has no MIG layout. If the label is removed, the MIG manager does nothing.
    if new is None or new == (old or names.MIG_ALL_DISABLED) or _rolled().get(pool) == new:
        return
    raise DrainNeeded(
        f"pool {pool}: its MIG layout changes from {old or 'none'} to {new} ({names.MIG_CONFIG_LABEL}), which "
        "would partition the GPUs of all live nodes at once, under running pods. Nothing in the pool was changed. "
        f"{_fix(pool, new)}"
    )


def _fix(pool: str, config: str) -> str:
    if pulumi.get_project() == project_settings()["name"]:
        return f"Run `gpu-platform up {pulumi.get_stack()}`, which drains and changes the nodes one by one"
    rolled = json.dumps({pool: config})
    return (
        f"Cordon and drain all nodes of the pool, run `{names.ROLLED_VARIABLE}='{rolled}' pulumi up`, wait until "
        f"the nodes' label {names.MIG_STATE_LABEL} is success, then uncordon the nodes"
    )


def _config(inputs: Mapping[str, Any] | None) -> str | None:
    for path in _LABELS:
        found: object = inputs
        for key in path:
            found = cast("Mapping[str, object]", found).get(key) if isinstance(found, Mapping) else None
        labels = cast("Mapping[str, object]", found) if isinstance(found, Mapping) else {}
        if names.MIG_CONFIG_LABEL in labels:
            return str(labels[names.MIG_CONFIG_LABEL])
    return None


def _rolled() -> Mapping[str, str]:
    """Return the MIG config of all live nodes by pool, as `gpu-platform up` reports it, or an empty mapping."""
    document = run_setting(names.ROLLED_VARIABLE)
    return cast("Mapping[str, str]", document) if isinstance(document, Mapping) else {}
