"""Write the user data of EKS nodes. AL2023 reads a NodeConfig, and Bottlerocket reads settings in TOML.

nodeadm has no field for kernel parameters. On AL2023, cloud-final.service runs scripts and the cloud-config, and
nodeadm-run.service then starts the kubelet. The kubelet starts even if the scripts or the cloud-config fail; read
2026-11-25.

Sources: awslabs/amazon-eks-ami, nodeadm's API, examples and kubelet defaults, 2026-07-23; bottlerocket.dev 1.54,
settings reference (kubernetes, kubelet-device-plugins, bootstrap-commands, container-runtime,
container-runtime-plugins, kernel); read 2026-11-21 and 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Mapping
from email.mime.multipart import MIMEMultipart
from email.mime.nonmultipart import MIMENonMultipart
from typing import Any, cast

import tomli_w
import yaml

from gpu_platform.catalog.models import MachineType
from gpu_platform.planning.clouds.eks.kubelet_limits import bottlerocket_limits, kubelet_limits
from gpu_platform.planning.clouds.eks.launch_plan import ClusterAccess, UserData
from gpu_platform.planning.clouds.eks.network import uses_efa
from gpu_platform.planning.clouds.vendors import vendor_of
from gpu_platform.planning.config_maps import as_yaml
from gpu_platform.planning.nodes.allocatable import EVICTION_MIB, kube_reserved
from gpu_platform.planning.nodes.section import KernelSettings, Kubelet, NodeBootstrap, Taint
from gpu_platform.planning.nodes.software import NodeSoftware
from gpu_platform.stack.pool import Pool
from gpu_platform.stack.sharing import Mig, Mps, Sharing, TimeSlicing

_NR_HUGE_PAGES = "vm.nr_hugepages"
_SYSCTL_FILE = "/etc/sysctl.d/99-gpu-platform.conf"
_BOUNDARY = "NODECONFIG"  # a random boundary would change the launch template on every run
_BOTTLEROCKET_STATE = ("/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods")
_SOCI_STATE = "/var/lib/soci-snapshotter"
# On AL2023, nodeadm sets the same values for parallel image pulls.
_PARALLEL_PULL = {
    "pull-mode": "parallel-pull-unpack",
    "parallel-pull-unpack": {
        "concurrent-download-chunk-size": "16mb",
        "discard-unpacked-layers": True,
        "max-concurrent-downloads-per-image": 20,
        "max-concurrent-unpacks-per-image": 12,
    },
}


def user_data(
    pool: Pool,
    machine: MachineType,
    software: NodeSoftware,
    kubelet: Kubelet | None,
    kernel: KernelSettings | None = None,
    bootstrap: NodeBootstrap | None = None,
) -> UserData | None:
    """Return the user data that a pool needs in addition to the user data that EKS or Karpenter adds, or None."""
    bootstrap = bootstrap or NodeBootstrap()
    nvme = pool.local_nvme and machine.local_nvme_gb > 0
    if pool.image.family == "bottlerocket":
        limits = {"kubernetes": bottlerocket_limits(bootstrap.kubelet)} if bootstrap.kubelet else {}
        added = _merged(bootstrap.settings, limits)
        settings = _merged(added, _bottlerocket(pool, machine, software, kubelet, nvme, _sysctls(kernel)))
        return UserData(format="bottlerocket", settings=settings, needs_cluster_access=False) if settings else None
    spec: dict[str, Any] = {}
    if nvme:
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    config = {
        **(kubelet_limits(bootstrap.kubelet) if bootstrap.kubelet is not None else {}),
        **(_kubelet_config(machine, kubelet) if kubelet is not None else {}),
    }
    if config:
        spec["kubelet"] = {"config": config}
    if pool.image.fast_pull:
        spec["featureGates"] = {"FastImagePull": True}
    sysctls = _sysctls(kernel)
    if not spec and not sysctls and not bootstrap.commands:
        return None
    settings = _node_config(spec) if spec else {}
    return UserData(
        format="nodeadm",
        settings=settings,
        needs_cluster_access=False,
        sysctls=sysctls,
        commands=bootstrap.commands,
    )


def _sysctls(kernel: KernelSettings | None) -> dict[str, str]:
    """Return the kernel parameters, including huge pages, because the kubelet counts the pages when it starts."""
    if kernel is None:
        return {}
    pages = {_NR_HUGE_PAGES: str(kernel.huge_pages)} if kernel.huge_pages else {}
    return {**kernel.sysctls, **pages}


def with_own_image(
    user_data: UserData | None, pool: Pool, labels: Mapping[str, str], taints: tuple[Taint, ...]
) -> UserData:
    """Return the user data for a custom AMI. It includes labels and taints, because EKS does not add them for a
    custom AMI.

    `write_user_data` adds the cluster's access data, which is known only during deployment.
    """
    if pool.image.family == "bottlerocket":
        by_key: dict[str, list[str]] = {}
        for taint in taints:
            by_key.setdefault(taint.key, []).append(f"{taint.value}:{taint.effect}")
        registered = {"kubernetes": {"node-labels": dict(labels), **({"node-taints": by_key} if by_key else {})}}
        return UserData(
            format="bottlerocket",
            settings=_merged(user_data.settings if user_data else {}, registered),
            needs_cluster_access=True,
        )
    flags = ["--node-labels=" + ",".join(f"{key}={value}" for key, value in labels.items())]
    if taints:
        flags.append("--register-with-taints=" + ",".join(f"{one.key}={one.value}:{one.effect}" for one in taints))
    config = _node_config({"kubelet": {"flags": flags}})
    return UserData(
        format="nodeadm",
        settings=_merged(user_data.settings if user_data else {}, config),
        needs_cluster_access=True,
        sysctls=user_data.sysctls if user_data else {},
        commands=user_data.commands if user_data else (),
    )


def write_user_data(user_data: UserData, cluster: ClusterAccess | None = None) -> str:
    """Return user data as text: MIME with a NodeConfig, kernel parameters and commands, or TOML for Bottlerocket.

    `cluster` is added only if `needs_cluster_access` is true.
    """
    if user_data.format == "bottlerocket":
        joining = (
            {}
            if cluster is None or not user_data.needs_cluster_access
            else {"kubernetes": _bottlerocket_cluster(cluster)}
        )
        return tomli_w.dumps({"settings": _merged(user_data.settings, joining)})
    joining = (
        {}
        if cluster is None or not user_data.needs_cluster_access
        else {"spec": {"cluster": _nodeadm_cluster(cluster)}}
    )
    document = MIMEMultipart("mixed", boundary=_BOUNDARY)
    if config := _merged(user_data.settings, joining):
        part = MIMENonMultipart("application", "node.eks.aws")
        part.set_payload(as_yaml(config))
        document.attach(part)
    if user_data.sysctls:
        part = MIMENonMultipart("text", "cloud-config")
        part.set_payload(f"#cloud-config\n{_cloud_config(user_data.sysctls)}")
        document.attach(part)
    if user_data.commands:
        part = MIMENonMultipart("text", "x-shellscript")
        part.set_payload("\n".join(("#!/bin/bash", "set -euo pipefail", *user_data.commands, "")))
        document.attach(part)
    return document.as_string()


def _cloud_config(sysctls: Mapping[str, str]) -> str:
    """Return a cloud-config that writes a file with kernel parameters, and loads it at the first boot.

    At later boots, the operating system loads the file itself. The style of the YAML stays as in 0.2.0, because a
    different text would replace the nodes. cloud-init also reads it with PyYAML.
    """
    lines = "".join(f"{name} = {value}\n" for name, value in sysctls.items())
    document = {
        "write_files": [{"path": _SYSCTL_FILE, "content": lines}],
        "runcmd": [["sysctl", "--load", _SYSCTL_FILE]],
    }
    # pyrefly: ignore[partially-unknown-type] - incomplete in PyYAML's stubs
    return yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False, default_flow_style=False)


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
    # The program does not set maxPods.
    # With an EKS image, the NodeConfig that EKS adds to the user data would override maxPods.
    # With a custom AMI, nodeadm derives maxPods.
    # Source: EKS user guide, "How maxPods is determined"; read 2026-11-22.
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
    """Return the sum of the kubelet's memory reservation and its eviction threshold. The memory reserved for the
    Memory Manager must equal this sum, otherwise the kubelet exits.

    By default, images derive the memory reservation from the number of pods. The program sets the reservations
    itself, so that their sum is known.
    """
    return f"{kube_reserved(machine).memory_mib + EVICTION_MIB}Mi"


def _bottlerocket(
    pool: Pool,
    machine: MachineType,
    software: NodeSoftware,
    kubelet: Kubelet | None,
    nvme: bool,
    sysctls: Mapping[str, str],
) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if kubelet is not None:
        settings["kubernetes"] = _bottlerocket_kubelet(machine, kubelet)
    directories = _BOTTLEROCKET_STATE
    if pool.image.fast_pull:
        directories = (*directories, _SOCI_STATE)
        settings["container-runtime"] = {"snapshotter": "soci"}
        settings["container-runtime-plugins"] = {"soci-snapshotter": _PARALLEL_PULL}
    if nvme:
        settings["bootstrap-commands"] = {
            "local-nvme": {
                "commands": [
                    ["apiclient", "ephemeral-storage", "init"],
                    ["apiclient", "ephemeral-storage", "bind", "--dirs", *directories],
                ],
                "essential": True,
                "mode": "always",
            }
        }
    if software.device_plugin == "image" and (sharing := _bottlerocket_sharing(pool.sharing, machine)):
        settings["kubelet-device-plugins"] = {"nvidia": sharing}
    # The EFA installer of AL2023 reserves huge pages, but Bottlerocket does not.
    pages = {_NR_HUGE_PAGES: str(vendor_of(machine).rdma_huge_pages)} if uses_efa(pool, machine) else {}
    if sysctls or pages:
        settings["kernel"] = {"sysctl": {**sysctls, **pages}}
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
    """Return the settings of the image's device plugin. With MIG, each GPU is divided into as many instances of
    one profile as fit.
    """
    if isinstance(sharing, Mig):
        profile = next(iter(sharing.layout or {}))
        # Bottlerocket writes a dot between model and memory (a100.40gb). The catalogue writes a dash.
        return {
            "device-partitioning-strategy": "mig",
            "mig": {"profile": {(machine.gpu or "").replace("-", "."): profile}},
        }
    if not isinstance(sharing, TimeSlicing | Mps):
        return {}
    shares: dict[str, Any] = {"replicas": sharing.replicas, "rename-by-default": sharing.rename}
    if isinstance(sharing, TimeSlicing):
        shares["fail-requests-greater-than-one"] = sharing.fail_requests_greater_than_one
    return {"device-sharing-strategy": sharing.mode, sharing.mode: shares}


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two mappings and their nested mappings. Every other value in `other` replaces the value in `one`."""
    merged = dict(one)
    for key, value in other.items():
        if isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = _merged(merged[key], cast("Mapping[str, Any]", value))
        else:
            merged[key] = value
    return merged
