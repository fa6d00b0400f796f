"""Nodes of the sandbox that simulates a cluster. Node groups of EKS and agent pools of AKS create them.

Each creation and removal is an event of the account with the number of GPUs. Tests compare these events with a
preview.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpu_platform.base.paths import sandbox_kubeconfig
from gpu_platform.live.client import KubernetesClient
from tests.support.played_cloud.account import Account, Refused

Properties = Mapping[str, Any]

# The GPUs, vCPUs and GiB of memory of each machine type.
# Sources: docs.aws.amazon.com/ec2/latest/instancetypes, read 2026-11-23; learn.microsoft.com, "Sizes for virtual
# machines in Azure", read 2026-11-30.
MACHINE_TYPES: Final[Mapping[str, tuple[int, int, int]]] = {
    "m6i.large": (0, 2, 8),
    "m7i.large": (0, 2, 8),
    "m6i.xlarge": (0, 4, 16),
    "m7i.xlarge": (0, 4, 16),
    "m7i.2xlarge": (0, 8, 32),
    "g6.xlarge": (1, 4, 16),
    "g6.4xlarge": (1, 16, 64),
    "g6.12xlarge": (4, 48, 192),
    "g6e.4xlarge": (1, 16, 128),
    "g6e.12xlarge": (4, 48, 384),
    "p4de.24xlarge": (8, 96, 1152),
    "p5.48xlarge": (8, 192, 2048),
    "Standard_D4ds_v5": (0, 4, 16),
    "Standard_D8ds_v5": (0, 8, 32),
    "Standard_NC4as_T4_v3": (1, 4, 28),
    "Standard_NC16as_T4_v3": (1, 16, 110),
    "Standard_NC24ads_A100_v4": (1, 24, 220),
    "Standard_NC48ads_A100_v4": (2, 48, 440),
}
_PODS: Final = 58
# A cloud waits many minutes for a node to join and become Ready. A sandbox node is Ready within seconds.
_READY_SECONDS: Final = 120.0
_UNREADY_TAINTS: Final = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
# A cloud evicts pods for 15 minutes or longer. This limit is short, because tests wait until it expires.
_DRAIN_SECONDS: Final = 20.0
_SIMULATED: Final = {"kwok.x-k8s.io/node": "fake"}
# Annotation that selects the simulated hardware of a sandbox node.
_MACHINE: Final = "sandbox.gpu-platform.dev/machine-type"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Equal nodes that a cloud creates, scales and replaces together."""

    id: str
    cluster: str
    """Name of the sandbox."""
    machine_type: str
    size: int
    """Desired number of nodes."""
    labels: Mapping[str, str]
    """Labels that the owner of the group declares."""
    added_labels: Mapping[str, str]
    """Labels that the cloud adds."""
    taints: Sequence[Mapping[str, str]]
    names: str
    """Names of the nodes, with `{}` for a random part."""
    source: Properties
    """Properties of a new node that other nodes of the group may not have yet."""


def add(account: Account, group: NodeGroup, *, name: str | None = None, surge: bool = False) -> str:
    """Start a machine, which joins the cluster as a node. Return the name of the node, which is new by default.

    A `surge` node exists only until the group's other nodes have been replaced.
    """
    if group.machine_type not in MACHINE_TYPES:
        raise Refused(f"InvalidParameter: the machine type {group.machine_type} does not exist")
    gpus, cpus, memory = MACHINE_TYPES[group.machine_type]
    name = name or group.names.format(secrets.token_hex(3))
    labels = {
        **group.labels,
        **group.added_labels,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": group.machine_type,
    }
    annotations = {**_SIMULATED, **({_MACHINE: group.machine_type} if gpus else {})}
    client = _client(group.cluster)
    client.create(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels, "annotations": annotations},
            "spec": {"taints": list(group.taints)},
        }
    )
    if not gpus:  # the sandbox's simulator handles only machines with GPUs
        _set_capacity(client, name, {"cpu": str(cpus), "memory": f"{memory}Gi", "pods": str(_PODS)})
    _await_ready(client, name)
    entry = {"pool": group.labels.get("gpu-platform.dev/pool"), "gpus": gpus, "surge": surge}
    known = {"node": name, "group": group.id, "type": group.machine_type, **entry}
    account.resources[f"instance {name}"] = {"inputs": dict(group.source), "outputs": known}
    account.record("node created", **known)
    return name


def scale(account: Account, group: NodeGroup) -> None:
    """Scale a group to its desired number of nodes. The oldest nodes are deleted."""
    names = names_of(account, group.id)
    for name in names[: max(0, len(names) - group.size)]:
        remove(account, group.cluster, name, why="scaled in")
    for _ in range(group.size - len(names)):
        add(account, group)


def relabel(account: Account, group: NodeGroup, old: NodeGroup) -> None:
    """Change the labels and taints of existing nodes. Labels and taints from other sources stay."""
    client = _client(group.cluster)
    labels = {**dict.fromkeys(old.labels), **group.labels}
    before = {(one["key"], one["effect"]) for one in old.taints}
    for name in names_of(account, group.id):
        node = client.get("v1", "Node", name)
        if node is None:
            continue
        others = [t for t in node["spec"].get("taints") or () if (t["key"], t["effect"]) not in before]
        client.merge(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": labels},
                "spec": {"taints": [*others, *group.taints]},
            }
        )


def remove_all(account: Account, group: str, cluster: str) -> None:
    """Drain and delete every node of a group."""
    for name in names_of(account, group):
        remove(account, cluster, name, why="group deleted")


def schedulable(account: Account, cluster: str) -> bool:
    """Return whether a cluster has a node without taints."""
    return any(not node["spec"].get("taints") for node in _client(cluster).objects("v1", "Node"))


def names_of(account: Account, group: str) -> list[str]:
    """Return the nodes of a group, oldest first."""
    return [
        key.removeprefix("instance ")
        for key, resource in account.resources.items()
        if key.startswith("instance ") and resource["outputs"]["group"] == group
    ]


def remove(account: Account, cluster: str, name: str, *, why: str) -> None:
    """Drain and delete a node. Raises Refused if a pod cannot be evicted."""
    client = _client(cluster)
    _drain(client, name)
    if (node := client.get("v1", "Node", name)) is not None:
        client.delete(node)
    known = account.resources.pop(f"instance {name}")
    account.record("node removed", why=why, **known["outputs"])


def _await_ready(client: KubernetesClient, name: str) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while True:
        node = client.get("v1", "Node", name) or {"spec": {}, "status": {}}
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", ()))
        if ready and not _UNREADY_TAINTS & {taint["key"] for taint in node["spec"].get("taints") or ()}:
            return
        if time.monotonic() > deadline:
            raise Refused(f"NodeCreationFailure: Instances failed to join the kubernetes cluster: {name}")
        time.sleep(0.1)


def _drain(client: KubernetesClient, node: str) -> None:
    if client.get("v1", "Node", node) is None:
        return
    client.merge({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "spec": {"unschedulable": True}})
    deadline = time.monotonic() + _DRAIN_SECONDS
    while pods := [pod for pod in client.objects("v1", "Pod") if _is_drained(pod, node)]:
        if time.monotonic() > deadline:
            raise Refused(f"PodEvictionFailure: Reached max retries while trying to evict pods from {node}")
        for pod in pods:
            client.evict(pod)
        time.sleep(0.2)


def _is_drained(pod: Mapping[str, Any], node: str) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    of_daemon_set = any(owner["kind"] == "DaemonSet" for owner in owners)
    ended = pod["status"].get("phase") in ("Succeeded", "Failed")
    return pod["spec"].get("nodeName") == node and not of_daemon_set and not ended


def _set_capacity(client: KubernetesClient, name: str, amounts: Mapping[str, str]) -> None:
    status = {"capacity": dict(amounts), "allocatable": dict(amounts)}
    client._connection.request(
        "PATCH",
        f"/api/v1/nodes/{name}/status",
        f"setting the capacity of {name}",
        body={"status": status},
        content_type="application/merge-patch+json",
    )


def _client(cluster: str) -> KubernetesClient:
    return KubernetesClient(sandbox_kubeconfig(cluster))
