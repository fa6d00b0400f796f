"""Operators that somebody else installed are refused before `up` changes anything, or are left untouched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.cli.parts import refuse_parts
from gpu_platform.live.client import KubernetesClient
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, load_stack
from sandbox import control_plane
from sandbox.control_plane import Status
from tests.e2e.conftest import Platform
from tests.support.eks_stacks import EXISTING, load_eks
from tests.support.eventually import eventually

pytestmark = [pytest.mark.long, pytest.mark.sandbox, pytest.mark.xdist_group("e2e-foreign-parts")]

THEIRS = "theirs"
POLICY = {
    "apiVersion": "nvidia.com/v1",
    "kind": "ClusterPolicy",
    "metadata": {"name": "their-policy", "labels": {"app.kubernetes.io/version": "v25.10.0"}},
    "spec": {"driver": {"enabled": False}},
}
KARPENTER = {
    "name": "develop",
    "machine_type": "g6.4xlarge",
    "workload": "development",
    "provisioner": "karpenter",
    "count": {"desired": 0, "max": 2},
}


def workload(kind: str, name: str, image: str) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": THEIRS},
        "spec": spec | ({"replicas": 0} if kind == "Deployment" else {}),
    }


PLUGIN = workload("DaemonSet", "plugin", "nvcr.io/nvidia/k8s-device-plugin:v0.18.0")
CONTROLLER = workload("Deployment", "autoscaler", "public.ecr.aws/karpenter/controller:1.9.0")


@pytest.fixture(scope="module")
def running() -> Iterator[Status]:
    yield control_plane.up("e2e-foreign")
    control_plane.down("e2e-foreign")


@pytest.fixture
def client(running: Status) -> Iterator[KubernetesClient]:
    """A cluster on which somebody else installed a ClusterPolicy, a device plugin and Karpenter."""
    client = KubernetesClient(running.kubeconfig)
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": THEIRS}})
    for one in (POLICY, PLUGIN, CONTROLLER):
        client.apply(one)
    yield client
    for live in left(client):
        client.delete(live)
    eventually(lambda: not left(client))


def left(client: KubernetesClient) -> list[dict[str, Any]]:
    found = [client.get(version, kind, *name) for version, kind, name in _theirs()]
    return [live for live in found if live is not None]


def environment(running: Status, **parts: str) -> dict[str, Any]:
    return {
        "kind": "environment",
        "cluster": {
            "provider": "existing",
            "name": "theirs",
            "kubeconfig": str(running.kubeconfig),
            "parts": parts,
        },
        "pools": [
            {
                "name": "train",
                "machine_type": "p4de.24xlarge",
                "count": {"desired": 0, "max": 2},
                "nodes": {"selector": {"theirs": "gpu"}},
                "workload": "training",
            }
        ],
        "teams": [
            {"name": "vision", "quota": {"gpus": 8}, "priority": "training", "members": ["group:vision"]},
        ],
        "validation": {"gate": False},
    }


def refused(loaded: LoadedStack, client: KubernetesClient) -> list[str]:
    with pytest.raises(BadInput) as caught:
        refuse_parts(loaded, record_stack(loaded), client, ())
    return [f"{problem.path}: {problem.found}" for problem in caught.value.problems]


def test_what_is_there_is_refused_by_name_for_every_part_at_once(
    running: Status, client: KubernetesClient, tmp_path: Path
) -> None:
    platform = Platform(client, running.kubeconfig, tmp_path, {})
    found = refused(load_stack(str(platform.write(environment(running)))), client)
    assert found == [
        "cluster.parts.gpu_operator: install, but the cluster has ClusterPolicy their-policy v25.10.0, which this "
        "stack did not install",
        "cluster.parts.device_plugin: install, but the cluster has DaemonSet plugin in namespace theirs, which "
        "this stack did not install",
    ]
    of_eks = refused(load_eks({"zones": ["us-east-2a"]}, KARPENTER, cluster=EXISTING), client)
    assert [problem.partition(":")[0] for problem in of_eks] == [
        "cluster.parts.karpenter",
        "cluster.parts.gpu_operator",
        "cluster.parts.device_plugin",
    ]
    assert "Deployment autoscaler in namespace theirs" in of_eks[0]


def test_with_its_field_set_an_operator_is_not_changed_and_up_succeeds(
    running: Status, client: KubernetesClient, tmp_path: Path
) -> None:
    platform = Platform(client, running.kubeconfig, tmp_path, {})
    before = {kind: client.get(version, kind, *name) for version, kind, name in _theirs()}
    ran = platform.up(environment(running, gpu_operator="present"))
    assert ran.code == 0, ran.err
    for version, kind, name in _theirs():
        after, live = before[kind], client.get(version, kind, *name)
        assert after is not None
        assert live is not None
        assert live["spec"] == after["spec"]
        assert live["metadata"].get("labels") == after["metadata"].get("labels")
    assert client.get("v1", "Namespace", "vision") is not None
    assert client.get("v1", "Namespace", "gpu-operator") is None
    assert [one["metadata"]["name"] for one in client.objects("nvidia.com/v1", "ClusterPolicy")] == [
        "their-policy"
    ]
    again = platform.run("preview", str(tmp_path / "Pulumi.shop.yaml"), "--engine", "embedded", "--format", "json")
    assert again.code == 0, again.err
    told = platform.run("preview", str(tmp_path / "Pulumi.shop.yaml"), "--engine", "embedded")
    assert "warning: ClusterPolicy their-policy: the toolkit gives all GPUs of a node to containers" in told.err
    assert platform.run("destroy", str(tmp_path / "Pulumi.shop.yaml"), "--engine", "embedded", "--yes").code == 0
    assert client.get("nvidia.com/v1", "ClusterPolicy", "their-policy") is not None


def test_up_and_preview_change_nothing_if_the_operator_is_missing(
    running: Status, client: KubernetesClient, tmp_path: Path
) -> None:
    live = client.get("nvidia.com/v1", "ClusterPolicy", "their-policy")
    assert live is not None
    client.delete(live)
    eventually(lambda: client.get("nvidia.com/v1", "ClusterPolicy", "their-policy") is None)
    platform = Platform(client, running.kubeconfig, tmp_path, {})
    for command in ("preview", "up"):
        file = platform.write(environment(running, gpu_operator="present"))
        ran = platform.run(command, str(file), "--engine", "embedded")
        assert ran.code != 0
        assert "cluster.parts.gpu_operator: found present, but the cluster has no GPU Operator" in ran.err
        assert "nothing was changed" in ran.err
    assert client.get("v1", "Namespace", "vision") is None


def _theirs() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    yield "nvidia.com/v1", "ClusterPolicy", ("their-policy",)
    yield "apps/v1", "DaemonSet", ("plugin", THEIRS)
    yield "apps/v1", "Deployment", ("autoscaler", THEIRS)
