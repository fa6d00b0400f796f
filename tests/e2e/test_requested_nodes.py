"""Gangs with GPUs in several pod templates are refused on pools whose nodes GKE creates on request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpu_platform.live.client import KubernetesClient
from tests.e2e.fabric_namespaces import refusal
from tests.e2e.test_equal_verdicts import HOLDERS, a_pod, client, held, main
from tests.e2e.test_tolerations_before_1_36 import POLICIES, recorded
from tests.planning.test_requested_nodes import PARTS, QUEUED, STEADY, TAKEN, stack
from tests.support.eventually import eventually

__all__ = ["client"]  # a fixture

pytestmark = [pytest.mark.long, pytest.mark.sandbox, pytest.mark.xdist_group("e2e-fabric")]

NAMESPACE = "requested-nodes"
KINDS = ("JobSet", "LeaderWorkerSet", "RayCluster", "RayService", "TrainingRuntime", "PyTorchJob", "MPIJob")


def attempt(kind: str, of_first: dict[str, str], of_second: dict[str, str], **spec: Any) -> dict[str, Any]:
    """Return an object with two pod templates that request the given resources."""
    made = held(kind, a_pod([main()]))
    templates = []
    for amounts in (of_first, of_second):
        size = {"cpu": "1", "memory": "1Gi", **amounts}
        container = {**main(size, image="none:1"), "resources": {"requests": size, "limits": size}}
        pod = a_pod([container], tolerations=[{"operator": "Exists"}], **spec)
        policy = {"restartPolicy": "Never"} if kind == "JobSet" else {}
        templates.append({"metadata": {}, "spec": {**pod["spec"], **policy}})
    made["spec"] = HOLDERS[kind][2](*templates)
    made["metadata"] = {"name": "attempt", "namespace": NAMESPACE}
    return made


@pytest.fixture(scope="module")
def judged(client: KubernetesClient) -> Iterator[KubernetesClient]:
    platform = stack(QUEUED, STEADY, PARTS)
    platform["teams"][0]["name"] = NAMESPACE
    policy = f"queue-of-{NAMESPACE}"
    made = recorded(platform, {("Namespace", NAMESPACE), *((kind, policy) for kind in POLICIES)})
    assert len(made) == 3
    for one in made:
        client.apply(one)
    eventually(lambda: client.get("v1", "ServiceAccount", "default", NAMESPACE) is not None)
    eventually(lambda: "queue-pod-sets" in refusal(client, attempt("JobSet", GPU, GPU)))
    yield client
    for one in reversed(made):
        live = client.get(one["apiVersion"], one["kind"], one["metadata"]["name"])
        assert live is not None
        client.delete(live)
    eventually(
        lambda: all(client.get(one["apiVersion"], one["kind"], one["metadata"]["name"]) is None for one in made)
    )


GPU = {"nvidia.com/gpu": "1"}
NO_GPU = {"nvidia.com/gpu": "0"}


@pytest.mark.parametrize("kind", KINDS)
def test_gpus_in_two_templates_need_a_pool_that_is_not_requested(judged: KubernetesClient, kind: str) -> None:
    for where in ({}, {"gpu-platform.dev/pool": "requested"}):
        message = refusal(judged, attempt(kind, GPU, GPU, nodeSelector=where))
        assert "queue-pod-sets: several pod templates request nvidia.com/gpu" in message
    elsewhere = {"gpu-platform.dev/pool": "steady"}
    assert refusal(judged, attempt(kind, GPU, GPU, nodeSelector=elsewhere)) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_gpus_in_one_template_are_admitted(judged: KubernetesClient, kind: str) -> None:
    assert refusal(judged, attempt(kind, {}, GPU)) == ""
    assert refusal(judged, attempt(kind, {"nvidia.com/mig-1g.5gb": "1"}, GPU)) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_a_template_that_names_gpus_with_the_amount_0_counts(judged: KubernetesClient, kind: str) -> None:
    """Kueue also creates a PodSet for a template that requests 0 GPUs."""
    assert "queue-pod-sets: several pod templates request nvidia.com/gpu" in refusal(
        judged, attempt(kind, NO_GPU, GPU)
    )


@pytest.mark.parametrize("work", TAKEN.values(), ids=TAKEN.keys())
def test_declared_work_that_check_accepts_passes_the_rules_of_its_namespace(
    judged: KubernetesClient, work: dict[str, Any]
) -> None:
    platform = stack(QUEUED, STEADY, PARTS, **work)
    platform["teams"][0]["name"] = NAMESPACE
    made = recorded(platform, {("RayCluster", "rc"), ("LeaderWorkerSet", "big"), ("Deployment", "big")})
    assert made
    assert [refusal(judged, one) for one in made] == [""] * len(made)
