"""A real API server admits the clouds' published fabric test pods only for teams with the right machine type."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from gpu_platform.live.client import KubernetesClient, Refused
from sandbox import control_plane
from tests.e2e.fabric_namespaces import Object, apply_team, refusal, remove
from tests.support.eventually import eventually
from tests.support.fabric_pods import FabricPod, fabric_pods, platform_of

pytestmark = [pytest.mark.long, pytest.mark.sandbox, pytest.mark.xdist_group("e2e-fabric")]

PODS = list(fabric_pods())
TEAMS: dict[str, Object] = {
    "tcpx": platform_of("gke", "a3-highgpu-8g"),
    "tcpxo": platform_of("gke", "a3-megagpu-8g"),
    "a3-ultra": platform_of("gke", "a3-ultragpu-8g", {"network": {"via": "networks"}}),
    "a3-ultra-claims": platform_of("gke", "a3-ultragpu-8g"),
    "a4": platform_of("gke", "a4-highgpu-8g", {"network": {"via": "networks"}}),
    "a4x": platform_of("gke", "a4x-highgpu-4g"),
    "p4d": platform_of("eks", "p4d.24xlarge", {}, {"pod_security": "baseline"}),
    "p5": platform_of("eks", "p5.48xlarge", {}, {"pod_security": "baseline"}),
    # Teams that may not use the fabric of their machine type, and teams whose machine type has no fabric.
    "four-gpus": platform_of("gke", "a3-megagpu-8g", {}, {"quota": {"gpus": 4}}),
    "no-nics": platform_of("gke", "a3-megagpu-8g", {"network": {"rdma": False}}),
    "a2": platform_of("gke", "a2-highgpu-8g"),
    "p4d-restricted": platform_of("eks", "p4d.24xlarge"),
    "local": platform_of("sandbox", "p4de.24xlarge"),
}
AT_HOME = {
    "TCPX": {"tcpx"},
    "TCPX of Autopilot": {"tcpx"},
    "TCPXO": {"tcpxo"},
    "TCPXO of Autopilot": {"tcpxo"},
    # The manifest for A3 Ultra also works on A4, because it only requires networks that nodes of both types have.
    "RDMA of A3 Ultra": {"a3-ultra", "a4"},
    "RDMA of A4": {"a3-ultra", "a4"},
    "RDMA of A4 on Autopilot": {"a4"},
    "RDMA by claims": {"a3-ultra-claims"},
    "RDMA of A4X": {"a4x"},
    "EFA of P4d": {"p4d", "p5"},
    "EFA of P5": {"p5"},
}


# Teams on a cluster whose API server fills in the fields that pods omit.
WITH_DEFAULTS: dict[str, Object] = {
    "tcpxo-new": platform_of("gke", "a3-megagpu-8g"),
    "a3-ultra-new": platform_of("gke", "a3-ultragpu-8g", {"network": {"via": "networks"}}),
    "a3-ultra-claims-new": platform_of("gke", "a3-ultragpu-8g"),
    "a4-new": platform_of("gke", "a4-highgpu-8g", {"network": {"via": "networks"}}),
    "a4x-new": platform_of("gke", "a4x-highgpu-4g"),
}


@pytest.fixture(scope="module")
def client(start_sandbox: Callable[..., control_plane.Status]) -> Iterator[KubernetesClient]:
    client = KubernetesClient(start_sandbox().kubeconfig)
    for name, platform in TEAMS.items():
        platform["teams"][0]["name"] = name
        apply_team(client, platform)
    for name, platform in WITH_DEFAULTS.items():
        platform["teams"][0]["name"] = name
        platform["cluster"]["kubernetes"] = "1.36"
        apply_team(client, platform)
    yield client
    remove(client, [*TEAMS, *WITH_DEFAULTS])


@pytest.mark.parametrize("pod", PODS, ids=lambda one: one.name.replace(" ", "-"))
def test_published_test_pods_are_admitted_only_for_their_machine_type(client: KubernetesClient, pod: FabricPod):
    verdicts = {name: refusal(client, pod.admitted(name)) for name in TEAMS}
    assert {name for name, why in verdicts.items() if not why} == AT_HOME[pod.name], "\n".join(
        map(str, verdicts.items())
    )


@pytest.mark.parametrize("pod", [one for one in PODS if one.written], ids=lambda one: one.name.replace(" ", "-"))
def test_a_test_pod_that_could_replace_the_libraries_of_its_node_is_refused(
    client: KubernetesClient, pod: FabricPod
):
    for team in AT_HOME[pod.name]:
        assert "pod-security-host-path-mount" in refusal(client, pod.published(team))


@pytest.mark.parametrize(
    "pod",
    [one for one in PODS if one.provider == "gke" and one.machine_type != "a3-highgpu-8g"],
    ids=lambda one: one.name.replace(" ", "-"),
)
def test_published_pods_are_admitted_if_libraries_become_read_only(client: KubernetesClient, pod: FabricPod):
    for team in (f"{name}-new" for name in AT_HOME[pod.name]):
        spec = eventually(lambda team=team: _read_only(client, pod.published(team)))
        assert spec is not None
        libraries = {one["name"] for one in spec["volumes"] if "/home/" in one.get("hostPath", {}).get("path", "")}
        mounts = [
            mount for one in spec["containers"] for mount in one["volumeMounts"] if mount["name"] in libraries
        ]
        assert mounts
        assert all(mount.get("readOnly") for mount in mounts)
        if pod.machine_type == "a3-megagpu-8g":
            (apertures,) = [m for m in spec["containers"][1]["volumeMounts"] if m["name"] == "aperture-devices"]
            assert not apertures.get("readOnly")


def _read_only(client: KubernetesClient, wanted: Object) -> Object | None:
    """Return the spec of an admitted pod, or None if the API server has not yet read the policy."""
    try:
        return client.create(wanted, dry_run=True)["spec"]
    except Refused as refused:
        if "pod-security-host-path-mount" in refused.message:
            return None
        raise
