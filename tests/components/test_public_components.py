"""All public components except node pools register the same resources as the corresponding stack file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_kubernetes as k8s
import pytest

from components import GpuNodePool, GpuOperator, GpuPlatform, GpuTeam, GpuValidation
from gpu_platform.base.paths import PROJECT_ROOT
from gpu_platform.deploy.recorded.properties import UNKNOWN
from gpu_platform.stack import find_stack_file, read_stack_file
from tests.components.conftest import Recorded
from tests.components.public_programs import EXISTING, GKE, SANDBOX, TRAIN, recorded, refused
from tests.support.recorded import record_shipped

POOLS = [{"name": "train", **TRAIN}]
TEAM: dict[str, Any] = {"quota": {"gpus": 8}, "priority": "training", "members": ["group:vision"]}


def sections(stack: str) -> dict[str, Any]:
    """Return the sections of a shipped stack that `GpuPlatform` accepts as arguments."""
    platform: Any = read_stack_file(find_stack_file(stack)).platform
    return {key: value for key, value in platform.items() if key not in ("kind", "policy")}


def custom(program: Recorded) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Return the inputs of all registered resources except components and providers."""
    return {
        (record.type, record.name): record.inputs
        for record in program.resources
        if record.custom and not record.type.startswith("pulumi:")
    }


def test_a_platform_registers_the_same_resources_as_the_stack_file_with_its_sections() -> None:
    stack = Recorded(record_shipped("local"))
    # pyrefly: ignore[bad-argument-type]
    mine = recorded(lambda: GpuPlatform("local", sections("local")), stack="local")
    assert custom(mine) == custom(stack)
    assert len(custom(mine)) > 40


@pytest.mark.parametrize("name", ["gke-training", "aks-training"])
def test_a_platform_with_a_new_cluster_matches_its_stack_file(name: str) -> None:
    stack = Recorded(record_shipped(name))
    # pyrefly: ignore[bad-argument-type]
    mine = recorded(lambda: GpuPlatform("ml", sections(name)), stack=name)
    assert custom(mine) == custom(stack)


WINDOW = {"days": ["sat", "sun"], "start": "22:00", "duration": "6h", "time_zone": "Europe/Berlin"}


def test_a_window_is_that_of_a_gke_cluster_that_the_platform_creates() -> None:
    platform = sections("gke-training")
    platform["cluster"]["create"].pop("maintenance", None)
    # pyrefly: ignore[bad-unpacking]
    mine = recorded(lambda: GpuPlatform("ml", {**platform, "changes": {"window": WINDOW}}))
    [cluster] = mine.of("Cluster")
    assert "BYDAY=SA,SU" in str(cluster.inputs["maintenancePolicy"])


@pytest.mark.parametrize("stack", ["local", "eks-training"])
def test_a_window_that_nothing_would_keep_is_refused(stack: str) -> None:
    # pyrefly: ignore[bad-unpacking]
    message = refused(lambda: GpuPlatform("it", {**sections(stack), "changes": {"window": WINDOW}}))
    assert "changes.window: found a window on" in message


def test_a_pool_may_not_take_more_nodes_out_of_service_than_all_pools_together() -> None:
    train = {"name": "train", **TRAIN, "upgrade": {"max_unavailable": 3}}
    arguments = {"cluster": SANDBOX, "pools": [train], "changes": {"max_unavailable": 2}}
    message = refused(lambda: GpuPlatform("it", arguments))  # pyrefly: ignore[bad-argument-type]
    assert "pools[0].upgrade.max_unavailable: found 3" in message


def test_everything_of_a_platform_is_below_it() -> None:
    mine = recorded(lambda: GpuPlatform("it", sections("local")))  # pyrefly: ignore[bad-argument-type]
    outside = [one.type for one in mine.resources if "gpu-platform:index:GpuPlatform" not in one.urn]
    assert outside == ["pulumi:pulumi:Stack"]


def test_all_parts_of_a_platform_wait_for_its_dependencies() -> None:
    def declare() -> None:
        first = k8s.core.v1.Namespace("first", metadata={"name": "first"})
        arguments: Any = sections("local")
        GpuPlatform("it", arguments, pulumi.ResourceOptions(depends_on=[first]))

    program = recorded(declare)
    first = program.one("Namespace", "first").urn
    [provider] = program.of("kubernetes")
    assert first in provider.dependencies
    below = [
        one for one in program.resources if one.custom and provider.urn not in (one.urn, "") and one.urn != first
    ]
    assert all(one.provider.startswith(provider.urn) for one in below)


def test_resources_after_a_platform_have_the_stack_as_parent() -> None:
    def declare() -> None:
        GpuPlatform("it", sections("local"))  # pyrefly: ignore[bad-argument-type]
        k8s.core.v1.Namespace("mine", metadata={"name": "mine"})

    assert recorded(declare).one("Namespace", "mine").parent.endswith("pulumi:pulumi:Stack::mine-test")


def test_the_parts_together_register_the_resources_of_the_whole() -> None:
    platform = sections("local")

    def declare() -> None:
        cluster = platform["cluster"]
        pools = []
        for one in platform["pools"]:
            of_pool: Any = {"cluster": cluster, **one}
            pools.append(GpuNodePool(one["name"], of_pool))
        declared = [one.pool for one in pools]
        operator = GpuOperator("gpu-operator", {"cluster": cluster, "pools": declared})
        proof = GpuValidation(
            "node-validation",
            {"cluster": cluster, "pools": declared, "timeout": "5m"},
            pulumi.ResourceOptions(depends_on=[*pools, operator]),
        )
        for team in platform["teams"]:
            of_team: Any = {"cluster": cluster, "pools": declared, **team}
            GpuTeam(team["name"], of_team, pulumi.ResourceOptions(depends_on=[proof]))

    parts = recorded(declare, stack="local")
    assert custom(parts) == custom(Recorded(record_shipped("local")))
    [quota] = [one for one in parts.of("Namespace") if one.name == "vision"]
    gates = {one.urn for one in parts.of("DaemonSet")}
    assert gates <= set(quota.dependencies), "a team is created after the validation"


def test_an_output_may_be_the_kubeconfig_the_subnet_and_the_image_of_a_platform() -> None:
    def declare() -> None:
        secret = k8s.core.v1.Secret("mine")
        arguments: Any = {
            "cluster": {**EXISTING, "kubeconfig": secret.id},
            "pools": [
                {"name": "train", **TRAIN, "machine_type": "dgx-a100-640gb", "nodes": {"names": ["a", "b"]}}
            ],
            "teams": [
                {"name": "vision", **TEAM, "workloads": [{"name": "job", "pool": "train", "image": secret.id}]}
            ],
        }
        GpuPlatform("it", arguments)

    program = recorded(declare)
    provider = program.one("kubernetes", "dev")
    assert provider.inputs["kubeconfig"] == UNKNOWN
    [container] = program.one("Deployment", "job").inputs["spec"]["template"]["spec"]["containers"]
    assert container["image"] == UNKNOWN


def test_an_output_may_be_the_subnet_of_an_existing_eks_cluster() -> None:
    def declare() -> None:
        subnet = k8s.core.v1.Secret("stands for any resource")
        pool = {"name": "serve", "machine_type": "g6.12xlarge", "count": {"desired": 1}, "workload": "inference"}
        cluster = {
            "provider": "eks",
            "name": "ml",
            "region": "us-east-2",
            "subnets": {"us-east-2a": subnet.id},
        }
        arguments: Any = {"cluster": cluster, "pools": [{**pool, "zones": ["us-east-2a"]}]}
        GpuPlatform("it", arguments)

    [group] = recorded(declare).of("NodeGroup")
    assert group.inputs["subnetIds"] == [UNKNOWN]


def test_the_image_of_a_team_may_be_an_output_and_the_pause_image_is_the_default() -> None:
    def declare() -> None:
        image = k8s.core.v1.Secret("mine").id
        workloads = [{"name": "own", "pool": "train", "image": image}, {"name": "default", "pool": "train"}]
        arguments: Any = {"cluster": SANDBOX, "pools": POOLS, **TEAM, "workloads": workloads}
        GpuTeam("vision", arguments)

    program = recorded(declare)
    images = {
        name: program.one("Deployment", name).inputs["spec"]["template"]["spec"]["containers"][0]["image"]
        for name in ("own", "default")
    }
    assert images["own"] == UNKNOWN
    assert "pause" in images["default"]


def test_whole_numbers_may_arrive_as_floats() -> None:
    arguments: Any = {
        "cluster": SANDBOX,
        "pools": [
            {"name": "serve", **TRAIN, "count": {"desired": 1.0}, "sharing": {"mode": "mps", "replicas": 4.0}}
        ],
        "priorities": {"training": 100.0},
    }
    program = recorded(lambda: GpuOperator("it", arguments))
    assert [one.inputs["value"] for one in program.of("PriorityClass")] == [100, 1000]


def test_a_fraction_of_a_node_is_refused() -> None:
    arguments: Any = {"cluster": SANDBOX, **TRAIN, "count": {"desired": 1.5}}
    assert "count.desired: found 1.5" in refused(lambda: GpuNodePool("train", arguments))


def test_the_operator_installs_the_plugins_of_the_clouds_pools() -> None:
    mega: Any = {"name": "train", **TRAIN, "machine_type": "a3-megagpu-8g", "zones": ["us-central1-a"]}
    networks = [{"network": f"vpc-{index}", "subnetwork": f"subnet-{index}"} for index in range(8)]
    program = recorded(
        # pyrefly: ignore[bad-unpacking]
        lambda: GpuOperator("it", {"cluster": {**GKE, "gpu_networks": networks}, "pools": [mega]})
    )
    assert program.of("GkeInstallers")
    parameters = program.of("GKENetworkParamSet")
    assert [one.inputs["spec"]["vpc"] for one in parameters] == [f"vpc-{index}" for index in range(8)]


def test_the_operator_installs_the_efa_device_plugin() -> None:
    pool: Any = {"name": "train", **TRAIN, "machine_type": "p5.48xlarge", "zones": ["us-east-2a"]}
    eks: Any = {"provider": "eks", "name": "ml", "region": "us-east-2"}
    program = recorded(lambda: GpuOperator("it", {"cluster": eks, "pools": [pool]}))
    assert "aws-efa-k8s-device-plugin" in {one.name for one in program.of("Release")}


def test_importing_the_package_imports_no_sdk_and_a_component_no_cloud() -> None:
    program = (
        "import sys, components\n"
        "assert 'pulumi' not in sys.modules, 'the package alone'\n"
        "from components import GpuPlatform, GpuNodePool, GpuOperator, GpuTeam, GpuValidation\n"
        "clouds = {'pulumi_aws', 'pulumi_gcp'} & set(sys.modules)\n"
        "assert not clouds, clouds\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=PROJECT_ROOT, check=True, timeout=120)
