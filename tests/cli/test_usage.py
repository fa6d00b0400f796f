from __future__ import annotations

from typing import Any

from gpu_platform.live.usage import Usage, gpu_usage


def pod(node: str | None, requests: dict[str, str], phase: str = "Running") -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"resources": {"requests": requests}}]}
    if node:
        spec["nodeName"] = node
    return {"spec": spec, "status": {"phase": phase}}


def test_only_pods_that_hold_or_request_gpus_count() -> None:
    pods = [
        pod("a", {"nvidia.com/gpu": "4"}),
        pod("a", {"nvidia.com/gpu.shared": "1", "cpu": "2"}),
        pod(None, {"nvidia.com/gpu": "8"}, "Pending"),
        pod("a", {"cpu": "2"}),
        pod("a", {"nvidia.com/hostdev": "1"}),
        pod("a", {"nvidia.com/gpu": "8"}, "Succeeded"),
        pod("somebody-elses", {"nvidia.com/gpu": "8"}),
        {"spec": {"containers": [{}]}, "status": {}},
    ]
    assert gpu_usage(pods, {"a": "train"}) == Usage(
        2, 1, {"train": {"nvidia.com/gpu": 4, "nvidia.com/gpu.shared": 1}}
    )


def claim(name: str, *devices: str, admin: bool = False, driver: str = "gpu.nvidia.com") -> dict[str, Any]:
    results = [{"driver": driver, "device": device} for device in devices]
    exactly = {"deviceClassName": "gpu.nvidia.com", **({"adminAccess": True} if admin else {})}
    return {
        "metadata": {"namespace": "lab", "name": name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        "status": {"allocation": {"devices": {"results": results}}} if devices else {},
    }


def claiming(node: str | None, *claims: str) -> dict[str, Any]:
    made = [{"name": name, "resourceClaimName": name} for name in claims]
    found = pod(node, {"cpu": "1"}, "Running" if node else "Pending")
    return {
        **found,
        "metadata": {"namespace": "lab"},
        "status": {**found["status"], "resourceClaimStatuses": made},
    }


def test_claimed_devices_count_once_per_kind_except_the_validators() -> None:
    claims = [
        claim("two", "gpu-0", "gpu-1"),
        claim("slice", "gpu-2-mig-1g18gb-0-0"),
        claim("waits"),
        claim("agent", "gpu-0", "gpu-1", admin=True),
        claim("nic", "nic-0", driver="example.com"),
    ]
    pods = [
        claiming("a", "two"),
        claiming("a", "two"),  # a second pod with the same claim
        claiming("a", "slice"),
        claiming(None, "waits"),
        claiming("a", "agent"),
        claiming("a", "nic"),
    ]
    held = {"train": {"gpu.nvidia.com": 2, "mig.nvidia.com": 1}}
    assert gpu_usage(pods, {"a": "train"}, claims) == Usage(3, 1, held)
