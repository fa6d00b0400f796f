"""Pods without a controller in team namespaces on EKS. Network policies do not reliably apply to these pods."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.live.client import KubernetesClient, Refused
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, plan_platform
from policies import evaluate
from sandbox import control_plane
from tests.e2e.debugger import debug
from tests.e2e.fabric_namespaces import apply_team, pod, refusal, remove
from tests.e2e.impersonation import member
from tests.support.eventually import eventually
from tests.support.fabric_pods import platform_of
from tests.support.restricted import CONTAINER, satisfying

pytestmark = [pytest.mark.long, pytest.mark.sandbox, pytest.mark.xdist_group("e2e-fabric")]

Object = dict[str, Any]
TEAM, OPEN = "bare-refused", "bare-admitted"
GROUP = "bare-members"
CONTROLLER = "system:serviceaccount:kube-system:job-controller"
RULE = r"bare-pod: .* write a Job .*, a Deployment or a StatefulSet; .* kubectl debug -it POD .*allow_bare_pods"


def platform(**team: Any) -> Object:
    return platform_of("eks", "g6.12xlarge", {"workload": "inference"}, {"priority": "inference", **team})


PLATFORM = platform(name=TEAM, quota={"gpus": 4}, allow_bare_pods=False, members=["serviceaccount:ci/deployer"])


def a_pod(*owners: Object, namespace: str = TEAM) -> Object:
    container = {"name": "main", "image": "none", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
    metadata = {"ownerReferences": list(owners)} if owners else {}
    return pod(namespace, satisfying({"restartPolicy": "Never", "containers": [container]}), **metadata)


def a_job(name: str) -> Object:
    spec = {"template": {"spec": a_pod()["spec"]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": spec,
    }


def owner(live: Object, **fields: Any) -> Object:
    metadata = live["metadata"]
    found = {"apiVersion": live["apiVersion"], "kind": live["kind"]}
    return {**found, "name": metadata["name"], "uid": metadata["uid"], **fields}


@pytest.fixture(scope="module")
def kubeconfig(start_sandbox: Callable[..., control_plane.Status]) -> Iterator[Path]:
    found = start_sandbox().kubeconfig
    client = KubernetesClient(found)
    apply_team(client, PLATFORM)
    apply_team(client, platform(name=OPEN, allow_bare_pods=True))
    rules = [
        {
            "apiGroups": ["", "apps", "batch"],
            "resources": ["pods", "pods/ephemeralcontainers", "configmaps", "jobs", "replicasets"],
            "verbs": ["*"],
        }
    ]
    api = "rbac.authorization.k8s.io"
    metadata = {"name": GROUP, "namespace": TEAM}
    client.apply({"apiVersion": f"{api}/v1", "kind": "Role", "metadata": metadata, "rules": rules})
    client.apply(
        {
            "apiVersion": f"{api}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": api, "kind": "Role", "name": GROUP},
            "subjects": [{"kind": "Group", "name": GROUP, "apiGroup": api}],
        }
    )
    ada = member(found, GROUP)
    eventually(lambda: "bare-pod" in refusal(ada, a_pod()))
    # The API server must also have read the policy about members' changes to any object.
    eventually(lambda: orphans_are_refused(ada, client))
    yield found
    remove(client, [TEAM, OPEN])


def orphans_are_refused(ada: KubernetesClient, client: KubernetesClient) -> bool:
    client.apply(a_job("orphans"))
    try:
        delete(ada, "batch/v1", "jobs", "orphans", "Orphan", dry_run=True)
    except Refused as refused:
        return "bare-pod" in refused.message
    return False


def a_config_map(client: KubernetesClient) -> Object:
    metadata = {"name": "mine", "namespace": TEAM}
    return client.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


def delete(
    client: KubernetesClient, version: str, plural: str, name: str, policy: str | None, *, dry_run: bool = False
) -> None:
    options = {"propagationPolicy": policy} if policy is not None else {}
    root = "/api/v1" if version == "v1" else f"/apis/{version}"
    path = f"{root}/namespaces/{TEAM}/{plural}/{name}"
    query = {"dryRun": "All"} if dry_run else {}
    body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
    client._connection.request("DELETE", path, "deleting", query, body=body)


def pods_of(client: KubernetesClient, job: str) -> list[Object]:
    return list(client.objects("v1", "Pod", namespace=TEAM, label_selector=f"batch.kubernetes.io/job-name={job}"))


def made_by(client: KubernetesClient, job: str) -> Object:
    client.apply(a_job(job))
    return eventually(lambda: next(iter(pods_of(client, job)), {}))


def found_before_a_deploy(wanted: Object, platform: Object) -> bool:
    loaded = LoadedStack("test", Path("/nowhere/Pulumi.test.yaml"), platform, plan_platform(platform, "test"))
    config = loaded.plan.policy.config.get("bare-pod", {})
    kind = f"kubernetes:{'core/v1' if wanted['kind'] == 'Pod' else wanted['apiVersion']}:{wanted['kind']}"
    record = {"urn": f"urn:pulumi:a::b::{kind}::a", "type": kind, "name": "a", "inputs": wanted}
    records = [one.to_json() for one in record_stack(loaded).resources]
    rules = {"all": "disabled", "bare-pod": {**config, "enforcementLevel": "mandatory"}}
    report = evaluate([*records, record], rules, datetime.date(2026, 11, 26))
    assert not report.not_checked
    return bool(report.violations)


def test_pack_and_api_server_refuse_the_same_pods_and_admit_the_same_jobs(kubeconfig: Path) -> None:
    client = KubernetesClient(kubeconfig)
    forged = owner(a_config_map(client), controller=True)
    cases = (
        (a_pod(), PLATFORM, True),
        (a_pod(forged), PLATFORM, True),
        (a_job("equal"), PLATFORM, False),
        (a_pod(namespace=OPEN), platform(name=OPEN, allow_bare_pods=True), False),
    )
    for wanted, stack, refused in cases:
        message = refusal(client, wanted)
        assert ("bare-pod" in message, found_before_a_deploy(wanted, stack)) == (refused, refused), message
        assert refused or message == ""


def test_a_member_is_told_what_to_write_and_how_to_look_into_a_pod(kubeconfig: Path) -> None:
    with pytest.raises(Refused, match=RULE):
        member(kubeconfig, GROUP).create(a_pod(), dry_run=True)


@pytest.mark.parametrize("fields", [{}, {"controller": False}, {"controller": True}], ids=str)
def test_an_owner_that_a_member_writes_is_none(kubeconfig: Path, fields: Object) -> None:
    existing = a_config_map(KubernetesClient(kubeconfig))
    with pytest.raises(Refused, match="bare-pod"):
        member(kubeconfig, GROUP).create(a_pod(owner(existing, **fields)), dry_run=True)


@pytest.mark.parametrize(
    ("user", "fields", "admitted"),
    [
        (CONTROLLER, {"controller": True}, True),
        ("system:serviceaccount:kuberay:operator", {"controller": True}, True),
        (CONTROLLER, {"controller": False}, False),
        (CONTROLLER, None, False),
        (f"system:serviceaccount:{TEAM}:spawner", {"controller": True}, False),
        ("system:serviceaccount:ci:deployer", {"controller": True}, False),
        ("kubernetes-admin", {"controller": True}, False),
    ],
)
def test_an_owner_counts_where_a_controller_sets_it(
    kubeconfig: Path, user: str, fields: Object | None, admitted: bool
) -> None:
    existing = a_config_map(KubernetesClient(kubeconfig))
    wanted = a_pod() if fields is None else a_pod(owner(existing, **fields))
    message = refusal(member(kubeconfig, "system:masters", user), wanted)
    assert (message == "") == admitted, message
    assert admitted or "bare-pod" in message


def test_pods_of_a_job_are_made_and_can_be_looked_into(kubeconfig: Path) -> None:
    ada = member(kubeconfig, GROUP)
    name = made_by(ada, "shell")["metadata"]["name"]
    debugger = {"name": "debug", "image": "none", "securityContext": dict(CONTAINER)}
    debug(ada, TEAM, name, debugger)


def test_a_member_takes_no_pod_from_its_controller(kubeconfig: Path) -> None:
    ada = member(kubeconfig, GROUP)
    name = made_by(ada, "kept")["metadata"]["name"]
    metadata = {"name": name, "namespace": TEAM}
    stripped = {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "ownerReferences": None}}
    with pytest.raises(Refused, match=r"bare-pod: .* do not change metadata.ownerReferences"):
        ada.merge(stripped)
    for policy in ("Orphan", None):  # a deletion without a propagation policy orphans the pods of a Job
        with pytest.raises(Refused, match=r"bare-pod: .* propagationPolicy Background or Foreground"):
            delete(ada, "batch/v1", "jobs", "kept", policy)
    ada.merge({"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "labels": {"app": "mine"}}})
    delete(ada, "batch/v1", "jobs", "kept", "Background")
    eventually(lambda: pods_of(ada, "kept") == [])
