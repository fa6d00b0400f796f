"""Limits of the kubelet, as fields of KubeletConfiguration (AL2023) and as settings of Bottlerocket.

Sources: kubernetes.io, KubeletConfiguration v1beta1; bottlerocket.dev 1.54, kubernetes settings; read 2026-11-25.
"""

from __future__ import annotations

from typing import Any

from gpu_platform.planning.nodes.section import KubeletLimits


def kubelet_limits(limits: KubeletLimits) -> dict[str, Any]:
    """Return the KubeletConfiguration fields of all limits that are set."""
    return _set(
        {
            "podPidsLimit": limits.pod_pids_limit,
            "containerLogMaxSize": limits.container_log_max_size,
            "containerLogMaxFiles": limits.container_log_max_files,
            "imageGCHighThresholdPercent": limits.image_gc_high_percent,
            "imageGCLowThresholdPercent": limits.image_gc_low_percent,
            "cpuCFSQuota": limits.cpu_cfs_quota,
        }
    )


def bottlerocket_limits(limits: KubeletLimits) -> dict[str, Any]:
    """Return the `kubernetes` settings of Bottlerocket for all limits that are set. Percentages are strings."""
    high, low = limits.image_gc_high_percent, limits.image_gc_low_percent
    return _set(
        {
            "pod-pids-limit": limits.pod_pids_limit,
            "container-log-max-size": limits.container_log_max_size,
            "container-log-max-files": limits.container_log_max_files,
            "image-gc-high-threshold-percent": str(high) if high is not None else None,
            "image-gc-low-threshold-percent": str(low) if low is not None else None,
            "cpu-cfs-quota-enforced": limits.cpu_cfs_quota,
        }
    )


def _set(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
