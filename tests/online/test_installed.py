"""Software that an existing cluster already has, compared with what `up` installs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.catalog import load_catalog
from gpu_platform.live.client import KubernetesClient
from gpu_platform.online import OnlineFinding
from gpu_platform.online.cluster.installed import SERVICE_MONITORS, Installed, Workload, compare_installed
from gpu_platform.online.cluster.lookups import installed_lookup, read_installed
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from tests.support.api_server import resource_list, serving
from tests.support.eks_stacks import EXISTING, plan_eks

OPERATOR = "nvcr.io/nvidia/gpu-operator:v26.7.0"


def plan_of(
    queueing: dict[str, Any] | None = None, addons: dict[str, str] | None = None, **cluster: Any
) -> EnvironmentPlan:
    pool = {
        "name": "train",
        "machine_type": "dgx-h100",
        "count": {"desired": 1},
        "nodes": {"names": ["gpu-0"]},
        "workload": "training",
    }
    platform: dict[str, Any] = {
        "kind": "environment",
        "cluster": {"provider": "existing", **cluster},
        "pools": [pool],
    }
    platform |= {"queueing": queueing, "addons": addons or {}}
    plan = plan_platform(platform, "test")
    assert plan.kind == "environment"
    return plan


def workload(image: str, namespace: str = "theirs", owner: str = "") -> Workload:
    return Workload(kind="Deployment", namespace=namespace, name="it", images=(image,), owner=owner)


def found_in(
    *workloads: Workload, plan: EnvironmentPlan | None = None, deployed: bool = False, **rest: Any
) -> dict[str, OnlineFinding]:
    facts: dict[str, Any] = {"crds": {SERVICE_MONITORS: {}}, "admission_policies": (), **rest}
    installed = Installed(workloads=workloads, deployed=deployed, **facts)
    return {each.looked_at: each for each in compare_installed(plan or plan_of(), installed, load_catalog())}


def test_an_empty_cluster_is_fine() -> None:
    assert {finding.severity for finding in found_in().values()} == {"fine"}


@pytest.mark.parametrize(
    ("image", "title", "severity"),
    [
        (OPERATOR, "GPU Operator", "stops"),
        ("nvcr.io/nvidia/k8s-device-plugin:v0.18.0", "NVIDIA device plugin", "stops"),
        ("registry.k8s.io/nfd/node-feature-discovery:v0.18.2", "Node Feature Discovery", "stops"),
        ("nvcr.io/nvidia/k8s/dcgm-exporter:4.4.2-4.7.0", "DCGM exporter", "stops"),
        ("registry.k8s.io/kueue/kueue:v0.14.4", "Kueue", "fine"),
        ("reg.kyverno.io/kyverno/kyverno:v1.16.0", "Kyverno", "warns"),
        ("openpolicyagent/gatekeeper:v3.21.0", "Gatekeeper", "warns"),
        ("public.ecr.aws/karpenter/controller:1.8.1@sha256:aa", "Karpenter", "fine"),
    ],
)
def test_software_of_others_is_recognised_by_its_image(image: str, title: str, severity: str) -> None:
    finding = found_in(workload(image, owner="Helm release theirs/it"))[f"{title} in the cluster"]

    assert finding.severity == severity
    assert finding.found == "exists already: Deployment theirs/it (Helm release theirs/it)"


@pytest.mark.parametrize(
    ("image", "title", "part"),
    [
        (OPERATOR, "GPU Operator", "gpu_operator"),
        ("nvcr.io/nvidia/k8s-device-plugin:v0.18.0", "NVIDIA device plugin", "device_plugin"),
        ("registry.k8s.io/nfd/node-feature-discovery:v0.18.2", "Node Feature Discovery", "node_feature_discovery"),
        ("nvcr.io/nvidia/k8s/dcgm-exporter:4.4.2-4.7.0", "DCGM exporter", "dcgm_exporter"),
    ],
)
def test_declared_present_parts_are_unchanged_and_missing_ones_reported(image: str, title: str, part: str) -> None:
    assert f"cluster.parts.{part}: present" in found_in(workload(image))[f"{title} in the cluster"].fix
    plan = plan_of(parts={part: "present"})
    finding = found_in(workload(image), plan=plan)[f"{title} in the cluster"]
    found = "exists already, and is not changed: Deployment theirs/it"
    assert (finding.severity, finding.found) == ("fine", found)
    missing = found_in(plan=plan)[f"{title} in the cluster"]
    assert (missing.severity, missing.found) == ("stops", "none")


def test_a_device_plugin_that_selects_its_nodes_is_a_warning() -> None:
    images = ("nvcr.io/nvidia/k8s-device-plugin:v0.18.0",)
    plugin = Workload(kind="DaemonSet", namespace="theirs", name="it", images=images, owner="", selective=True)

    assert found_in(plugin)["NVIDIA device plugin in the cluster"].severity == "warns"


def test_the_operator_that_this_program_installed_is_used() -> None:
    finding = found_in(workload(OPERATOR, "gpu-operator"), deployed=True)["GPU Operator in the cluster"]

    assert finding.severity == "fine"


def test_a_foreign_operator_in_the_same_namespace_is_a_conflict() -> None:
    finding = found_in(workload(OPERATOR, "gpu-operator"), deployed=False)["GPU Operator in the cluster"]

    assert finding.severity == "stops"


def test_another_karpenter_stops_a_stack_that_installs_its_own() -> None:
    plan = plan_eks(
        {"machine_type": "g6.4xlarge", "provisioner": "karpenter", "count": {"desired": 0, "max": 1}},
        cluster={"provider": "eks", "name": "ml", "region": "us-east-2", "account": "123456789012"},
    )

    found = found_in(workload("public.ecr.aws/karpenter/controller:1.8.1"), plan=plan)

    assert found["Karpenter in the cluster"].severity == "stops"


@pytest.mark.parametrize(
    ("kueue", "images", "severity"),
    [
        ("install", ("registry.k8s.io/kueue/kueue:v0.19.2",), "stops"),
        ("present", (), "stops"),
        ("present", ("registry.k8s.io/kueue/kueue:v0.19.2",), "fine"),
    ],
)
def test_a_second_kueue_and_a_missing_one_stop_a_stack_with_queues(
    kueue: str, images: tuple[str, ...], severity: str
) -> None:
    plan = plan_of(queueing={"kueue": kueue})

    found = found_in(*(workload(image) for image in images), plan=plan)

    assert found["Kueue in the cluster"].severity == severity


def test_admission_policies_are_named() -> None:
    finding = found_in(admission_policies=("no-privileged",))["admission policies of the cluster"]

    assert (finding.severity, finding.found) == ("warns", "ValidatingAdmissionPolicies: no-privileged")


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """Yield the kubeconfig of an API server that lists only a GPU Operator, which another owner installed."""
    operator = {
        "metadata": {
            "name": "gpu-operator",
            "namespace": "theirs",
            "annotations": {"meta.helm.sh/release-name": "gpu", "meta.helm.sh/release-namespace": "theirs"},
        },
        "spec": {"template": {"spec": {"containers": [{"name": "gpu-operator", "image": OPERATOR}]}}},
    }
    documents: dict[str, Any] = {
        "/api/v1": resource_list("v1", Namespace="namespaces"),
        "/apis/apps/v1": resource_list("apps/v1", Deployment="deployments", DaemonSet="daemonsets"),
        "/apis/apps/v1/deployments": {"items": [operator], "metadata": {}},
        "/apis/apps/v1/daemonsets": {"items": [], "metadata": {}},
    }

    file = tmp_path / "kubeconfig"
    with serving(documents) as text:
        file.write_text(text)
        yield file


def test_workloads_are_read_with_their_images_and_their_helm_release(kubeconfig: Path) -> None:
    (found,) = read_installed(KubernetesClient(kubeconfig)).workloads

    assert str(found) == "Deployment theirs/gpu-operator (Helm release theirs/gpu)"
    assert found.images == (OPERATOR,)


def test_an_existing_cluster_is_read_through_the_declared_kubeconfig(kubeconfig: Path) -> None:
    findings = installed_lookup(plan_of(kubeconfig=str(kubeconfig)), None, load_catalog()).findings()

    assert "stops" in {finding.severity for finding in findings}


def test_a_cluster_that_does_not_exist_is_not_looked_at() -> None:
    (finding,) = installed_lookup(plan_of(), lambda: None, load_catalog()).findings()

    assert (finding.severity, finding.why) == ("unknown", "there is no cluster existing")


def test_a_kubeconfig_that_is_missing_is_an_unknown_line(tmp_path: Path) -> None:
    (finding,) = installed_lookup(plan_of(kubeconfig=str(tmp_path / "none")), None, load_catalog()).findings()

    assert finding.severity == "unknown"
    assert "cluster.kubeconfig: found" in finding.why
    assert "No such file" in finding.why


def test_another_cluster_autoscaler_stops_a_stack_that_installs_its_own() -> None:
    pool = {"machine_type": "g6.4xlarge", "count": {"min": 0, "desired": 1, "max": 4}, "workload": "inference"}
    image = "registry.k8s.io/autoscaling/cluster-autoscaler:v1.35.0"
    found = found_in(workload(image), plan=plan_eks(pool, cluster=EXISTING))
    assert found["Cluster Autoscaler in the cluster"].severity == "stops"
    assert "cluster.parts.cluster_autoscaler: present" in found["Cluster Autoscaler in the cluster"].fix
    present = {**EXISTING, "parts": {"cluster_autoscaler": "present"}}
    found = found_in(workload(image), plan=plan_eks(pool, cluster=present))
    assert found["Cluster Autoscaler in the cluster"].severity == "fine"


@pytest.mark.parametrize(("release", "severity"), [("1.10.2", "stops"), ("1.11.0", "fine")])
def test_an_existing_karpenter_too_old_for_the_pools_stops_up(release: str, severity: str) -> None:
    parts = {"karpenter": "present", "efa_plugin": "present"}
    entry = {"zones": ["us-east-2a"], "provisioner": "karpenter", "count": {"desired": 0, "max": 2}}
    plan = plan_eks(entry, cluster={**EXISTING, "parts": parts})
    image = f"public.ecr.aws/karpenter/controller:{release}@sha256:aa"
    finding = found_in(workload(image), plan=plan)["Karpenter in the cluster"]
    assert finding.severity == severity
    if severity == "stops":
        assert finding.found == "Deployment theirs/it, release 1.10.2"
        assert finding.why.startswith(
            "Karpenter 1.11.0 or newer: older releases do not support the EFA interfaces"
        )


TRAINER = {"trainer": "present"}


@pytest.mark.parametrize(
    ("queueing", "severity"), [({}, "stops"), (None, "warns")], ids=["with queues", "without queues"]
)
def test_an_owners_crds_without_a_needed_field_are_reported(
    queueing: dict[str, Any] | None, severity: str
) -> None:
    name = "trainjobs.trainer.kubeflow.org"
    old = {"versions": [{"name": "v1alpha1", "schema": {}}]}
    plan = plan_of(queueing, addons=TRAINER)
    finding = found_in(plan=plan, crds={SERVICE_MONITORS: {}, name: {"spec": old}})["CRDs of Kubeflow Trainer"]
    assert (finding.severity, name in finding.found) == (severity, True)
    assert finding.why.startswith("Kubeflow Trainer 2.2.0 or newer")


def test_an_owners_kueue_too_old_for_trainjobs_stops_up() -> None:
    plan = plan_of({"kueue": "present"}, addons=TRAINER)
    finding = found_in(workload("registry.k8s.io/kueue/kueue:v0.16.9"), plan=plan)["Kueue in the cluster"]
    assert (finding.severity, "0.17.0" in finding.why) == ("stops", True)
