"""Test series for every alert, in the exporters' format. Some series make the alert fire, and others must not.

Series have the names of exporter 4.8.3 (GPU Operator v26.7.0). `translated` converts them to the names of other
versions with its own table. Sources: release notes of dcgm-exporter 4.8.3 and 4.9.0, and DCGM's dcgm_fields.h;
read 2026-11-25.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

# For each metric, its name in exporter 4.9.0 and the factor that converts its value.
RENAMED: Final[Mapping[str, tuple[str, float]]] = {
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", 1),
    "DCGM_FI_DEV_GPU_UTIL": ("DCGM_FI_DEV_GPU_UTIL_RATIO", 0.01),
    "DCGM_FI_DEV_FB_USED": ("DCGM_FI_DEV_FB_USED_BYTES", 1048576),
    "DCGM_FI_DEV_GPU_TEMP": ("DCGM_FI_DEV_GPU_TEMP_CELSIUS", 1),
    "DCGM_FI_DEV_GPU_MAX_OP_TEMP": ("DCGM_FI_DEV_GPU_MAX_OP_TEMP_CELSIUS", 1),
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": ("DCGM_FI_DEV_ROW_REMAP_FAILED", 1),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": ("DCGM_FI_DEV_PCIE_REPLAY_TOTAL", 1),
    "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": ("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_TOTAL", 1),
}
ALL_ALERTS: Final = "*"


@dataclass(frozen=True, slots=True)
class Case:
    """Samples of each series, one per minute, and the number of alerts that fire at a given minute."""

    name: str
    alert: str
    series: Mapping[str, str]
    minute: int
    firing: int


def series(metric: str, *, gpu: object = 0, node: str = "train-1", pool: str = "train", **labels: str) -> str:
    """Return a series of one GPU."""
    every = {
        "gpu": str(gpu),
        "UUID": f"GPU-{node}-{gpu}",
        "device": f"nvidia{gpu}",
        "modelName": "NVIDIA H100 80GB HBM3",
        "hostname": node,
        "pool": pool,
        **labels,
    }
    return metric + "{" + ", ".join(f'{key}="{value}"' for key, value in every.items()) + "}"


def gpus(count: int, value: str, metric: str = "DCGM_FI_DEV_GPU_TEMP", **labels: str) -> dict[str, str]:
    """Return one series for each GPU of a node."""
    return {series(metric, gpu=index, **labels): value for index in range(count)}


_POD: Final[Mapping[str, str]] = {"namespace": "vision", "pod": "train-0", "container": "main"}
_NODE: Final = 'kube_node_status_allocatable{node="train-1", resource="nvidia_com_gpu"}'


def _fires_and_not(alert: str, bad: Mapping[str, str], good: Mapping[str, str], minute: int) -> Iterator[Case]:
    yield Case(f"{alert} fires", alert, bad, minute, 1)
    yield Case(f"{alert} is silent", alert, good, minute, 0)


def _xid(code: str, value: str = "0x2 1x4 0x20") -> dict[str, str]:
    return {series("DCGM_EXP_XID_ERRORS_COUNT", xid=code): value}


def _quota(used: int, hard: int) -> dict[str, str]:
    quota = 'kube_resourcequota{{namespace="vision", resource="requests.nvidia.com/gpu", type="{}"}}'
    return {quota.format("used"): f"{used}x60", quota.format("hard"): f"{hard}x60"}


def _pending(phase: int, resource: str) -> dict[str, str]:
    pod = 'namespace="vision", pod="train-0"'
    return {
        f'kube_pod_status_phase{{{pod}, phase="Pending"}}': f"{phase}x60",
        f'kube_pod_container_resource_requests{{{pod}, container="main", resource="{resource}"}}': "8x60",
    }


def _validation(ready: int) -> dict[str, str]:
    pod = 'namespace="gpu-platform-validation", pod="agent-x"'
    return {
        f'kube_pod_status_ready{{{pod}, condition="true"}}': f"{ready}x60",
        f'kube_pod_info{{{pod}, node="train-1"}}': "1x60",
    }


def cases() -> Iterator[Case]:
    """Yield the cases of every alert."""
    xids = {
        "Reset": "119",
        "Restart": "167",
        "Workflow": "74",
        "Text": "145",
        "Application": "31",
        "Unclassified": "999",
    }
    for kind, code in xids.items():
        others = [other for other in (*xids.values(), "63", "45", "92", "0") if other != code]
        silent = {key: value for other in others for key, value in _xid(other).items()}
        yield from _fires_and_not(f"GpuXid{kind}", _xid(code), silent, 5)
        yield Case(f"GpuXid{kind} clears after 5 minutes without errors", f"GpuXid{kind}", _xid(code), 20, 0)
    yield from _fires_and_not(
        "GpuXidRepeated", _xid("43", "0x5 4x45"), _xid("45", "0x5 4x45") | _xid("31", "0x5 4x9 0x40"), 45
    )
    # The exporter repeats an error of a GPU for each MIG instance, whichever instance or pod caused the error.
    cut = {
        series("DCGM_EXP_XID_ERRORS_COUNT", xid="31", GPU_I_ID=str(place), GPU_I_PROFILE="1g.10gb", **pod): "1x20"
        for place in range(7, 14)
        for pod in ({"namespace": "vision", "pod": f"train-{place}", "container": "main"},)
    }
    yield Case("an XID of a GPU with MIG instances fires one alert", "GpuXidApplication", cut, 5, 1)
    hot = {series("DCGM_FI_DEV_GPU_TEMP", GPU_I_ID=str(place)): "95x40" for place in range(7, 14)}
    yield Case("a hot GPU with MIG instances fires one alert", "GpuTemperatureHigh", hot, 20, 1)
    # The gauge shows the code of the last error forever, so no alert uses the gauge.
    sticky = {series("DCGM_FI_DEV_XID_ERRORS"): "79x60"}
    yield Case("an old XID fires no alert", ALL_ALERTS, sticky | _healthy(), 40, 0)
    ecc = series("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL")
    yield from _fires_and_not("GpuEccUncorrectable", {ecc: "0x5 1x5"}, {ecc: "3x30"}, 8)
    yield Case(
        "GpuEccUncorrectable: a restarted driver counts from 0", "GpuEccUncorrectable", {ecc: "3x5 0x9"}, 9, 0
    )
    failed = series("DCGM_FI_DEV_ROW_REMAP_FAILURE")
    yield from _fires_and_not("GpuRemapFailed", {failed: "0 1x9"}, {failed: "0x9"}, 5)
    pending = series("DCGM_FI_DEV_ROW_REMAP_PENDING")
    yield from _fires_and_not("GpuRemapPending", {pending: "0 1x9"}, {pending: "0x9"}, 5)
    link = series("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL")
    yield from _fires_and_not("GpuNvlinkErrors", {link: "0x5 2x9"}, {link: "2x30"}, 10)
    replays = series("DCGM_FI_DEV_PCIE_REPLAY_COUNTER")
    yield from _fires_and_not("GpuPcieReplays", {replays: "0+120x60"}, {replays: "0+6x60"}, 45)
    for alert, event, harmless in (
        ("GpuThermalThrottling", "hw_thermal", "gpu_idle"),
        ("GpuPowerThrottling", "hw_power_brake", "power_cap"),  # a busy GPU runs at its power cap
    ):
        bad = {series("DCGM_EXP_CLOCK_EVENTS_COUNT", clock_event=event): "6x40"}
        good = {
            series("DCGM_EXP_CLOCK_EVENTS_COUNT", clock_event=harmless): "10x40",
            series("DCGM_EXP_CLOCK_EVENTS_COUNT", clock_event=event): "2x40",
        }
        yield from _fires_and_not(alert, bad, good, 20)
    limit = {series("DCGM_FI_DEV_GPU_MAX_OP_TEMP"): "92x40"}
    yield from _fires_and_not("GpuTemperatureHigh", gpus(1, "93x40") | limit, gpus(1, "90x40") | limit, 20)
    yield Case("GpuTemperatureHigh: a GPU without a limit at 86 °C", "GpuTemperatureHigh", gpus(1, "86x40"), 20, 1)
    used, free = series("DCGM_FI_DEV_FB_USED", **_POD), series("DCGM_FI_DEV_FB_FREE", **_POD)
    yield from _fires_and_not(
        "GpuMemoryNearlyFull", {used: "79000x40", free: "1000x40"}, {used: "75000x40", free: "5000x40"}, 30
    )
    active = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
    yield from _fires_and_not(
        "GpuHeldAndIdle",
        {series(active, **_POD): "0.01x90"},
        {series(active): "0x90", series(active, gpu=1, **_POD): "0.5x90"},
        80,
    )
    # Before Kubernetes 1.34, the exporter names the pod that ended until the GPU's node starts another GPU pod.
    ended = 'kube_pod_status_phase{namespace="vision", pod="train-0", phase="Succeeded"}'
    finished = {series(active, **_POD): "0x90", ended: "1x90"}
    yield Case("GpuHeldAndIdle: a pod that has ended", "GpuHeldAndIdle", finished, 80, 0)
    running = {series(active, **_POD): "0x90", ended: "0x90"}
    yield Case("GpuHeldAndIdle: a running pod", "GpuHeldAndIdle", running, 80, 1)
    yield Case(
        "GpuHeldAndIdle without profiling metrics",
        "GpuHeldAndIdle",
        {series("DCGM_FI_DEV_GPU_UTIL", **_POD): "1x90"},
        80,
        1,
    )
    # NVIDIA/dcgm-exporter#662
    stuck = {series(active, **_POD): "0x90", series("DCGM_FI_DEV_GPU_UTIL", **_POD): "99x90"}
    yield Case("GpuHeldAndIdle: profiling metrics stay 0 on a busy GPU", "GpuHeldAndIdle", stuck, 80, 0)
    yield from _fires_and_not("GpuLost", gpus(8, "60x9 _x30") | gpus(7, "60x40"), gpus(8, "60x40"), 30)
    allocatable = {_NODE: "8x60"}
    yield from _fires_and_not("GpuNodeBlind", allocatable, allocatable | gpus(8, "60x60"), 20)
    yield from _node_without_its_driver()
    nics = {_NODE.replace("nvidia_com_gpu", "nvidia_com_hostdev"): "8x60"}
    yield Case("GpuNodeBlind: a node with only NICs", "GpuNodeBlind", nics, 20, 0)
    yield from _fires_and_not("GpuMetricsMissing", allocatable, gpus(8, "60x60"), 20)
    info = {'kube_node_info{node="train-1"}': "1x60"}
    yield from _fires_and_not("KubeStateMetricsMissing", {}, info, 30)
    yield from _dead_scrape()
    yield from _fires_and_not("GpuPodPending", _pending(1, "nvidia_com_gpu"), _pending(1, "cpu"), 50)
    held = 'kube_pod_status_reason{namespace="vision", pod="train-0", reason="SchedulingGated"}'
    gated = _pending(1, "nvidia_com_gpu") | {held: "1x60"}
    yield Case("GpuPodPending: a pod that its queue suspends", "GpuPodPending", gated, 50, 0)
    yield Case(
        "GpuPodPending: a pod that waits for a NIC", "GpuPodPending", _pending(1, "nvidia_com_hostdev"), 50, 0
    )
    yield Case("GpuPodPending: a running pod", "GpuPodPending", _pending(0, "nvidia_com_gpu"), 50, 0)
    yield from _fires_and_not("GpuQuotaNearlyUsed", _quota(15, 16), _quota(8, 16), 30)
    yield Case("GpuQuotaNearlyUsed: a quota of 0 is not a full quota", "GpuQuotaNearlyUsed", _quota(0, 0), 30, 0)
    yield from _fires_and_not("GpuNodeUnvalidated", _validation(0), _validation(1), 50)
    mig = 'kube_node_labels{{node="notebooks-1", label_nvidia_com_mig_config_state="{}"}}'
    yield from _fires_and_not(
        "MigChangeFailed", {mig.format("failed"): "1x30"}, {mig.format("success"): "1x30"}, 20
    )
    yield from _fires_and_not(
        "MigChangeStuck",
        {mig.format("pending"): "1x60"},
        {mig.format("pending"): "1x20 _x40", mig.format("success"): "_x20 1x40"},
        50,
    )
    queue = 'kueue_pending_workloads{{cluster_queue="vision", status="{}", replica_role="leader"}}'
    # Kueue retries a workload that waits for quota only when quota is returned, and counts it as inadmissible.
    # A replica that does not lead counts every workload that it has not seen start as active.
    follower = queue.format("active").replace("leader", "follower")
    yield from _fires_and_not(
        "QueueWaiting",
        {queue.format("active"): "0x90", queue.format("inadmissible"): "2x90"},
        {queue.format("active"): "0x90", queue.format("inadmissible"): "0x90", follower: "2x90"},
        80,
    )
    started = 'kueue_admitted_workloads_total{cluster_queue="vision", priority_class="", replica_role="leader"}'
    busy = {queue.format("active"): "2x90", started: "0+1x90"}
    yield Case("QueueWaiting: workloads start one after another", "QueueWaiting", busy, 80, 0)
    first = {queue.format("active"): "2x90", started: "_x40 1x49"}
    yield Case("QueueWaiting: one workload started since Kueue's start", "QueueWaiting", first, 80, 0)
    idle = {queue.format("active"): "2x140", started: "7x140"}
    yield Case("QueueWaiting: the last workload started long ago", "QueueWaiting", idle, 130, 1)
    two = gpus(8, "60x60") | gpus(8, "60x60", node="train-2")
    yield from _fires_and_not("GpuReservationUnused", gpus(8, "60x60"), two, 50)
    yield Case("GpuReservationUnused: there are no nodes", "GpuReservationUnused", {}, 50, 1)
    # In pool train, 2 nodes at 100 USD/h cost 146,000 USD a month and 3 cost 219,000. The budget is 200,000.
    three = two | gpus(8, "60x180", node="train-3")
    yield from _fires_and_not(
        "GpuCostAboveBudget", dict.fromkeys(three, "60x180"), dict.fromkeys(two, "60x180"), 170
    )
    # 3 nodes that ran for half of the last day cost 109,500 USD a month.
    half = {key: "_x720 60x720" for index in (1, 2, 3) for key in gpus(1, "", node=f"train-{index}")}
    yield Case("GpuCostAboveBudget: nodes that run for half of the day", "GpuCostAboveBudget", half, 1430, 0)


def claimed_cases() -> Iterator[Case]:
    """Yield cases for a cluster whose pods claim GPUs, with the metrics of kube-state-metrics 2.19."""
    pod = 'namespace="vision", pod="train-0"'
    names = 'claim_name="gpu", resourceclaim_name="train-0-gpu-x", resourceclaim_template_name="gpu"'
    requests = f'kube_pod_container_resource_requests{{{pod}, container="main", resource="cpu"}}'
    pending = {f'kube_pod_status_phase{{{pod}, phase="Pending"}}': "1x60", requests: "8x60"}
    claims = {f"kube_pod_resourceclaim_info{{{pod}, {names}}}": "1x60"}
    yield from _fires_and_not("GpuPodPending", pending | claims, pending, 50)
    devices = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
    quota = f'kube_resourcequota{{{{namespace="vision", resource="{devices}", type="{{}}"}}}}'
    full, half = ({quota.format("used"): f"{used}x60", quota.format("hard"): "16x60"} for used in (15, 8))
    yield from _fires_and_not("GpuQuotaNearlyUsed", full, half, 30)
    node = {
        'kube_node_info{node="train-1"}': "1x60",
        'kube_node_labels{node="train-1", label_gpu_platform_dev_pool="train"}': "1x60",
        'kube_node_status_allocatable{node="train-1", resource="cpu"}': "96x60",
    }
    yield from _fires_and_not("GpuNodeBlind", node, node | gpus(8, "60x60"), 20)
    new = node | {'kube_node_created{node="train-1"}': "600x60"}
    yield Case("GpuNodeBlind: a new node installs its driver", "GpuNodeBlind", new, 20, 0)
    other = {key.replace('"train"', '"system"'): value for key, value in node.items()}
    yield Case("GpuNodeBlind: a node without GPUs", "GpuNodeBlind", other, 20, 0)


def unmeasured_cases() -> Iterator[Case]:
    """Yield cases for nodes without metrics, of a pool with an exporter and of a pool without one."""
    for pool, firing in (("plain", 0), ("train", 1)):
        node = {
            f'kube_node_labels{{node="{pool}-1", label_gpu_platform_dev_pool="{pool}"}}': "1x60",
            f'kube_node_status_allocatable{{node="{pool}-1", resource="nvidia_com_gpu"}}': "8x60",
        }
        yield Case(f"GpuNodeBlind: a node of pool {pool} without metrics", "GpuNodeBlind", node, 20, firing)


def _healthy() -> dict[str, str]:
    nodes = ("train-1", "train-2")
    found = {'kube_node_info{node="train-1"}': "1x180"}
    for node in nodes:
        found |= gpus(8, "60x180", node=node)
        found |= {f'kube_node_status_allocatable{{node="{node}", resource="nvidia_com_gpu"}}': "8x180"}
        for index in range(8):
            found |= {
                series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", gpu=index, node=node, **_POD): "0.6x180",
                series("DCGM_FI_DEV_FB_USED", gpu=index, node=node, **_POD): "60000x180",
                series("DCGM_FI_DEV_FB_FREE", gpu=index, node=node, **_POD): "20000x180",
                series("DCGM_EXP_XID_ERRORS_COUNT", gpu=index, node=node): "0x180",
                series("DCGM_EXP_CLOCK_EVENTS_COUNT", gpu=index, node=node, clock_event="power_cap"): "10x180",
            }
    return found | _quota(8, 16) | _validation(1)


def _node_without_its_driver() -> Iterator[Case]:
    """Yield cases of a node on which the exporter and the device plugin end at the same time."""
    info, cordoned = 'kube_node_info{node="train-1"}', 'kube_node_spec_unschedulable{node="train-1"}'
    dead = {**gpus(8, "60x9 stale"), _NODE: "8x9 0x50"}
    for name, nodes, firing in (
        ("offers no GPUs any more", {info: "1x60", cordoned: "0x60"}, 1),
        ("is being repaired", {info: "1x60", cordoned: "1x60"}, 0),
        ("was deleted", {info: "1x9 stale", cordoned: "0x9 stale"}, 0),
        ("was replaced under its name", {info: "1x60", 'kube_node_created{node="train-1"}': "_x9 600x50"}, 0),
    ):
        yield Case(f"GpuNodeBlind: a node that {name}", "GpuNodeBlind", dead | nodes, 30, firing)


def _dead_scrape() -> Iterator[Case]:
    """Yield cases in which a faulty GPU stops reporting metrics. Only the alert for missing metrics may fire."""
    sick = {
        **gpus(8, "99x10 stale"),
        **dict.fromkeys(_xid("79"), "5x10 stale"),
        series("DCGM_FI_DEV_ROW_REMAP_FAILURE"): "1x10 stale",
        'kube_node_info{node="train-1"}': "1x60",
        _NODE: "8x60",
    }
    for alert, firing in {
        "GpuNodeBlind": 1,
        "GpuMetricsMissing": 1,
        "GpuXidRestart": 0,
        "GpuRemapFailed": 0,
        "GpuTemperatureHigh": 0,
        "GpuLost": 0,
    }.items():
        yield Case(f"{alert} after scraping stopped", alert, sick, 40, firing)


def translated(case: Case, version: str) -> Case:
    """Return a case with its series as exporter 4.8.2 or 4.9.0 writes them."""
    if version == "4.8.3":
        return case
    if version == "4.8.2":
        found = {key.replace('hostname="', 'Hostname="'): value for key, value in case.series.items()}
        return Case(case.name, case.alert, found, case.minute, case.firing)
    found = {}
    for key, value in case.series.items():
        metric, brace, rest = key.partition("{")
        if metric == "DCGM_FI_DEV_FB_FREE":
            used = case.series[f"DCGM_FI_DEV_FB_USED{brace}{rest}"]
            size = _first(used) + _first(value)
            found[f"DCGM_FI_DEV_FB_CAPACITY_BYTES{brace}{rest}"] = (
                f"{size * 1048576:.10g}x{value.partition('x')[2]}"
            )
            continue
        name, factor = RENAMED.get(metric, (metric, 1))
        found[f"{name}{brace}{rest}"] = value if factor == 1 else _times(value, factor)
    return Case(case.name, case.alert, found, case.minute, case.firing)


def _first(values: str) -> float:
    return float(values.partition("x")[0])


def _times(values: str, factor: float) -> str:
    return re.sub(r"(?<![x\d.])\d+(\.\d+)?(?=[x ]|$)", lambda found: f"{float(found[0]) * factor:.10g}", values)
