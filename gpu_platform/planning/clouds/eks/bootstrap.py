"""Check the `bootstrap` field of an EKS pool. It contains commands for AL2023 or settings for Bottlerocket. A node
applies them before it joins the cluster.

Sources: bottlerocket.dev 1.54, settings reference: a node never joins if its image does not support one of its
settings; EC2 user guide, user data (16 KiB in total, including the cluster access that EKS adds); read 2026-11-25.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from gpu_platform.base.errors import did_you_mean
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.pool import Pool

_SECTIONS = (
    "aws",
    "boot",
    "bootstrap-commands",
    "bootstrap-containers",
    "container-registry",
    "container-runtime",
    "dns",
    "host-containers",
    "kernel",
    "kubernetes",
    "metrics",
    "motd",
    "network",
    "ntp",
    "oci-defaults",
    "oci-hooks",
    "pki",
    "updates",
)
_MOST_BYTES = 10 * 1024
"""Maximum number of bytes of commands and settings, out of 16 KiB of user data.

The bootstrap program and the cluster's connection details use the remaining bytes.
"""
_INSTEAD = {
    "kernel.sysctl": "write tuning.sysctls",
    "kubernetes.pod-pids-limit": "write bootstrap.kubelet.pod_pids_limit",
    "kubernetes.container-log-max-size": "write bootstrap.kubelet.container_log_max_size",
    "kubernetes.container-log-max-files": "write bootstrap.kubelet.container_log_max_files",
    "kubernetes.image-gc-high-threshold-percent": "write bootstrap.kubelet.image_gc_high_percent",
    "kubernetes.image-gc-low-threshold-percent": "write bootstrap.kubelet.image_gc_low_percent",
    "kubernetes.cpu-cfs-quota-enforced": "write bootstrap.kubelet.cpu_cfs_quota",
    "kubernetes.node-labels": "write labels in the pool",
    "kubernetes.node-taints": "write taints in the pool",
    "kubernetes.topology-manager-policy": "write topology.policy",
    "kubernetes.topology-manager-scope": "write topology.scope",
    "kubernetes.cpu-manager-policy": "write topology.policy",
    "kubernetes.memory-manager-policy": "write topology.memory",
    "kubernetes.memory-manager-reserved-memory": "write topology.memory",
    "kubernetes.api-server": "remove it",
    "kubernetes.cluster-name": "remove it",
    "kubernetes.cluster-certificate": "remove it",
    "kubernetes.max-pods": "remove the setting: the plan assumes the default number of pods on a node",
    "kubernetes.kube-reserved": "remove the setting: the plan assumes the default reservations of the kubelet",
    "kubernetes.system-reserved": "remove the setting: the plan assumes the default reservations of the kubelet",
    "kubernetes.eviction-hard": "remove the setting: the plan assumes the default reservations of the kubelet",
    "bootstrap-commands.local-nvme": "rename the command: the program already uses local-nvme",
    "container-runtime.snapshotter": "write image.fast_pull",
}
"""Suggested fix for each bootstrap setting that the program or another field already sets."""


def check_bootstrap(pool: Pool, problems: Problems) -> None:
    """Record a problem for each command and setting of `bootstrap` that the pool's image does not support.

    The paths of `problems` begin at the pool's field `bootstrap`.
    """
    declared = pool.bootstrap
    if declared is None:
        return
    bottlerocket = pool.image.family == "bottlerocket"
    if declared.commands and bottlerocket:
        problems.at("commands").add(
            f"{len(declared.commands)} on image family bottlerocket",
            "none, because Bottlerocket has no shell; use bootstrap-containers, which run before the kubelet",
            "write settings: {bootstrap-containers: {NAME: {source: IMAGE, mode: once}}}",
        )
    if declared.settings and not bottlerocket:
        problems.at("settings").add(
            f"settings of {', '.join(declared.settings)} on image family al2023",
            "none, because only Bottlerocket has settings",
            "write commands, or image: {family: bottlerocket}",
        )
    elif declared.settings:
        _check_settings(declared.settings, problems.at("settings"))
    size = sum(len(line.encode()) + 1 for line in declared.commands) + len(json.dumps(declared.settings).encode())
    if size > _MOST_BYTES:
        problems.add(
            f"{size} bytes",
            f"at most {_MOST_BYTES} bytes of commands and settings: user data has 16 KiB in total",
            "let one command fetch a script, or write a bootstrap container",
        )


def _check_settings(settings: Mapping[str, Any], here: Problems) -> None:
    for section, value in settings.items():
        if section not in _SECTIONS:
            instead = "write sharing in the pool" if section == "kubelet-device-plugins" else None
            fix = instead or did_you_mean(section, _SECTIONS) or "remove it"
            here.at(section).add(f"{section!r}", "one of " + ", ".join(_SECTIONS), fix)
        for name in cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else ():
            if fix := _INSTEAD.get(f"{section}.{name}"):
                here.at(section).at(name).add(f"{name!r}", "settings that the program does not set", fix)
