"""`GpuNodePool` in a user's program creates the same pool as a stack file, on each cloud and with Outputs."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_azure as azure
import pulumi_kubernetes as k8s
import pytest

from components import GpuNodePool
from components.public._planning import plan_pool
from gpu_platform.deploy.recorded.properties import UNKNOWN
from gpu_platform.stack import find_stack_file, read_stack_file
from gpu_platform.stack.loaded import plan_platform
from tests.components.public_programs import AKS, EKS, EXISTING, GKE, SANDBOX, TRAIN, recorded, refused


def pool(cluster: Any, **arguments: Any) -> GpuNodePool:
    return GpuNodePool("train", {"cluster": cluster, **TRAIN, **arguments})  # pyrefly: ignore[bad-unpacking]


def pools_of(stack: str) -> list[tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]]:
    """Return the cluster, pools and operator of a shipped stack, once for each pool.

    The cluster already exists. In each result, a different pool is first in the list.
    """
    platform: Any = read_stack_file(find_stack_file(stack)).platform
    cluster = {key: value for key, value in platform["cluster"].items() if key not in ("create", "logins", "oidc")}
    pools = platform["pools"]
    return [
        (cluster, [one, *(other for other in pools if other is not one)], platform["operator"]) for one in pools
    ]


@pytest.mark.parametrize(
    ("cluster", "pools", "operator"),
    [
        pytest.param(*case, id=f"{stack}-{case[1][0]['name']}")
        for stack in ("local", "dev", "eks-training", "gke-training", "aks-training")
        for case in pools_of(stack)
    ],
)
def test_a_single_pool_is_planned_as_in_a_stack_file(
    cluster: dict[str, Any], pools: list[dict[str, Any]], operator: dict[str, Any]
) -> None:
    whole = plan_platform(
        {"kind": "environment", "cluster": cluster, "operator": operator, "pools": pools}, "test"
    )
    assert whole.kind == "environment"
    alone = plan_pool("GpuNodePool", "it", {"cluster": cluster, "operator": operator, **pools[0]})
    [planned] = alone.pools
    assert planned == whole.pools[0]


def test_existing_nodes_are_labelled_through_the_provider_of_the_options() -> None:
    def declare() -> None:
        mine = k8s.Provider("mine", kubeconfig="/my/kubeconfig")
        GpuNodePool(
            "train",
            {
                "cluster": {"provider": "existing", "name": "dev"},
                "machine_type": "dgx-a100-640gb",
                "count": {"desired": 1},
                "nodes": {"names": ["dgx-01"]},
                "workload": "training",
            },
            pulumi.ResourceOptions(providers=[mine]),
        )

    program = recorded(declare)
    [patch] = program.of("NodePatch")
    assert "::mine::" in patch.provider
    assert patch.inputs["metadata"]["labels"]["gpu-platform.dev/pool"] == "train"
    assert "gpu-platform:index:GpuNodePool$gpu-platform:index:NodePool" in patch.urn


def test_a_cluster_kubeconfig_gives_the_component_its_own_provider() -> None:
    cluster = {**EXISTING, "kubeconfig": "/my/kubeconfig", "context": "gpu"}
    nodes = {"machine_type": "dgx-a100-640gb", "nodes": {"names": ["dgx-01", "dgx-02"]}}
    program = recorded(lambda: pool(cluster, **nodes))
    provider = program.one("kubernetes", "train")
    assert (provider.inputs["kubeconfig"], provider.inputs["context"]) == ("/my/kubeconfig", "gpu")
    assert all("::train::" in patch.provider for patch in program.of("NodePatch"))


def test_a_kubeconfig_together_with_a_kubernetes_provider_is_refused() -> None:
    def declare() -> None:
        mine = k8s.Provider("mine", kubeconfig="/my/kubeconfig")
        GpuNodePool(
            "train",
            {
                "cluster": {"provider": "existing", "kubeconfig": "/other/kubeconfig"},
                "machine_type": "dgx-a100-640gb",
                "count": {"desired": 1},
                "nodes": {"names": ["dgx-01"]},
                "workload": "training",
            },
            pulumi.ResourceOptions(providers=[mine]),
        )

    assert "cluster.kubeconfig: found a kubeconfig as well as a Kubernetes provider" in refused(declare)


def test_a_node_group_takes_outputs_of_the_programs_own_resources() -> None:
    def declare() -> None:
        role = aws.iam.Role("nodes", assume_role_policy="{}")
        subnet = aws.ec2.Subnet("private", vpc_id="vpc-1")
        group = aws.ec2.SecurityGroup("cluster")
        cluster = {
            **EKS,
            "subnets": {"us-east-2a": subnet.id},
            "node_role_arn": role.arn,
            "cluster_security_group_id": group.id,
            "efa_security_group_id": group.id,
        }
        pulumi.export("node group", pool(cluster, zones=["us-east-2a"]).node_pool_name)

    program = recorded(declare)
    [group] = program.of("NodeGroup")
    assert group.inputs["subnetIds"] == [UNKNOWN]
    assert group.inputs["nodeRoleArn"] == UNKNOWN
    assert group.inputs["clusterName"] == UNKNOWN, (
        "the name depends on the security group, so the node group depends on the cluster"
    )
    assert any("role:Role::nodes" in urn for urn in group.property_dependencies["nodeRoleArn"])
    assert program.program.outputs["node group"] == UNKNOWN


def test_known_values_reach_the_node_group_unchanged() -> None:
    cluster = {**EKS, "efa_security_group_id": "sg-0e", "security_groups": ["sg-0f000000"]}
    program = recorded(lambda: pool(cluster, zones=["us-east-2a"]))
    [group] = program.of("NodeGroup")
    [template] = program.of("LaunchTemplate")
    assert group.inputs["clusterName"] == "ml"
    assert group.inputs["subnetIds"] == ["subnet-0a1b2c3d4e5f60718"]
    assert group.inputs["nodeRoleArn"] == "arn:aws:iam::123456789012:role/gpu-nodes"
    assert template.inputs["networkInterfaces"][0]["securityGroups"] == [
        "sg-0a1b2c3d4e5f60718",
        "sg-0f000000",
        "sg-0e",
    ]
    assert program.one("aws", "train").inputs["region"] == "us-east-2"


def test_an_aws_provider_of_the_options_is_used() -> None:
    def declare() -> None:
        mine = aws.Provider("mine", region="us-east-2")
        arguments: Any = {"cluster": EKS, **TRAIN, "machine_type": "g6.12xlarge", "workload": "inference"}
        GpuNodePool("serve", arguments, pulumi.ResourceOptions(providers=[mine]))

    program = recorded(declare)
    assert [one.name for one in program.of("aws")] == ["mine"]
    assert "::mine::" in program.of("NodeGroup")[0].provider


def test_a_karpenter_pool_names_the_role_of_the_given_arn() -> None:
    karpenter = {"provisioner": "karpenter", "machine_type": "g6.4xlarge", "workload": "development"}
    program = recorded(lambda: pool(EKS, **karpenter, count={"desired": 0, "max": 2}))
    [node_class] = program.of("EC2NodeClass")
    assert node_class.inputs["spec"]["role"] == "gpu-nodes"
    assert node_class.inputs["spec"]["subnetSelectorTerms"] == [{"id": "subnet-0a1b2c3d4e5f60718"}]


def test_a_gke_pool_joins_the_cluster_by_its_full_name() -> None:
    gke = {"machine_type": "g2-standard-48", "zones": ["us-central1-a"], "workload": "inference"}
    program = recorded(lambda: pool(GKE, **gke))
    [made] = program.of("NodePool")
    assert made.inputs["cluster"] == "projects/my-project/locations/us-central1/clusters/ml"
    assert made.inputs["nodeConfig"]["serviceAccount"] == "gpu-nodes@my-project.iam.gserviceaccount.com"


AKS_PROVIDERS = f"/subscriptions/{AKS['subscription']}/resourceGroups/ml/providers"
SERVE: dict[str, Any] = {"machine_type": "Standard_NC16as_T4_v3", "workload": "inference", "count": {"desired": 1}}


def test_an_agent_pool_joins_the_cluster_by_its_resource_id() -> None:
    program = recorded(lambda: pool(AKS, **SERVE))
    [made] = program.of("KubernetesClusterNodePool")
    assert made.inputs["kubernetesClusterId"] == f"{AKS_PROVIDERS}/Microsoft.ContainerService/managedClusters/ml"
    assert "vnetSubnetId" not in made.inputs
    provider = program.one("azure", "train")
    assert provider.inputs["resourceProviderRegistrations"] == "none"
    assert "::train::" in made.provider


def test_an_agent_pool_waits_for_the_cluster_and_subnet_of_its_program() -> None:
    def declare() -> None:
        mine = azure.Provider("mine", subscription_id=AKS["subscription"])
        options = pulumi.ResourceOptions(provider=mine)
        group = azure.core.ResourceGroup("ml", location="eastus2", opts=options)
        subnet = azure.network.Subnet(
            "nodes",
            resource_group_name=group.name,
            virtual_network_name="hub",
            address_prefixes=["10.0.0.0/16"],
            opts=options,
        )
        arguments: Any = {"cluster": {**AKS, "id": group.id, "subnet_id": subnet.id}, **SERVE}
        serve = GpuNodePool("serve", arguments, pulumi.ResourceOptions(providers=[mine]))
        pulumi.export("agent pool", serve.node_pool_name)

    program = recorded(declare)
    [made] = program.of("KubernetesClusterNodePool")
    assert (made.inputs["kubernetesClusterId"], made.inputs["vnetSubnetId"]) == (UNKNOWN, UNKNOWN)
    assert any("Subnet::nodes" in urn for urn in made.property_dependencies["vnetSubnetId"])
    assert "::mine::" in made.provider
    assert [one.name for one in program.of("azure")] == ["mine"]
    assert program.program.outputs["agent pool"] == "serve"


def test_the_outputs_say_what_pods_need_to_run_on_the_nodes() -> None:
    def declare() -> None:
        train = pool(SANDBOX)
        pulumi.export("resources", train.resources)
        pulumi.export("taints", train.taints)
        pulumi.export("selector", train.node_selector)
        pulumi.export("nodes", train.node_names)

    outputs = recorded(declare).program.outputs
    assert outputs["resources"] == {"nvidia.com/gpu": 8}
    assert outputs["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    assert outputs["selector"] == {"gpu-platform.dev/pool": "train"}
    assert outputs["nodes"] == ["train-0", "train-1"]


def test_the_declared_pool_has_the_components_name_and_no_cluster() -> None:
    def declare() -> None:
        assert pool(SANDBOX).pool == {"name": "train", **TRAIN}
        assert pool(SANDBOX, name="big").pool["name"] == "big"

    # The engine refuses the second pool with the same name, which shows that both calls have run.
    assert "the same parent" in refused(declare)


def test_the_children_wait_for_what_the_component_waits_for() -> None:
    def declare() -> None:
        first = k8s.core.v1.Namespace("first", metadata={"name": "first"})
        arguments: Any = {"cluster": SANDBOX, **TRAIN}
        GpuNodePool("train", arguments, pulumi.ResourceOptions(depends_on=[first]))

    program = recorded(declare)
    first = program.one("Namespace", "first").urn
    assert all(first in node.dependencies for node in program.of("Node"))
    assert program.of("Node")
