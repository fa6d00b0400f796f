"""With queues, pods that select a compute class must also name its pools, because Kueue ignores the classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpu_platform.live.client import KubernetesClient
from tests.e2e.fabric_namespaces import refusal
from tests.e2e.test_equal_verdicts import a_pod, client, held, main
from tests.e2e.test_tolerations_before_1_36 import POLICIES, recorded
from tests.support.eventually import eventually

__all__ = ["client"]  # a fixture

pytestmark = [pytest.mark.long, pytest.mark.sandbox, pytest.mark.xdist_group("e2e-fabric")]

GKE = {"provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1", "kubernetes": "1.36"}
EKS = {"provider": "eks", "name": "ml", "region": "us-east-2", "kubernetes": "1.36"}
CLOUDS = {
    "gke": (GKE, "g2-standard-12", "us-central1-a", "cloud.google.com/compute-class"),
    "eks": (EKS, "g6e.12xlarge", "us-east-2a", "gpu-platform.dev/compute-class"),
}
COUNT = {"min": 0, "desired": 0, "max": 8}
POOL = "gpu-platform.dev/pool"


def platform(cloud: str, namespace: str, *, other_pool: bool) -> dict[str, Any]:
    cluster, machine, zone, _ = CLOUDS[cloud]
    common = {"machine_type": machine, "count": COUNT, "zones": [zone], "workload": "inference"}
    pools = [
        {**common, "name": "steady"},
        {**common, "name": "spare", "capacity": {"type": "spot"}},
        *([{**common, "name": "lab"}] if other_pool else []),
    ]
    team = {"name": namespace, "quota": {"gpus": 8}, "priority": "inference", "members": ["group:a@example.com"]}
    return {
        "kind": "environment",
        "cluster": cluster,
        "pools": pools,
        "compute_classes": [{"name": "l4", "pools": ["steady", "spare"]}],
        "queueing": {},
        "teams": [team],
    }


class Judged:
    """A namespace in which the API server applies the rules of a team's queue to Jobs."""

    def __init__(self, client: KubernetesClient, namespace: str, label: str) -> None:
        self.client, self.namespace, self.label = client, namespace, label

    def refusal(self, **spec: Any) -> str:
        size = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
        container = {**main(size, image="none:1"), "resources": {"requests": size, "limits": size}}
        tolerations = [{"operator": "Exists"}]
        job = held("Job", a_pod([container], tolerations=tolerations, **spec))
        job["metadata"]["namespace"] = self.namespace
        return refusal(self.client, job)


def judged(client: KubernetesClient, cloud: str, *, other_pool: bool) -> Iterator[Judged]:
    namespace = f"classes-on-{cloud}-{'with' if other_pool else 'without'}-others"
    policy = f"queue-of-{namespace}"
    wanted = {("Namespace", namespace), *((kind, policy) for kind in POLICIES)}
    made = recorded(platform(cloud, namespace, other_pool=other_pool), wanted)
    assert len(made) == 3
    for one in made:
        client.apply(one)
    found = Judged(client, namespace, CLOUDS[cloud][3])
    eventually(lambda: client.get("v1", "ServiceAccount", "default", namespace) is not None)
    eventually(lambda: "the queue of this namespace" in _elsewhere(found))
    yield found
    for one in reversed(made):
        live = client.get(one["apiVersion"], one["kind"], one["metadata"]["name"])
        assert live is not None
        client.delete(live)
    eventually(
        lambda: all(client.get(one["apiVersion"], one["kind"], one["metadata"]["name"]) is None for one in made)
    )


def _elsewhere(found: Judged) -> str:
    """Return why a Job for another queue is refused, which shows that the policy is in effect."""
    job = held("Job", a_pod([main(image="none:1")]))
    job["metadata"] |= {"namespace": found.namespace, "labels": {"kueue.x-k8s.io/queue-name": "another"}}
    return refusal(found.client, job)


@pytest.fixture(scope="module", params=CLOUDS)
def place(client: KubernetesClient, request: pytest.FixtureRequest) -> Iterator[Judged]:
    yield from judged(client, request.param, other_pool=True)


@pytest.fixture(scope="module")
def alone(client: KubernetesClient) -> Iterator[Judged]:
    yield from judged(client, "gke", other_pool=False)


def required(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def test_a_class_without_its_pools_is_refused_where_the_queue_has_others(place: Judged) -> None:
    of_class = {"key": place.label, "operator": "In", "values": ["l4"]}
    for message in (place.refusal(nodeSelector={place.label: "l4"}), place.refusal(affinity=required(of_class))):
        assert (
            f"queue-pool: the queue ignores {place.label} and may start pods of class l4 on nodes of lab"
            in message
        )
        assert f"{{key: {POOL}, operator: In, values: [steady, spare]}}" in message


def test_a_class_with_its_pools_is_admitted(place: Judged) -> None:
    of_pools = {"key": POOL, "operator": "In", "values": ["steady", "spare"]}
    assert place.refusal(nodeSelector={place.label: "l4"}, affinity=required(of_pools)) == ""
    assert place.refusal(nodeSelector={place.label: "l4", POOL: "steady"}) == ""


def test_pods_of_no_class_and_of_other_classes_name_no_pools(place: Judged) -> None:
    assert place.refusal() == ""
    assert place.refusal(nodeSelector={place.label: "another"}) == ""


def test_a_class_that_has_all_pools_of_the_queue_is_enough(alone: Judged) -> None:
    assert alone.refusal(nodeSelector={alone.label: "l4"}) == ""
