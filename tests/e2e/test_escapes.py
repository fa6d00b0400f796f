"""Members of a team try to leave what the team was granted, on the real API server; what is honest is admitted."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.engine.client import KubernetesClient, Refused
from tests.e2e.conftest import TOLERATION, Platform
from tests.e2e.impersonation import member
from tests.support.eventually import eventually
from tests.support.permissive import KEDA
from tests.support.restricted import CONTAINER, satisfying, violations

pytestmark = [pytest.mark.sandbox, pytest.mark.xdist_group("e2e-escapes")]

ATTEMPTS = yaml.load((Path(__file__).parent / "escapes.yaml").read_text("utf-8"), Loader=yaml.CSafeLoader)
Object = dict[str, Any]


@pytest.fixture
def vision(platform: Platform, base: Object) -> KubernetesClient:
    base["teams"][0]["workloads"] = []
    if platform.state.get("shop") != base:
        ran = platform.up(base)
        assert ran.code == 0, ran.err
    for definition in KEDA:
        if (
            platform.client.get(definition["apiVersion"], definition["kind"], definition["metadata"]["name"])
            is None
        ):
            platform.client.create(definition)
    client = member(platform.kubeconfig, "vision")
    # The API server reads new policies within a second or two.
    eventually(lambda: ATTEMPTS["pods"][0]["refused"] in refusal(client, pod(copy.deepcopy(ATTEMPTS["pods"][0]))))
    return client


def pod(attempt: Object) -> Object:
    container = {"name": "main", "image": "none", **attempt.get("containers", {})}
    limits = {"cpu": "1", "memory": "1Gi"}
    resources = container.setdefault("resources", {})
    resources["limits"] = {**limits, **resources.get("limits", {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "attempt",
            "namespace": attempt.get("namespace", "vision"),
            "annotations": attempt.get("annotations", {}),
        },
        "spec": satisfying({"containers": [container], **attempt.get("spec", {})}),
    }


def refusal(client: KubernetesClient, wanted: Object) -> str:
    try:
        client.create(wanted, dry_run=True)
    except Refused as refused:
        return refused.message
    return ""


@pytest.mark.parametrize("attempt", ATTEMPTS["pods"], ids=lambda one: one["name"].replace(" ", "-"))
def test_a_pod_that_leaves_the_grant_is_refused(vision: KubernetesClient, attempt: Object):
    wanted = pod(copy.deepcopy(attempt))
    message = refusal(vision, wanted)
    assert attempt["refused"] in message
    # The checker by which tests read manifests without a cluster agrees with the API server.
    assert bool(violations(wanted["spec"])) == ("violates PodSecurity" in message)


def test_a_refusal_names_the_level_and_every_setting_that_is_missing(vision: KubernetesClient):
    wanted = pod({})
    wanted["spec"] = {"containers": [{"name": "main", "image": "none"}]}
    message = refusal(vision, wanted)
    assert 'violates PodSecurity "restricted:latest"' in message
    for setting in ("allowPrivilegeEscalation=false", "drop=", "runAsNonRoot=true", "seccompProfile.type"):
        assert setting in message


@pytest.mark.parametrize("attempt", ATTEMPTS["objects"], ids=lambda one: one["name"].replace(" ", "-"))
def test_an_object_that_leaves_the_grant_is_refused(vision: KubernetesClient, attempt: Object):
    namespace = attempt.get("namespace", "vision")
    wanted = {
        "apiVersion": attempt.get("apiVersion", "v1"),
        "kind": attempt["kind"],
        "metadata": {"name": "attempt", **({"namespace": namespace} if namespace else {})},
        **({"spec": attempt["spec"]} if "spec" in attempt else {}),
        **attempt.get("fields", {}),
    }
    # The API server serves a kind shortly after its definition, and policies of it a second later.
    assert eventually(lambda: attempt["refused"] in (message := refusal(vision, wanted)) and message)


def test_an_ephemeral_container_gets_no_gpu_by_a_variable(vision: KubernetesClient, platform: Platform):
    running = pod({})
    running["metadata"]["name"] = "debugged"
    vision.create(running)
    try:
        debugger = {
            "name": "debug",
            "image": "none",
            "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
            "securityContext": dict(CONTAINER),
        }
        path = "/api/v1/namespaces/vision/pods/debugged/ephemeralcontainers"
        with pytest.raises(Refused, match="gpu-visible-devices-bypass"):
            vision._connection.request(
                "PATCH",
                path,
                "debugging",
                body={"spec": {"ephemeralContainers": [debugger]}},
                content_type="application/strategic-merge-patch+json",
            )
    finally:
        live = platform.client.get("v1", "Pod", "debugged", "vision")
        assert live is not None
        platform.client.delete(live)


@pytest.mark.parametrize(
    "attempt",
    [
        {},
        {"containers": {"resources": {"limits": {"nvidia.com/gpu": 4}}}, "spec": {"tolerations": [TOLERATION]}},
        {
            "containers": {"resources": {"limits": {"nvidia.com/mig-1g.10gb": 2}}},
            "spec": {"tolerations": [TOLERATION]},
        },
        {
            "containers": {"resources": {"limits": {"nvidia.com/gpu": "1"}}},
            "spec": {"tolerations": [{"operator": "Exists"}]},
        },
        {"containers": {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]}},
        {"containers": {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": ""}]}},
        {"containers": {"env": [{"name": "NVIDIA_VISIBLE_DEVICES"}]}},
        {"spec": {"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]}},
        {"spec": {"priorityClassName": "training"}},
        {"annotations": {"prometheus.io/scrape": "true"}},
    ],
    ids=str,
)
def test_an_honest_pod_is_admitted(vision: KubernetesClient, attempt: Object):
    assert refusal(vision, pod(copy.deepcopy(attempt))) == ""
