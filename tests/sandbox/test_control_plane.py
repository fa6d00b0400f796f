"""The behaviour of the API server, scheduler, controllers and KWOK in a real sandbox."""

from __future__ import annotations

import itertools
import json
import stat
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import config
from kubernetes.client import (
    ApiClient,
    ApiException,
    AppsV1Api,
    AuthorizationV1Api,
    BatchV1Api,
    Configuration,
    CoreV1Api,
    CustomObjectsApi,
    SchedulingV1Api,
    VersionApi,
)

from gpu_platform.base.names import KWOK_NODE_ANNOTATION, NAME_LABEL, SANDBOX_NAMESPACE, VALIDATION_APP
from sandbox import control_plane
from sandbox.control_plane import Status
from tests.support.eventually import eventually

_SERIAL = itertools.count()
GPU = "nvidia.com/gpu"
CAPACITY = {"cpu": "8", "memory": "32Gi", "pods": "20", GPU: "2"}


def bearer_of(token: str | None, admin: ApiClient) -> ApiClient:
    """Return a client whose only credential is `token`."""
    configuration = Configuration(host=admin.configuration.host)
    configuration.ssl_ca_cert = admin.configuration.ssl_ca_cert
    if token is not None:
        configuration.api_key = {"authorization": f"Bearer {token}"}
    return ApiClient(configuration)


class Cluster:
    """Creates nodes and pods for one test in the shared sandbox, in a namespace of the test."""

    def __init__(self, client: ApiClient, namespace: str) -> None:
        self.client = client
        self.core: Any = CoreV1Api(client)  # the types of the Kubernetes client do not allow a dict as a body
        self.namespace = namespace
        self.nodes: list[str] = []

    def node(self, capacity: dict[str, str] | None = None, **annotations: str) -> str:
        """Add a node that accepts only this test's pods. If `annotations` is not given, KWOK simulates the node's
        kubelet.
        """
        name = f"{self.namespace}-{len(self.nodes)}"
        labels = {"kubernetes.io/hostname": name, "test": self.namespace}
        metadata = {
            "name": name,
            "labels": labels,
            "annotations": annotations or {KWOK_NODE_ANNOTATION: "fake"},
        }
        taint = {"key": "test", "value": self.namespace, "effect": "NoSchedule"}
        self.core.create_node({"metadata": metadata, "spec": {"taints": [taint]}})
        self.nodes.append(name)
        capacity = CAPACITY if capacity is None else capacity
        self.core.patch_node_status(name, {"status": {"capacity": capacity, "allocatable": capacity}})
        return name

    def spec(self, gpus: int = 0, **more: Any) -> dict[str, Any]:
        limits = {GPU: str(gpus)} if gpus else {}
        container = {"name": "main", "image": "busybox", "resources": {"limits": limits}}
        return {
            "nodeSelector": {"test": self.namespace},
            "tolerations": [{"key": "test", "operator": "Exists"}],
            "containers": [container],
            **more,
        }

    def pod(self, name: str, *, gpus: int = 0, labels: dict[str, str] | None = None, **more: Any) -> None:
        metadata = {"name": name, "labels": labels or {}}
        self.core.create_namespaced_pod(self.namespace, {"metadata": metadata, "spec": self.spec(gpus, **more)})

    def phase(self, pod: str) -> str:
        return self.core.read_namespaced_pod(pod, self.namespace).status.phase

    def is_running(self, pod: str) -> bool:
        return self.phase(pod) == "Running"

    def pods(self) -> set[str]:
        return {pod.metadata.name for pod in self.core.list_namespaced_pod(self.namespace).items}

    def condition(self, pod: str, kind: str) -> Any:
        conditions = self.core.read_namespaced_pod(pod, self.namespace).status.conditions or []
        return next((condition for condition in conditions if condition.type == kind), None)


@pytest.fixture(scope="module")
def client(sandbox: Status) -> Iterator[ApiClient]:
    with config.new_client_from_config(str(sandbox.kubeconfig)) as client:
        yield client


@pytest.fixture
def cluster(client: ApiClient) -> Iterator[Cluster]:
    namespace = f"control-plane-{next(_SERIAL)}"
    cluster = Cluster(client, namespace)
    cluster.core.create_namespace({"metadata": {"name": namespace}})
    eventually(lambda: cluster.core.list_namespaced_service_account(namespace).items)
    yield cluster
    cluster.core.delete_collection_namespaced_pod(namespace)
    eventually(lambda: not cluster.pods())
    for node in cluster.nodes:
        cluster.core.delete_node(node)
    cluster.core.delete_namespace(namespace)


def test_status_reports_that_every_component_runs(sandbox: Status) -> None:
    status = control_plane.status(sandbox.name)
    assert status.state == "running"
    assert list(status.pids) == [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kwok",
        "simulator",
    ]
    assert json.loads(json.dumps(status.to_json()))["server"] == sandbox.server


def test_the_api_server_reports_the_pinned_version(sandbox: Status, client: ApiClient) -> None:
    assert VersionApi(client).get_code().git_version == sandbox.kubernetes


def test_only_the_owner_can_read_the_data_folder_and_every_secret_in_it(sandbox: Status) -> None:
    assert stat.S_IMODE(sandbox.data_dir.stat().st_mode) == 0o700
    secrets = [sandbox.kubeconfig, sandbox.data_dir / "tokens.csv", sandbox.data_dir / "pki" / "apiserver.key"]
    for secret in [*secrets, *(sandbox.data_dir / "kubeconfigs").iterdir()]:
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600, secret


def test_a_request_without_a_token_is_refused(client: ApiClient) -> None:
    with bearer_of(None, client) as stranger, pytest.raises(ApiException) as refusal:
        CoreV1Api(stranger).list_namespace()
    assert refusal.value.status == 401


def test_a_kwok_node_becomes_ready_and_loses_its_not_ready_taint(cluster: Cluster) -> None:
    name = cluster.node()

    def is_ready() -> bool:
        node = cluster.core.read_node(name)
        ready = any(c.type == "Ready" and c.status == "True" for c in node.status.conditions or [])
        return ready and [taint.key for taint in node.spec.taints] == ["test"]

    eventually(is_ready)
    addresses = {a.type: a.address for a in cluster.core.read_node(name).status.addresses}
    assert addresses["Hostname"] == name


def test_a_node_without_the_annotation_is_left_alone(cluster: Cluster) -> None:
    bare = cluster.node(None, **{"example.com/made-by": "a-test"})
    managed = cluster.node()
    eventually(lambda: cluster.core.read_node(managed).status.addresses)
    assert cluster.core.read_node(bare).status.addresses is None


def test_kwok_leaves_capacity_and_allocatable_as_they_are(cluster: Cluster) -> None:
    with_status, without = cluster.node(), cluster.node(capacity={})
    for name in (with_status, without):
        eventually(lambda name=name: cluster.core.read_node(name).status.phase == "Running")
    assert cluster.core.read_node(with_status).status.allocatable == CAPACITY
    assert not cluster.core.read_node(without).status.allocatable


def test_a_pod_that_asks_for_gpus_runs_where_they_are(cluster: Cluster) -> None:
    cluster.node({**CAPACITY, GPU: "0"})
    with_gpus = cluster.node()
    cluster.pod("worker", gpus=2)
    eventually(lambda: cluster.is_running("worker"))
    pod = cluster.core.read_namespaced_pod("worker", cluster.namespace)
    assert pod.spec.node_name == with_gpus
    assert pod.status.container_statuses[0].ready


def test_a_pod_that_asks_for_more_gpus_than_are_left_stays_pending_and_says_why(cluster: Cluster) -> None:
    cluster.node()
    cluster.pod("first", gpus=2)
    eventually(lambda: cluster.is_running("first"))
    cluster.pod("second", gpus=1)
    refusal = eventually(lambda: cluster.condition("second", "PodScheduled"))
    assert f"Insufficient {GPU}" in refusal.message
    cluster.core.delete_namespaced_pod("first", cluster.namespace)
    eventually(lambda: cluster.is_running("second"))


def test_a_pod_of_higher_priority_takes_the_place_of_a_lower_one(cluster: Cluster) -> None:
    cluster.node()
    scheduling: Any = SchedulingV1Api(cluster.client)
    classes = {f"{cluster.namespace}-low": 1, f"{cluster.namespace}-high": 2}
    for name, value in classes.items():
        scheduling.create_priority_class({"metadata": {"name": name}, "value": value})
    low, high = classes
    cluster.pod("low", gpus=2, priorityClassName=low)
    eventually(lambda: cluster.is_running("low"))
    cluster.pod("high", gpus=2, priorityClassName=high)
    eventually(lambda: cluster.is_running("high"))
    assert cluster.pods() == {"high"}
    for name in classes:
        scheduling.delete_priority_class(name)


def test_init_containers_and_host_network_do_not_keep_a_pod_from_running(cluster: Cluster) -> None:
    cluster.node()
    sidecar = {"name": "sidecar", "image": "busybox", "restartPolicy": "Always"}
    setup = {"name": "setup", "image": "busybox"}
    cluster.pod("full", initContainers=[setup, sidecar], hostNetwork=True)
    eventually(lambda: cluster.is_running("full"))
    status = cluster.core.read_namespaced_pod("full", cluster.namespace).status
    assert [c.state.terminated is not None for c in status.init_container_statuses] == [True, False]
    assert status.pod_ip == status.host_ip


def test_the_pod_of_a_job_completes(cluster: Cluster) -> None:
    cluster.node()
    batch: Any = BatchV1Api(cluster.client)
    template = {"spec": cluster.spec(restartPolicy="Never")}
    batch.create_namespaced_job(cluster.namespace, {"metadata": {"name": "job"}, "spec": {"template": template}})
    eventually(lambda: batch.read_namespaced_job("job", cluster.namespace).status.succeeded == 1)


def test_a_daemon_set_runs_on_every_node_and_its_pods_go_with_it(cluster: Cluster) -> None:
    cluster.node()
    cluster.node()
    apps: Any = AppsV1Api(cluster.client)
    labels = {"app": "agent"}
    template = {"metadata": {"labels": labels}, "spec": cluster.spec()}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    apps.create_namespaced_daemon_set(cluster.namespace, {"metadata": {"name": "agent"}, "spec": spec})
    eventually(lambda: apps.read_namespaced_daemon_set("agent", cluster.namespace).status.number_ready == 2)
    apps.delete_namespaced_daemon_set("agent", cluster.namespace)
    eventually(lambda: not cluster.pods())


def test_validation_pods_get_no_status_and_are_deleted_at_once(cluster: Cluster) -> None:
    cluster.node()
    cluster.pod("agent", labels={NAME_LABEL: VALIDATION_APP})
    cluster.pod("other")
    eventually(lambda: cluster.is_running("other"))
    eventually(lambda: cluster.condition("agent", "PodScheduled"))
    assert cluster.phase("agent") == "Pending"
    cluster.core.delete_namespaced_pod("agent", cluster.namespace)
    eventually(lambda: cluster.pods() == {"other"})


def test_a_quota_refuses_the_pod_above_it_and_names_itself(cluster: Cluster) -> None:
    quota = {"metadata": {"name": "gpus"}, "spec": {"hard": {f"requests.{GPU}": "1"}}}
    cluster.core.create_namespaced_resource_quota(cluster.namespace, quota)
    eventually(lambda: cluster.core.read_namespaced_resource_quota("gpus", cluster.namespace).status.used)
    cluster.pod("within", gpus=1)
    with pytest.raises(ApiException, match="exceeded quota: gpus"):
        cluster.pod("above", gpus=1)


def test_a_limit_range_fills_in_its_defaults(cluster: Cluster) -> None:
    limit = {"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}
    limits = {"metadata": {"name": "defaults"}, "spec": {"limits": [limit]}}
    cluster.core.create_namespaced_limit_range(cluster.namespace, limits)

    def request() -> str | None:
        cluster.pod(name := f"probe-{next(_SERIAL)}")
        resources = cluster.core.read_namespaced_pod(name, cluster.namespace).spec.containers[0].resources
        return (resources.requests or {}).get("cpu")

    assert eventually(request) == "1"


def test_pod_security_refuses_privileged_pods_if_enforced(cluster: Cluster) -> None:
    label = {"pod-security.kubernetes.io/enforce": "baseline"}
    cluster.core.patch_namespace(cluster.namespace, {"metadata": {"labels": label}})
    container = {"name": "main", "image": "busybox", "securityContext": {"privileged": True}}
    with pytest.raises(ApiException, match="violates PodSecurity"):
        cluster.pod("privileged", containers=[container])


def test_a_service_accounts_token_is_valid_and_may_do_only_what_a_role_says(cluster: Cluster) -> None:
    token = cluster.core.create_namespaced_service_account_token("default", cluster.namespace, {"spec": {}})
    with bearer_of(token.status.token, cluster.client) as bearer:
        attributes = {"namespace": cluster.namespace, "verb": "list", "resource": "pods"}
        review = {"spec": {"resourceAttributes": attributes}}
        authorization: Any = AuthorizationV1Api(bearer)
        assert not authorization.create_self_subject_access_review(review).status.allowed
        with pytest.raises(ApiException, match="serviceaccount:control-plane-") as refusal:
            CoreV1Api(bearer).list_namespaced_pod(cluster.namespace)
    assert refusal.value.status == 403


def test_dynamic_resource_allocation_is_served(client: ApiClient) -> None:
    slices: Any = CustomObjectsApi(client).list_cluster_custom_object("resource.k8s.io", "v1", "resourceslices")
    assert slices["kind"] == "ResourceSliceList"


def test_the_kinds_of_the_gpu_operator_and_of_prometheus_take_any_content(cluster: Cluster) -> None:
    custom: Any = CustomObjectsApi(cluster.client)
    policy = {"metadata": {"name": cluster.namespace}, "spec": {"mig": {"strategy": "mixed"}}}
    body = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", **policy}
    custom.create_cluster_custom_object("nvidia.com", "v1", "clusterpolicies", body)
    found = custom.get_cluster_custom_object("nvidia.com", "v1", "clusterpolicies", cluster.namespace)
    assert found["spec"] == policy["spec"]
    custom.delete_cluster_custom_object("nvidia.com", "v1", "clusterpolicies", cluster.namespace)
    for kind, plural in (("ServiceMonitor", "servicemonitors"), ("PrometheusRule", "prometheusrules")):
        metadata = {"name": "x"}
        body = {"apiVersion": "monitoring.coreos.com/v1", "kind": kind, "metadata": metadata, "spec": {"any": [1]}}
        place = ("monitoring.coreos.com", "v1", cluster.namespace, plural)
        assert custom.create_namespaced_custom_object(*place, body)["spec"] == {"any": [1]}


def test_the_sandboxs_own_namespace_is_there(client: ApiClient) -> None:
    core: Any = CoreV1Api(client)
    assert core.read_namespace(SANDBOX_NAMESPACE).status.phase == "Active"
