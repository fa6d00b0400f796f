"""`KubernetesObject` registers the same resources as the typed classes of pulumi_kubernetes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pulumi_kubernetes as k8s
import pytest

from components._kubernetes_object import type_token
from gpu_platform.base.paths import PROJECT_ROOT
from gpu_platform.base.quantity import canonical_quantity
from gpu_platform.deploy.recorded.record import ResourceRecord, record_program
from tests.support.recorded import record_shipped

_TYPED = """
import pulumi_kubernetes as k8s

meta = k8s.meta.v1.ObjectMetaArgs(name="x", namespace="y", labels={"a_b": "c"}, annotations=None)
k8s.core.v1.ConfigMap("config", metadata=meta, binary_data={"some_key": "aGk="}, immutable=True)
k8s.rbac.v1.RoleBinding(
    "binding",
    metadata=meta,
    role_ref=k8s.rbac.v1.RoleRefArgs(api_group="rbac.authorization.k8s.io", kind="Role", name="r"),
    subjects=[k8s.rbac.v1.SubjectArgs(kind="User", name="u", api_group=None)],
)
k8s.apiextensions.CustomResource(
    "monitor", api_version="monitoring.coreos.com/v1", kind="PodMonitor", metadata=meta, spec={"selector": {}}
)
k8s.core.v1.NodePatch("node", metadata=k8s.meta.v1.ObjectMetaPatchArgs(name="n", labels={"a": "b"}))
"""
_PLAIN = """
from components._kubernetes_object import KubernetesObject

meta = {"name": "x", "namespace": "y", "labels": {"a_b": "c"}, "annotations": None}
KubernetesObject(
    "config", "v1/ConfigMap", metadata=meta, binaryData={"some_key": "aGk="}, data=None, immutable=True
)
KubernetesObject(
    "binding",
    "rbac.authorization.k8s.io/v1/RoleBinding",
    metadata=meta,
    roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
    subjects=[{"kind": "User", "name": "u", "apiGroup": None}],
)
KubernetesObject("monitor", "monitoring.coreos.com/v1/PodMonitor", metadata=meta, spec={"selector": {}})
KubernetesObject("node", "v1/Node", patch=True, metadata={"name": "n", "labels": {"a": "b"}})
"""


def _registered(text: str, folder: Path) -> dict[str, ResourceRecord]:
    program = folder / "__main__.py"
    program.write_text(text, "utf-8")
    recorded = record_program(program, project="p", stack="s", config={})
    return {record.name: record for record in recorded.resources if record.custom}


def test_objects_are_registered_as_by_the_typed_classes(tmp_path: Path) -> None:
    typed, plain = _registered(_TYPED, tmp_path), _registered(_PLAIN, tmp_path)
    assert plain.keys() == typed.keys() == {"config", "binding", "monitor", "node"}
    for name, record in typed.items():
        assert (plain[name].type, plain[name].inputs) == (record.type, record.inputs)
        assert plain[name].package_version == record.package_version != ""


@pytest.mark.parametrize("stack", ["local", "eks-training", "gke-training", "aks-training"])
def test_every_kind_of_kubernetes_is_one_that_the_sdk_has(stack: str) -> None:
    groups = {
        "core/v1": k8s.core.v1,
        "apps/v1": k8s.apps.v1,
        "batch/v1": k8s.batch.v1,
        "admissionregistration.k8s.io/v1": k8s.admissionregistration.v1,
        "networking.k8s.io/v1": k8s.networking.v1,
        "rbac.authorization.k8s.io/v1": k8s.rbac.v1,
        "resource.k8s.io/v1": k8s.resource.v1,
        "scheduling.k8s.io/v1": k8s.scheduling.v1,
        "storage.k8s.io/v1": k8s.storage.v1,
    }
    types = [record.type.split(":") for record in record_shipped(stack).resources]
    known = [(group, kind) for package, group, kind in types if package == "kubernetes" and group in groups]
    assert known
    assert [(group, kind) for group, kind in known if not hasattr(groups[group], kind)] == []


def test_the_core_group_is_named_in_the_type() -> None:
    assert type_token("v1/Namespace") == "kubernetes:core/v1:Namespace"
    assert type_token("apps/v1/DaemonSet") == "kubernetes:apps/v1:DaemonSet"


_CHECK = """
import sys
from gpu_platform.cli import main

sys.argv = ["gpu-platform", "check", "local"]
try:
    main()
finally:
    print("pulumi_kubernetes.core.v1._inputs" in sys.modules)
"""


def test_a_check_imports_no_typed_classes() -> None:
    checked = subprocess.run(
        [sys.executable, "-c", _CHECK], cwd=PROJECT_ROOT, capture_output=True, text=True, check=False
    )
    assert checked.stdout.splitlines()[-2:] == ["policies: no violation", "False"]


def test_pulumi_replaces_an_object_whose_change_the_api_server_refuses() -> None:
    records = record_shipped("eks-training").resources
    priority = next(one for one in records if one.type == "kubernetes:scheduling.k8s.io/v1:PriorityClass")
    assert (priority.replace_on_changes, priority.delete_before_replace) == (("value", "preemptionPolicy"), True)
    settings = next(one for one in records if one.type == "kubernetes:core/v1:ConfigMap")
    assert (settings.replace_on_changes, settings.delete_before_replace) == ((), False)


_QUEUED = """
from components._kubernetes_object import KubernetesObject

def pods(amounts):
    container = {"name": "main", "resources": {"requests": amounts, "limits": amounts}}
    return {"containers": [container], "volumes": [{"name": "shm", "emptyDir": {"sizeLimit": "2048Mi"}}]}

amounts = {"cpu": "0.5", "hugepages-2Mi": "5120Mi", "example.com/gpu": "8"}
jobs = [{"template": {"spec": {"template": {"spec": pods(amounts)}}}}]
KubernetesObject("job", "jobset.x-k8s.io/v1alpha2/JobSet", metadata={"name": "job"}, spec={"replicatedJobs": jobs})
flavor = {"name": "a", "resources": [{"name": "cpu", "nominalQuota": "12000m", "borrowingLimit": "1000"}]}
spec = {"resourceGroups": [{"flavors": [flavor]}], "fairSharing": {"weight": "0.5"}}
KubernetesObject("queue", "kueue.x-k8s.io/v1beta2/ClusterQueue", metadata={"name": "q"}, spec=spec)
"""


def test_quantities_are_written_as_the_webhooks_of_custom_kinds_rewrite_them(tmp_path: Path) -> None:
    # Pulumi compares quantities as text. A quantity in another form would replace a running JobSet in each update.
    found = _registered(_QUEUED, tmp_path)
    pods = found["job"].inputs["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    amounts = {"cpu": "500m", "hugepages-2Mi": "5Gi", "example.com/gpu": "8"}
    assert pods["containers"][0]["resources"] == {"requests": amounts, "limits": amounts}
    assert pods["volumes"][0]["emptyDir"] == {"sizeLimit": "2Gi"}
    (quota,) = found["queue"].inputs["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
    assert quota == {"name": "cpu", "nominalQuota": "12", "borrowingLimit": "1k"}
    assert found["queue"].inputs["spec"]["fairSharing"] == {"weight": "500m"}


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("0.5", "500m"),
        ("100.5", "100500m"),
        ("0.1m", "100u"),
        ("1000m", "1"),
        ("1000000", "1M"),
        ("1024", "1024"),
        ("1024Gi", "1Ti"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("500000Mi", "500000Mi"),
        ("0m", "0"),
        ("1e3", "1e3"),
        ("all", "all"),
    ],
)
def test_quantities_have_the_form_that_kubernetes_stores(written: str, stored: str) -> None:
    assert canonical_quantity(written) == stored
