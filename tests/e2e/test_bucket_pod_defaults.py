"""Default CPU and memory requests of pods that mount a bucket on GKE, on the real API server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gpu_platform.base.quantity import amount_of
from gpu_platform.live.client import KubernetesClient
from sandbox import control_plane
from tests.e2e.fabric_namespaces import apply_team, honest, pod, remove
from tests.support.eventually import eventually
from tests.support.fabric_pods import platform_of

pytestmark = [pytest.mark.sandbox, pytest.mark.xdist_group("e2e-fabric")]

Object = dict[str, Any]
MOUNTING = {"gke-gcsfuse/volumes": "true"}
SIDECAR = {
    "name": "gke-gcsfuse-sidecar",
    "image": "none",
    "restartPolicy": "Always",
    "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}},
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}


@pytest.fixture(scope="module")
def client(start_sandbox: Callable[..., control_plane.Status]) -> Iterator[KubernetesClient]:
    client = KubernetesClient(start_sandbox().kubeconfig)
    platform = platform_of("gke", "a3-megagpu-8g", None, {"name": "buckets"})
    platform["cluster"]["kubernetes"] = "1.36"
    apply_team(client, platform)
    eventually(lambda: requests(client)["cpu"] > 100_000)
    yield client
    remove(client, ["buckets"])


def requests(client: KubernetesClient, annotations: dict[str, str] | None = None, **rest: Any) -> dict[str, int]:
    """Return the requests of a pod with all GPUs of a node, in millicores and bytes."""
    spec = {**honest(), **rest}
    spec["containers"] = [{**spec["containers"][0], "resources": {"limits": {"nvidia.com/gpu": 8}}}]
    live = client.create(pod("buckets", spec, annotations=annotations or {}), dry_run=True)
    found = live["spec"]["containers"][0]["resources"]["requests"]
    return {name: amount_of(name, found[name]) for name in ("cpu", "memory")}


def test_a_pod_that_mounts_a_bucket_leaves_room_for_its_sidecar(client: KubernetesClient):
    """GKE adds the sidecar after the defaults are set, so a pod that requests a whole node would no longer fit on
    it.
    """
    whole, mounting = requests(client), requests(client, MOUNTING)
    assert whole["cpu"] - mounting["cpu"] == 250
    assert whole["memory"] - mounting["memory"] == 256 * 2**20


def test_an_existing_sidecar_is_counted_once(client: KubernetesClient):
    assert requests(client, MOUNTING, initContainers=[SIDECAR]) == requests(client, MOUNTING)


def test_an_annotation_that_mounts_nothing_changes_nothing(client: KubernetesClient):
    assert requests(client, {"gke-gcsfuse/volumes": "false"}) == requests(client)
