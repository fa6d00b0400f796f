"""The policy pack before a deploy and the API server at admission refuse the same pods, rule by rule.

The API server names the first failed rule of a policy, in the order of `ORDER`; the pack names all.
"""

from __future__ import annotations

import datetime
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from gpu_platform.engine.client import KubernetesClient, Refused
from policies import evaluate
from tests.e2e.conftest import Platform
from tests.e2e.impersonation import member
from tests.support.eventually import eventually
from tests.support.restricted import satisfying

pytestmark = [pytest.mark.sandbox, pytest.mark.xdist_group("e2e-equal-verdicts")]

Object = dict[str, Any]
BYPASS = "gpu-visible-devices-bypass"
RUNTIME = "gpu-runtime-class"
TOLERATION = "gpu-wildcard-toleration"
ORDER = (BYPASS, RUNTIME, TOLERATION)
NO_RULE = "admitted"

VARIABLE = "NVIDIA_VISIBLE_DEVICES"
SOURCE = {"configMapKeyRef": {"name": "x", "key": "y"}}
HARMLESS: list[Object] = [
    {"name": VARIABLE},
    *({"name": VARIABLE, "value": value} for value in ("", "void", "none")),
    {"name": "CUDA_VISIBLE_DEVICES", "value": "all"},
]
DEVICES: list[Object] = [
    *({"name": VARIABLE, "value": value} for value in ("all", "0", "GPU-5a1b", "VOID", "None", " void")),
    {"name": VARIABLE, "valueFrom": SOURCE},
]
LIMITS: list[Object] = [{}, {}, {"nvidia.com/gpu": "0"}, {"nvidia.com/gpu": "1"}, {"nvidia.com/mig-1g.10gb": 2}]
RUNTIMES = ("nvidia", "nvidia-legacy", "plain")
EFFECTS = ("", "NoSchedule", "NoExecute", "PreferNoSchedule")
KEYS = ("", "nvidia.com/gpu", "example.com/other")


@pytest.fixture
def vision(platform: Platform, base: Object) -> Iterator[KubernetesClient]:
    base["teams"][0]["workloads"] = []
    if platform.state.get("shop") != base:
        ran = platform.up(base)
        assert ran.code == 0, ran.err
    made = [one for one in map(runtime_class, RUNTIMES) if platform.client.get(*identity(one)) is None]
    for one in made:
        platform.client.create(one)
    client = member(platform.kubeconfig, "vision")
    refused = pod([{"name": "main", "image": "none", "env": [DEVICES[0]], "resources": limits({})}])
    # The API server reads new policies and runtime classes within a second or two.
    eventually(lambda: at_admission(client, refused) == BYPASS)
    for name in RUNTIMES:
        plain = pod([{"name": "main", "image": "none", "resources": limits({})}], runtimeClassName=name)
        eventually(lambda wanted=plain: "not found" not in message(client, wanted))
    yield client
    for one in made:
        live = platform.client.get(*identity(one))
        assert live is not None
        platform.client.delete(live)


def runtime_class(name: str) -> Object:
    return {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": name}


def identity(one: Object) -> tuple[str, str, str]:
    return one["apiVersion"], one["kind"], one["metadata"]["name"]


def limits(gpus: Object) -> Object:
    return {"limits": {"cpu": "1", "memory": "1Gi", **gpus}}


def pod(containers: list[Object], **spec: Any) -> Object:
    metadata = {"name": "attempt", "namespace": "vision"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": satisfying({"containers": containers, **spec}),
    }


def random_pod(chance: random.Random) -> Object:
    gpus = chance.choice(LIMITS)
    spec: Object = {}
    if chance.random() < 0.3:
        spec["initContainers"] = [random_container(chance, "first", {})]
    if chance.random() < 0.4:
        spec["runtimeClassName"] = chance.choice(RUNTIMES)
    if chance.random() < 0.6:
        spec["tolerations"] = [random_toleration(chance) for _ in range(chance.randint(1, 2))]
    return pod([random_container(chance, "main", gpus)], **spec)


def random_container(chance: random.Random, name: str, gpus: Object) -> Object:
    found: Object = {"name": name, "image": "none", "resources": limits(gpus)}
    if chance.random() < 0.5:
        found["env"] = [chance.choice(DEVICES if chance.random() < 0.3 else HARMLESS)]
    return found


def random_toleration(chance: random.Random) -> Object:
    key, effect = chance.choice(KEYS), chance.choice(EFFECTS)
    found = {"operator": "Exists", **({"key": key} if key else {}), **({"effect": effect} if effect else {})}
    if key and chance.random() < 0.3:
        found |= {"operator": "Equal", "value": "present"}
    return found


def message(client: KubernetesClient, wanted: Object) -> str:
    try:
        client.create(wanted, dry_run=True)
    except Refused as refused:
        return refused.message
    return ""


def at_admission(client: KubernetesClient, wanted: Object) -> str:
    text = message(client, wanted)
    found = [rule for rule in ORDER if rule in text]
    assert len(found) == bool(text), text  # one rule, or no refusal
    return found[0] if found else NO_RULE


def before_a_deploy(wanted: Object) -> str:
    record = {"urn": "urn:pulumi:a::b::kubernetes:core/v1:Pod::attempt", "type": "kubernetes:core/v1:Pod"}
    config = {"all": "disabled", BYPASS: "mandatory", TOLERATION: "mandatory"}
    report = evaluate([{**record, "name": "attempt", "inputs": wanted}], config, datetime.date(2026, 11, 21))
    assert not report.not_checked
    # The pack's one rule about access without a grant is several at admission.
    found = {RUNTIME if one.problem.path.endswith(".runtimeClassName") else one.rule for one in report.violations}
    return next((rule for rule in ORDER if rule in found), NO_RULE)


def test_the_policy_pack_and_admission_refuse_the_same_pods_by_the_same_rules(vision: KubernetesClient):
    chance = random.Random(20261123)
    counts: Counter[str] = Counter()
    differ: list[tuple[str, str, Object]] = []
    for _ in range(200):
        wanted = random_pod(chance)
        expected, found = before_a_deploy(wanted), at_admission(vision, wanted)
        counts[found] += 1
        if expected != found:
            differ.append((expected, found, wanted["spec"]))
    assert not differ, f"{len(differ)} differ, the first: {differ[:3]}"
    assert all(counts[verdict] > 10 for verdict in (*ORDER, NO_RULE)), counts
