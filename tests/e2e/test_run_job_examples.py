"""The manifests in examples/jobs are admitted and scheduled on the real control plane."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from gpu_platform.base import names
from gpu_platform.base.paths import PROJECT_ROOT
from gpu_platform.live.client import KubernetesClient
from tests.e2e.conftest import SANDBOX, VALIDATION_TIMEOUT, Platform
from tests.support.definitions import CRDS, definition
from tests.support.eventually import eventually

pytestmark = [pytest.mark.long, pytest.mark.sandbox, pytest.mark.xdist_group("e2e-examples")]

Object = dict[str, Any]
TEAM = "research"
CUSTOM = {
    "ray.io_rayclusters": ("ray.io", "v1", "RayCluster"),
    "keda.sh_scaledobjects": ("keda.sh", "v1alpha1", "ScaledObject"),
}


def stack() -> Object:
    """Return the stack file of the examples for the sandbox, with a fixed number of nodes and without charts."""
    file = PROJECT_ROOT / "examples" / "jobs" / "Pulumi.jobs.yaml"
    platform: Object = yaml.safe_load(file.read_text("utf-8"))["config"]["gpu-platform:platform"]
    platform |= {
        "cluster": {"provider": "sandbox", "name": SANDBOX},
        "validation": {"timeout": VALIDATION_TIMEOUT},
    }
    platform["addons"] = dict.fromkeys(platform["addons"], "present")
    del platform["storage"]
    for pool in platform["pools"]:
        pool.pop("zones", None)
        pool["count"] = {"desired": pool["count"]["desired"]}
    platform["teams"][0]["inference_services"][0]["autoscaling"]["server"] = "http://prometheus.example.com:9090"
    return platform


def known(client: KubernetesClient) -> None:
    """Install the custom kinds, with strict schemas if the operators' definitions are available."""
    for file, (group, version, kind) in CUSTOM.items():
        plural = f"{kind.lower()}s"
        loose: Object = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
                "versions": [
                    {
                        "name": version,
                        "served": True,
                        "storage": True,
                        "schema": {
                            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                        },
                    }
                ],
            },
        }
        client.create(definition(file) if CRDS else loose)


def volume(client: KubernetesClient, name: str, mode: str) -> None:
    """Create the volume that a cloud's storage class would create for a claim. A sandbox has no such driver."""
    client.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": "1200Gi"},
                "accessModes": [mode],
                "storageClassName": "shared",
                "claimRef": {"namespace": TEAM, "name": name},
                "nfs": {"server": "nfs.example.com", "path": f"/{name}"},
            },
        }
    )


@pytest.fixture
def up(platform: Platform) -> Platform:
    """The deployed stack of the examples."""
    if "shop" not in platform.state:
        known(platform.client)
        volume(platform.client, "finetune-ddp-checkpoints", "ReadWriteOnce")
        volume(platform.client, "finetune-fsdp-checkpoints", "ReadWriteMany")
        ran = platform.up(stack())
        assert ran.code == 0, ran.err
    return platform


def pods(client: KubernetesClient, name: str) -> list[Object]:
    selector = f"{names.NAME_LABEL}={name}"
    return [dict(one) for one in client.objects("v1", "Pod", namespace=TEAM, label_selector=selector)]


def pools_of(client: KubernetesClient, name: str, count: int) -> set[str]:
    """Wait until `count` pods of an example are scheduled, and return the pools of their nodes."""

    def placed() -> list[str]:
        nodes = [one["spec"].get("nodeName", "") for one in pods(client, name)]
        return nodes if len(nodes) >= count and all(nodes) else []

    return {node.rpartition("-")[0] for node in eventually(placed)}


@pytest.mark.parametrize(
    ("name", "pool", "count"),
    [("finetune-ddp", "train", 1), ("finetune-fsdp", "train", 2), ("answers", "serve", 1), ("sweep", "lab", 6)],
)
def test_the_pods_of_an_example_are_placed_on_the_nodes_of_its_pool(
    up: Platform, name: str, pool: str, count: int
) -> None:
    assert pools_of(up.client, name, count) == {pool}


def test_pods_of_the_sweep_have_a_mig_instance_each(up: Platform) -> None:
    assert pools_of(up.client, "sweep", 6) == {"lab"}
    limits = [one["spec"]["containers"][0]["resources"]["limits"] for one in pods(up.client, "sweep")]
    assert all(one["nvidia.com/mig-1g.10gb"] == "1" for one in limits)


def test_a_notebook_that_a_member_starts_is_placed(up: Platform) -> None:
    entry = up.client.get("batch/v1", "CronJob", "notebook", TEAM)
    assert entry is not None
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "ana", "namespace": TEAM, **entry["spec"]["jobTemplate"].get("metadata", {})},
        "spec": entry["spec"]["jobTemplate"]["spec"],
    }
    up.client.create(job)
    assert pools_of(up.client, "notebook", 1) == {"lab"}


def test_the_pods_that_kuberay_makes_of_the_ray_cluster_are_placed(up: Platform) -> None:
    """KubeRay does not run in the sandbox. The test creates the pods from the templates as KubeRay would."""
    cluster = up.client.get("ray.io/v1", "RayCluster", "tune", TEAM)
    assert cluster is not None
    (workers,) = cluster["spec"]["workerGroupSpecs"]
    templates = [(cluster["spec"]["headGroupSpec"]["template"], "head", 1)]
    templates.append((workers["template"], "worker", workers["replicas"]))
    for template, kind, replicas in templates:
        for index in range(replicas):
            pod = copy.deepcopy(template)
            pod["metadata"] |= {"name": f"tune-{kind}-{index}", "namespace": TEAM}
            up.client.create({"apiVersion": "v1", "kind": "Pod", **pod})
    head = cluster["spec"]["headGroupSpec"]["template"]["metadata"]["labels"][names.NAME_LABEL]
    worker = workers["template"]["metadata"]["labels"][names.NAME_LABEL]
    assert pools_of(up.client, head, 1) == {"general"}
    assert pools_of(up.client, worker, 4) == {"lab"}


def test_the_scaled_object_scales_the_deployment_that_serves(up: Platform) -> None:
    scaled = up.client.get("keda.sh/v1alpha1", "ScaledObject", "answers", TEAM)
    assert scaled is not None
    target = scaled["spec"]["scaleTargetRef"]
    assert up.client.get(target["apiVersion"], target["kind"], target["name"], TEAM) is not None
    assert scaled["spec"]["maxReplicaCount"] == 2
