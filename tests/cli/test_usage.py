from __future__ import annotations

from typing import Any

from gpu_platform.usage import Usage, gpu_usage


def pod(node: str | None, requests: dict[str, str], phase: str = "Running") -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"resources": {"requests": requests}}]}
    if node:
        spec["nodeName"] = node
    return {"spec": spec, "status": {"phase": phase}}


def test_only_pods_that_hold_or_want_gpus_count() -> None:
    pods = [
        pod("a", {"nvidia.com/gpu": "4"}),
        pod("a", {"nvidia.com/gpu.shared": "1", "cpu": "2"}),
        pod(None, {"nvidia.com/gpu": "8"}, "Pending"),
        pod("a", {"cpu": "2"}),
        pod("a", {"nvidia.com/gpu": "8"}, "Succeeded"),
        pod("somebody-elses", {"nvidia.com/gpu": "8"}),
        {"spec": {"containers": [{}]}, "status": {}},
    ]
    assert gpu_usage(pods, {"a": "train"}) == Usage(
        2, 1, {"train": {"nvidia.com/gpu": 4, "nvidia.com/gpu.shared": 1}}
    )
