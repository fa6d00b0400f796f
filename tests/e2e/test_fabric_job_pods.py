"""A real API server admits pods of multi-node jobs with GPU NICs only for teams with the matching fabric."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from gpu_platform.live.client import KubernetesClient
from sandbox import control_plane
from tests.e2e.fabric_namespaces import Object, apply_team, refusal, remove
from tests.support.fabric_jobs import MACHINES, job_pods, platform_with_jobs
from tests.support.fabric_pods import platform_of

pytestmark = [pytest.mark.long, pytest.mark.sandbox, pytest.mark.xdist_group("e2e-fabric")]

JOBS = {one.published.lower().replace(" ", "-"): one for one in MACHINES}
ELSEWHERE = "job-no-nics"


def of_team(name: str) -> Object:
    platform = platform_with_jobs(JOBS[name])
    platform["teams"][0]["name"] = f"job-{name}"
    return platform


@pytest.fixture(scope="module")
def client(start_sandbox: Callable[..., control_plane.Status]) -> Iterator[KubernetesClient]:
    client = KubernetesClient(start_sandbox().kubeconfig)
    without = platform_of("gke", "a3-megagpu-8g", {"network": {"rdma": False}}, {"name": ELSEWHERE})
    names = [apply_team(client, platform) for platform in (*map(of_team, JOBS), without)]
    yield client
    remove(client, names)


@pytest.mark.parametrize("name", JOBS)
def test_pods_of_jobs_are_admitted_in_the_namespace_of_their_team(client: KubernetesClient, name: str):
    pods = job_pods(of_team(name))
    assert set(pods) == {"training", "inference", "ray"}
    assert {kind: refusal(client, pod) for kind, pod in pods.items()} == dict.fromkeys(pods, "")


@pytest.mark.parametrize("name", JOBS)
def test_pods_of_jobs_are_refused_where_the_fabric_is_not(client: KubernetesClient, name: str):
    for pod in job_pods(of_team(name)).values():
        pod["metadata"]["namespace"] = ELSEWHERE
        pod["spec"].pop("serviceAccountName", None)
        assert refusal(client, pod)
