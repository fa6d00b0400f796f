"""The Kubernetes provider is bound to its cluster, and not to the address of the cluster."""

from __future__ import annotations

from typing import Any, Final

import pulumi
import pytest
from pulumi.runtime.mocks import MockCallArgs, MockResourceArgs, Mocks

from components import GpuNodePool
from components.cluster import Cluster, ClusterArgs
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import load_stack
from tests.components.known_cloud import deploy_on

UID: Final = "7c5b1f5e-2f0e-4e6b-9d0e-3c1f0b1a2d3e"
PROVIDER: Final = "pulumi:providers:kubernetes"


class KnownCluster(Mocks):
    """A fake cluster whose namespaces have the UID in `UID`. It records the inputs of each resource."""

    def __init__(self) -> None:
        self.inputs: dict[tuple[str, str], dict[str, Any]] = {}
        self.read: list[tuple[str, str, str]] = []

    def new_resource(self, args: MockResourceArgs) -> tuple[str, dict[str, Any]]:
        if args.resource_id:
            self.read.append((args.typ, args.resource_id, str(args.provider).split("::")[-2]))
            return args.resource_id, {"metadata": {"name": args.resource_id, "uid": UID}}
        self.inputs[args.typ, args.name] = args.inputs
        return f"{args.name}-id", dict(args.inputs)

    def call(self, args: MockCallArgs) -> Any:
        raise AssertionError(args.token)


def existing_cluster() -> pulumi.Output[Any]:
    cluster = Cluster("dev", ClusterArgs(plan=load_stack("dev").plan.cluster))
    return pulumi.Output.from_input(cluster.identity)


def test_an_existing_cluster_is_identified_by_its_namespace_kube_system() -> None:
    cluster = KnownCluster()
    assert deploy_on(cluster, existing_cluster) == UID
    assert cluster.inputs[PROVIDER, "dev"]["clusterIdentifier"] == UID
    assert cluster.read == [("kubernetes:core/v1:Namespace", "kube-system", "dev-identity")]


def test_the_provider_that_reads_the_identity_creates_no_object() -> None:
    cluster = KnownCluster()
    deploy_on(cluster, existing_cluster)
    assert "clusterIdentifier" not in cluster.inputs[PROVIDER, "dev-identity"]
    assert sorted(cluster.inputs) == [
        ("gpu-platform:index:Cluster", "dev"),
        (PROVIDER, "dev"),
        (PROVIDER, "dev-identity"),
    ]


def test_a_public_component_identifies_the_cluster_of_its_kubeconfig() -> None:
    def program() -> pulumi.Output[Any]:
        pool = GpuNodePool(
            "train",
            {
                "cluster": {"provider": "existing", "kubernetes": "1.34", "kubeconfig": "/my/kubeconfig"},
                "machine_type": "dgx-a100-640gb",
                "count": {"desired": 1},
                "nodes": {"names": ["dgx-01"]},
                "workload": "training",
            },
        )
        return pool.urn

    cluster = KnownCluster()
    deploy_on(cluster, program)
    assert cluster.inputs[PROVIDER, "train"]["clusterIdentifier"] == UID


@pytest.mark.parametrize(
    ("stack", "cluster"),
    [
        ("eks-training", "aws:eks/cluster:Cluster"),
        ("gke-training", "gcp:container/cluster:Cluster"),
        ("aks-training", "azure:containerservice/kubernetesCluster:KubernetesCluster"),
    ],
)
def test_pulumi_replaces_the_provider_of_a_new_cluster_together_with_the_cluster(stack: str, cluster: str) -> None:
    resources = record_stack(load_stack(stack)).resources
    (provider,) = (one for one in resources if one.type == PROVIDER)
    (created,) = (one for one in resources if one.type == cluster)
    assert provider.deleted_with == created.urn
