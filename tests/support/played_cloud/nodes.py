"""Instances of a node group, as nodes of the sandbox that simulates its cluster.

Each creation and removal is an event of the account with the number of GPUs. Tests compare these events with a
preview.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpu_platform.base.paths import sandbox_kubeconfig
from gpu_platform.live.client import KubernetesClient
from tests.support.played_cloud.account import Account, Refused

Properties = Mapping[str, Any]

# The GPUs, vCPUs and GiB of memory of each instance type.
# Source: specifications on docs.aws.amazon.com/ec2/latest/instancetypes (read 2026-11-23).
INSTANCE_TYPES: Final[Mapping[str, tuple[int, int, int]]] = {
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
}
_GROUP_LABEL: Final = "eks.amazonaws.com/nodegroup"
_EFFECTS: Final = {
    "NO_SCHEDULE": "NoSchedule",
    "NO_EXECUTE": "NoExecute",
    "PREFER_NO_SCHEDULE": "PreferNoSchedule",
}
_PODS: Final = 58
# EKS waits 15 minutes for a node to join and become Ready. A sandbox node is Ready within seconds.
_READY_SECONDS: Final = 120.0
_UNREADY_TAINTS: Final = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
# EKS evicts pods for up to 15 minutes. This limit is short, because tests wait until it expires.
_DRAIN_SECONDS: Final = 20.0
_SIMULATED: Final = {"kwok.x-k8s.io/node": "fake"}
# Annotation that selects the simulated hardware of a sandbox node.
_MACHINE: Final = "sandbox.gpu-platform.dev/machine-type"


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """A node group, with the properties of the nodes that it creates."""

    id: str
    inputs: Properties
    outputs: Properties
    template: Properties

    @property
    def cluster(self) -> str:
        return self.inputs["clusterName"]

    @property
    def name(self) -> str:
        return self.inputs["nodeGroupName"]

    @property
    def instance_type(self) -> str:
        return self.template.get("instanceType") or self.inputs["instanceTypes"][0]


def add(account: Account, group: NodeGroup) -> None:
    """Start an instance, which joins the cluster as a node."""
    if group.instance_type not in INSTANCE_TYPES:
        raise Refused(f"InvalidParameterValue: Invalid value '{group.instance_type}' for InstanceType")
    gpus, cpus, memory = INSTANCE_TYPES[group.instance_type]
    name = f"ip-10-0-{secrets.randbelow(256)}-{secrets.token_hex(3)}.us-east-2.compute.internal"
    labels = {
        **group.inputs.get("labels", {}),
        _GROUP_LABEL: group.name,
        "eks.amazonaws.com/capacityType": group.inputs.get("capacityType", "ON_DEMAND"),
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": group.instance_type,
    }
    annotations = {**_SIMULATED, **({_MACHINE: group.instance_type} if gpus else {})}
    client = _client(group.cluster)
    client.create(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels, "annotations": annotations},
            "spec": {"taints": _taints(group.inputs)},
        }
    )
    if not gpus:  # the sandbox's simulator handles only machines with GPUs
        _set_capacity(client, name, {"cpu": str(cpus), "memory": f"{memory}Gi", "pods": str(_PODS)})
    _await_ready(client, name)
    entry = {"pool": group.inputs.get("labels", {}).get("gpu-platform.dev/pool"), "gpus": gpus}
    known = {"node": name, "group": group.id, "type": group.instance_type, **entry}
    account.resources[f"instance {name}"] = {
        "inputs": {"template": group.inputs["launchTemplate"], "version": group.outputs["version"]},
        "outputs": known,
    }
    account.record("node created", **known)


def scale(account: Account, group: NodeGroup) -> None:
    """Scale a group to its desired number of nodes. The Auto Scaling group terminates the oldest nodes."""
    names = _names(account, group.id)
    desired = group.inputs["scalingConfig"]["desiredSize"]
    for name in names[: max(0, len(names) - desired)]:
        _remove(account, group.cluster, name, why="scaled in")
    for _ in range(desired - len(names)):
        add(account, group)


def roll(account: Account, group: NodeGroup) -> None:
    """Replace every node with a node of the new version. The strategy DEFAULT creates the new node first."""
    minimal = group.inputs.get("updateConfig", {}).get("updateStrategy") == "MINIMAL"
    for name in _names(account, group.id):
        if minimal:
            _remove(account, group.cluster, name, why="rolled")
            add(account, group)
        else:
            add(account, group)
            _remove(account, group.cluster, name, why="rolled")
    account.record("rolled", group=group.id)


def relabel(account: Account, group: NodeGroup, old: Properties) -> None:
    """Change a node group's labels and taints on existing nodes, as UpdateNodegroupConfig does.

    Labels and taints from other sources stay.
    """
    client = _client(group.cluster)
    labels = {**dict.fromkeys(old.get("labels", {})), **group.inputs.get("labels", {})}
    before = {(one["key"], one["effect"]) for one in _taints(old)}
    for name in _names(account, group.id):
        node = client.get("v1", "Node", name)
        if node is None:
            continue
        others = [t for t in node["spec"].get("taints") or () if (t["key"], t["effect"]) not in before]
        client.merge(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": labels},
                "spec": {"taints": [*others, *_taints(group.inputs)]},
            }
        )


def remove_all(account: Account, group: str, cluster: str) -> None:
    """Drain and terminate every node of a group."""
    for name in _names(account, group):
        _remove(account, cluster, name, why="group deleted")


def schedulable(account: Account, cluster: str) -> bool:
    """Return whether a cluster has a node without taints."""
    return any(not node["spec"].get("taints") for node in _client(cluster).objects("v1", "Node"))


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


def _names(account: Account, group: str) -> list[str]:
    """Return the nodes of a group, oldest first."""
    return [
        key.removeprefix("instance ")
        for key, resource in account.resources.items()
        if key.startswith("instance ") and resource["outputs"]["group"] == group
    ]


def _remove(account: Account, cluster: str, name: str, *, why: str) -> None:
    client = _client(cluster)
    _drain(client, name)
    if (node := client.get("v1", "Node", name)) is not None:
        client.delete(node)
    known = account.resources.pop(f"instance {name}")
    account.record("node removed", why=why, **known["outputs"])


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


def _taints(inputs: Properties) -> list[dict[str, str]]:
    return [
        {
            "key": one["key"],
            "effect": _EFFECTS[one["effect"]],
            **({"value": one["value"]} if "value" in one else {}),
        }
        for one in inputs.get("taints", ())
    ]


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
