"""Stacks on companies' existing clusters, previewed by the real Pulumi CLI, which reads the clusters.

The tests run if `pulumi` and its Kubernetes provider are on PATH (CONTRIBUTING.md). One sandbox serves as every
cluster. An EKS cluster is first looked up through the EKS API (DescribeCluster of the simulated network), because
no stack output exists yet.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.live.client import KubernetesClient
from sandbox import control_plane
from sandbox._layout import ADMIN, Layout
from tests.components.company_shapes import shape
from tests.e2e.conftest import Platform
from tests.support.permissive import JOB_SETS, KEDA, TRAIN_JOBS, permissive
from tests.support.played_cloud.cloud import PlayedCloud, played_cloud
from tests.support.pulumi_cli import NEEDS_PULUMI, environment

pytestmark = [
    pytest.mark.long,
    *NEEDS_PULUMI,
    pytest.mark.sandbox,
    pytest.mark.timeout(5400),
    pytest.mark.xdist_group("pulumi-preview-existing"),
]

THEIRS = "theirs"
QUEUES_AND_JOBS = {
    "kueue-controller-manager": "registry.k8s.io/kueue/kueue:v0.19.2",
    "jobset-controller-manager": "registry.k8s.io/jobset/jobset:v0.10.1",
    "trainer": "ghcr.io/kubeflow/trainer/trainer-controller-manager:v2.2.0",
    "kuberay-operator": "quay.io/kuberay/operator:v1.5.0",
    "lws-controller-manager": "registry.k8s.io/lws/lws:v0.7.0",
    "keda-operator": "ghcr.io/kedacore/keda:2.18.0",
}
"""Deployments that the cluster's owner runs, by name."""
DEFINITIONS = (
    permissive("kueue.x-k8s.io/v1beta2", "ClusterQueue", "clusterqueues"),
    permissive("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leaderworkersets"),
    permissive("ray.io/v1", "RayCluster", "rayclusters"),
    JOB_SETS,
    TRAIN_JOBS,
    *KEDA,
)
"""CRDs that the owner's Deployments need. The CRDs admit any field, including all fields that the program sets."""
ON_EKS = {
    "karpenter": "public.ecr.aws/karpenter/controller:1.9.0",
    "gpu-operator": "nvcr.io/nvidia/gpu-operator:v26.7.0",
}
ON_PREMISES = {"nfd-master": "registry.k8s.io/nfd/node-feature-discovery:v0.18.2"}
EFA_PLUGIN = "602401143452.dkr.ecr.us-east-2.amazonaws.com/eks/aws-efa-k8s-device-plugin:v0.5.13"
EXPORTER = "nvcr.io/nvidia/k8s/dcgm-exporter:4.8.3-4.9.0-distroless"


@pytest.fixture(scope="module")
def running() -> Iterator[control_plane.Status]:
    yield control_plane.up("e2e-previews")
    control_plane.down("e2e-previews")


@pytest.fixture
def client(running: control_plane.Status) -> Iterator[KubernetesClient]:
    """A cluster with a namespace for the owner's workloads. The namespace is emptied after each test."""
    client = KubernetesClient(running.kubeconfig)
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": THEIRS}})
    yield client
    for kind in ("Deployment", "DaemonSet"):
        for live in client.objects("apps/v1", kind, namespace=THEIRS):
            client.delete(live)
    for definition in DEFINITIONS:
        live = client.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", definition["metadata"]["name"])
        if live is not None:
            client.delete(live)


def run_operators(client: KubernetesClient, deployments: dict[str, str], daemonsets: dict[str, str]) -> None:
    for definition in DEFINITIONS:
        client.apply(definition)
    for kind, named in (("Deployment", deployments), ("DaemonSet", daemonsets)):
        for name, image in named.items():
            labels = {"app": name}
            pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}}
            replicas = {"replicas": 0} if kind == "Deployment" else {}
            client.apply(
                {
                    "apiVersion": "apps/v1",
                    "kind": kind,
                    "metadata": {"name": name, "namespace": THEIRS},
                    "spec": {"selector": {"matchLabels": labels}, "template": pod, **replicas},
                }
            )


@pytest.fixture
def cloud(running: control_plane.Status, tmp_path: Path) -> Iterator[PlayedCloud]:
    """A simulated AWS account in which the sandbox is the EKS cluster of the stacks."""
    folder = tmp_path / "cloud"
    folder.mkdir()
    layout = Layout(running.data_dir)
    credential = {
        "kind": "ExecCredential",
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "spec": {},
        "status": {"token": layout.token(ADMIN)},
    }
    token = folder / "token-ml.json"
    token.touch(mode=0o600)
    token.write_text(json.dumps(credential), "utf-8")
    outputs = {
        "endpoint": running.server,
        "certificateAuthority": {"data": base64.b64encode(layout.authority.read_bytes()).decode()},
        "kubernetesNetworkConfig": {"serviceIpv4Cidr": "172.20.0.0/16"},
        "vpcConfig": {"vpcId": "vpc-0a1b2c3d4e5f60718", "clusterSecurityGroupId": "sg-0a1b2c3d4e5f60718"},
    }
    inputs = {"name": "ml", "version": "1.35", "accessConfig": {"authenticationMode": "API_AND_CONFIG_MAP"}}
    with played_cloud(folder) as played:
        with played.changing() as account:
            account.put("aws:eks/cluster:Cluster", "ml", inputs, outputs)
            for name in ("vpc-cni", "eks-pod-identity-agent"):
                addon = {"addonName": name, "addonVersion": "v1.22.4-eksbuild.3", "clusterName": "ml"}
                account.put("aws:eks/addon:Addon", f"ml:{name}", addon, {})
        yield played


def previewed(stack: dict[str, Any], cloud: PlayedCloud, folder: Path) -> Any:
    unused: Any = None
    env = {**environment(folder / "backend"), **cloud.env}
    platform = Platform(unused, unused, folder, {}, engine="pulumi", env=env)
    return platform.run("preview", str(platform.write(stack)), "--engine", "pulumi", "--format", "json")


def counts(ran: Any) -> dict[str, int]:
    assert ran.code == 0, ran.err
    return {action: count for action, count in ran.json["changes"]["counts"].items() if count}


def test_an_existing_eks_cluster_is_inspected_before_the_first_deploy(
    client: KubernetesClient, cloud: PlayedCloud, tmp_path: Path
) -> None:
    stack = shape("existing-eks-of-operators")
    missing = previewed(stack, cloud, tmp_path)
    assert missing.code == 2
    assert "cluster.parts.karpenter: found present, but the cluster has no" in missing.err
    run_operators(client, {**QUEUES_AND_JOBS, **ON_EKS}, {"efa": EFA_PLUGIN})
    assert set(counts(previewed(stack, cloud, tmp_path))) == {"create"}
    stack["cluster"]["parts"]["karpenter"] = "install"
    del stack["cluster"]["parts"]["karpenter_node_role"]
    twice = previewed(stack, cloud, tmp_path)
    assert twice.code == 2
    assert "cluster.parts.karpenter" in twice.err
    assert (
        "write cluster.parts.karpenter: present to use the existing installation, or uninstall it first"
        in twice.err
    )
    assert cloud.account.events == []


def test_an_on_premises_preview_contains_only_the_stacks_additions(
    client: KubernetesClient, running: control_plane.Status, cloud: PlayedCloud, tmp_path: Path
) -> None:
    run_operators(client, {**QUEUES_AND_JOBS, **ON_PREMISES}, {"exporter": EXPORTER})
    stack = shape("existing-cluster-of-operators")
    stack["cluster"]["kubeconfig"] = str(running.kubeconfig)
    assert set(counts(previewed(stack, cloud, tmp_path))) == {"create"}


def test_a_rack_of_gb200_on_an_existing_eks_cluster_previews_with_its_charts(
    client: KubernetesClient, cloud: PlayedCloud, tmp_path: Path
) -> None:
    assert set(counts(previewed(shape("gb200-rack-on-eks"), cloud, tmp_path))) == {"create"}
