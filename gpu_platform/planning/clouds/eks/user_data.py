"""What an EKS node is told at its first boot: a NodeConfig on AL2023, settings on Bottlerocket.

Sources: awslabs/amazon-eks-ami, nodeadm's API, examples and kubelet defaults, 2026-07-23; bottlerocket.dev 1.54,
settings reference (kubernetes, kubelet-device-plugins, bootstrap-commands); read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Mapping
from email.mime.multipart import MIMEMultipart
from email.mime.nonmultipart import MIMENonMultipart
from typing import Any, cast

import tomli_w

from gpu_platform.catalog.models import MachineType
from gpu_platform.planning.clouds.eks.network import wants_efa
from gpu_platform.planning.clouds.eks.plan import ClusterAccess, UserData
from gpu_platform.planning.config_maps import as_yaml
from gpu_platform.planning.nodes.allocatable import EVICTION_MIB, kube_reserved
from gpu_platform.planning.nodes.section import Kubelet, Taint
from gpu_platform.planning.nodes.software import NodeSoftware
from gpu_platform.spec.pool import Mig, Mps, Pool, Sharing, TimeSlicing

_BOUNDARY = "NODECONFIG"  # a drawn one would change the launch template on every run
_BOTTLEROCKET_STATE = ("/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods")
_EFA_HUGE_PAGES = "5128"  # of 2 MiB: what EFA's installer, which AL2023 has and Bottlerocket has not, sets aside

_MIG_MODELS: Mapping[str, str] = {  # GPU models in the words of Bottlerocket's MIG manager
    "a100-40gb": "a100.40gb",
    "a100-80gb": "a100.80gb",
    "h100-80gb": "h100.80gb",
    "h200-141gb": "h200.141gb",
    "b200": "b200.180gb",
}


def user_data(
    pool: Pool, machine: MachineType, software: NodeSoftware, kubelet: Kubelet | None
) -> UserData | None:
    """Return what the nodes of a pool are told beside what EKS or Karpenter tells them; None: nothing."""
    nvme = pool.local_nvme and machine.local_nvme_gb > 0
    if pool.image.family == "bottlerocket":
        settings = _bottlerocket(pool, machine, software, kubelet, nvme)
        return UserData(format="bottlerocket", settings=settings, joins=False) if settings else None
    spec: dict[str, Any] = {}
    if nvme:
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    if kubelet is not None:
        spec["kubelet"] = {"config": _kubelet_config(machine, kubelet)}
    return UserData(format="nodeadm", settings=_node_config(spec), joins=False) if spec else None


def with_own_image(
    told: UserData | None, pool: Pool, labels: Mapping[str, str], taints: tuple[Taint, ...]
) -> UserData:
    """Return what nodes of an own image are told: EKS tells them nothing, so labels and taints go in as well.

    The cluster's own facts are outputs; `write_user_data` takes them.
    """
    if pool.image.family == "bottlerocket":
        by_key: dict[str, list[str]] = {}
        for taint in taints:
            by_key.setdefault(taint.key, []).append(f"{taint.value}:{taint.effect}")
        registered = {"kubernetes": {"node-labels": dict(labels), "node-taints": by_key}}
        return UserData(
            format="bottlerocket", settings=_merged(told.settings if told else {}, registered), joins=True
        )
    flags = [
        "--node-labels=" + ",".join(f"{key}={value}" for key, value in labels.items()),
        "--register-with-taints=" + ",".join(f"{one.key}={one.value}:{one.effect}" for one in taints),
    ]
    config = _node_config({"kubelet": {"flags": flags}})
    return UserData(format="nodeadm", settings=_merged(told.settings if told else {}, config), joins=True)


def write_user_data(told: UserData, cluster: ClusterAccess | None = None) -> str:
    """Return user data as text: MIME with one NodeConfig, or TOML.

    `cluster` is written in where `joins` asks for it, and nowhere else.
    """
    if told.format == "bottlerocket":
        joining = {} if cluster is None or not told.joins else {"kubernetes": _bottlerocket_cluster(cluster)}
        return tomli_w.dumps({"settings": _merged(told.settings, joining)})
    joining = {} if cluster is None or not told.joins else {"spec": {"cluster": _nodeadm_cluster(cluster)}}
    document = MIMEMultipart("mixed", boundary=_BOUNDARY)
    part = MIMENonMultipart("application", "node.eks.aws")
    part.set_payload(as_yaml(_merged(told.settings, joining)))
    document.attach(part)
    return document.as_string()


def _node_config(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": dict(spec)}


def _nodeadm_cluster(cluster: ClusterAccess) -> dict[str, str]:
    return {
        "name": cluster.name,
        "apiServerEndpoint": cluster.endpoint,
        "certificateAuthority": cluster.certificate_authority,
        "cidr": cluster.service_cidr,
    }


def _bottlerocket_cluster(cluster: ClusterAccess) -> dict[str, str]:
    return {
        "cluster-name": cluster.name,
        "api-server": cluster.endpoint,
        "cluster-certificate": cluster.certificate_authority,
    }


def _kubelet_config(machine: MachineType, kubelet: Kubelet) -> dict[str, Any]:
    # No maxPods: on managed groups with EKS images the value in the NodeConfig that EKS adds wins over ours; with
    # an own image nodeadm derives it (EKS user guide, "How maxPods is determined", read 2026-11-22).
    config: dict[str, Any] = {
        "topologyManagerPolicy": kubelet.topology_policy,
        "topologyManagerScope": kubelet.topology_scope,
        "cpuManagerPolicy": kubelet.cpu_manager_policy,
    }
    if kubelet.memory_manager_policy == "Static":
        config |= {
            "memoryManagerPolicy": "Static",
            "kubeReserved": _reserved(machine),
            "evictionHard": _eviction(),
            "reservedMemory": [{"numaNode": 0, "limits": {"memory": _reserved_memory(machine)}}],
        }
    return config


def _reserved(machine: MachineType) -> dict[str, str]:
    kept = kube_reserved(machine)
    return {"cpu": f"{kept.cpu_millicores}m", "ephemeral-storage": "1Gi", "memory": f"{kept.memory_mib}Mi"}


def _eviction() -> dict[str, str]:
    return {"memory.available": f"{EVICTION_MIB}Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%"}


def _reserved_memory(machine: MachineType) -> str:
    """The Memory Manager's share must be the sum of both, or the kubelet stops; images reckon by pods a node."""
    return f"{kube_reserved(machine).memory_mib + EVICTION_MIB}Mi"


def _bottlerocket(
    pool: Pool, machine: MachineType, software: NodeSoftware, kubelet: Kubelet | None, nvme: bool
) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if kubelet is not None:
        settings["kubernetes"] = _bottlerocket_kubelet(machine, kubelet)
    if nvme:
        settings["bootstrap-commands"] = {
            "local-nvme": {
                "commands": [
                    ["apiclient", "ephemeral-storage", "init"],
                    ["apiclient", "ephemeral-storage", "bind", "--dirs", *_BOTTLEROCKET_STATE],
                ],
                "essential": True,
                "mode": "always",
            }
        }
    if software.device_plugin == "image" and (sharing := _bottlerocket_sharing(pool.sharing, machine)):
        settings["kubelet-device-plugins"] = {"nvidia": sharing}
    if wants_efa(pool, machine):
        settings["kernel"] = {"sysctl": {"vm.nr_hugepages": _EFA_HUGE_PAGES}}
    return settings


def _bottlerocket_kubelet(machine: MachineType, kubelet: Kubelet) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "topology-manager-policy": kubelet.topology_policy,
        "topology-manager-scope": kubelet.topology_scope,
        "cpu-manager-policy": kubelet.cpu_manager_policy,
    }
    if kubelet.memory_manager_policy == "Static":
        settings |= {
            "memory-manager-policy": "Static",
            "kube-reserved": _reserved(machine),
            "eviction-hard": _eviction(),
            "memory-manager-reserved-memory": {"0": {"enabled": True, "memory": _reserved_memory(machine)}},
        }
    return settings


def _bottlerocket_sharing(sharing: Sharing, machine: MachineType) -> dict[str, Any]:
    """Return the settings of the image's own device plugin; it cuts every GPU into one profile, as many as fit."""
    if isinstance(sharing, Mig):
        profile = next(iter(sharing.layout or {}))
        # Its names of GPU models are ours with a dot: a100.40gb.
        return {
            "device-partitioning-strategy": "mig",
            "mig": {"profile": {machine.gpu.replace("-", "."): profile}},
        }
    if not isinstance(sharing, TimeSlicing | Mps):
        return {}
    shares: dict[str, Any] = {"replicas": sharing.replicas, "rename-by-default": sharing.rename}
    if isinstance(sharing, TimeSlicing):
        shares["fail-requests-greater-than-one"] = sharing.fail_requests_greater_than_one
    return {"device-sharing-strategy": sharing.mode, sharing.mode: shares}


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return both, with maps of the same key merged; otherwise `other` counts."""
    merged = dict(one)
    for key, value in other.items():
        if isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = _merged(merged[key], cast("Mapping[str, Any]", value))
        else:
            merged[key] = value
    return merged
