"""Only pods that use a fabric may have its privileges. The tests create abusive and honest pods on the real API
server.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.base.progress import Progress
from gpu_platform.deploy.retention import kept_namespaces
from gpu_platform.live.client import KubernetesClient, Refused
from sandbox import control_plane
from tests.e2e.debugger import debug
from tests.e2e.fabric_namespaces import Object, apply_team, honest, pod, refusal, remove
from tests.support.fabric_pods import fabric_pods, platform_of

pytestmark = [pytest.mark.long, pytest.mark.sandbox, pytest.mark.xdist_group("e2e-fabric")]

PODS = {one.name: one for one in fabric_pods()}
ATTEMPTS = yaml.load((Path(__file__).parent / "fabric_escapes.yaml").read_text("utf-8"), Loader=yaml.CSafeLoader)
FIXES = {
    "fabric-daemon": "copy the container from Google's manifest, or rename it",
    "gpu-device-annotation": "remove them, and request GPUs under resources.limits",
    "pod-security-capabilities": "write capabilities: {drop: [ALL]} in its securityContext",
    "pod-security-host-namespaces": "remove them",
    "pod-security-host-path": "use a claim, a ConfigMap or an emptyDir",
    "pod-security-host-path-mount": "libraries of the fabric need readOnly: true",
    "pod-security-privilege-escalation": "write it in the securityContext of each container",
    "pod-security-privileged": "remove privileged",
    "pod-security-seccomp": "change it",
}
"""The fix that the refusal of each rule must name, by rule id."""
TEAMS = {
    "a3-highgpu-8g": "escapes-tcpx",
    "a3-megagpu-8g": "escapes-tcpxo",
    "a3-ultragpu-8g": "escapes-rdma",
}


@pytest.fixture(scope="module")
def client(start_sandbox: Callable[..., control_plane.Status]) -> Iterator[KubernetesClient]:
    client = KubernetesClient(start_sandbox().kubeconfig)
    for machine, team in TEAMS.items():
        pool = {"network": {"via": "networks"}} if machine == "a3-ultragpu-8g" else {}
        apply_team(client, platform_of("gke", machine, pool, {"name": team}))
    yield client
    remove(client, [*TEAMS.values(), "escapes-left"])


def changed(attempt: Object) -> Object:
    published = PODS[attempt["pod"]]
    wanted = published.admitted(TEAMS[published.machine_type])
    containers = wanted["spec"]["containers"]
    for target, key in (
        (next((one for one in containers if one["name"] == published.devices), {}), "daemon"),
        (next(one for one in containers if one["name"] != published.devices), "test"),
        (wanted["spec"], "spec"),
        (wanted["metadata"]["annotations"], "annotations"),
    ):
        for name, value in copy.deepcopy(attempt.get(key, {})).items():
            target.pop(name, None)
            if value is not None:
                target[name] = value
    return wanted


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda one: one["name"].replace(" ", "-"))
def test_an_exception_of_a_fabric_is_for_its_pods_as_published(client: KubernetesClient, attempt: Object):
    assert refusal(client, changed({"pod": attempt["pod"]})) == ""
    message = refusal(client, changed(attempt))
    assert attempt["refused"] in message
    _, ours, text = message.partition("denied request: ")
    assert not ours or FIXES[text.partition(":")[0]] in text


def own(machine: str = "a3-megagpu-8g", **changes: Any) -> Object:
    """Return a pod with a team's image that trains over TCPXO as non-root, with the daemon as a sidecar."""
    wanted = PODS["TCPXO"].admitted(TEAMS[machine])
    daemon, test = wanted["spec"]["containers"]
    spec = honest()
    main = {**spec["containers"][0], "image": "registry.example.com/train:1", "resources": test["resources"]}
    main |= {"volumeMounts": test["volumeMounts"], "env": test["env"]}
    daemon |= {"restartPolicy": "Always", "env": [*daemon["env"], {"name": "LWS_GROUP_SIZE", "value": "2"}]}
    daemon["securityContext"] |= {"runAsUser": 0, "runAsNonRoot": False}
    daemon["args"] = [daemon["args"][0].replace("=2", "=2 --num_nics=8 --uid= --alsologtostderr")]
    wanted["spec"] |= {
        "securityContext": spec["securityContext"],
        "containers": [main],
        "initContainers": [daemon],
    }
    wanted["spec"] |= changes
    return wanted


def test_a_pod_of_an_own_image_uses_the_fabric_without_root_and_capabilities(client: KubernetesClient):
    assert refusal(client, own()) == ""


def test_a_pod_of_an_own_image_that_selects_the_pool_uses_the_fabric(client: KubernetesClient):
    wanted = own(nodeSelector={"gpu-platform.dev/pool": "train"})
    del wanted["metadata"]["annotations"]["networking.gke.io/interfaces"]
    assert refusal(client, wanted) == ""


def test_commands_can_be_executed_only_in_the_container_next_to_a_daemon(client: KubernetesClient):
    team = TEAMS["a3-megagpu-8g"]
    wanted = PODS["TCPXO"].admitted(team)
    client.create(wanted)
    try:
        messages = {}
        for container in ("tcpxo-daemon", "nccl-test"):
            for action in ("exec", "attach"):
                path = (
                    f"/api/v1/namespaces/{team}/pods/nccl-test-host-1/{action}?container={container}&stdout=true"
                )
                path += "&command=sh" if action == "exec" else ""
                with pytest.raises(
                    Refused
                ) as refused:  # an admitted request also fails, because the pod's node does not exist
                    client._connection.request("POST", path, "executing")
                messages[container, action] = refused.value.message
        assert {key[0] for key, text in messages.items() if "fabric-daemon-exec" in text} == {"tcpxo-daemon"}
        assert sum("fabric-daemon-exec" in text for text in messages.values()) == 2, messages
        with pytest.raises(Refused, match="fabric-daemon-debug"):
            _debug(client, team, {"targetContainerName": "tcpxo-daemon", **honest()["containers"][0]})
        mounts = [{"name": "sys", "mountPath": "/sys2"}]
        with pytest.raises(Refused, match="pod-security-host-path-mount"):
            _debug(client, team, {**honest()["containers"][0], "volumeMounts": mounts})
        with pytest.raises(Refused, match="pod-security-privileged"):
            _debug(client, team, {**honest()["containers"][0], "securityContext": {"privileged": True}})
        with pytest.raises(Refused, match="fabric-daemon"):
            client.merge(_with_image(client, team, "registry.example.com/mine:1"))
    finally:
        live = client.get("v1", "Pod", "nccl-test-host-1", team)
        assert live is not None
        client.delete(live)


def _debug(client: KubernetesClient, team: str, container: Object) -> None:
    debug(client, team, "nccl-test-host-1", {**container, "name": "debug"})


def _with_image(client: KubernetesClient, team: str, image: str) -> Object:
    live = client.get("v1", "Pod", "nccl-test-host-1", team)
    assert live is not None
    containers = live["spec"]["containers"]
    containers[0]["image"] = image
    metadata = {"name": "nccl-test-host-1", "namespace": team}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}


def test_a_retained_namespace_enforces_the_level_without_policies(
    client: KubernetesClient,
):
    team = apply_team(client, platform_of("gke", "a3-megagpu-8g", {}, {"name": "escapes-left"}))
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine", "namespace": team}}
    client.create({**settings, "data": {"key": "value"}})
    kept_namespaces.settle(
        client, "test", [team, *TEAMS.values()], Progress(quiet=True), by_policy=[team, *TEAMS.values()]
    )
    assert _enforced(client, team) == ("privileged", True)
    kept_namespaces.settle(
        client, "test", list(TEAMS.values()), Progress(quiet=True), by_policy=list(TEAMS.values())
    )
    assert _enforced(client, team) == ("restricted", False)
    assert _enforced(client, TEAMS["a3-megagpu-8g"]) == ("privileged", True)
    wanted = PODS["TCPXO"].admitted(team)
    wanted["spec"]["containers"][1]["resources"] = {}
    assert "PodSecurity" in refusal(client, wanted)


def _enforced(client: KubernetesClient, team: str) -> tuple[str, bool]:
    """Return the Pod Security level in the namespace's label, and whether the fabric's policies exist."""
    live = client.get("v1", "Namespace", team)
    assert live is not None
    found = [
        client.get("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", f"{prefix}-of-{team}")
        is not None
        for prefix in ("pod-security", "exec")
    ]
    assert len(set(found)) == 1
    return live["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], found[0]


def test_a_pod_without_the_fabric_has_the_name_of_no_daemon(client: KubernetesClient):
    spec = honest()
    spec["containers"][0]["name"] = "tcpxo-daemon"
    assert "fabric-daemon" in refusal(client, pod(TEAMS["a3-megagpu-8g"], spec))
