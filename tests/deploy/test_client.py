"""The requests and the error messages of the Kubernetes client."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes
import pytest
import yaml

from gpu_platform.base.errors import ExitCode, Finding, UnknownOutcome
from gpu_platform.deploy.embedded.applyset import ApplySet, Inventory
from gpu_platform.live.client import KubernetesClient, Refused
from sandbox.control_plane import Status
from tests.deploy.conftest import Stack, config_map


def rewritten(sandbox: Status, path: Path, **changes: Any) -> Path:
    """Write the sandbox's kubeconfig with a different server or user."""
    config = yaml.safe_load(sandbox.kubeconfig.read_text())
    if "server" in changes:
        config["clusters"][0]["cluster"]["server"] = changes["server"]
    if "authority" in changes:
        config["clusters"][0]["cluster"].pop("certificate-authority-data", None)
        config["clusters"][0]["cluster"].pop("certificate-authority", None)
    if "user" in changes:
        config["users"][0]["user"] = changes["user"]
    path.write_text(yaml.safe_dump(config))
    return path


def test_a_cluster_that_does_not_answer_names_the_kubeconfig_and_the_fix(sandbox: Status, tmp_path: Path) -> None:
    client = KubernetesClient(rewritten(sandbox, tmp_path / "config", server="https://127.0.0.1:1"))

    with pytest.raises(UnknownOutcome) as caught:
        client.get("v1", "Node", "a")
    text = str(caught.value)
    assert str(tmp_path / "config") in text
    assert "Connection refused" in text
    assert "Run the command again when the cluster answers" in text
    assert caught.value.exit_code is ExitCode.UNKNOWN


def test_an_untrusted_certificate_is_not_retried_and_names_the_kubeconfig(sandbox: Status, tmp_path: Path) -> None:
    client = KubernetesClient(rewritten(sandbox, tmp_path / "config", authority=None))
    with pytest.raises(UnknownOutcome) as caught:
        client.get("v1", "Node", "a")
    text = str(caught.value)
    assert f"has a certificate that {tmp_path / 'config'} does not trust" in text
    assert "attempts" not in text


@pytest.mark.parametrize("content", [None, "", "not: [a kubeconfig", "apiVersion: v1\nkind: Config\n"])
def test_a_kubeconfig_that_cannot_be_used_is_named(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)

    with pytest.raises(UnknownOutcome, match=str(path)):
        KubernetesClient(path)


def test_a_missing_context_is_named(sandbox: Status) -> None:
    with pytest.raises(UnknownOutcome, match="nowhere"):
        KubernetesClient(sandbox.kubeconfig, "nowhere")


def test_rejected_credentials_are_an_unknown_outcome(sandbox: Status, tmp_path: Path) -> None:
    client = KubernetesClient(rewritten(sandbox, tmp_path / "config", user={"token": "forged"}))

    with pytest.raises(UnknownOutcome, match="does not accept the credentials"):
        client.get("v1", "Node", "a")


def test_an_invalid_object_is_refused_with_each_field(client: KubernetesClient) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "-1", "pods": "-2"}},
    }

    with pytest.raises(Refused) as caught:
        client.apply(quota)
    assert (caught.value.status, caught.value.reason, caught.value.exit_code) == (422, "Invalid", ExitCode.FINDING)
    assert "ResourceQuota q in namespace default: " in str(caught.value)
    assert "spec.hard[pods]: Invalid value" in str(caught.value)
    assert "spec.hard[requests.nvidia.com/gpu]: Invalid value" in str(caught.value)


def test_a_dry_run_writes_nothing(client: KubernetesClient) -> None:
    client.apply(config_map("engine-dry", "default")["manifest"], dry_run=True)

    assert client.get("v1", "ConfigMap", "engine-dry", "default") is None


def test_merging_creates_adds_and_removes_fields(stack: Stack) -> None:
    def merged(**data: str | None) -> dict[str, str]:
        metadata = {"name": "engine-merged", "namespace": "default"}
        return stack.client.merge({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})[
            "data"
        ]

    try:
        assert merged(a="1", never=None) == {"a": "1"}
        assert merged(b="2") == {"a": "1", "b": "2"}
        assert merged(a=None) == {"b": "2"}
    finally:
        live = stack.client.get("v1", "ConfigMap", "engine-merged", "default")
        assert live is not None
        stack.client.delete(live)


def test_deleting_spares_another_object_of_the_same_name(stack: Stack) -> None:
    stack.up([config_map("one", "default")])
    live = stack.client.get("v1", "ConfigMap", "one", "default")
    assert live is not None
    other = {**live, "metadata": {**live["metadata"], "uid": "00000000-0000-0000-0000-000000000000"}}

    stack.client.delete(other)

    assert stack.client.get("v1", "ConfigMap", "one", "default") is not None


def test_long_lists_come_in_pages_and_whole(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_platform.live.client._PAGE_SIZE", 3)
    stack.up([config_map(f"page-{index}", "default") for index in range(8)])

    names = {live["metadata"]["name"] for live in stack.client.objects("v1", "ConfigMap", namespace="default")}
    assert {f"page-{index}" for index in range(8)} <= names


def test_a_kind_is_found_by_its_group_in_a_version_that_serves_it(client: KubernetesClient) -> None:
    resource = client.find_served("apps", "DaemonSet")

    assert resource is not None
    assert resource.path("a", "b") == "/apis/apps/v1/namespaces/a/daemonsets/b"
    assert client.find_served("apps", "Queue") is None
    assert client.find_served("nowhere.example.com", "Queue") is None


def test_a_kind_that_is_not_installed_is_a_finding(client: KubernetesClient) -> None:
    with pytest.raises(Finding, match="CustomResourceDefinition is not installed"):
        client.resource("nowhere.example.com/v1", "Queue")


@pytest.fixture
def limited(stack: Stack, sandbox: Status, tmp_path: Path) -> Callable[[], KubernetesClient]:
    """Return a function that creates a client. The client may only read the ConfigMaps of one namespace."""
    account = {"name": "engine-limited", "namespace": "default"}
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": account,
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": account,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "engine-limited"},
        "subjects": [{"kind": "ServiceAccount", **account}],
    }
    rights = [{"manifest": {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}}]
    rights += [{"manifest": role}, {"manifest": binding}]

    def make() -> KubernetesClient:
        stack.up([*rights, config_map("one", "default"), config_map("two", "default")])
        api = kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(str(sandbox.kubeconfig)))
        request: Any = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": None},
        }
        answer: Any = api.create_namespaced_service_account_token("engine-limited", "default", request)
        token = {"token": answer.status.token}
        return KubernetesClient(rewritten(sandbox, tmp_path / "limited", user=token))

    return make


def test_a_forbidden_request_names_the_user_and_the_permission(
    limited: Callable[[], KubernetesClient],
) -> None:
    with pytest.raises(Refused, match=r"engine-limited.* cannot patch resource .configmaps") as caught:
        limited().apply(config_map("one", "default", {"a": "2"})["manifest"])
    assert caught.value.reason == "Forbidden"


def test_members_are_found_by_a_user_who_may_read_only_their_namespaces(
    limited: Callable[[], KubernetesClient], stack: Stack
) -> None:
    members = ApplySet(limited(), stack.name).members(Inventory(frozenset({"ConfigMap"}), frozenset({"default"})))

    assert {key.name for key in members} == {"one", "two"}
