"""Node settings on each cloud that shorten the time to pull images, and combinations that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.planning.clouds.gke.plan import GkeClusterPlan
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from tests.planning.clouds.eks.eks_pools import node_group, pool, problems_of, user_data_text
from tests.planning.clouds.eks.test_eks_user_data import node_config, settings
from tests.planning.clouds.gke.test_gke_decisions import decided, platform
from tests.planning.clouds.gke.test_gke_invalid_pools import G2
from tests.planning.clouds.gke.test_gke_invalid_pools import problems_of as problems_on_gke
from tests.support.eks_stacks import plan_eks

SNAPSHOT = "snap-0a1b2c3d4e5f60718"
DISK_IMAGE = "projects/my-project/global/images/torch"
CACHED: dict[str, Any] = {"image": {"family": "bottlerocket", "cache": SNAPSHOT}, "local_nvme": False}


def data_disk(**said: Any) -> Any:
    return node_group(**said).block_devices[-1]


def test_al2023_pulls_in_parallel_by_a_feature_gate_and_not_unless_declared() -> None:
    spec = node_config(user_data_text(node_group(image={"fast_pull": True})))["spec"]
    assert spec["featureGates"] == {"FastImagePull": True}
    assert "featureGates" not in node_config(user_data_text(node_group()))["spec"]


def test_bottlerocket_pulls_in_parallel_and_has_the_layers_on_local_disks() -> None:
    found = settings(node_group(image={"family": "bottlerocket", "fast_pull": True}))
    assert found["container-runtime"] == {"snapshotter": "soci"}
    assert found["container-runtime-plugins"]["soci-snapshotter"]["pull-mode"] == "parallel-pull-unpack"
    binds = found["bootstrap-commands"]["local-nvme"]["commands"][-1]
    assert "/var/lib/soci-snapshotter" in binds
    plain = settings(node_group(image={"family": "bottlerocket"}))
    assert "container-runtime" not in plain
    assert "/var/lib/soci-snapshotter" not in plain["bootstrap-commands"]["local-nvme"]["commands"][-1]


@pytest.mark.parametrize(
    ("said", "throughput"),
    [
        ({"local_nvme": False}, 750),
        ({}, None),  # image layers are on local disks
        ({"local_nvme": False, "disk": {"type": "io2"}}, None),
    ],
)
def test_a_gp3_volume_for_parallel_pulls_has_more_throughput(said: dict[str, Any], throughput: int | None) -> None:
    assert data_disk(image={"fast_pull": True}, **said).throughput_mibps == throughput


def test_only_bottlerockets_data_volume_starts_from_the_snapshot() -> None:
    system, data = node_group(**CACHED).block_devices
    assert (system.snapshot, data.snapshot) == (None, SNAPSHOT)
    assert data_disk().snapshot is None


def test_karpenter_gets_the_snapshot_and_the_feature_gate() -> None:
    said = {"provisioner": "karpenter", "count": {"desired": 0, "max": 4}, "workload": "inference"}
    plan = plan_eks(
        {"name": "cached", "machine_type": "g6.xlarge", **said, **CACHED},
        {"name": "fast", "machine_type": "g6.xlarge", **said, "image": {"fast_pull": True}},
    )
    cached, fast = (one.cloud.node_class for one in plan.pools)  # pyrefly: ignore[missing-attribute]
    assert cached["blockDeviceMappings"][-1]["ebs"]["snapshotID"] == SNAPSHOT
    assert "FastImagePull: true" in fast["userData"]


# A pool without GPUs, because this old release is refused on GPU pools for another reason.
CPU: dict[str, Any] = {"machine_type": "m7i.2xlarge", "workload": "general"}


@pytest.mark.parametrize(
    ("said", "places"),
    [
        ({"image": {"cache": SNAPSHOT}}, {"image.cache"}),
        ({"image": {"family": "bottlerocket", "cache": SNAPSHOT}}, {"image.cache"}),
        ({**CACHED, "image": {**CACHED["image"], "fast_pull": True}}, {"image.cache"}),
        ({**CACHED, "image": {**CACHED["image"], "cache": DISK_IMAGE}}, {"image.cache"}),
        ({**CPU, "image": {"fast_pull": True, "release": "1.34.2-20251217"}}, {"image.fast_pull"}),
        (
            {"image": {"family": "bottlerocket", "fast_pull": True, "release": "1.43.0-2f4c3a1b"}},
            {"image.fast_pull"},
        ),
    ],
)
def test_what_an_image_or_a_machine_of_eks_lacks_is_refused(said: dict[str, Any], places: set[str]) -> None:
    assert {one.path.removeprefix("pool.") for one in problems_of(pool(**said))} == places


@pytest.mark.parametrize("release", ["1.34.2-20260120", "1.36.2-20260818"])
def test_a_release_with_soci_is_accepted(release: str) -> None:
    assert problems_of(pool(**CPU, image={"fast_pull": True, "release": release})) == []


def test_gke_streams_images_and_reads_cached_ones_from_a_secondary_boot_disk() -> None:
    plan = decided(image={"fast_pull": True, "cache": DISK_IMAGE})
    assert (plan.image_streaming, plan.image_cache) == (True, DISK_IMAGE)
    assert (decided().image_streaming, decided().image_cache) == (False, None)


def test_nodes_of_gke_that_stream_may_use_the_service_that_streams() -> None:
    def roles(**image: Any) -> tuple[str, ...]:
        plan = plan_platform(platform({"image": image}), "test")
        assert isinstance(plan, EnvironmentPlan)
        assert isinstance(plan.cluster.cloud, GkeClusterPlan)
        return plan.cluster.cloud.node_roles

    assert set(roles(fast_pull=True)) - set(roles()) == {"roles/serviceusage.serviceUsageConsumer"}


@pytest.mark.parametrize(
    ("image", "field"),
    [
        ({"family": "ubuntu", "fast_pull": True}, "fast_pull"),
        ({"cache": DISK_IMAGE}, "cache"),
        ({"fast_pull": True, "cache": SNAPSHOT}, "cache"),
    ],
)
def test_what_image_streaming_of_gke_lacks_is_refused(image: dict[str, Any], field: str) -> None:
    [problem] = problems_on_gke({**G2, "image": image})
    assert problem.path.endswith(f"image.{field}")
