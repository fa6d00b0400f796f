"""In a namespace with a fabric, the rules that replace Pod Security refuse the same pods as Pod Security."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gpu_platform.live.client import KubernetesClient
from sandbox import control_plane
from tests.e2e.fabric_namespaces import Object, apply_team, honest, pod, refusal, remove
from tests.support.fabric_pods import platform_of
from tests.support.restricted import violations
from tests.support.size import size

pytestmark = [pytest.mark.long, pytest.mark.sandbox, pytest.mark.xdist_group("e2e-fabric")]

LEVELS = ("restricted", "baseline")
_NONE: Any = None
POD: dict[str, list[Any]] = {
    "hostNetwork": [True],
    "hostPID": [True],
    "hostIPC": [True],
    "volumes": [
        [{"name": "one", "emptyDir": {}}, {"name": "two", "hostPath": {"path": "/sys"}}],
        [{"name": "one", "hostPath": {"path": "/home/kubernetes/bin/nvidia/lib64"}}],
        [{"name": "one", "nfs": {"server": "10.0.0.1", "path": "/"}}],
        [{"name": "one", "image": {"reference": "example.com/weights:1"}}],
        [{"name": "one", "csi": {"driver": "example.com"}}, {"name": "two", "projected": {"sources": []}}],
    ],
}
POD_CONTEXT: dict[str, list[Any]] = {
    "runAsNonRoot": [False, _NONE],
    "runAsUser": [0, _NONE],
    "seccompProfile": [_NONE, {"type": "Unconfined"}, {"type": "Localhost", "localhostProfile": "a.json"}],
    "appArmorProfile": [{"type": "Unconfined"}, {"type": "RuntimeDefault"}],
    "seLinuxOptions": [{"type": "spc_t"}, {"type": "container_t"}, {"user": "system_u"}, {"level": "s0"}],
    "sysctls": [
        [{"name": "kernel.msgmax", "value": "1"}],
        [{"name": "net.ipv4.tcp_syncookies", "value": "1"}, {"name": "net.ipv4.tcp_rmem", "value": "1 2 3"}],
    ],
    "fsGroup": [0, 1000],
    "supplementalGroups": [[0]],
}
CONTEXT: dict[str, list[Any]] = {
    "privileged": [True, False],
    "allowPrivilegeEscalation": [True, _NONE, False],
    "runAsNonRoot": [False, True],
    "runAsUser": [0, 2000],
    "capabilities": [
        _NONE,
        {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        {"drop": ["ALL"], "add": ["NET_ADMIN"]},
        {"drop": ["ALL"], "add": ["CHOWN"]},
        {"drop": ["NET_RAW"]},
        {"drop": ["all"]},
    ],
    "seccompProfile": [{"type": "Unconfined"}, {"type": "RuntimeDefault"}],
    "appArmorProfile": [{"type": "Unconfined"}],
    "seLinuxOptions": [{"role": "r"}, {"type": "container_engine_t"}],
    "procMount": ["Default"],
    "readOnlyRootFilesystem": [True],
}
CONTAINER: dict[str, list[Any]] = {
    "ports": [[{"containerPort": 80, "hostPort": 80}], [{"containerPort": 80}]],
    "livenessProbe": [
        {"httpGet": {"port": 80, "host": "10.0.0.1"}},
        {"tcpSocket": {"port": 80}},
        {"exec": {"command": ["true"]}},
    ],
    "lifecycle": [
        {"preStop": {"httpGet": {"port": 80, "host": "169.254.169.254"}}},
        {"postStart": {"tcpSocket": {"port": 1, "host": "a"}}},
    ],
}
APPARMOR = "container.apparmor.security.beta.kubernetes.io/main"


@pytest.fixture(scope="module")
def client(start_sandbox: Callable[..., control_plane.Status]) -> Iterator[KubernetesClient]:
    client = KubernetesClient(start_sandbox().kubeconfig)
    for level in LEVELS:
        apply_team(
            client, platform_of("gke", "a3-megagpu-8g", {}, {"name": f"rules-{level}", "pod_security": level})
        )
        labels = {f"pod-security.kubernetes.io/{mode}": level for mode in ("enforce", "warn")}
        client.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"plain-{level}", "labels": labels}}
        )
    yield client
    remove(client, [f"rules-{level}" for level in LEVELS])


def random_spec(chance: random.Random) -> Object:
    spec = honest()
    for _ in range(chance.randint(0, 1)):
        one = {"name": "first", "image": "none", "securityContext": dict(spec["containers"][0]["securityContext"])}
        spec["initContainers"] = [one]
    _set(chance, spec, POD, 0.15)
    _set(chance, spec["securityContext"], POD_CONTEXT, 0.5)
    container = chance.choice([*spec["containers"], *spec.get("initContainers", ())])
    _set(chance, container["securityContext"], CONTEXT, 0.7)
    _set(chance, spec["containers"][0], CONTAINER, 0.2)
    return spec


def _set(chance: random.Random, found: Object, choices: dict[str, list[Any]], likely: float) -> None:
    if chance.random() < likely:
        key = chance.choice(list(choices))
        value = chance.choice(choices[key])
        found.pop(key, None)
        if value is not None:
            found[key] = value


@pytest.mark.parametrize("level", LEVELS)
def test_the_rules_and_pod_security_give_equal_verdicts_about_random_pods(client: KubernetesClient, level: str):
    chance = random.Random(20261123)
    counts: Counter[bool] = Counter()
    rules: Counter[str] = Counter()
    differ: list[tuple[str, str, Object]] = []
    for _ in range(size(300, 1500)):
        spec = random_spec(chance)
        annotations = {APPARMOR: "unconfined"} if chance.random() < 0.03 else {}
        found = [
            refusal(client, pod(f"{kind}-{level}", spec, annotations=annotations)) for kind in ("plain", "rules")
        ]
        if any(why and "PodSecurity" not in why and "pod-security-" not in why for why in found):
            continue  # refused because the pod is not valid
        counts[bool(found[0])] += 1
        rules[found[1].partition("denied request: ")[2].partition(":")[0]] += 1
        if bool(found[0]) != bool(found[1]):
            differ.append((found[0], found[1], spec))
        if level == "restricted" and not annotations and not {"sysctls", "image"} & _keys(spec):
            # `violations` checks fewer controls than the rules do.
            # The rules must refuse every pod that `violations` refuses.
            assert not violations(spec) or found[1], spec
    assert not differ, f"{len(differ)} differ, the first: {differ[:3]}"
    assert min(counts.values()) > 40, counts
    assert len(rules) > (12 if level == "restricted" else 9), rules


def _keys(spec: Object) -> set[str]:
    """Return the names of the pod's security settings and of the types of its volumes."""
    return {*spec["securityContext"], *(key for volume in spec.get("volumes", ()) for key in volume)}
