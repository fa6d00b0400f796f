"""Which component installs the driver, the toolkit and the device plugin on each cloud's nodes, and the errors for
a pool with two drivers or none.
"""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import Problem
from gpu_platform.catalog import load_catalog
from gpu_platform.planning import check_parts
from gpu_platform.planning.clouds.registry import cloud_of
from gpu_platform.planning.nodes.software import NodeSoftware, node_software
from gpu_platform.stack import parse_platform
from gpu_platform.stack.environment import Environment
from tests.planning.conftest import environment, pool
from tests.support.sold import sold

EKS: dict[str, Any] = {"provider": "eks", "name": "ml", "region": "us-east-2", "kubernetes": "1.34"}
GKE: dict[str, Any] = {
    "provider": "gke",
    "name": "ml",
    "project": "my-project",
    "location": "us-central1",
    "kubernetes": "1.34",
}
BOTTLEROCKET = {"family": "bottlerocket"}
UBUNTU = {"family": "ubuntu"}


def aws(name: str = "serve", machine_type: str = "g6.12xlarge", **rest: Any) -> dict[str, Any]:
    return pool(name, machine_type, workload="inference", **rest)


def gcp(name: str = "serve", machine_type: str = "g2-standard-48", **rest: Any) -> dict[str, Any]:
    return pool(name, machine_type, workload="inference", zones=["us-central1-a"], **rest)


def parsed(*pools: dict[str, Any], **rest: Any) -> Environment:
    spec = parse_platform(environment(*pools, **rest), "test")
    assert isinstance(spec, Environment)
    return spec


def software(one: dict[str, Any], **rest: Any) -> NodeSoftware:
    spec = parsed(one, **rest)
    return node_software(spec.pools[0], cloud_of(spec.cluster), spec.operator, load_catalog())


def owners(one: dict[str, Any], **rest: Any) -> tuple[str, str, str]:
    found = software(one, **rest)
    return found.driver, found.toolkit, found.device_plugin


def problems(*pools: dict[str, Any], **rest: Any) -> list[Problem]:
    spec = parsed(*pools, **rest)
    return check_parts(list(enumerate(spec.pools)), spec.cluster, spec.operator, load_catalog())


@pytest.mark.parametrize(
    ("one", "cluster", "expected"),
    [
        (aws(), EKS, ("image", "image", "operator")),
        (aws(image=BOTTLEROCKET), EKS, ("image", "image", "image")),
        (aws(provisioner="karpenter", count={"desired": 0, "max": 1}), EKS, ("image", "image", "operator")),
        (gcp(), GKE, ("installer", "operator", "operator")),
        (gcp(image=UBUNTU), GKE, ("operator", "operator", "operator")),
        (gcp(device_plugin="provider"), GKE, ("cloud", "cloud", "cloud")),
        (gcp(device_plugin="provider", image=UBUNTU), GKE, ("cloud", "cloud", "cloud")),
        (aws(), {"provider": "sandbox"}, ("operator", "operator", "operator")),
    ],
)
def test_each_image_has_one_owner_of_driver_toolkit_and_device_plugin(
    one: dict[str, Any], cluster: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    assert owners(one, cluster=cluster) == expected


def test_on_an_existing_cluster_the_stack_file_declares_the_software_of_the_host() -> None:
    nodes = {"names": ["gpu-0"]}
    cluster = {"provider": "existing"}
    assert owners(aws(nodes=nodes), cluster=cluster) == ("operator", "operator", "operator")
    host = {"driver": {"owner": "host"}}
    assert owners(aws(nodes=nodes), cluster=cluster, operator=host) == ("image", "operator", "operator")
    both = {**host, "toolkit": "host"}
    assert owners(aws(nodes=nodes), cluster=cluster, operator=both) == ("image", "image", "operator")


def test_eks_10_al2023_nvidia_ami_ships_driver_580() -> None:
    assert software(aws(), cluster=EKS).driver_branch == 580


def test_an_own_image_has_the_driver_that_the_pool_says() -> None:
    own = {"ami": "ami-0a1b2c3d4e5f60718", "driver": "595.91.07"}
    assert software(aws(image=own), cluster=EKS).driver_branch == 595


@pytest.mark.parametrize(
    ("one", "cluster", "operator", "place", "fix"),
    [
        (aws(), EKS, {"driver": {"owner": "operator"}}, "operator.driver.owner", "remove owner"),
        (aws(), EKS, {"toolkit": "operator"}, "operator.toolkit", "remove toolkit"),
        (
            aws(image=BOTTLEROCKET),
            EKS,
            {"driver": {"owner": "operator"}},
            "operator.driver.owner",
            "remove owner",
        ),
        (gcp(), GKE, {"driver": {"owner": "operator"}}, "operator.driver.owner", "image: {family: ubuntu}"),
        (gcp(), GKE, {"toolkit": "host"}, "operator.toolkit", "remove toolkit"),
        (gcp(image=UBUNTU), GKE, {"driver": {"owner": "host"}}, "operator.driver.owner", "remove owner"),
        (
            gcp(device_plugin="provider"),
            GKE,
            {"driver": {"owner": "operator"}},
            "operator.driver.owner",
            "device_plugin: operator",
        ),
        (gcp(device_plugin="provider"), GKE, {"toolkit": "operator"}, "operator.toolkit", "remove toolkit"),
    ],
)
def test_two_drivers_or_none_on_one_pool_is_an_error(
    one: dict[str, Any], cluster: dict[str, Any], operator: dict[str, Any], place: str, fix: str
) -> None:
    found = problems(one, cluster=cluster, operator=operator)
    assert [problem.path for problem in found] == [place]
    assert "for pool serve" in found[0].found
    assert fix in found[0].fix


@pytest.mark.parametrize(
    "operator", [{"driver": {"owner": "host"}}, {"driver": {"owner": "host"}, "toolkit": "host"}]
)
@pytest.mark.parametrize("one", [aws(), aws(image=BOTTLEROCKET)])
def test_software_that_the_image_includes_may_be_declared(one: dict[str, Any], operator: dict[str, Any]) -> None:
    assert problems(one, cluster=EKS, operator=operator) == []


def test_eks_10_a_second_device_plugin_on_bottlerocket_is_refused() -> None:
    found = problems(aws(image=BOTTLEROCKET, device_plugin="operator"), cluster=EKS)
    assert [problem.path for problem in found] == ["pools[0].device_plugin"]
    assert "two device plugins on one node" in found[0].allowed
    assert "family: al2023" in found[0].fix


def test_a_pool_whose_gpus_nobody_would_offer_is_refused() -> None:
    found = problems(aws(device_plugin="provider"), cluster=EKS)
    assert [problem.path for problem in found] == ["pools[0].device_plugin"]
    assert "no GPUs would be advertised" in found[0].allowed


def test_a_driver_version_outside_the_image_is_refused() -> None:
    found = problems(aws(), cluster=EKS, operator={"driver": {"version": "595.91.07"}})
    assert [problem.path for problem in found] == ["operator.driver.version"]
    assert "595.91.07" in found[0].found
    assert "580" in found[0].found


def test_an_images_driver_may_be_outside_the_operators_release() -> None:
    assert problems(aws(), cluster=EKS, operator={"driver": {"version": "580.126.09"}}) == []


@pytest.mark.parametrize(("image", "count"), [({"family": "ubuntu"}, 1), ({"family": "cos"}, 0)])
def test_on_gke_the_release_must_have_the_driver_where_the_operator_installs_it(
    image: dict[str, Any], count: int
) -> None:
    found = problems(gcp(image=image), cluster=GKE, operator={"driver": {"version": "580.126.09"}})
    assert [problem.path for problem in found] == ["operator.driver.version"] * count


def test_a_driver_version_is_refused_where_gke_chooses_it_on_every_pool() -> None:
    of_gke = gcp(device_plugin="provider")
    version = {"driver": {"version": "580.173.02"}}
    assert [p.path for p in problems(of_gke, cluster=GKE, operator=version)] == ["operator.driver.version"]
    assert problems(of_gke, gcp("own", image=UBUNTU), cluster=GKE, operator=version) == []


def test_images_with_different_driver_paths_cannot_share_an_operator() -> None:
    found = problems(gcp("a"), gcp("b", image=UBUNTU), cluster=GKE)
    assert [problem.path for problem in found] == ["pools[1].image.family"]
    assert "hostPaths.driverInstallDir" in found[0].allowed
    assert "device_plugin: provider" in found[0].fix


def test_cos_with_the_operators_plugin_may_join_any_image_with_gkes() -> None:
    of_gke = gcp("b", image=UBUNTU, device_plugin="provider")
    assert problems(gcp("a"), of_gke, gcp("c", device_plugin="provider"), cluster=GKE) == []


# -- sharing by the device plugin of GKE or Bottlerocket --------------------------------------------------


def by_gke(sharing: dict[str, Any], machine_type: str = "a2-ultragpu-4g") -> list[Problem]:
    pool = sold(gcp(machine_type=machine_type, device_plugin="provider", sharing=sharing))
    return problems(pool, cluster=GKE)


def by_bottlerocket(sharing: dict[str, Any], machine_type: str = "p5.48xlarge") -> list[Problem]:
    return problems(aws(machine_type=machine_type, image=BOTTLEROCKET, sharing=sharing), cluster=EKS)


@pytest.mark.parametrize(
    "sharing",
    [
        {"mode": "none"},
        {"mode": "time-slicing", "replicas": 4},
        {"mode": "time-slicing", "replicas": 4, "rename": False},
        {"mode": "mig", "layout": {"1g.10gb": 7}},
        {"mode": "mig", "layout": {"3g.40gb": 2}, "strategy": "single", "change": "replace"},
    ],
)
def test_gke_and_bottlerocket_share_gpus_by_themselves(sharing: dict[str, Any]) -> None:
    assert by_gke(sharing) == []
    assert by_bottlerocket(sharing) == []


MIG = {"mode": "mig", "layout": {"1g.10gb": 7}}


@pytest.mark.parametrize(
    ("sharing", "place"),
    [
        ({"mode": "mig", "layout": {"1g.10gb": 6}}, "layout"),
        ({"mode": "mig", "layout": {"1g.10gb": 5, "2g.20gb": 1}}, "layout"),
        ({"mode": "mig", "layout": {"1g.10gb+me": 1}}, "layout"),
        ({"mode": "mig", "layouts": [{"devices": [0], "layout": {"1g.10gb": 7}}]}, "layouts"),
        ({**MIG, "strategy": "mixed"}, "strategy"),
        ({**MIG, "change": "drain"}, "change"),
        ({**MIG, "max_unavailable": 2}, "max_unavailable"),
        ({**MIG, "drain_timeout": "5m"}, "drain_timeout"),
    ],
)
def test_sharing_that_gke_and_bottlerocket_lack_is_refused(sharing: dict[str, Any], place: str) -> None:
    assert [problem.path for problem in by_gke(sharing)] == [f"pools[0].sharing.{place}"]
    assert [problem.path for problem in by_bottlerocket(sharing)] == [f"pools[0].sharing.{place}"]


def test_mps_is_bottlerockets_with_one_share_for_a_request() -> None:
    """MPS on GKE is refused because its pods need hostIPC."""
    mps = {"mode": "mps", "replicas": 48}
    assert [problem.path for problem in by_gke(mps)] == ["pools[0].sharing.mode"]
    assert by_bottlerocket(mps) == []
    greedy = by_bottlerocket({**mps, "fail_requests_greater_than_one": False})
    assert [problem.path for problem in greedy] == ["pools[0].sharing.fail_requests_greater_than_one"]


def test_gke_has_no_other_name_for_a_shared_gpu_and_bottlerocket_has() -> None:
    renamed = {"mode": "time-slicing", "replicas": 4, "rename": True}
    assert [problem.path for problem in by_gke(renamed)] == ["pools[0].sharing.rename"]
    assert by_bottlerocket(renamed) == []


def test_gke_never_grants_two_shares_of_a_gpu_and_bottlerocket_may() -> None:
    greedy = {"mode": "time-slicing", "replicas": 4, "fail_requests_greater_than_one": False}
    assert [p.path for p in by_gke(greedy)] == ["pools[0].sharing.fail_requests_greater_than_one"]
    assert by_bottlerocket(greedy) == []


def test_bottlerocket_would_take_a_profile_of_four_slices_for_the_whole_gpu() -> None:
    sharing = {"mode": "mig", "layout": {"4g.40gb": 1}}
    found = by_bottlerocket(sharing)
    assert [problem.path for problem in found] == ["pools[0].sharing.layout"]
    assert "3g.40gb" in found[0].allowed
    assert "4g.40gb" not in found[0].allowed


@pytest.mark.parametrize(
    ("machine", "size"),
    [("a2-ultragpu-4g", "4g.40gb"), ("a2-highgpu-8g", "4g.20gb"), ("a3-highgpu-4g", "4g.40gb")],
)
def test_the_device_plugin_of_gke_knows_no_instance_of_four_slices_on_a100_and_h100(
    machine: str, size: str
) -> None:
    (problem,) = by_gke({"mode": "mig", "layout": {size: 1}}, machine)
    assert problem.path == "pools[0].sharing.layout"
    assert size not in problem.allowed
    assert by_gke({"mode": "mig", "layout": {"4g.71gb": 1}}, "a3-ultragpu-8g") == []


def test_gke_cuts_no_a100_into_instances_of_twice_the_memory() -> None:
    sharing = {"mode": "mig", "layout": {"1g.20gb": 4}}
    assert [problem.path for problem in by_gke(sharing)] == ["pools[0].sharing.layout"]
    assert by_gke(sharing, "a3-highgpu-8g") == []


def test_bottlerocket_cuts_only_the_gpus_that_it_knows_by_name() -> None:
    sharing = {"mode": "mig", "layout": {"1g.23gb": 7}}
    found = by_bottlerocket(sharing, "p6-b200.48xlarge")
    assert "pools[0].sharing.mode" in [problem.path for problem in found]


# -- drivers that the GPU supports ------------------------------------------------------------------------


def test_eks_10_g7_needs_driver_595_and_a_custom_ami() -> None:
    found = problems(aws(machine_type="g7.2xlarge"), cluster=EKS)
    assert [problem.path for problem in found] == ["pools[0].machine_type"]
    assert "branch 580 of its image" in found[0].found
    assert "595" in found[0].allowed
    assert "image.ami and image.driver" in found[0].fix
    own = {"ami": "ami-0a1b2c3d4e5f60718", "driver": "595.91.07"}
    assert problems(aws(machine_type="g7.2xlarge", image=own), cluster=EKS) == []


def test_the_gpu_limits_the_operators_driver_on_gke_too() -> None:
    too_old = {"driver": {"version": "535.309.01"}}
    found = problems(gcp(machine_type="a4-highgpu-8g", image=UBUNTU), cluster=GKE, operator=too_old)
    assert "pools[0].machine_type" in [problem.path for problem in found]
