"""Controllers are detected on a real API server, regardless of their names and of who installed them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.parts import find_parts
from gpu_platform.planning.clouds.gpu_parts import plan_gpu_parts
from gpu_platform.planning.clouds.parts import InstalledPart
from gpu_platform.stack.cluster import ExistingCluster
from tests.deploy.conftest import Stack
from tests.support.eks_stacks import EXISTING, plan_eks
from tests.support.eventually import eventually

NAMESPACE = "parts"
KARPENTER = {
    "name": "develop",
    "machine_type": "g6.4xlarge",
    "workload": "development",
    "provisioner": "karpenter",
    "count": {"desired": 0, "max": 2},
}

SCALED = {
    "name": "serve",
    "machine_type": "g6.4xlarge",
    "workload": "inference",
    "count": {"min": 0, "desired": 0, "max": 2},
}


@pytest.fixture
def cluster(stack: Stack) -> Iterator[KubernetesClient]:
    stack.client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    yield stack.client
    left = [live for kind in ("Deployment", "DaemonSet") for live in of_test(stack.client, kind)]
    for live in left:
        stack.client.delete(live)
    eventually(lambda: not any(of_test(stack.client, kind) for kind in ("Deployment", "DaemonSet")))


def of_test(client: KubernetesClient, kind: str) -> list[dict[str, Any]]:
    return list(client.objects("apps/v1", kind, namespace=NAMESPACE))


def put(
    cluster: KubernetesClient,
    kind: str,
    name: str,
    image: str,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    owners: list[dict[str, Any]] | None = None,
    **pod: Any,
) -> None:
    selector = {"app": name}
    container = {"name": "main", "image": image}
    template = {"metadata": {"labels": selector}, "spec": {"containers": [container], **pod}}
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels or {}, "annotations": annotations or {}}
    metadata |= {"ownerReferences": owners} if owners else {}
    spec: dict[str, Any] = {"selector": {"matchLabels": selector}, "template": template}
    cluster.apply({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec})


def found(cluster: KubernetesClient) -> list[InstalledPart]:
    cloud = plan_eks({"zones": ["us-east-2a"]}, KARPENTER, SCALED, cluster=EXISTING).cluster.cloud
    assert cloud is not None
    return [one for one in find_parts(cluster, cloud.parts) if one.namespace == NAMESPACE]


def test_a_cluster_without_controllers_has_none(cluster: KubernetesClient) -> None:
    put(cluster, "Deployment", "web", "registry.example.com/web:1")
    assert found(cluster) == []


def test_a_helm_release_is_found_with_its_version(cluster: KubernetesClient) -> None:
    labels = {"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/version": "1.9.0"}
    release = {"meta.helm.sh/release-name": "autoscaler", "meta.helm.sh/release-namespace": NAMESPACE}
    put(cluster, "Deployment", "autoscaler", "registry.example.com/mirror:1", labels, release)
    (one,) = found(cluster)
    assert str(one) == f"Deployment autoscaler 1.9.0 in namespace {NAMESPACE}"
    assert (one.part, one.release) == ("karpenter", (NAMESPACE, "autoscaler"))


def test_a_controller_without_labels_is_found_by_its_image(cluster: KubernetesClient) -> None:
    put(cluster, "Deployment", "kp", "registry.example.com/ecr-public/karpenter/controller:1.9.0@sha256:0")
    put(
        cluster,
        "DaemonSet",
        "efa",
        "602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/aws-efa-k8s-device-plugin:v1",
    )
    assert [(one.part, one.name, one.release) for one in found(cluster)] == [
        ("karpenter", "kp", None),
        ("efa_plugin", "efa", None),
    ]


PLUGIN = "nvcr.io/nvidia/k8s-device-plugin:v0.18.0"


def gpu_parts(cluster: KubernetesClient) -> list[tuple[str, str, str]]:
    parts = plan_gpu_parts(ExistingCluster(provider="existing"), exporter=True)
    return [(one.part, one.kind, one.name) for one in find_parts(cluster, parts) if one.namespace == NAMESPACE]


def test_software_for_gpus_is_found_whoever_installed_it(cluster: KubernetesClient) -> None:
    put(cluster, "Deployment", "their-operator", "nvcr.io/nvidia/gpu-operator:v25.10.0")
    put(cluster, "DaemonSet", "plugin", PLUGIN)
    put(cluster, "Deployment", "nfd-master", "registry.k8s.io/nfd/node-feature-discovery:v0.18.2")
    put(cluster, "DaemonSet", "exporter", "nvcr.io/nvidia/k8s/dcgm-exporter:4.4.2-4.7.0")
    assert gpu_parts(cluster) == [
        ("gpu_operator", "Deployment", "their-operator"),
        ("device_plugin", "DaemonSet", "plugin"),
        ("node_feature_discovery", "Deployment", "nfd-master"),
        ("dcgm_exporter", "DaemonSet", "exporter"),
    ]


def test_what_an_operator_has_created_is_no_part_of_its_own(cluster: KubernetesClient) -> None:
    owner = {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "name": "cluster-policy",
        "uid": "0a1b2c3d",
        "controller": True,
    }
    put(cluster, "DaemonSet", "nvidia-device-plugin-daemonset", PLUGIN, owners=[owner])
    assert gpu_parts(cluster) == []


def test_a_device_plugin_on_unrelated_nodes_is_no_duplicate(cluster: KubernetesClient) -> None:
    put(cluster, "DaemonSet", "elsewhere", PLUGIN, nodeSelector={"example.com/pool": "old"})
    key = "feature.node.kubernetes.io/pci-10de.present"
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": ["true"]}]}
    everywhere = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    put(cluster, "DaemonSet", "on-every-gpu", PLUGIN, affinity={"nodeAffinity": everywhere})
    assert gpu_parts(cluster) == [("device_plugin", "DaemonSet", "on-every-gpu")]


def test_the_cluster_autoscaler_is_found_by_its_chart_and_by_its_image(cluster: KubernetesClient) -> None:
    labels = {"app.kubernetes.io/name": "aws-cluster-autoscaler"}
    put(cluster, "Deployment", "scaler", "registry.example.com/mirror:2", labels)
    put(cluster, "Deployment", "by-hand", "registry.k8s.io/autoscaling/cluster-autoscaler:v1.35.0")
    put(cluster, "Deployment", "dns", "registry.k8s.io/cpa/cluster-proportional-autoscaler:v1.9.0")
    assert {(one.part, one.name) for one in found(cluster)} == {
        ("cluster_autoscaler", "scaler"),
        ("cluster_autoscaler", "by-hand"),
    }
