"""Objects with load balancers and volumes in a cloud are recognised by their fields."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.live.cloud_objects import cloud_volume, has_load_balancer


@pytest.mark.parametrize(
    ("live", "expected"),
    [
        ({"kind": "Service", "spec": {"type": "LoadBalancer"}}, True),
        ({"kind": "Service", "spec": {"type": "NodePort"}}, False),
        ({"kind": "Gateway"}, True),
        ({"kind": "Ingress"}, False),
        ({"kind": "Ingress", "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.7"}]}}}, True),
        ({"kind": "Ingress", "metadata": {"finalizers": ["ingress.k8s.aws/resources"]}}, True),
    ],
)
def test_load_balancers_are_recognised(live: dict[str, Any], expected: bool) -> None:
    assert has_load_balancer({"metadata": {}, **live}) is expected


def volume(policy: str = "Delete", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "pvc-1", "annotations": {"pv.kubernetes.io/provisioned-by": "ebs.csi.aws.com"}},
        "spec": {
            "persistentVolumeReclaimPolicy": policy,
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"},
            "claimRef": {"namespace": "vision", "name": "data"},
            **spec,
        },
    }


@pytest.mark.parametrize(("policy", "deleted"), [("Delete", True), ("Retain", False)])
def test_the_reclaim_policy_decides_whether_a_volume_is_deleted_with_its_claim(policy: str, deleted: bool) -> None:
    found = cloud_volume(volume(policy))
    assert found is not None
    assert str(found) == "volume vol-1 of claim data in namespace vision"
    assert found.is_deleted_with(["vision"]) is deleted
    assert not found.is_deleted_with(["other"])


def test_volumes_that_no_driver_created_for_a_claim_are_left_out() -> None:
    by_hand = volume()
    del by_hand["metadata"]["annotations"]
    for live in (by_hand, volume(csi=None), volume(claimRef=None)):
        assert cloud_volume(live) is None
