"""The fields of the ClusterPolicy that operands read, with the operator's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from gpu_platform.base import names
from sandbox.simulator.driver_upgrade import UpgradePolicy, read_upgrade_policy


@dataclass(frozen=True, slots=True)
class ClusterPolicy:
    """The part of a ClusterPolicy's spec that the simulated operands read.

    A ConfigMap name is empty if the spec has none. The device plugin then has no config, and the MIG manager
    generates its config from the hardware. Source: gpu-operator api/nvidia/v1/clusterpolicy_types.go, IsEnabled.
    """

    device_plugin: bool = True
    device_plugin_config: str = ""
    device_plugin_default: str = ""
    feature_discovery: bool = True
    mig_strategy: str = ""
    mig_manager: bool = True
    mig_config: str = ""
    mig_default: str = ""
    runtime_class: str = "nvidia"
    driver_version: str = ""
    """Driver version that the operator installs. Empty if the operator installs no driver or its default version,
    which is not simulated.
    """
    upgrades: UpgradePolicy | None = None
    """Upgrade policy, or None if drivers of running nodes are not upgraded."""


def read_cluster_policy(spec: Mapping[str, Any]) -> ClusterPolicy:
    """Return the fields of a spec that operands read. A missing field has the operator's default."""
    plugin = _section(spec, "devicePlugin")
    plugin_config = _section(plugin, "config")
    manager = _section(spec, "migManager")
    mig_config = _section(manager, "config")
    driver = _section(spec, "driver")
    return ClusterPolicy(
        device_plugin=_enabled(plugin),
        device_plugin_config=plugin_config.get("name") or "",
        device_plugin_default=plugin_config.get("default") or "",
        feature_discovery=_enabled(_section(spec, "gfd")),
        mig_strategy=_section(spec, "mig").get("strategy") or "",
        mig_manager=_enabled(manager),
        mig_config=mig_config.get("name") or "",
        mig_default=mig_config.get("default") or "",
        runtime_class=_section(spec, "operator").get("runtimeClass") or "nvidia",
        driver_version=str(driver.get("version") or "") if _enabled(driver) else "",
        upgrades=read_upgrade_policy(_section(driver, "upgradePolicy")),
    )


def runs_on_node(labels: Mapping[str, str], operand: str) -> bool:
    """Return whether an operand runs on a node.

    The label `nvidia.com/gpu.deploy.<operand>` controls one operand, and `nvidia.com/gpu.deploy.operands` controls
    all operands. The operator sets these labels to "true" if they are absent or empty. With any other value, the
    operand does not run. Source: gpu-operator controllers/state_manager.go, addGPUStateLabels.
    """
    if labels.get("nvidia.com/gpu.deploy.operands") == "false":
        return False
    return labels.get(f"nvidia.com/gpu.deploy.{operand}") in (None, "", "true")


def default_labels(policy: ClusterPolicy, labels: Mapping[str, str], *, mig_capable: bool) -> dict[str, str]:
    """Return the labels that the operator itself sets on a GPU node.

    A MIG-capable node without a MIG config has the ClusterPolicy's default config `all-disabled`. Source:
    gpu-operator controllers/nodelabeling_controller.go.
    """
    own = {names.GPU_PRESENT_LABEL: "true"}
    needs_default = policy.mig_manager and mig_capable and not labels.get(names.MIG_CONFIG_LABEL)
    if needs_default and policy.mig_default == "all-disabled":
        own[names.MIG_CONFIG_LABEL] = policy.mig_default
    return own


def _section(spec: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = spec.get(name)
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _enabled(section: Mapping[str, Any]) -> bool:
    return section.get("enabled") is not False
