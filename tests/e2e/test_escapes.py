"""Members try to exceed their team's rights on the real API server, which must admit only harmless objects."""

from __future__ import annotations

import base64
import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.live.client import KubernetesClient, Refused
from tests.e2e.conftest import TOLERATION, Platform
from tests.e2e.debugger import debug
from tests.e2e.impersonation import member
from tests.support.counted_kinds import counted, uncounted
from tests.support.eventually import eventually
from tests.support.permissive import GRANTS, JOB_SETS, KEDA, RAY, ROUTES, TRAIN_JOBS
from tests.support.restricted import CONTAINER, satisfying, violations

pytestmark = [pytest.mark.sandbox, pytest.mark.xdist_group("e2e-base")]

ATTEMPTS = yaml.load((Path(__file__).parent / "escapes.yaml").read_text("utf-8"), Loader=yaml.CSafeLoader)
Object = dict[str, Any]


@pytest.fixture
def vision(platform: Platform, base: Object) -> KubernetesClient:
    team = base["teams"][0]
    team["workloads"] = []
    team["admins"] = ["group:vision-admins"]
    team["members"] = [*team["members"], "serviceaccount:ci/deployer"]
    team["routes"] = {"hosts": ["vision.example.com", "*.vision.example.com"]}
    team["quota"]["objects"] = {"other_kinds": 5}
    if platform.state.get("shop") != base:
        ran = platform.up(base)
        assert ran.code == 0, ran.err
    for definition in (*KEDA, *RAY, *ROUTES, TRAIN_JOBS, JOB_SETS, GRANTS):
        if (
            platform.client.get(definition["apiVersion"], definition["kind"], definition["metadata"]["name"])
            is None
        ):
            platform.client.create(definition)
    client = member(platform.kubeconfig, "vision")
    # The API server reads new policies within a second or two.
    eventually(lambda: ATTEMPTS["pods"][0]["refused"] in refusal(client, pod(copy.deepcopy(ATTEMPTS["pods"][0]))))
    eventually(lambda: not uncounted(platform.client, "vision"))
    return client


def pod(attempt: Object) -> Object:
    container: Object = {"name": "main", "image": "none", **attempt.get("containers", {})}
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
            **attempt.get("metadata", {}),
        },
        "spec": satisfying({"containers": [container], **attempt.get("spec", {})}),
    }


def refusal(client: KubernetesClient, wanted: Object) -> str:
    try:
        client.create(wanted, dry_run=True)
    except Refused as refused:
        return refused.message
    return ""


def says_what_to_do(message: str) -> bool:
    """Return whether a refusal by a platform rule names the fix. A refusal by Kubernetes needs no fix."""
    _, ours, text = message.partition("denied request: ")
    fixes = ATTEMPTS["fixes"][text.partition(":")[0]] if ours else [""]
    return any(fix in text for fix in fixes)


@pytest.mark.parametrize("attempt", ATTEMPTS["pods"], ids=lambda one: one["name"].replace(" ", "-"))
def test_a_pod_that_leaves_the_grant_is_refused(vision: KubernetesClient, attempt: Object):
    wanted = pod(copy.deepcopy(attempt))
    message = refusal(vision, wanted)
    assert attempt["refused"] in message
    assert says_what_to_do(message), message
    # Other tests check manifests with `violations`, which must agree with the API server.
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
        "metadata": {
            "name": "attempt",
            **({"namespace": namespace} if namespace else {}),
            "annotations": attempt.get("annotations", {}),
            **attempt.get("metadata", {}),
        },
        **({"spec": attempt["spec"]} if "spec" in attempt else {}),
        **attempt.get("fields", {}),
    }
    # Policies apply to a new kind about a second after the API server starts to serve it.
    message = eventually(lambda: found if attempt["refused"] in (found := refusal(vision, wanted)) else "")
    assert says_what_to_do(message), message


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
        with pytest.raises(Refused, match="gpu-visible-devices-bypass"):
            debug(vision, "vision", "debugged", debugger)
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
            "spec": {"tolerations": [{"operator": "Exists", "effect": "NoExecute"}]},
        },
        {
            "containers": {"resources": {"limits": {"nvidia.com/gpu": 4, "nvidia.com/hostdev": 4}}},
            "spec": {"tolerations": [TOLERATION]},
        },
        {"containers": {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]}},
        {"containers": {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": ""}]}},
        {"containers": {"env": [{"name": "NVIDIA_VISIBLE_DEVICES"}]}},
        {"spec": {"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]}},
        {"spec": {"priorityClassName": "training"}},
        {"spec": {"nodeSelector": {"cloud.google.com/compute-class": "gpus"}}},
        {"annotations": {"prometheus.io/scrape": "true"}},
        {"annotations": {"k8s.v1.cni.cncf.io/networks": "rail-0, rail-1@net2"}},
    ],
    ids=str,
)
def test_an_honest_pod_is_admitted(vision: KubernetesClient, attempt: Object):
    assert refusal(vision, pod(copy.deepcopy(attempt))) == ""


def platform_objects(platform: Platform) -> list[Object]:
    """Return the objects that the program created in the namespace of team vision."""
    kinds = (
        ("v1", "ConfigMap"),
        ("v1", "ResourceQuota"),
        ("v1", "LimitRange"),
        ("networking.k8s.io/v1", "NetworkPolicy"),
        ("rbac.authorization.k8s.io/v1", "Role"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    )
    found: list[Object] = [
        {"apiVersion": version, "kind": kind, **one}
        for version, kind in kinds
        for one in platform.client.objects(version, kind, namespace="vision")
    ]
    return [one for one in found if one["metadata"]["name"] != "kube-root-ca.crt"]


@pytest.mark.parametrize("group", ["vision", "vision-admins"])
def test_no_role_changes_or_deletes_what_the_platform_put_into_the_namespace(
    vision: KubernetesClient, platform: Platform, group: str
):
    client = member(platform.kubeconfig, group)
    objects = platform_objects(platform)
    assert {"gpu-platform-guide", "gpu-quota", "defaults", "default-deny", "team-member"} <= {
        one["metadata"]["name"] for one in objects
    }
    for one in objects:
        version, kind = one["apiVersion"], one["kind"]
        metadata = {key: one["metadata"][key] for key in ("name", "namespace")}
        wanted = "platform-object" if kind == "ConfigMap" else "forbidden"
        changed = {"apiVersion": version, "kind": kind, "metadata": {**metadata, "labels": {"mine": "true"}}}
        with pytest.raises(Refused, match=wanted):
            client.merge(changed)
        with pytest.raises(Refused, match=wanted):
            client.delete(one)
        assert platform.client.get(version, kind, metadata["name"], "vision") is not None


def test_ekss_network_policy_controller_is_not_judged_as_a_member(vision: KubernetesClient, platform: Platform):
    """EKS enforces a network policy only after its controller has added a finalizer to the policy.

    The controller's user name does not begin with `system:`.
    """
    user, rbac = "eks:network-policy-controller", "rbac.authorization.k8s.io"
    rules = [
        {
            "apiGroups": ["networking.k8s.io"],
            "resources": ["networkpolicies"],
            "verbs": ["get", "patch", "update"],
        },
        {"apiGroups": ["networking.k8s.aws"], "resources": ["policyendpoints"], "verbs": ["create", "update"]},
    ]
    role = {"kind": "ClusterRole", "name": user, "apiGroup": rbac}
    subjects = [{"kind": "User", "name": user, "apiGroup": rbac}]
    granted = [
        platform.client.create({"apiVersion": f"{rbac}/v1", "kind": kind, "metadata": {"name": user}, **fields})
        for kind, fields in (
            ("ClusterRole", {"rules": rules}),
            ("ClusterRoleBinding", {"roleRef": role, "subjects": subjects}),
        )
    ]
    controller = member(platform.kubeconfig, "system:authenticated", user)
    policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}
    metadata = {"name": "default-deny", "namespace": "vision"}

    def refused(finalizers: list[str]) -> str:
        try:
            controller.merge({**policy, "metadata": {**metadata, "finalizers": finalizers}})
        except Refused as refusal:
            return refusal.message
        return ""

    try:
        # The API server reads new rights within a moment.
        found = eventually(
            lambda: [one for one in [refused(["networking.k8s.aws/resources"])] if "RBAC" not in one]
        )
        assert found == [""]
        assert refused([]) == ""
    finally:
        for one in granted:
            platform.client.delete(one)


def test_an_admin_who_deletes_all_config_maps_does_not_delete_the_guide(
    vision: KubernetesClient, platform: Platform
):
    mine = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine", "namespace": "vision"}}
    vision.create(mine)
    admin = member(platform.kubeconfig, "vision-admins")
    with pytest.raises(Refused, match="platform-object"):
        admin._connection.request("DELETE", "/api/v1/namespaces/vision/configmaps", "deleting")
    assert platform.client.get("v1", "ConfigMap", "gpu-platform-guide", "vision") is not None
    live = platform.client.get("v1", "ConfigMap", "mine", "vision")
    if live is not None:
        vision.delete(live)


def test_member_service_accounts_of_other_namespaces_obey_the_rules(vision: KubernetesClient, platform: Platform):
    deployer = member(platform.kubeconfig, "system:serviceaccounts:ci", "system:serviceaccount:ci:deployer")
    mine: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine", "namespace": "vision"}}
    assert refusal(deployer, mine) == ""
    mine["metadata"]["finalizers"] = ["example.com/mine"]
    assert "object-finalizer" in refusal(deployer, mine)


def test_the_annotation_that_keeps_a_node_is_refused_on_a_pod_that_runs(
    vision: KubernetesClient, platform: Platform
):
    running = pod({})
    running["metadata"]["name"] = "kept"
    vision.create(running)
    try:
        for key, value in (
            ("karpenter.sh/do-not-disrupt", "true"),
            ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
        ):
            metadata = {"name": "kept", "namespace": "vision", "annotations": {key: value}}
            with pytest.raises(Refused, match="node-keeping"):
                vision.merge({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})
    finally:
        live = platform.client.get("v1", "Pod", "kept", "vision")
        assert live is not None
        platform.client.delete(live)


def test_a_deadline_that_keeps_nodes_cannot_be_removed(vision: KubernetesClient, platform: Platform):
    template = {
        "metadata": {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
        "spec": satisfying({"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}),
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "kept", "namespace": "vision"},
        "spec": {"activeDeadlineSeconds": 86400, "template": template},
    }
    live = vision.create(job)
    try:
        eventually(
            lambda: list(platform.client.objects("v1", "Pod", namespace="vision", label_selector="job-name=kept"))
        )
        metadata = {"name": "kept", "namespace": "vision"}
        for deadline in (None, 400 * 86400):
            with pytest.raises(Refused, match="node-keeping"):
                vision.merge(
                    {
                        "apiVersion": "batch/v1",
                        "kind": "Job",
                        "metadata": metadata,
                        "spec": {"activeDeadlineSeconds": deadline},
                    }
                )
    finally:
        platform.client.delete(live)


@pytest.mark.parametrize(
    "attempt",
    [
        {"kind": "Ingress", "spec": {"rules": [{"host": "vision.example.com"}, {"host": "a.vision.example.com"}]}},
        {
            "kind": "Ingress",
            "spec": {
                "rules": [{"host": "vision.example.com"}],
                "tls": [{"hosts": ["vision.example.com"], "secretName": "certificate"}],
            },
            "annotations": {
                "alb.ingress.kubernetes.io/target-type": "ip",
                "cert-manager.io/cluster-issuer": "letsencrypt",
                "nginx.ingress.kubernetes.io/proxy-read-timeout": "3600",
                "example.com/owner": "vision",
            },
        },
        {"kind": "HTTPRoute", "spec": {"hostnames": ["*.vision.example.com"]}},
        {"kind": "Service", "spec": {"ports": [{"port": 80}]}, "annotations": {"prometheus.io/scrape": "true"}},
        {"kind": "ServiceAccount", "annotations": {"example.com/owner": "vision"}},
        {"kind": "Secret", "fields": {"type": "Opaque"}},
        {"kind": "RayService", "spec": {"upgradeStrategy": {"type": "NewCluster"}, "rayClusterConfig": {}}},
    ],
    ids=lambda one: one["kind"],
)
def test_an_honest_object_is_admitted(vision: KubernetesClient, attempt: Object):
    versions = {
        "Ingress": "networking.k8s.io/v1",
        "HTTPRoute": "gateway.networking.k8s.io/v1",
        "RayService": "ray.io/v1",
    }
    wanted = {
        "apiVersion": versions.get(attempt["kind"], "v1"),
        "kind": attempt["kind"],
        "metadata": {
            "name": "attempt",
            "namespace": "vision",
            "annotations": attempt.get("annotations", {}),
            "finalizers": ["foregroundDeletion"],
        },
        **({"spec": attempt["spec"]} if "spec" in attempt else {}),
        **attempt.get("fields", {}),
    }
    assert refusal(vision, wanted) == ""


# -- limits on members' objects ---------------------------------------------------------------------------------


def test_the_api_server_counts_every_kind_that_a_member_may_create(vision: KubernetesClient, platform: Platform):
    role = platform.client.get("rbac.authorization.k8s.io/v1", "Role", "team-member", "vision")
    assert role is not None
    served: set[str] = set()
    for rule in role["rules"]:
        group = rule["apiGroups"][0]
        path = f"/apis/{group}" if group else "/api"
        try:
            found = platform.client._connection.request("GET", path, "reading")
        except Refused:  # the API group is not installed
            continue
        version = f"{path}/{found['preferredVersion']['version']}" if group else f"{path}/v1"
        kinds = platform.client._connection.request("GET", version, "reading")["resources"]
        names = {one["name"] for one in kinds if "/" not in one["name"]}
        if "create" in rule["verbs"]:
            served |= {f"{name}.{group}" if group else name for name in names & {*rule["resources"]}}
    assert served >= {
        "deployments.apps",
        "poddisruptionbudgets.policy",
        "httproutes.gateway.networking.k8s.io",
        "jobsets.jobset.x-k8s.io",
    }
    assert served <= counted(platform.client, "vision")


def test_a_member_makes_no_more_objects_of_a_kind_than_the_quota_has(vision: KubernetesClient, platform: Platform):
    made: list[Object] = []

    def another(number: int) -> Object:
        metadata = {"name": f"filler-{number}", "namespace": "vision"}
        return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata}

    try:
        for number in range(5):
            made.append(vision.create(another(number)))
        assert "exceeded quota: object-quota, requested: count/poddisruptionbudgets.policy=1" in refusal(
            vision, another(5)
        )
    finally:
        for one in made:
            platform.client.delete(one)


@pytest.mark.parametrize(
    "wanted",
    [
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {"file": "x" * 600_000}},
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {"file": "\u20ac" * 200_000}},
        {"apiVersion": "v1", "kind": "ConfigMap", "binaryData": {"file": "AAAA" * 150_000}},
        {"apiVersion": "v1", "kind": "Secret", "data": {"file": "AAAA" * 150_000}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"annotations": {"file": "x" * 70_000}}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"labels": {f"k{i}": "" for i in range(4000)}}},
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "spec": {"file": [["x" * 140_000, None, 1.5]]},
        },
    ],
    ids=["ConfigMap", "bytes", "binary", "Secret", "annotation", "labels", "JobSet"],
)
def test_an_object_that_is_too_large_is_refused(vision: KubernetesClient, wanted: Object):
    wanted = {**wanted, "metadata": {"name": "attempt", "namespace": "vision", **wanted.get("metadata", {})}}
    message = eventually(lambda: found if "object-size" in (found := refusal(vision, wanted)) else "")
    assert says_what_to_do(message)


def test_a_large_object_of_before_can_shrink_and_go(vision: KubernetesClient, platform: Platform):
    metadata = {"name": "older", "namespace": "vision"}
    older: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {"file": "x" * 700_000},
    }
    live = platform.client.create(older)
    with pytest.raises(Refused, match="object-size"):
        vision.merge({**older, "data": {"file": "x" * 710_000}})
    vision.merge({**older, "data": {"file": "x" * 690_000}})
    vision.delete(live)


def test_a_pod_does_not_grow_by_ephemeral_containers(vision: KubernetesClient, platform: Platform):
    running = pod({})
    running["metadata"]["name"] = "growing"
    live = vision.create(running)
    try:
        debugger = {"name": "debug", "image": "none", "args": ["x" * 70_000], "securityContext": dict(CONTAINER)}
        with pytest.raises(Refused, match="object-size"):
            debug(vision, "vision", "growing", debugger)
    finally:
        platform.client.delete(live)


# -- objects that members may write without gaining access -----------------------------------------------------


def test_a_running_pod_is_not_resized_past_the_quota(vision: KubernetesClient, platform: Platform):
    running = pod({})
    running["metadata"]["name"] = "small"
    vision.create(running)
    try:
        larger = [{"name": "main", "resources": {"requests": {"cpu": "90"}, "limits": {"cpu": "90"}}}]
        with pytest.raises(Refused, match=r'cannot patch resource "pods/resize"'):
            vision._connection.request(
                "PATCH",
                "/api/v1/namespaces/vision/pods/small/resize",
                "resizing",
                body={"spec": {"containers": larger}},
                content_type="application/strategic-merge-patch+json",
            )
    finally:
        live = platform.client.get("v1", "Pod", "small", "vision")
        assert live is not None
        platform.client.delete(live)


def claim(**spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "attempt", "namespace": "vision"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}},
            **spec,
        },
    }


def test_a_claim_is_filled_from_no_other_namespace(vision: KubernetesClient):
    # The API server drops a data source's namespace unless CrossNamespaceVolumeDataSource (alpha) is enabled.
    # CrossNamespaceVolumeDataSource requires a ReferenceGrant in the other namespace, which no member creates.
    source = {"apiGroup": "", "kind": "PersistentVolumeClaim", "name": "dataset", "namespace": "search"}
    live = vision.create(claim(dataSourceRef=source), dry_run=True)
    assert "namespace" not in live["spec"].get("dataSourceRef", {})


def test_a_claim_gets_no_volume_that_is_kept_for_another_team(vision: KubernetesClient, platform: Platform):
    volume: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "of-search"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "volumeMode": "Block",
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "search", "name": "dataset"},
            "csi": {"driver": "a.example.com", "volumeHandle": "a"},
        },
    }
    made = platform.client.create(volume)
    wanted = vision.create(claim(volumeName="of-search", volumeMode="Block"))
    # A pod can use a block device only through a claim.
    using = pod({"containers": {"volumeDevices": [{"name": "disk", "devicePath": "/dev/xvda"}]}})
    using["spec"]["volumes"] = [{"name": "disk", "persistentVolumeClaim": {"claimName": "attempt"}}]
    try:
        assert refusal(vision, using) == ""

        def told() -> bool:
            events = platform.client.objects("v1", "Event", namespace="vision")
            of_claim = [one for one in events if one["involvedObject"]["name"] == "attempt"]
            return any("already bound to a different claim" in one.get("message", "") for one in of_claim)

        eventually(told)
        kept = platform.client.get("v1", "PersistentVolume", "of-search")
        assert kept is not None
        assert kept["spec"]["claimRef"]["namespace"] == "search"
    finally:
        platform.client.delete(wanted)
        platform.client.delete(made)
        # Wait until the claim is deleted, because other tests use a claim with the same name.
        eventually(lambda: platform.client.get("v1", "PersistentVolumeClaim", "attempt", "vision") is None)


def test_tokens_for_another_audience_are_invalid_on_the_api_server(vision: KubernetesClient, platform: Platform):
    projected = {
        "name": "token",
        "projected": {"sources": [{"serviceAccountToken": {"audience": "sts.amazonaws.com", "path": "token"}}]},
    }
    assert refusal(vision, pod({"spec": {"volumes": [projected]}})) == ""
    path = "/api/v1/namespaces/vision/serviceaccounts/default/token"
    wanted = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": ["sts.amazonaws.com"]},
    }
    with pytest.raises(Refused, match=r'cannot create resource "serviceaccounts/token"'):
        vision._connection.request("POST", path, "requesting", body=wanted)
    # The test requests the token in the same way as the kubelet does for the pod.
    # The token's subject shows the pod's team.
    token = platform.client._connection.request("POST", path, "requesting", body=wanted)["status"]["token"]
    part = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    assert (claims["sub"], claims["aud"]) == ("system:serviceaccount:vision:default", ["sts.amazonaws.com"])
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    answer = platform.client._connection.request("POST", path, "reviewing", body=review)
    assert not answer["status"].get("authenticated")


def test_host_aliases_affect_only_their_pod(vision: KubernetesClient):
    # Host aliases change only the pod's /etc/hosts. Network policies match addresses, not host names.
    aliases = [{"ip": "10.0.0.1", "hostnames": ["search.example.com"]}]
    assert refusal(vision, pod({"spec": {"hostAliases": aliases}})) == ""


def test_a_train_job_with_honest_patches_is_admitted(vision: KubernetesClient):
    patch = {"spec": {"tolerations": [TOLERATION], "serviceAccountName": "default"}}
    jobs = [{"name": "node", "template": {"spec": {"template": patch}}}]
    patches = [
        {"manager": "a.example.com/b", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}},
        {"manager": "a.example.com/c"},
    ]
    wanted = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "attempt", "namespace": "vision"},
        "spec": {"trainer": {"env": [{"name": "EPOCHS", "value": "1"}]}, "runtimePatches": patches},
    }
    assert eventually(lambda: (refusal(vision, wanted) == "") or refusal(vision, wanted)) is True
