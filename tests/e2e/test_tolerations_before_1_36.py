"""Pods that request GPUs without the toleration are refused on clusters that do not add it. The message names the
fix.

The rule is for Kubernetes before 1.36. These tests evaluate the rule's policy on the newest API server. They omit
the policy that adds tolerations on this API server.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.live.client import KubernetesClient
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, plan_platform
from tests.e2e.fabric_namespaces import refusal
from tests.e2e.test_equal_verdicts import Place, a_pod, client, held, main
from tests.support.eventually import eventually
from tests.support.fabric_pods import platform_of

__all__ = ["client"]  # a fixture

pytestmark = [pytest.mark.long, pytest.mark.sandbox, pytest.mark.xdist_group("e2e-fabric")]

Object = dict[str, Any]
RULE = "gpu-toleration"
TEAM = "tolerations-of-old"
POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
PLATFORM = {
    **platform_of("sandbox", "p4de.24xlarge", None, {"name": TEAM}),
    "cluster": {"provider": "sandbox", "kubernetes": "1.35"},
    "queueing": {},
}
# Kinds that can wait in a queue.
# The rule checks the pod templates of objects of these kinds, because a waiting object has no pods yet.
WAITING = ("Pod", "Job", "JobSet", "LeaderWorkerSet", "RayCluster", "RayJob", "RayService", "PyTorchJob")
FIX = "add {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule} to them"


def recorded(platform: dict[str, Any], wanted: set[tuple[str, str]]) -> list[Object]:
    """Return the objects of a platform with these kinds and names."""
    loaded = LoadedStack("test", Path("/nowhere/Pulumi.test.yaml"), platform, plan_platform(platform, "test"))
    records = [one.to_json() for one in record_stack(loaded).resources]
    found = [one["inputs"] for one in records if "metadata" in one["inputs"]]
    return [one for one in found if (one.get("kind"), one["metadata"].get("name")) in wanted]


@pytest.fixture(scope="module")
def place(client: KubernetesClient) -> Iterator[Place]:
    loaded = LoadedStack("test", Path("/nowhere/Pulumi.test.yaml"), PLATFORM, plan_platform(PLATFORM, "test"))
    records = [one.to_json() for one in record_stack(loaded).resources]
    policy = f"queue-of-{TEAM}"
    names = {("Namespace", TEAM), *((kind, policy) for kind in POLICIES)}
    wanted = [
        one["inputs"]
        for one in records
        if (one["inputs"].get("kind"), one["inputs"].get("metadata", {}).get("name")) in names
    ]
    assert len(wanted) == 3
    for one in wanted:
        client.apply(one)
    found = Place(client, TEAM, records, (RULE,), {})
    eventually(lambda: client.get("v1", "ServiceAccount", "default", TEAM) is not None)
    for kind in WAITING[2:]:
        version = held(kind, a_pod([main()]))["apiVersion"]
        eventually(lambda version=version, kind=kind: client.find_resource(version, kind) is not None)
    eventually(lambda: RULE in refusal(client, found.moved(asking("Pod", []))))
    yield found
    for one in reversed(wanted):
        live = client.get(one["apiVersion"], one["kind"], one["metadata"]["name"])
        if live is not None:
            client.delete(live)
    eventually(
        lambda: all(client.get(one["apiVersion"], one["kind"], one["metadata"]["name"]) is None for one in wanted)
    )


def asking(kind: str, tolerations: list[Object], gpus: int = 1) -> Object:
    """Return an object of the given kind whose pods request GPUs."""
    resources = {"nvidia.com/gpu": gpus} if gpus else {}
    wanted = a_pod([main(resources, image="none:1")], tolerations=tolerations)
    return requesting(wanted if kind == "Pod" else held(kind, wanted))


def requesting(wanted: Object) -> Object:
    """Return an object whose containers' requests equal their limits."""
    copied = copy.deepcopy(wanted)
    for _, container in containers_in(copied):
        container["resources"]["requests"] = dict(container["resources"]["limits"])
    return copied


@pytest.mark.parametrize("kind", WAITING)
@pytest.mark.parametrize(
    ("tolerations", "refused"),
    [
        ([], True),
        ([{"key": "example.com/other", "operator": "Exists"}], True),
        ([{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}], True),
        ([{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}], False),
        ([{"key": "nvidia.com/gpu", "operator": "Equal", "value": "present"}], False),
        ([{"operator": "Exists"}], False),
    ],
    ids=["none", "another", "another-effect", "as-in-the-fix", "equal", "everything"],
)
def test_pack_and_api_server_refuse_the_same_and_the_server_says_what_to_add(
    place: Place, kind: str, tolerations: list[Object], refused: bool
) -> None:
    wanted = asking(kind, tolerations)
    message = refusal(place.client, place.moved(wanted))
    assert (f"denied request: {RULE}: " in message) == refused, message
    assert (message == "") != refused
    assert not refused or FIX in message
    assert place.before_a_deploy([wanted], RULE) == [{RULE} if refused else set()]


def test_what_asks_for_no_gpus_needs_no_toleration(place: Place) -> None:
    for kind in WAITING:
        wanted = asking(kind, [], gpus=0)
        assert refusal(place.client, place.moved(wanted)) == ""
        assert place.before_a_deploy([wanted], RULE) == [set()]


@pytest.mark.parametrize("kind", WAITING[1:])
def test_a_limit_without_a_request_is_refused_where_the_queue_would_count_less(place: Place, kind: str) -> None:
    tolerated = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    alone = held(kind, a_pod([main({"cpu": "48"}, image="none:1")], tolerations=tolerated))
    assert "queue-requests: " in refusal(place.client, place.moved(alone))
    assert refusal(place.client, place.moved(requesting(alone))) == ""


@pytest.fixture
def changed_templates(place: Place) -> Iterator[Place]:
    """Replace the rules for older clusters with the policy that changes templates on newer clusters."""
    name = f"queue-templates-of-{TEAM}"
    newer = {**PLATFORM, "cluster": {"provider": "sandbox", "kubernetes": "1.36"}}
    kinds = ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")
    policies = recorded(newer, {(kind, name) for kind in kinds})
    assert len(policies) == 2
    made = [place.client.apply(one) for one in policies]
    probe = place.moved(limits_alone("Job"))
    eventually(lambda: refusal(place.client, probe) == "")
    yield place
    for one in reversed(made):
        place.client.delete(one)
    eventually(lambda: refusal(place.client, probe) != "")


def limits_alone(kind: str) -> Object:
    """Return an object of a kind whose containers have limits, but neither requests nor a toleration."""
    container = main({"cpu": "9", "memory": "1Gi", "nvidia.com/gpu": 1}, image="none:1")
    return held(kind, {**a_pod([container]), "metadata": {}})


@pytest.mark.parametrize("kind", WAITING[1:])
def test_templates_request_their_limits_and_tolerate_gpu_nodes_on_newer_clusters(
    changed_templates: Place, kind: str
) -> None:
    made = changed_templates.client.create(changed_templates.moved(limits_alone(kind)), dry_run=True)
    containers = list(containers_in(made))
    assert containers
    for spec, container in containers:
        limits = container["resources"]["limits"]
        assert container["resources"]["requests"] == {name: limits[name] for name in ("cpu", "memory")}
        tolerated = ["nvidia.com/gpu"] if "nvidia.com/gpu" in limits else []
        assert [one["key"] for one in spec.get("tolerations", ())] == tolerated


def containers_in(found: Any) -> Iterator[tuple[Object, Object]]:
    """Yield every container of an object, with its pod spec."""
    if isinstance(found, dict):
        for container in found.get("containers", ()):
            yield found, container
        for each in found.values():
            yield from containers_in(each)
    elif isinstance(found, list):
        for each in found:
            yield from containers_in(each)
