"""AKS in the simulated account: clusters are sandboxes, and machines of agent pools are their simulated nodes.

Rules and order of steps: internal/services/containers of terraform-provider-azurerm; AKS docs, "How AKS cluster
upgrades work", "Create node pools", "Use a system node pool", "Upgrade node pools"; read 2026-11-30.
The codes of errors are from public reports and have not been compared with a model of Azure's API.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from tests.support.played_cloud import nodes, sandboxes
from tests.support.played_cloud.account import Account, Refused
from tests.support.played_cloud.azure import AGENT_POOL, CLUSTER, GROUP, IDENTITY, has_role
from tests.support.played_cloud.values import UNKNOWN

Properties = Mapping[str, Any]
VERSIONS: Final = ("1.33", "1.34", "1.35", "1.36")
_NAME: Final = re.compile(r"[a-z][a-z0-9]{0,11}")
_TAINT: Final = re.compile(r"(?P<key>[^=:]+)=(?P<value>[^:]*):(?P<effect>NoSchedule|NoExecute|PreferNoSchedule)")
_MAX_SKEW: Final = 2  # AgentPool.orchestratorVersion of the AKS API
# The provider changes these only if it may move the nodes to a temporary pool and back.
# `cycleNodePoolProperties` of both resources of the provider lists them.
CYCLED: Final = (
    "fipsEnabled",
    "hostEncryptionEnabled",
    "kubeletConfig",
    "kubeletDiskType",
    "linuxOsConfig",
    "maxPods",
    "nodePublicIpEnabled",
    "onlyCriticalAddonsEnabled",
    "osDiskSizeGb",
    "osDiskType",
    "podSubnetId",
    "snapshotId",
    "ultraSsdEnabled",
    "vmSize",
    "vnetSubnetId",
    "zones",
)


class AksClusters:
    """Simulated AKS clusters. Each cluster is a sandbox with the same name."""

    def unknown(self, inputs: Properties) -> dict[str, Any]:
        return {
            "currentKubernetesVersion": UNKNOWN,
            "kubeConfigs": UNKNOWN,
            "kubeConfigRaw": UNKNOWN,
            "networkProfile": {**inputs["networkProfile"], "loadBalancerProfile": UNKNOWN},
        }

    def create(self, account: Account, own_id: str, inputs: Properties, outputs: dict[str, Any]) -> None:
        pool = inputs["defaultNodePool"]
        _refuse_version(inputs["kubernetesVersion"])
        _refuse_wrong_pool(pool, inputs["kubernetesVersion"])
        _refuse_wrong_size(pool)
        _refuse_missing_role(account, inputs)
        group = outputs["nodeResourceGroupId"]
        if account.get(GROUP, group) is not None:
            raise Refused(f"NodeResourceGroupAlreadyExists: the resource group {group} already exists")
        account.put(GROUP, group, {"name": inputs["nodeResourceGroup"], "managedBy": own_id}, {})
        access = sandboxes.start(account, inputs["name"], inputs["kubernetesVersion"])
        outputs["currentKubernetesVersion"] = f"{inputs['kubernetesVersion']}.1"
        outputs["kubeConfigs"] = [{"host": access.server, "clusterCaCertificate": access.authority}]
        outputs["kubeConfigRaw"] = ""
        outputs["networkProfile"] = {
            **inputs["networkProfile"],
            "loadBalancerProfile": {"idleTimeoutInMinutes": 30},
        }
        nodes.scale(account, _group(inputs["name"], own_id, pool, mode="system"))

    def update(
        self, account: Account, own_id: str, old: Properties, new: Properties, outputs: dict[str, Any]
    ) -> None:
        # resourceKubernetesClusterUpdate changes the cluster, then its version, and then the system nodes.
        outputs["networkProfile"] = {**outputs["networkProfile"], **new["networkProfile"]}
        if old["kubernetesVersion"] != new["kubernetesVersion"]:
            self._upgrade(account, own_id, old["kubernetesVersion"], new["kubernetesVersion"], new["name"])
            outputs["currentKubernetesVersion"] = f"{new['kubernetesVersion']}.1"
        before, pool = old["defaultNodePool"], new["defaultNodePool"]
        if before == pool:
            return
        _refuse_wrong_pool(pool, new["kubernetesVersion"])
        if pool.get("autoScalingEnabled") and before.get("nodeCount") != pool.get("nodeCount"):
            raise Refused("cannot change `node_count` when `auto_scaling_enabled` is set to `true`")
        group = _group(new["name"], own_id, pool, mode="system")
        _change(account, _group(new["name"], own_id, before, mode="system"), group, before, pool)

    def delete(self, account: Account, own_id: str, resource: Properties) -> None:
        # AKS deletes the remaining agent pools and the resource group of the nodes together with the cluster.
        for pool in [one for one, _ in account.of(AGENT_POOL) if one.startswith(f"{own_id}/")]:
            account.remove(AGENT_POOL, pool)
        for name in [one for one, _ in account.of("instance")]:
            nodes.remove(account, resource["inputs"]["name"], name, why="cluster deleted")
        account.remove(GROUP, resource["outputs"]["nodeResourceGroupId"])
        sandboxes.delete(account, resource["inputs"]["name"])

    def _upgrade(self, account: Account, own_id: str, old: str, new: str, name: str) -> None:
        _refuse_version(new)
        if _minor(new) != _minor(old) + 1:
            raise Refused(f"OperationNotAllowed: Upgrading Kubernetes version {old} to {new} is not allowed")
        for pool, known in account.of(AGENT_POOL):
            version = known["outputs"]["orchestratorVersion"]
            if pool.startswith(f"{own_id}/") and _minor(new) - _minor(version) > _MAX_SKEW:
                raise Refused(f"NodePoolMcVersionIncompatible: agent pool {pool} has version {version}")
        sandboxes.upgrade(account, name, new)


class AgentPools:
    """Simulated agent pools, whose nodes are created, scaled, reimaged and deleted."""

    def unknown(self, inputs: Properties) -> dict[str, Any]:
        # kubernetes_cluster_node_pool_resource.go computes each of these if the program omits it.
        computed = ("kubeletDiskType", "maxPods", "nodeCount", "orchestratorVersion", "osDiskSizeGb", "osSku")
        return {name: UNKNOWN for name in computed if name not in inputs}

    def create(self, account: Account, own_id: str, inputs: Properties, outputs: dict[str, Any]) -> None:
        cluster = _cluster(account, inputs)
        version = cluster["inputs"]["kubernetesVersion"]
        _refuse_wrong_pool(inputs, version)
        _refuse_wrong_size(inputs)
        outputs["orchestratorVersion"] = inputs.get("orchestratorVersion", version)
        outputs["kubeletDiskType"] = "OS"
        nodes.scale(account, _agent_pool(cluster, inputs))

    def update(
        self, account: Account, own_id: str, old: Properties, new: Properties, outputs: dict[str, Any]
    ) -> None:
        cluster = _cluster(account, new)
        _refuse_wrong_pool(new, cluster["inputs"]["kubernetesVersion"])
        _change(account, _agent_pool(cluster, old), _agent_pool(cluster, new), old, new)

    def delete(self, account: Account, own_id: str, resource: Properties) -> None:
        nodes.remove_all(account, own_id, _cluster(account, resource["inputs"])["inputs"]["name"])


def autoscale(account: Account, pool: str, size: int) -> None:
    """Change the number of nodes of an agent pool, as AKS's autoscaler does."""
    own_id, known = next(
        (own_id, known) for own_id, known in account.of(AGENT_POOL) if known["inputs"]["name"] == pool
    )
    for properties in (known["inputs"], known["outputs"]):
        properties["nodeCount"] = size
    nodes.scale(account, _agent_pool(_cluster(account, known["inputs"]), known["inputs"]))
    account.record("autoscaled", id=own_id, size=size)


def _change(
    account: Account, before: nodes.NodeGroup, group: nodes.NodeGroup, old: Properties, new: Properties
) -> None:
    """Change the nodes of an agent pool, as the provider and AKS do."""
    if any(old.get(name) != new.get(name) for name in CYCLED):
        _move(account, group, new)
        return
    if any(old.get(name) != new.get(name) for name in ("orchestratorVersion", "osSku")):
        surge = int((new.get("upgradeSettings") or {}).get("maxSurge", 0))
        _reimage(account, replace(before, source=group.source), surge)
    if (before.labels, before.taints) != (group.labels, group.taints):
        nodes.relabel(account, group, before)
    if old.get("nodeCount") != new.get("nodeCount"):
        nodes.scale(account, group)


def _move(account: Account, group: nodes.NodeGroup, pool: Properties) -> None:
    """Move the nodes to a temporary pool and back, as the provider does for properties that AKS cannot change."""
    if not pool.get("temporaryNameForRotation"):
        raise Refused(f"`temporary_name_for_rotation` must be specified when updating any of {list(CYCLED)}")
    old = nodes.names_of(account, group.id)
    for why in ("moved to the temporary pool", "moved back"):
        for _ in range(group.size):
            nodes.add(account, group)
        for name in old:
            nodes.remove(account, group.cluster, name, why=why)
        old = nodes.names_of(account, group.id)


def _reimage(account: Account, group: nodes.NodeGroup, surge: int) -> None:
    """Replace the operating system of every node. Surge nodes exist until all nodes are done."""
    names = nodes.names_of(account, group.id)
    extra = [nodes.add(account, group, surge=True) for _ in range(min(surge, len(names)))]
    for name in names:
        nodes.remove(account, group.cluster, name, why="rolled")
        nodes.add(account, group, name=name)
    for name in extra:
        nodes.remove(account, group.cluster, name, why="surge ended")


def _agent_pool(cluster: Properties, pool: Properties) -> nodes.NodeGroup:
    inputs = cluster["inputs"]
    own = {"orchestratorVersion": inputs["kubernetesVersion"], **pool}
    return _group(inputs["name"], pool["kubernetesClusterId"], own, mode="user")


def _group(cluster: str, cluster_id: str, pool: Properties, *, mode: str) -> nodes.NodeGroup:
    spot = {"kubernetes.azure.com/scalesetpriority": "spot"} if pool.get("priority") == "Spot" else {}
    return nodes.NodeGroup(
        id=f"{cluster_id}/agentPools/{pool['name']}",
        cluster=cluster,
        machine_type=pool["vmSize"],
        size=pool["nodeCount"],
        labels=pool.get("nodeLabels", {}),
        added_labels={
            "kubernetes.azure.com/agentpool": pool["name"],
            "kubernetes.azure.com/mode": mode,
            **spot,
        },
        taints=[_taint(text) for text in pool.get("nodeTaints", ())],
        names=f"aks-{pool['name']}-38294717-vmss{{}}",
        source={"version": pool["orchestratorVersion"]},
    )


def _taint(text: str) -> Mapping[str, str]:
    found = _TAINT.fullmatch(text)
    if found is None:
        raise Refused(f"InvalidParameter: the taint {text!r} is not of the form key=value:Effect")
    return found.groupdict()


def _cluster(account: Account, pool: Properties) -> Mapping[str, Any]:
    cluster = account.get(CLUSTER, pool["kubernetesClusterId"])
    if cluster is None:
        raise Refused(f"{pool['kubernetesClusterId']} was not found")
    return cluster


def _minor(version: str) -> int:
    return int(version.split(".")[1])


def _refuse_version(version: str) -> None:
    if version not in VERSIONS:
        raise Refused(f"K8sVersionNotSupported: version {version} is not supported in this region")


def _refuse_wrong_size(pool: Properties) -> None:
    """Raise Refused if a new pool does not begin within the limits of its autoscaler."""
    sizes = [pool[name] for name in ("minCount", "nodeCount", "maxCount") if name in pool]
    if sizes != sorted(sizes):
        raise Refused(f"InvalidParameter: the count must be between min_count and max_count: {sizes}")


def _refuse_missing_role(account: Account, inputs: Properties) -> None:
    """Raise Refused if the cluster's identity may not join nodes to the subnet of the system nodes."""
    subnet = inputs["defaultNodePool"]["vnetSubnetId"]
    principals = [
        (account.get(IDENTITY, one) or {})["outputs"]["principalId"] for one in inputs["identity"]["identityIds"]
    ]
    if not any(has_role(account, subnet, "Network Contributor", one) for one in principals):
        raise Refused(f"LinkedAuthorizationFailed: no permission for subnets/join/action on {subnet}")


def _refuse_wrong_pool(pool: Properties, cluster_version: str) -> None:
    """Raise Refused for a pool that the provider or AKS does not accept."""
    version, spot = pool.get("orchestratorVersion", cluster_version), pool.get("priority") == "Spot"
    upgrade = pool.get("upgradeSettings") or {}
    if not _NAME.fullmatch(pool["name"]):
        raise Refused(f"InvalidParameter: {pool['name']!r} is not a name of 1 to 12 lower-case letters and digits")
    if not 0 <= _minor(cluster_version) - _minor(version) <= _MAX_SKEW:
        raise Refused(
            f"The Kubernetes/Orchestrator Version {version!r} is not available for Node Pool {pool['name']!r}: "
            f"the cluster is running version {cluster_version!r}"
        )
    if not pool.get("autoScalingEnabled") and (pool.get("minCount") or pool.get("maxCount")):
        raise Refused("`max_count` and `min_count` must be set to `null` when auto_scaling_enabled is `false`")
    if spot and upgrade:
        raise Refused("Spot pools do not support `max_surge` and `max_unavailable`")
    if not spot and upgrade and bool(upgrade.get("maxSurge")) == bool(upgrade.get("maxUnavailable")):
        raise Refused("one of `max_surge` and `max_unavailable` must be specified in `upgrade_settings`")
    if not spot and ("evictionPolicy" in pool or "spotMaxPrice" in pool):
        raise Refused("`eviction_policy` can only be set when `priority` is set to `Spot`")
