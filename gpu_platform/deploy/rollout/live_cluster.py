"""Reads the cluster for a MIG rollout, and adds the new configs to the operator's ConfigMaps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.deploy.rollout.annotations import field_manager
from gpu_platform.deploy.rollout.layouts import CONFIG_KEY, read_configs, with_both
from gpu_platform.deploy.rollout.plan import LiveCluster, Rollout
from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.live_objects import LiveObjects, read_objects
from gpu_platform.live.objects import items_at, mapping_at
from gpu_platform.planning.plan import EnvironmentPlan

_POLICY_API: Final = "nvidia.com/v1"


@dataclass(frozen=True, slots=True)
class OperatorConfigs:
    """ConfigMaps that the live ClusterPolicy refers to. A field is None if the ClusterPolicy names no
    ConfigMap, or if the ConfigMap does not exist.
    """

    mig: Mapping[str, Any] | None
    device_plugin: Mapping[str, Any] | None


def read_cluster(client: KubernetesClient, objects: Callable[[], LiveObjects] | None = None) -> LiveCluster:
    """Return the nodes, pods, budgets and MIG configs of a cluster, or nothing if it has no ClusterPolicy.

    `objects` returns the objects of the cluster that were already read.
    """
    configs = _operator_configs(client)
    if configs is None:
        return LiveCluster()
    found = read_objects(client) if objects is None else objects()
    data = mapping_at(configs.mig or {}, "data")
    return LiveCluster(
        nodes=found.nodes, pods=found.pods, configs=read_configs(data.get(CONFIG_KEY)), budgets=found.budgets
    )


def add_configs(client: KubernetesClient, plan: EnvironmentPlan, rollout: Rollout) -> str:
    """Add the new configs to the operator's ConfigMaps. Return when the MIG manager's ConfigMap last changed.

    Existing entries do not change, so nodes with the old layout are not affected. Later, the engine's apply
    replaces these ConfigMaps with the plan's ConfigMaps, which have other names.
    """
    manager = field_manager(plan.stack)
    configs = _operator_configs(client)
    if configs is None:
        return ""
    plugin, planned = configs.device_plugin, plan.operator.device_plugin_config
    if plugin is not None and planned is not None:
        present = mapping_at(plugin, "data")
        added = {key: text for key, text in planned.data.items() if key not in present}
        if added:
            client.apply(_config_map(plugin, {**_applied_data(plugin, manager), **added}), manager=manager)
    if configs.mig is None:
        return ""
    text = mapping_at(configs.mig, "data").get(CONFIG_KEY)
    both = with_both(text, rollout.configs)
    live = configs.mig
    if both != text:
        live = client.apply(_config_map(configs.mig, {CONFIG_KEY: both}), manager=manager)
    times = (entry["time"] for entry in items_at(live, "metadata", "managedFields") if entry["manager"] == manager)
    return max(times, default="")


def manager_pods(client: KubernetesClient, node: str) -> list[dict[str, Any]]:
    """Return the pods of the MIG manager on a node. A sandbox has none, because its simulator replaces the MIG
    manager.
    """
    return list(
        client.objects(
            "v1",
            "Pod",
            namespace=names.OPERATOR_NAMESPACE,
            label_selector=f"app={names.MIG_MANAGER_APP}",
            field_selector=f"spec.nodeName={node}",
        )
    )


def _operator_configs(client: KubernetesClient) -> OperatorConfigs | None:
    policy = client.get(_POLICY_API, "ClusterPolicy", names.CLUSTER_POLICY)
    if policy is None:
        return None

    def named(section: str) -> dict[str, Any] | None:
        name = mapping_at(policy, "spec", section, "config").get("name")
        return client.get("v1", "ConfigMap", name, names.OPERATOR_NAMESPACE) if name else None

    return OperatorConfigs(mig=named("migManager"), device_plugin=named("devicePlugin"))


def _applied_data(live: Mapping[str, Any], manager: str) -> Mapping[str, str]:
    """Return the data that this field manager has applied. An apply that omits the data would remove it."""
    data = mapping_at(live, "data")
    mine = [one for one in items_at(live, "metadata", "managedFields") if one["manager"] == manager]
    keys = {key.removeprefix("f:") for entry in mine for key in mapping_at(entry, "fieldsV1", "f:data")}
    return {key: data[key] for key in keys if key in data}


def _config_map(live: Mapping[str, Any], data: Mapping[str, str]) -> dict[str, Any]:
    metadata = {"name": live["metadata"]["name"], "namespace": live["metadata"]["namespace"]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}
