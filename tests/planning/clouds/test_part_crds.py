"""Which CRDs of a cluster are too old for a stack, and which CRDs Helm would refuse to upgrade."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput, Problem
from gpu_platform.catalog import load_catalog
from gpu_platform.catalog.models import CrdField
from gpu_platform.cli.parts import outdated_crds, refuse_parts
from gpu_platform.live.client import KubernetesClient
from gpu_platform.planning.clouds.part_crds import crd_problems, writes
from gpu_platform.planning.parts import cluster_parts
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, plan_platform
from tests.support.api_server import resource_list, serving

TRAINJOBS = "trainjobs.trainer.kubeflow.org"
RAYCLUSTERS = "rayclusters.ray.io"
PLATFORM: dict[str, Any] = {
    "kind": "environment",
    "cluster": {"provider": "existing", "name": "lab", "parts": {"gpu_operator": "present"}},
    "pools": [
        {
            "name": "lab",
            "machine_type": "dgx-h100",
            "count": {"desired": 1},
            "nodes": {"names": ["n-0"]},
            "workload": "training",
        }
    ],
}


def definition(name: str, version: str, *fields: str, release: tuple[str, str] | None = None) -> dict[str, Any]:
    """Return a CRD with the given fields below `spec`."""
    namespace, owner = release or ("", "")
    metadata: dict[str, Any] = {"name": name}
    if release is not None:
        metadata["labels"] = {"app.kubernetes.io/managed-by": "Helm"}
        metadata["annotations"] = {
            "meta.helm.sh/release-namespace": namespace,
            "meta.helm.sh/release-name": owner,
        }
    spec = {"type": "object", "properties": {field: {"type": "string"} for field in fields}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {"metadata": metadata, "spec": {"versions": [{"name": version, "served": True, "schema": schema}]}}


OLD = definition(TRAINJOBS, "v1alpha1", "podTemplateOverrides")
NEW = definition(TRAINJOBS, "v1alpha1", "runtimePatches", "activeDeadlineSeconds")


def problems(
    addons: dict[str, str], *definitions: Mapping[str, Any], needs: Mapping[str, bool] | None = None
) -> list[Problem]:
    plan = plan_platform({**PLATFORM, "addons": addons}, "test")
    assert plan.kind == "environment"

    def is_needed(one: CrdField) -> bool:
        return needs is None or needs[one.field]

    found = {one["metadata"]["name"]: one for one in definitions}
    return list(crd_problems(cluster_parts(plan, load_catalog()), found, is_needed))


def test_an_owners_crd_without_a_needed_field_is_refused() -> None:
    (problem,) = problems({"trainer": "present"}, OLD)
    assert problem.path == "addons.trainer"
    assert f"its CRD {TRAINJOBS} has no spec.runtimePatches" in problem.found
    assert problem.allowed.startswith("Kubeflow Trainer 2.2.0 or newer: Kueue writes")
    assert problems({"trainer": "present"}, NEW) == []


def test_a_field_that_a_stack_does_not_need_may_be_missing() -> None:
    needs = {"spec.runtimePatches": False, "spec.activeDeadlineSeconds": False}
    assert problems({"trainer": "present"}, OLD, needs=needs) == []


def test_another_api_version_of_a_crd_does_not_count() -> None:
    alpha = definition(TRAINJOBS, "v2alpha1", "runtimePatches", "activeDeadlineSeconds")
    assert len(problems({"trainer": "present"}, alpha)) == 1


def test_a_crd_that_admits_any_field_has_every_field() -> None:
    free = definition(TRAINJOBS, "v1alpha1")
    (version,) = free["spec"]["versions"]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"] = {"x-kubernetes-preserve-unknown-fields": True}
    assert problems({"trainer": "present"}, free) == []


def test_fields_that_are_written_only_with_an_own_chart_are_not_needed() -> None:
    assert problems({"kuberay": "present"}, definition(RAYCLUSTERS, "v1")) == []


def test_an_outdated_crd_in_a_folder_is_named_with_the_command() -> None:
    (problem,) = problems({"kuberay": "install"}, definition(RAYCLUSTERS, "v1"))
    assert "Helm does not upgrade existing CRDs" in problem.found
    assert (
        "`helm show crds kuberay-operator --repo https://ray-project.github.io/kuberay-helm/ --version 1.7.0 | "
        "kubectl apply --server-side --force-conflicts -f -`"
    ) in problem.fix
    assert problems({"kuberay": "install"}) == []


def test_crds_of_templates_must_belong_to_the_release_of_the_program() -> None:
    (problem,) = problems({"trainer": "install"}, OLD)
    assert problem.found == f"install, but the cluster has the CRDs {TRAINJOBS} of another installation"
    assert f"kubectl label --overwrite crd {TRAINJOBS} app.kubernetes.io/managed-by=Helm && " in problem.fix
    own = definition(TRAINJOBS, "v1alpha1", release=("kubeflow-system", "kubeflow-trainer"))
    assert problems({"trainer": "install"}, own) == []
    theirs = definition(TRAINJOBS, "v1alpha1", release=("theirs", "kubeflow-trainer"))
    assert len(problems({"trainer": "install"}, theirs)) == 1


def test_a_field_counts_as_written_if_an_object_of_the_kind_has_it() -> None:
    (one,) = load_catalog().charts["jobset"].crd_fields
    rules = [{"name": "a"}, {"name": "b", "onJobFailureMessagePatterns": [".*"]}]
    jobset = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "spec": {"failurePolicy": {"rules": rules}},
    }
    assert writes([jobset], one)
    assert not writes([{**jobset, "spec": {"failurePolicy": {"rules": rules[:1]}}}], one)
    assert not writes([{**jobset, "kind": "Job"}], one)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KubernetesClient]:
    """A fake cluster whose owner has installed the GPU Operator and Kubeflow Trainer 2.1."""
    images = {
        "gpu-operator": "nvcr.io/nvidia/gpu-operator:v26.7.0",
        "trainer": "x/trainer/trainer-controller-manager:v2.1.0",
    }
    deployments = [
        {
            "metadata": {"name": name, "namespace": "theirs"},
            "spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}},
        }
        for name, image in images.items()
    ]
    crds = "customresourcedefinitions"
    with serving(
        {
            "/api/v1": resource_list("v1", Node="nodes"),
            "/api/v1/nodes": {"items": [{"metadata": {"name": "n-0"}}], "metadata": {}},
            "/apis/apps/v1": resource_list("apps/v1", Deployment="deployments"),
            "/apis/apps/v1/deployments": {"items": deployments, "metadata": {}},
            "/apis/apiextensions.k8s.io/v1": {
                "resources": [
                    {"name": crds, "kind": "CustomResourceDefinition", "namespaced": False, "verbs": ["get"]}
                ]
            },
            f"/apis/apiextensions.k8s.io/v1/{crds}/{TRAINJOBS}": OLD,
        }
    ) as text:
        file = tmp_path / "kubeconfig"
        file.write_text(text)
        yield KubernetesClient(file)


@pytest.mark.parametrize("queueing", [{}, None])
def test_up_refuses_an_old_trainer_only_with_queues(
    queueing: dict[str, Any] | None, cluster: KubernetesClient
) -> None:
    platform = {**PLATFORM, "addons": {"trainer": "present"}, "queueing": queueing}
    loaded = LoadedStack("test", Path("Pulumi.test.yaml"), platform, plan_platform(platform, "test"))
    paths: list[str] = []
    try:
        refuse_parts(loaded, record_stack(loaded), cluster, ())
    except BadInput as error:
        paths = [problem.path for problem in error.problems]
    assert paths == (["addons.trainer"] if queueing is not None else [])


def test_up_labels_only_nodes_that_the_cluster_has(tmp_path: Path) -> None:
    # The Kubernetes provider would create a Node object for any other name.
    pools = [{**PLATFORM["pools"][0], "count": {"desired": 2}, "nodes": {"names": ["dgx-01", "dgx-2"]}}]
    platform = {**PLATFORM, "pools": pools}
    loaded = LoadedStack("test", Path("Pulumi.test.yaml"), platform, plan_platform(platform, "test"))
    nodes = {"items": [{"metadata": {"name": name}} for name in ("cpu-01", "dgx-01", "dgx-02")], "metadata": {}}
    with serving({"/api/v1": resource_list("v1", Node="nodes"), "/api/v1/nodes": nodes}) as text:
        file = tmp_path / "kubeconfig"
        file.write_text(text)
        with pytest.raises(BadInput) as caught:
            refuse_parts(loaded, record_stack(loaded), KubernetesClient(file), ())
    (problem,) = [one for one in caught.value.problems if one.path.startswith("pools")]
    assert problem.path == "pools[0].nodes.names"
    assert problem.found == "dgx-2, which the cluster does not have"
    assert problem.fix == "did you mean 'dgx-02'?"


KUBERAY = ("kuberay-system", "kuberay-operator")


@pytest.mark.parametrize(
    ("rest", "chart"),
    [
        ({}, "kuberay-operator --repo https://ray-project.github.io/kuberay-helm/"),
        ({"chart_mirror": "oci://mirror.example.com/charts"}, "oci://mirror.example.com/charts/kuberay-operator"),
    ],
    ids=["of the project", "of a mirror"],
)
def test_an_upgraded_chart_with_a_folder_of_crds_is_announced(rest: dict[str, Any], chart: str) -> None:
    platform = {**PLATFORM, "addons": {"kuberay": "install", "keda": "install"}, **rest}
    loaded = LoadedStack("test", Path("Pulumi.test.yaml"), platform, plan_platform(platform, "test"))
    recorded = record_stack(loaded)
    (text,) = outdated_crds(loaded, recorded, {KUBERAY: "1.6.0", ("keda", "keda"): "2.19.0"})
    assert text.startswith("`up` upgrades chart kuberay-operator from 1.6.0 to 1.7.0")
    assert f"run `helm show crds {chart} --version 1.7.0 | kubectl apply" in text
    assert outdated_crds(loaded, recorded, {KUBERAY: "1.7.0"}) == outdated_crds(loaded, recorded, {}) == ()


def documented(start: str) -> str:
    """Return the list item of docs/addons.md that begins with `start`."""
    page = (Path(__file__).parents[3] / "docs/addons.md").read_text("utf-8")
    (item,) = re.findall(rf"^- {start}.*?(?=^- )", page, re.MULTILINE | re.DOTALL)
    return " ".join(item.split())


def test_the_documentation_has_the_oldest_releases_of_the_catalogue() -> None:
    charts = load_catalog().charts.values()
    releases = {one.release for chart in charts for one in chart.crd_fields if not one.only_installed}
    item = documented("With `present`")
    assert [release for release in sorted(releases) if release not in item] == []


@pytest.mark.parametrize(("start", "crds"), [("Helm does not", "folder"), ("Helm upgrades", "templates")])
def test_the_documentation_lists_the_charts_by_the_place_of_their_crds(start: str, crds: str) -> None:
    charts = load_catalog().charts.values()
    listed = re.findall("`([a-z-]+)`", documented(start).partition(". If")[0])
    assert {name for name in listed if name in load_catalog().charts} == {
        one.name for one in charts if one.crds == crds
    }
