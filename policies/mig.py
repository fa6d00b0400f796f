"""Rules about Multi-Instance GPU.

Source: NVIDIA Multi-Instance GPU User Guide, GPU Operator docs ("GPU Operator with MIG") and mig-parted. The
tables of the guide (`mig_profiles.yaml`), and not the planner, determine the layouts that a GPU model supports.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_platform.base import names
from gpu_platform.base.errors import did_you_mean
from policies._gpu_operator import (
    MIG_BALANCED,
    MigLayout,
    known_mig_layouts,
    mig_config_of,
    mig_instances_of,
    mig_layout_of,
    mig_layouts,
    mig_strategy_of,
)
from policies._inputs import NotVisible, Value
from policies._mig_profiles import LayoutError, layout_error, layout_text, mig_tables
from policies._node_pool import NodePool
from policies._pools import pools
from policies._rule import Breach, Rule, Settings, Severity
from policies._stack import Stack


def _gpu_without_mig(stack: Stack, pool: NodePool, _: Settings) -> Iterator[Breach]:
    label = mig_config_of(pool)
    if label is None:
        return
    tables = mig_tables()
    without = [gpu for gpu in pool.gpus if gpu.model not in tables]
    if not without:
        return
    layout = mig_layout_of(stack, pool)
    if layout is not None:
        enabled = [devices for devices in layout.devices if devices.enabled]
        without = [gpu for gpu in without if any(devices.selects(gpu) for devices in enabled)]
        if not without:
            return
    yield Breach(
        at=label,
        found=f"MIG layout {label.text()!r} on {', '.join(gpu.product for gpu in without)} in pool {pool.name!r}",
        allowed="MIG on " + ", ".join(sorted(tables)),
        fix="use a machine type with an allowed GPU, or use time-slicing or whole GPUs on this machine type",
    )


mig_on_unsupported_gpu = Rule(
    id="mig-on-unsupported-gpu",
    severity=Severity.HIGH,
    description="MIG is configured only on GPUs that support it. On other GPUs it has no effect.",
    subjects=lambda stack: stack.view(pools),
    check=_gpu_without_mig,
    settings=Settings,
)


def _illegal_geometry(stack: Stack, subject: NodePool | MigLayout, _: Settings) -> Iterator[Breach]:
    if isinstance(subject, MigLayout):
        return _of_unused_layout(stack, subject)
    return _of_pool(stack, subject)


def _of_pool(stack: Stack, pool: NodePool) -> Iterator[Breach]:
    label = mig_config_of(pool)
    if label is None:
        return
    wanted, known = label.text() or "", known_mig_layouts(stack)
    if known is not None and wanted not in known:
        yield Breach(
            at=label,
            found=f"MIG layout {wanted!r}, which is not in the operator's mig-parted config",
            allowed="one of " + ", ".join(known),
            fix=did_you_mean(wanted, known) or "add the layout, or use an allowed layout",
        )
        return
    layout = mig_layout_of(stack, pool)
    for gpu in pool.gpus:
        table = mig_tables().get(gpu.model)
        if (
            layout is not None
            and table is not None
            and not any(devices.selects(gpu) for devices in layout.devices)
        ):
            yield Breach(
                at=label,
                found=f"MIG layout {wanted!r} without an entry for {gpu.product}, for pool {pool.name!r}",
                allowed="an entry with a device-filter that matches the GPU, or without a device-filter",
                fix=f"add {gpu.pci_id} to a device-filter, or use another layout",
            )
    yield from (_breach(pool, at, error) for at, error in _layout_errors(stack, pool, layout) if not error.foreign)


def _breach(pool: NodePool, at: Value, error: LayoutError) -> Breach:
    return Breach(at, f"{error.found}, for pool {pool.name!r}", error.allowed, error.fix)


def _layout_errors(stack: Stack, pool: NodePool, layout: MigLayout | None) -> Iterator[tuple[Value, LayoutError]]:
    """Yield the reasons why GPUs of a pool do not support its layout, each with its path. Raises NotVisible."""
    label = mig_config_of(pool)
    if label is None:
        return
    for gpu in pool.gpus:
        table = mig_tables().get(gpu.model)
        if table is None:
            continue
        if layout is None:
            # The operator generates the layouts all-<profile>.
            # The layouts all-balanced and all-enabled always fit.
            profile = (label.text() or "").removeprefix("all-")
            error = layout_error(table, {profile: 1}, gpu.product) if "g." in profile else None
            if error is not None:
                yield label, error
            continue
        for devices in layout.devices:
            if devices.enabled and devices.selects(gpu):
                error = layout_error(table, devices.instances, gpu.product)
                if error is not None:
                    yield devices.entry.get("mig-devices"), error


def _foreign_profile(stack: Stack, pool: NodePool, _: Settings) -> Iterator[Breach]:
    label, known = mig_config_of(pool), known_mig_layouts(stack)
    if label is None or (known is not None and label.text() not in known):
        return
    for at, error in _layout_errors(stack, pool, mig_layout_of(stack, pool)):
        if error.foreign:
            yield _breach(pool, at, error)


mig_profile_matches_model = Rule(
    id="mig-profile-matches-model",
    severity=Severity.CRITICAL,
    description="The GPU model supports every profile in the MIG layout. No instances are created for other "
    "profiles.",
    subjects=lambda stack: stack.view(pools),
    check=_foreign_profile,
    settings=Settings,
)


def _of_unused_layout(stack: Stack, layout: MigLayout) -> Iterator[Breach]:
    """Check a layout that no visible pool uses. At least one GPU model must support it."""
    if any(_names_layout(pool, layout.name) for pool in stack.view(pools)):
        return
    for devices in layout.devices:
        if devices.enabled and not any(table.holds(devices.instances) for table in mig_tables().values()):
            yield Breach(
                at=devices.entry.get("mig-devices"),
                found=f"{layout_text(devices.instances)} in MIG layout {layout.name!r}",
                allowed="instances that fit on one GPU of at least one model",
                fix="see NVIDIA's MIG user guide for the profiles of each GPU and their placements",
            )


def _names_layout(pool: NodePool, layout: str) -> bool:
    try:
        return pool.label(names.MIG_CONFIG_LABEL).text() == layout
    except NotVisible:
        return False


mig_geometry_valid = Rule(
    id="mig-geometry-valid",
    severity=Severity.CRITICAL,
    description="A MIG layout fits the GPU: its instances occupy slices that do not overlap.",
    subjects=lambda stack: (*stack.view(pools), *stack.view(mig_layouts)),
    check=_illegal_geometry,
    settings=Settings,
)


def _wrong_strategy(stack: Stack, pool: NodePool, _: Settings) -> Iterator[Breach]:
    label = mig_config_of(pool)
    if label is None:
        return
    if label.text() == MIG_BALANCED and mig_layout_of(stack, pool) is None:
        mixed, what = True, "several profiles"
    else:
        kinds = list(mig_instances_of(stack, pool))
        profiles = sorted({profile for instances in kinds for profile in instances})
        if not profiles:
            return
        whole = any(not instances for instances in kinds)
        mixed, what = len(profiles) > 1 or whole, ", ".join(profiles) + (" and whole GPUs" if whole else "")
    strategy, by_operator = mig_strategy_of(stack, pool)
    if strategy == "mixed" or (strategy == "single" and not mixed):
        return
    yield Breach(
        at=label,
        found=f"MIG strategy {strategy!r} with {what} in layout {label.text()!r}, pool {pool.name!r}",
        allowed="strategy mixed" if mixed else "strategy single or mixed",
        fix="set flags.migStrategy: mixed in the pool's device-plugin config"
        + (" and leave mig.strategy empty in the operator's values, which take precedence" if by_operator else "")
        + (", or give every GPU of the node the same single profile" if mixed else ""),
    )


mig_strategy_consistent = Rule(
    id="mig-strategy-consistent",
    severity=Severity.HIGH,
    description="Nodes whose MIG layout has several profiles must use MIG strategy mixed. "
    "With strategy single, they advertise no GPUs.",
    subjects=lambda stack: stack.view(pools),
    check=_wrong_strategy,
    settings=Settings,
)


def _live_change(_: Stack, pool: NodePool, __: Settings) -> Iterator[Breach]:
    if mig_config_of(pool) is None:
        return
    label, annotation = pool.label(names.MIG_CHANGE_LABEL), pool.annotations.get(names.MIG_CHANGE_LABEL)
    change = label.text() or annotation.text()
    if change in ("drain", "replace"):
        return
    yield Breach(
        at=annotation if annotation.present and not label.present else label,
        found=(f"MIG change {change!r}" if change else "no MIG change declared") + f" on pool {pool.name!r}",
        allowed="drain (cordon, drain, then change) or replace (new nodes)",
        fix=f"label the nodes {names.MIG_CHANGE_LABEL}=drain",
    )


mig_live_change = Rule(
    id="mig-live-change",
    severity=Severity.HIGH,
    description=(
        "Nodes with MIG declare that a new layout is applied by drain or by replacement, because a live change "
        "kills running pods. A policy sees only the new state, so every MIG pool needs the declaration."
    ),
    subjects=lambda stack: stack.view(pools),
    check=_live_change,
    settings=Settings,
)

RULES = (
    mig_on_unsupported_gpu,
    mig_profile_matches_model,
    mig_geometry_valid,
    mig_strategy_consistent,
    mig_live_change,
)
