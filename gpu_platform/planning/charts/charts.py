"""Check and plan `charts` and `chart_mirror` in the stack file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Final, cast

from gpu_platform.base import names
from gpu_platform.base.errors import did_you_mean
from gpu_platform.planning.charts.section import ChartsPlan, ignored, merged
from gpu_platform.planning.clouds.controllers import (
    ControllerPods,
    controller_pods,
    excess_requests,
    grown_memory,
    memory_values,
    unmet_selectors,
)
from gpu_platform.planning.clouds.nodes import pools_for_controllers
from gpu_platform.planning.context import CompleteContext
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.charts import ChartSettings

# Values of the GPU Operator's chart that the stack file may not set, by section and key.
# Source: NVIDIA/cloud-native-docs, gpu-operator/cdi.rst, read 2026-11-26.
# The tags of precompiled driver images contain a driver branch and a kernel version.
# Source: GPU Operator docs, Precompiled Driver Containers, read 2026-11-29.
_REFUSED_VALUES: Final = (
    (
        ("cdi", "nriPluginEnabled"),
        True,
        "false; otherwise an annotation gives a pod outside the namespaces of teams access to any GPU, without "
        "request or quota",
        "remove it",
    ),
    (
        ("driver", "usePrecompiled"),
        True,
        "false; precompiled driver images have a driver branch as their version, but the program sets a full "
        "version",
        "remove it, or install signed drivers on the nodes and write operator.driver.owner: host",
    ),
)
# Environment variables that the stack file may not set, with the reasons.
# The device plugin's environment variables take precedence over its config file.
# Source: NVIDIA k8s-device-plugin, README, read 2026-11-29.
# The GPU Operator sets the device list strategy for CDI.
# Source: NVIDIA/gpu-operator v26.7.0, controllers/object_controls.go, read 2026-11-29.
_REFUSED_VARIABLES: Final = {
    "MIG_STRATEGY": "this variable overrides the MIG strategy of every pool; write sharing.strategy",
    "DEVICE_LIST_STRATEGY": "pods receive their GPUs through CDI, and the toolkit accepts no other way",
}
# For each GPU architecture, the type of kernel modules that does not support its GPUs.
# Source: NVIDIA, Driver Installation Guide, Kernel Modules, read 2026-11-29.
# Source for Blackwell: NVIDIA, transition to open-source kernel modules, read 2026-11-29.
_OTHER_MODULES: Final = {"volta": "open", "blackwell": "proprietary"}


def check(context: CompleteContext, pools: Sequence[PoolPlan]) -> None:
    """Record a problem for settings of unknown charts, or for all chart settings if the cluster has no Helm
    charts.
    """
    environment = context.environment
    known = [names.OPERATOR_CHART, *context.catalog.charts]
    if not context.cloud.installs_charts:
        places = [context.at("charts").at(name) for name in environment.charts]
        if environment.chart_mirror is not None:
            places.append(context.at("chart_mirror"))
        for place in places:
            place.add(
                "settings for Helm charts on a cluster without Helm charts",
                "a cloud or an existing cluster; the sandbox runs no containers",
                "remove it",
            )
        return
    for name in environment.charts:
        if name not in known:
            allowed = "a chart that the program installs: " + ", ".join(known)
            context.at("charts").at(name).add(f"{name!r}", allowed, did_you_mean(name, known) or "remove it")
    _check_operator_values(context, pools)


def _check_operator_values(context: CompleteContext, pools: Sequence[PoolPlan]) -> None:
    """Record a problem for each value of the operator's chart that breaks the planned allocation of GPUs or keeps
    drivers from starting.
    """
    chart = context.environment.charts.get(names.OPERATOR_CHART, ChartSettings())
    here = context.at("charts").at(names.OPERATOR_CHART).at("values")
    for path, value, allowed, fix in _REFUSED_VALUES:
        section, key = path
        if chart.section(section).get(key) is value:
            here.at(section).at(key).add(str(value).lower(), allowed, fix)
    modules = chart.section("driver").get("kernelModuleType")
    for pool in pools:
        if not pool.has_gpus or pool.software.driver != "operator":
            continue
        if modules == _OTHER_MODULES.get(context.catalog.gpus[pool.gpu_model].architecture, ""):
            here.at("driver").at("kernelModuleType").add(
                f"{modules!r} for pool {pool.name}",
                f"auto; {modules} modules do not support {pool.gpu_product}, so its nodes would have no driver",
                "remove it; the driver container chooses the modules for the GPUs of each node",
            )
    for section in ("devicePlugin", "gfd"):
        entries = chart.section(section).get("env")
        for index, entry in enumerate(cast("list[object]", entries) if isinstance(entries, list) else []):
            name = cast("Mapping[str, object]", entry).get("name") if isinstance(entry, Mapping) else None
            if name in _REFUSED_VARIABLES:
                here.at(section).at("env").at(f"[{index}]").add(
                    f"{name}", f"other variables: {_REFUSED_VARIABLES[str(name)]}", "remove it"
                )


def plan(
    context: CompleteContext, releases: Mapping[str, Mapping[str, Any]], pools: Sequence[PoolPlan]
) -> Decided[ChartsPlan]:
    """Return the chart settings of a valid environment. `releases` contains the program's values by chart."""
    declared, mirror = context.environment.charts, context.environment.chart_mirror
    nodes = sum(pool.nodes.max for pool in pools)
    grown = {name: tuple(grown_memory(name, context.catalog, own, nodes)) for name, own in releases.items()}
    section = ChartsPlan(
        mirror=mirror,
        repositories={name: one.repository for name, one in declared.items() if one.repository is not None},
        values={name: one.values for name, one in declared.items() if one.values},
        memory={name: memory_values(pods) for name, pods in grown.items() if pods},
    )
    why = "from the stack file; lists are merged by entry names, and the program's values take precedence"
    decisions = [
        Decision(
            subject=f"chart {name}",
            what="additional values",
            chosen=_effect(releases.get(name, {}), values),
            why=why,
        )
        for name, values in section.values.items()
    ]
    decisions += [
        Decision(
            subject=f"chart {name}",
            what="memory of controllers",
            chosen=", ".join(f"{pod.name} {amount}" for pod, amount in pods),
            why=f"the pools have up to {nodes} nodes, whose objects or metrics these pods keep in memory; with "
            "less memory they would restart without end",
        )
        for name, pods in grown.items()
        if pods
    ]
    if mirror is not None:
        why = "chart_mirror is set; every chart comes from this repository, with its usual name and version"
        decisions.append(Decision(subject="charts", what="repository", chosen=mirror, why=why))
    return Decided(section, tuple(decisions))


def _effect(own: Mapping[str, Any], added: Mapping[str, Any]) -> str:
    """Return the added values that change the program's values, and the paths of added values without effect."""
    changed = [key for key, value in added.items() if merged(own, {key: value}) != own]
    lost = ignored(own, added)
    return (", ".join(changed) or "none") + (f"; without effect: {', '.join(lost)}" if lost else "")


def controllers(
    context: CompleteContext,
    releases: Mapping[str, Mapping[str, Any]],
    pools: Sequence[PoolPlan],
    settings: ChartsPlan,
) -> tuple[ControllerPods, ...]:
    """Return the pods of Helm releases. Record a problem for each request above its limit, and for each node
    selector that matches no node.

    `releases` contains the program's values by chart.
    """
    others = [pool.labels for pool in pools_for_controllers(pools)]
    catalog = context.catalog
    found: list[ControllerPods] = []
    for name, own in releases.items():
        values = merged(own, settings.added(name))
        found.extend(controller_pods(name, catalog, values))
        for path, request, limit in excess_requests(name, catalog, values):
            resource = path.rpartition(".")[2]
            _value(path, name, context).add(
                request,
                f"{limit} or less, the container's limit; otherwise the API server rejects its pods",
                f"lower it, or write limits: {{{resource}: {request}}} next to requests",
            )
        if context.cloud.creates_cluster:
            for path, labels in unmet_selectors(name, catalog, values, others):
                _value(path, name, context).add(
                    ", ".join(f"{key}: {value}" for key, value in labels.items()),
                    "labels that Kubernetes and the cloud set on system nodes, or, for an add-on, labels of a "
                    "CPU pool without taints, a schedule or spot capacity",
                    f"remove {', '.join(labels)}",
                )
    return tuple(found)


def _value(path: str, chart: str, context: CompleteContext) -> Problems:
    """Return an object that records problems at a chart value in the stack file."""
    return reduce(Problems.at, path.split("."), context.at("charts").at(chart).at("values"))
