"""Checks of the ResourceSlices that DRA drivers publish for a node. All functions are pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.base.quantity import duration_text
from gpu_platform.planning.expectations.section import NIC_DEVICES, RESOURCE_SLICES, NodeExpectation
from validators.agent.outcome import FAIL, PASS, UNKNOWN
from validators.result import CheckResult, Verdict

_DRIVER_LOG: Final = "kubectl logs -n gpu-operator -l app=nvidia-dra-driver-kubelet-plugin --all-pods"
_EFA_LOG: Final = "kubectl logs -n kube-system -l app=aws-dranet --all-pods"
_EFA: Final = "Elastic Fabric Adapter (EFA)"  # also used in the selector of the chart's DeviceClass
_NOTHING: Final = "nothing"
_PUBLISH_SECONDS: Final = 600  # a driver writes the slices of a node one after another


def check_devices(
    node: str,
    slices: Sequence[Mapping[str, Any]] | None,
    expectation: NodeExpectation,
    now: datetime | None = None,
) -> list[CheckResult]:
    """Return the results for a node with DRA, or an empty list for a node with a device plugin.

    `slices` contains all ResourceSlices of the cluster, or is None if they were not read. `now` defaults to the
    time of the call.
    """
    if expectation.gpu_devices is None:
        return []
    source = expectation.sources.get(RESOURCE_SLICES, f"pool {expectation.pool}")
    expected = f"{expectation.gpu_devices} x type gpu"
    if slices is None:
        return [_result("dra-devices", UNKNOWN, expected, "ResourceSlices were not read", source, "")]
    own = _current(node, slices)
    announced = own[0]["spec"]["pool"].get("resourceSliceCount", 1) if own else 0
    if own and len(own) < announced:
        observed = f"{len(own)} of {announced} resource slices"
        most = duration_text(_PUBLISH_SECONDS)
        remedy = f"the driver is still publishing devices: it is stuck if this lasts longer than {most}"
        if _seconds_since(own, now or datetime.now(UTC)) > _PUBLISH_SECONDS:
            remedy = f"the driver is stuck: restart its pod on the node; the driver's log: {_DRIVER_LOG}"
            return [_result("dra-devices", FAIL, expected, observed, source, remedy)]
        return [_result("dra-devices", UNKNOWN, expected, observed, source, remedy)]
    devices = [device for one in own for device in one["spec"].get("devices") or ()]
    kinds = Counter(_attribute(device, "type") for device in devices)
    observed = ", ".join(f"{count} x type {kind}" for kind, count in sorted(kinds.items())) or _NOTHING
    found = kinds["gpu"] == expectation.gpu_devices
    remedy = "compare the number of GPUs (check gpu-count)" if devices else f"see the DRA driver: {_DRIVER_LOG}"
    results = [_result("dra-devices", PASS if found else FAIL, expected, observed, source, remedy)]
    if expectation.mig_profiles:
        results.append(_partitions(devices, expectation, source))
    return results


def check_nics(
    node: str, slices: Sequence[Mapping[str, Any]] | None, expectation: NodeExpectation
) -> list[CheckResult]:
    """Return the result for a node whose NICs are published by a DRA driver, or an empty list for other nodes.

    `slices` contains all ResourceSlices of the cluster, or is None if they were not read.
    """
    if expectation.nic_driver is None:
        return []
    source = expectation.sources.get(NIC_DEVICES, f"pool {expectation.pool}")
    expected = f"{expectation.nic_devices} EFA"
    if slices is None:
        return [_result("nic-devices", UNKNOWN, expected, "ResourceSlices were not read", source, "")]
    own = _current(node, slices, expectation.nic_driver)
    devices = [device for one in own for device in one["spec"].get("devices") or ()]
    # An attribute without a domain in its name belongs to the driver's domain.
    keys = ("pciDevice", f"{expectation.nic_driver}/pciDevice")
    found = sum(any(_attribute(device, key) == _EFA for key in keys) for device in devices)
    verdict: Verdict = PASS if found == expectation.nic_devices else FAIL
    observed = f"{found} EFA" if own else "no resource slices"
    return [_result("nic-devices", verdict, expected, observed, source, f"see the EFA DRA driver: {_EFA_LOG}")]


def _partitions(devices: Sequence[Mapping[str, Any]], expectation: NodeExpectation, source: str) -> CheckResult:
    """Check that all expected MIG profiles are published. Additional profiles are allowed."""
    published = {_attribute(device, "profile") for device in devices if _attribute(device, "type") == "mig"}
    missing = [profile for profile in expectation.mig_profiles if profile not in published]
    return _result(
        "dra-partitions",
        FAIL if missing else PASS,
        ", ".join(expectation.mig_profiles),
        ", ".join(sorted(published)) or _NOTHING,
        source,
        "enable the feature gates DynamicMIG of the driver and DRAPartitionableDevices of the API server and "
        f"scheduler: {_DRIVER_LOG}",
    )


def _current(
    node: str, slices: Sequence[Mapping[str, Any]], driver: str = names.DRA_DRIVER
) -> list[Mapping[str, Any]]:
    """Return the slices of a node that a driver currently publishes.

    These slices have the newest generation of the pool.
    """
    own = [one for one in slices if one["spec"].get("driver") == driver and one["spec"].get("nodeName") == node]
    newest = max((one["spec"]["pool"]["generation"] for one in own), default=0)
    return [one for one in own if one["spec"]["pool"]["generation"] == newest]


def _seconds_since(slices: Sequence[Mapping[str, Any]], now: datetime) -> float:
    """Return the age of the newest slice in seconds, or 0 if its creation time is unknown."""
    times = [str((one.get("metadata") or {}).get("creationTimestamp") or "") for one in slices]
    return (now - datetime.fromisoformat(max(times))).total_seconds() if max(times, default="") else 0.0


def _attribute(device: Mapping[str, Any], name: str) -> str:
    attributes: Mapping[str, Mapping[str, Any]] = device.get("attributes") or {}
    return str(attributes.get(name, {}).get("string", ""))


def _result(check: str, verdict: Verdict, expected: str, observed: str, source: str, remedy: str) -> CheckResult:
    return CheckResult(
        id=check,
        verdict=verdict,
        expected=expected,
        observed=observed,
        source=source,
        remediation="" if verdict == PASS else remedy,
    )
