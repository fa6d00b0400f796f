"""Plan the DaemonSets that install GPUDirect on GKE nodes, and the driver if the operator does not install it.

Container-Optimized OS has no package manager and a read-only root. Drivers and libraries are installed in
/home/kubernetes/bin/nvidia on the host, where the device plugins of GKE and of the operator look for them. All
DaemonSets run in kube-system, the only namespace that admits system-node-critical pods without a ResourceQuota.

Source: GoogleCloudPlatform/container-engine-accelerators, commit 992db812 of 2026-06-11 (its folders
nvidia-driver-installer/cos, gpudirect-* and nri_device_injector); NVIDIA GPU Operator docs, Google GKE. Driver
versions: cos/tools, cos_gpu_installer/internal/commands/install.go (default, latest, or a full version, which is
downloaded under exactly that name); read 2026-11-29.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpu_platform.base import names
from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.daemonsets import pause_container
from gpu_platform.planning.clouds.gke.plan import GkePoolPlan
from gpu_platform.planning.clouds.gke.software import NVIDIA_DIR
from gpu_platform.planning.clouds.section import DaemonSetPlan
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.system_priorities import NODE_CRITICAL

NAMESPACE = "kube-system"
ACCELERATOR_LABEL = "cloud.google.com/gke-accelerator"
# The default driver of the node image is used for GPUs that need no newer branch.
# GPUs that need a newer branch use the latest driver for the node image.
OLDEST_DEFAULT_BRANCH = 535

DRIVER_IMAGE = "gke-cos-driver-installer"
INJECTOR_IMAGE = "gke-device-injector"
TCPX_IMAGE = "gke-tcpx-installer"
TCPXO_IMAGE = "gke-tcpxo-installer"
GIB_IMAGES: Mapping[str, str] = {"amd64": "gke-gib-installer", "arm64": "gke-gib-installer-arm64"}
HOST_TOOLS_IMAGE = "node-agent-python"  # a Debian image that is used only for nsenter

_Pool = tuple[PoolPlan, GkePoolPlan]


def plan_installers(pools: Sequence[_Pool], catalog: Catalog) -> tuple[DaemonSetPlan, ...]:
    """Return the DaemonSets that the pools need. Each DaemonSet selects only the nodes of pools that need it."""
    prepared = [
        *_driver_installers(pools, catalog),
        *_fabric_installer("tcpx", "gpudirect-tcpx-installer", pools, catalog, [_tcpx(catalog)]),
        *_fabric_installer(
            "tcpxo", "gpudirect-tcpxo-installer", pools, catalog, [_open_host(catalog), _tcpxo(catalog)]
        ),
        *_gib_installers(pools, catalog),
        *_device_injector(pools, catalog),
    ]
    return tuple(prepared)


# -- the driver -------------------------------------------------------------------------------------------


def _driver_installers(pools: Sequence[_Pool], catalog: Catalog) -> Iterable[DaemonSetPlan]:
    own = [pool for pool in pools if pool[0].software.driver == "installer"]
    newest = [
        pool
        for pool in own
        if pool[0].driver_version is None
        and catalog.gpus[pool[0].gpu_model].minimum_driver_branch > OLDEST_DEFAULT_BRANCH
    ]
    others = [pool for pool in own if pool not in newest]
    if others:
        # The stack file contains one driver version for all pools.
        version = others[0][0].driver_version or "default"
        yield _on_nodes("gpu-driver-installer", others, catalog, [_driver(catalog, version)], _DRIVER_VOLUMES)
    if newest:
        yield _on_nodes(
            "gpu-driver-installer-latest", newest, catalog, [_driver(catalog, "latest")], _DRIVER_VOLUMES
        )


# Maps the name of each volume to its path on the host and its path in the container.
_DRIVER_MOUNTS: Mapping[str, tuple[str, str]] = {
    "dev": ("/dev", "/dev"),
    "nvidia": (NVIDIA_DIR, "/usr/local/nvidia"),
    "vulkan": (f"{NVIDIA_DIR}/vulkan/icd.d", "/etc/vulkan/icd.d"),
    "cos-tools": ("/var/lib/cos-tools", "/build/cos-tools"),
    "root": ("/", "/root"),
}
_DRIVER_VOLUMES: Mapping[str, str] = {name: host for name, (host, _) in _DRIVER_MOUNTS.items()}


def _driver(catalog: Catalog, version: str) -> Mapping[str, Any]:
    return {
        "name": "install-driver",
        "image": catalog.images[DRIVER_IMAGE].reference,
        "imagePullPolicy": "Never",
        "command": ["bash", "-c"],
        "args": [
            _script(
                # A loaded kernel module cannot be replaced while pods use the module.
                # A new driver is installed when a node boots, because init containers then run again.
                # The installer reuses the installed files only for the same driver version and image build.
                # Source: cos/tools, cos_gpu_installer/internal/installer/cache.go; read 2026-11-29.
                "if lsmod | grep -q '^nvidia '; then",
                "  echo 'a driver is loaded; nothing to do'",
                "else",
                f"  /cos-gpu-installer install --version={version}",
                "  chmod 755 /usr/local/nvidia",
                "fi",
            )
        ],
        "env": [
            _variable("NVIDIA_INSTALL_DIR_HOST", _DRIVER_MOUNTS["nvidia"][0]),
            _variable("NVIDIA_INSTALL_DIR_CONTAINER", _DRIVER_MOUNTS["nvidia"][1]),
            _variable("VULKAN_ICD_DIR_HOST", _DRIVER_MOUNTS["vulkan"][0]),
            _variable("VULKAN_ICD_DIR_CONTAINER", _DRIVER_MOUNTS["vulkan"][1]),
            _variable("COS_TOOLS_DIR_HOST", _DRIVER_MOUNTS["cos-tools"][0]),
            _variable("COS_TOOLS_DIR_CONTAINER", _DRIVER_MOUNTS["cos-tools"][1]),
            _variable("ROOT_MOUNT_DIR", _DRIVER_MOUNTS["root"][1]),
        ],
        "volumeMounts": [_mount(name, path) for name, (_, path) in _DRIVER_MOUNTS.items()],
        **_PRIVILEGED,
    }


# -- GPUDirect --------------------------------------------------------------------------------------------


def _fabric_installer(
    fabric: str, name: str, pools: Sequence[_Pool], catalog: Catalog, steps: Sequence[Mapping[str, Any]]
) -> Iterable[DaemonSetPlan]:
    wired = [pool for pool in pools if pool[1].fabric == fabric]
    if wired:
        yield _on_nodes(name, wired, catalog, steps, {"var-lib": "/var/lib", "libraries": "/home/kubernetes/bin"})


def _tcpx(catalog: Catalog) -> Mapping[str, Any]:
    return _plugin(catalog, TCPX_IMAGE, _copy_plugin("/var/lib/tcpx"), _TCPX_MOUNTS)


def _tcpxo(catalog: Catalog) -> Mapping[str, Any]:
    # Some releases of the image ship the script without its executable bit.
    steps = ("chmod 755 /scripts/container_entry.sh", *_copy_plugin("/var/lib/tcpxo"))
    return _plugin(catalog, TCPXO_IMAGE, steps, _TCPX_MOUNTS)


_TCPX_MOUNTS: Mapping[str, str] = {"var-lib": "/var/lib", "libraries": "/usr/local"}


def _copy_plugin(source: str) -> tuple[str, ...]:
    return (
        "/scripts/container_entry.sh install --install-nccl",
        "mkdir -p /usr/local/nvidia/lib64",
        f"cp -r {source}/lib64/. /usr/local/nvidia/lib64",
    )


def _open_host(catalog: Catalog) -> Mapping[str, Any]:
    """Return the container that prepares TCPXO hosts.

    The container adds a firewall rule that accepts TCPXO traffic, loads the kernel module for TCPXO, and mounts
    the apertures of the NICs.
    """
    apertures = "/dev/aperture_devices"
    accept = "INPUT --protocol tcp --jump ACCEPT"
    return {
        "name": "prepare-host",
        "image": catalog.images[HOST_TOOLS_IMAGE].reference,
        # The script runs in the namespaces of the host.
        "command": ["nsenter", "--all", "--target", "1", "--", "bash", "-c"],
        "args": [
            _script(
                # Container-Optimized OS drops unknown traffic, even between GPU NICs.
                f"iptables --check {accept} || iptables --insert {accept}",
                "modprobe import-helper",
                "lspci -nn -D | awk '/1ae0:0084/ {print $1}' | while read -r nic; do",
                f'  aperture="{apertures}/$nic"',
                '  mkdir -p "$aperture"',
                '  device="$(readlink -f "/sys/bus/pci/devices/$nic")"',
                '  grep -q " $aperture " /proc/mounts || mount --bind "$device" "$aperture"',
                '  chmod -R a+r "$aperture"',
                '  chmod a+rw "$aperture"/resource*',
                "done",
            )
        ],
        **_PRIVILEGED,
    }


def _gib_installers(pools: Sequence[_Pool], catalog: Catalog) -> Iterable[DaemonSetPlan]:
    """Return the installers for RDMA over converged Ethernet. The plugin has a separate image for Arm."""
    host = {"libraries": f"{NVIDIA_DIR}/lib64", "gib": "/home/kubernetes/bin/gib"}
    mounts = {"libraries": "/host/lib64", "gib": "/host/gib"}
    steps = (
        "/scripts/container_entry.sh install",
        "cp -r /var/lib/gib/lib64/. /host/lib64",
        "cp -r /var/lib/gib/. /host/gib",
    )
    for architecture, image in GIB_IMAGES.items():
        wired = [pool for pool in pools if pool[1].fabric == "rdma" and pool[0].architecture == architecture]
        if wired:
            name = "gpudirect-rdma-installer" + ("" if architecture == "amd64" else f"-{architecture}")
            yield _on_nodes(name, wired, catalog, [_plugin(catalog, image, steps, mounts)], host)


def _plugin(catalog: Catalog, image: str, steps: Sequence[str], mounts: Mapping[str, str]) -> Mapping[str, Any]:
    return {
        "name": "install-plugin",
        "image": catalog.images[image].reference,
        "command": ["/bin/sh", "-c"],
        "args": [_script(*steps)],
        "volumeMounts": [_mount(name, path) for name, path in mounts.items()],
        **_PRIVILEGED,  # as in Google's manifest; the source of its script is not public
    }


def _device_injector(pools: Sequence[_Pool], catalog: Catalog) -> Iterable[DaemonSetPlan]:
    """Yield the DaemonSet that gives the GPUDirect-TCPX and -TCPXO receive daemons access to the GPU devices.

    Without this DaemonSet, the daemons' pods would have to be privileged.
    """
    wired = [pool for pool in pools if pool[1].fabric in {"tcpx", "tcpxo"}]
    if not wired:
        return
    volumes = {"dev": "/dev", "nri": "/var/run/nri"}
    injector = {
        "name": "device-injector",
        "image": catalog.images[INJECTOR_IMAGE].reference,
        "volumeMounts": [_mount(name, path) for name, path in volumes.items()],
        **_PRIVILEGED,
    }
    yield DaemonSetPlan(
        name="gpu-device-injector",
        namespace=NAMESPACE,
        pod_spec={**_node_pod(wired, volumes), "containers": [injector]},
    )


# -- pods -------------------------------------------------------------------------------------------------


_PRIVILEGED: Mapping[str, Any] = {
    "resources": {"requests": {"cpu": "150m", "memory": "64Mi"}},
    "securityContext": {"privileged": True},
}


def _on_nodes(
    name: str,
    pools: Sequence[_Pool],
    catalog: Catalog,
    steps: Sequence[Mapping[str, Any]],
    volumes: Mapping[str, str],
) -> DaemonSetPlan:
    """Return a DaemonSet that runs the installation steps once on each node of the pools. Afterwards, only a pause
    container runs in its pods.
    """
    return DaemonSetPlan(
        name=name,
        namespace=NAMESPACE,
        pod_spec={
            **_node_pod(pools, volumes),
            "initContainers": list(steps),
            "containers": [pause_container(catalog)],
        },
    )


def _node_pod(pools: Sequence[_Pool], volumes: Mapping[str, str]) -> dict[str, Any]:
    accelerators = {cloud.accelerator.type for _, cloud in pools if cloud.accelerator is not None}
    return {
        "priorityClassName": NODE_CRITICAL,
        "automountServiceAccountToken": False,
        # The pods use the host's network, as in Google's manifests.
        # The nodes that these pods prepare are not Ready and have no pod network yet.
        "hostNetwork": True,
        "hostPID": True,
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                _one_of(ACCELERATOR_LABEL, accelerators),
                                _one_of(names.POOL_LABEL, {pool.name for pool, _ in pools}),
                            ]
                        }
                    ]
                }
            }
        },
        # The pods tolerate every taint of the pools, and the taints that GKE adds (Arm, queued provisioning).
        "tolerations": [{"operator": "Exists"}],
        "volumes": [
            {"name": name, "hostPath": {"path": path, "type": _PATH_TYPES.get(path, "DirectoryOrCreate")}}
            for name, path in volumes.items()
        ],
    }


_PATH_TYPES: Mapping[str, str] = {"/": "Directory", "/dev": "Directory", "/var/lib": "Directory"}


def _one_of(label: str, values: Iterable[str]) -> Mapping[str, Any]:
    return {"key": label, "operator": "In", "values": sorted(values)}


def _script(*lines: str) -> str:
    return "\n".join(["set -ex", *lines, ""])


def _variable(name: str, value: str) -> Mapping[str, str]:
    return {"name": name, "value": value}


def _mount(name: str, path: str) -> Mapping[str, str]:
    return {"name": name, "mountPath": path}
