"""`destroy` removes the load balancers and volumes that the cloud would keep. Then the engine deletes the cluster.

The cluster is a sandbox. A thread simulates the controllers of the cloud and of Envoy Gateway.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.base import names
from gpu_platform.base.errors import BadInput, Finding
from gpu_platform.base.progress import Progress
from gpu_platform.cli.destroy import Destruction, destroy_deployed
from gpu_platform.deploy.embedded.wait import NotReady
from gpu_platform.deploy.retention.cloud_objects import delete_load_balancers
from gpu_platform.live.client import KubernetesClient, Refused
from gpu_platform.live.cloud_objects import read_cloud_objects
from gpu_platform.live.cluster_access import ClusterAccess
from gpu_platform.planning import Plan
from gpu_platform.planning.clouds.leftovers import LEFTOVERS
from gpu_platform.stack.loaded import LoadedStack, plan_platform
from sandbox.control_plane import Status
from tests.support.eks_stacks import CREATED, plan_eks
from tests.support.eventually import eventually
from tests.support.terminating import finalized_at_once

CLEANUP = "service.kubernetes.io/load-balancer-cleanup"
GATEWAY_API = "gateway.networking.k8s.io/v1"
TEAM, EDGE = "destroyed-team", "destroyed-edge"
QUIET = Progress(quiet=True)


class Cluster:
    """A sandbox in the role of a cloud cluster. Its objects have load balancers and volumes."""

    def __init__(self, client: KubernetesClient) -> None:
        self.client = client

    def service(self, name: str) -> None:
        self.client.create(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": name, "namespace": EDGE, "finalizers": [CLEANUP]},
                "spec": {"type": "LoadBalancer", "ports": [{"port": 443}]},
            }
        )

    def gateway(self) -> None:
        self.client.create(gateway(EDGE))

    def volume(self, namespace: str) -> None:
        """Create a claim, and its volume as a CSI driver would create it."""
        modes, size = ["ReadWriteOnce"], {"storage": "1Gi"}
        claim = {
            "accessModes": modes,
            "resources": {"requests": size},
            "storageClassName": "",
            "volumeName": f"pvc-{namespace}",
        }
        metadata = {"name": "data", "namespace": namespace}
        self.client.create(
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": claim}
        )
        driver = "ebs.csi.aws.com"
        self.client.create(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {
                    "name": f"pvc-{namespace}",
                    "annotations": {"pv.kubernetes.io/provisioned-by": driver},
                },
                "spec": {
                    "accessModes": modes,
                    "capacity": size,
                    "persistentVolumeReclaimPolicy": "Delete",
                    "claimRef": metadata,
                    "csi": {"driver": driver, "volumeHandle": f"vol-{namespace}"},
                },
            }
        )
        eventually(lambda: self._phase(f"pvc-{namespace}") == "Bound")

    def _phase(self, volume: str) -> str:
        return (self.client.get("v1", "PersistentVolume", volume) or {})["status"]["phase"]

    def left(self) -> list[str]:
        """Return the names of the objects with load balancers, and of the volumes."""
        found = read_cloud_objects(self.client)
        volumes = [volume.handle for volume in found.volumes]
        return sorted([*(str(live["metadata"]["name"]) for live in found.load_balancers), *volumes])

    @contextmanager
    def controllers(self) -> Generator[None]:
        """Simulate the cloud's controllers and the Gateway controller while the body runs."""
        done = threading.Event()
        worker = threading.Thread(target=self._play, args=[done])
        worker.start()
        try:
            yield
        finally:
            done.set()
            worker.join()

    def _play(self, done: threading.Event) -> None:
        rounds = 0
        while not done.wait(0.05):
            has_service = False
            for live in self.client.objects("v1", "Service", namespace=EDGE):
                has_service = has_service or live["metadata"]["name"] == "envoy-public"
                if "deletionTimestamp" in live["metadata"]:
                    self._finish(live)
            if not has_service and self.client.get(GATEWAY_API, "Gateway", "public", EDGE) is not None:
                self.service("envoy-public")
            found = read_cloud_objects(self.client)
            rounds = 0 if found.load_balancers else rounds + 1
            for volume in found.volumes:
                # Volumes disappear a few rounds after the load balancers.
                # A destroy that does not wait would therefore leave volumes behind.
                if volume.live["status"].get("phase") == "Released" and rounds > 20:
                    self.client.delete(volume.live)

    def _finish(self, live: Mapping[str, Any]) -> None:
        metadata = {key: live["metadata"][key] for key in ("name", "namespace", "resourceVersion")}
        with suppress(Refused):  # the object may already be deleted
            self.client.merge_if_unchanged(
                {"apiVersion": "v1", "kind": "Service", "metadata": {**metadata, "finalizers": []}}
            )


@pytest.fixture(scope="module")
def client(sandbox: Status) -> Iterator[KubernetesClient]:
    client = KubernetesClient(sandbox.kubeconfig)
    definition = client.apply(GATEWAYS)

    def is_served() -> bool:
        with suppress(Finding):  # the API server announces a kind before it serves the kind
            return client.refusal_of_new(gateway("default")) is None
        return False

    eventually(is_served)
    yield client
    client.delete(definition)


def gateway(namespace: str) -> dict[str, Any]:
    metadata = {"name": "public", "namespace": namespace}
    return {"apiVersion": GATEWAY_API, "kind": "Gateway", "metadata": metadata, "spec": {"listeners": []}}


@pytest.fixture
def cluster(sandbox: Status, client: KubernetesClient) -> Iterator[Cluster]:
    labels = {names.TEAM_LABEL: TEAM, names.STACK_LABEL: "test"}
    for name, marks in ((TEAM, labels), (EDGE, {})):
        client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": marks}})
    found = Cluster(client)
    yield found
    with found.controllers(), finalized_at_once(sandbox.kubeconfig):
        for name in (TEAM, EDGE):
            if (live := client.get("v1", "Namespace", name)) is not None:
                client.delete(live)
            eventually(lambda name=name: client.get("v1", "Namespace", name) is None)
        eventually(lambda: found.left() == [])


class Engine:
    """A fake engine that records which load balancers and volumes exist when the engine destroys the stack."""

    engine, why = "pulumi", "requested"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.left_at_destroy: Sequence[str] | None = None

    def lock(self, _command: str) -> nullcontext[None]:
        return nullcontext()

    def destroy(self) -> Mapping[str, Any]:
        self.left_at_destroy = self._cluster.left()
        return {}


Destroy = Callable[..., Engine]


@pytest.fixture
def destroy(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Destroy:
    """Return a function that destroys a stack whose cluster the program created, on EKS unless `plan` is given."""
    monkeypatch.setattr("gpu_platform.live.cluster_access.client_of", lambda _plan: cluster.client)
    on_eks = plan_eks({}, cluster={**CREATED, "production": False})

    def run(
        *, delete_data: bool = False, to_json: bool = False, plan: Plan = on_eks, kept: str = LEFTOVERS
    ) -> Engine:
        engine: Any = Engine(cluster)
        loaded = LoadedStack("test", Path("Pulumi.test.yaml"), {}, plan)
        outputs = {"cluster": {"retained": [kept]}}
        access = ClusterAccess(plan)
        destruction = Destruction(loaded, engine, outputs, QUIET, access, to_json)
        destroy_deployed(destruction, yes=True, delete_data=delete_data)
        return engine

    return run


def test_load_balancers_prevent_a_destroy_without_delete_data(
    cluster: Cluster, destroy: Destroy, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.gateway()
    cluster.service("web")

    with pytest.raises(BadInput, match="they prevent the deletion of the cluster's network") as caught:
        destroy()
    delete = "kubectl delete gateway.gateway.networking.k8s.io public"
    assert f"`{delete} -n {EDGE} --ignore-not-found` and `kubectl delete service web" in str(caught.value)
    assert f"Service web in namespace {EDGE}: must be deleted first" in capsys.readouterr().out
    assert cluster.left() == ["public", "web"]


def test_load_balancers_and_members_volumes_are_deleted_before_the_cluster(
    cluster: Cluster, destroy: Destroy, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.volume(TEAM)
    cluster.service("web")
    cluster.gateway()

    with cluster.controllers():
        eventually(lambda: "envoy-public" in cluster.left())
        engine = destroy(delete_data=True, to_json=True)
    assert engine.left_at_destroy == []
    report = json.loads(capsys.readouterr().out)
    assert {one["name"] for one in report["load_balancers"]} == {"public", "web", "envoy-public"}
    assert report["kept"] == []


def test_volumes_of_other_claims_are_named_as_kept(
    cluster: Cluster, destroy: Destroy, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.volume(EDGE)

    assert destroy().left_at_destroy == [f"vol-{EDGE}"]
    said = capsys.readouterr().out
    kept = f"volume vol-{EDGE} of claim data in namespace {EDGE}"
    assert f"  kept: {kept}\n" in said
    assert f"these resources were kept, remove them by hand:\n  {kept}\n" in said
    assert LEFTOVERS not in said, "the volumes themselves are named"


def test_volumes_that_aks_deletes_with_the_cluster_are_not_named_as_kept(
    cluster: Cluster, destroy: Destroy, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.volume(EDGE)
    guid, group = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9", "the existing resource group ml"
    on_aks = {"provider": "aks", "name": "ml", "subscription": guid, "resource_group": "ml", "region": "eastus2"}
    create = {"admins": [guid], "api_access": ["203.0.113.0/24"], "resource_group": "existing"}
    created = {**on_aks, "kubernetes": "1.35", "production": False, "create": create}
    pool = {"name": "t4", "machine_type": "Standard_NC4as_T4_v3", "count": {"desired": 1}, "workload": "inference"}

    plan = plan_platform({"kind": "environment", "cluster": created, "pools": [pool]}, "test")
    assert destroy(plan=plan, kept=group).left_at_destroy == [f"vol-{EDGE}"]
    said = capsys.readouterr().out
    assert f"volume vol-{EDGE} of claim data in namespace {EDGE}: deleted with the cluster" in said
    assert f"these resources were kept, remove them by hand:\n  {group}\n" in said
    assert f"kept: volume vol-{EDGE}" not in said


def test_a_load_balancer_that_is_not_deleted_in_time_is_named(cluster: Cluster) -> None:
    cluster.service("web")

    with pytest.raises(NotReady, match=f"Service web in namespace {EDGE}: after .* finalizers {CLEANUP}"):
        delete_load_balancers(cluster.client, "test", QUIET, timeout=0)


GATEWAYS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "gateways.gateway.networking.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/gateway-api/pull/891"},
    },
    "spec": {
        "group": "gateway.networking.k8s.io",
        "scope": "Namespaced",
        "names": {"kind": "Gateway", "plural": "gateways"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
