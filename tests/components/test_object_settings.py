"""A company's registries, pull secrets, labels and tags, as set in `images`, `objects` and `pools[].tags`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.base.paths import STACKS_DIR
from gpu_platform.catalog import load_catalog
from gpu_platform.deploy.recorded.record import RecordedProgram
from gpu_platform.planning.objects.images import mirrored, split_registry
from gpu_platform.program import record_stack
from gpu_platform.stack.images import Images
from gpu_platform.stack.loaded import load_stack
from tests.support.command_line import run

_LABELS = {"example.com/cost-center": "ml", "owner": "platform"}
_ANNOTATIONS = {"example.com/contact": "ml@example.com"}


def _stack(tmp_path: Path, base: str, pool: dict[str, Any] | None = None, **settings: Any) -> Path:
    document = yaml.safe_load((STACKS_DIR / f"Pulumi.{base}.yaml").read_text("utf-8"))
    platform = document["config"]["gpu-platform:platform"]
    platform |= settings
    platform["pools"][0] |= pool or {}
    path = tmp_path / "Pulumi.own.yaml"
    path.write_text(yaml.safe_dump(document), "utf-8")
    return path


def _recorded(path: Path) -> RecordedProgram:
    return record_stack(load_stack(str(path)))


def _pods(program: RecordedProgram) -> dict[str, dict[str, Any]]:
    return {
        one.name: dict(one.inputs)
        for one in program.resources
        if one.type.rpartition(":")[2] in ("DaemonSet", "Deployment")
    }


def test_all_images_of_the_programs_pods_but_fabric_sidecars_use_the_mirror() -> None:
    catalog = load_catalog()
    images = Images(mirror="registry.example.com/mirror", registries={"registry.k8s.io": "cache.example.com/k8s"})
    moved = {name: image.reference for name, image in mirrored(catalog, images).images.items()}
    digest = catalog.images["pause"].reference.partition("@")[2]
    assert moved["pause"] == f"cache.example.com/k8s/pause:3.10@{digest}"
    assert moved["node-agent-python"].startswith(
        "registry.example.com/mirror/docker.io/library/python:3.13-slim@sha256:"
    )
    sidecars = {one.daemon.release for one in catalog.fabric_pods.values() if one.daemon is not None}
    kept = {name for name, reference in moved.items() if reference == catalog.images[name].reference}
    assert kept == sidecars | {"gke-cos-driver-installer"}


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("python:3", ("docker.io", "library/python:3")),
        ("acme/tool:1", ("docker.io", "acme/tool:1")),
        ("localhost/tool", ("localhost", "tool")),
        ("registry:5000/a/b@sha256:0", ("registry:5000", "a/b@sha256:0")),
    ],
)
def test_an_image_without_a_registry_is_of_docker_hub(reference: str, expected: tuple[str, str]) -> None:
    assert split_registry(reference) == expected


def test_only_the_programs_pods_use_the_shared_pull_secrets(tmp_path: Path) -> None:
    images = {"mirror": "registry.example.com", "pull_secrets": ["company-registry"]}
    path = _stack(tmp_path, "gke-training", images=images)
    pods = _pods(_recorded(path))
    secrets = {name: inputs["spec"]["template"]["spec"].get("imagePullSecrets") for name, inputs in pods.items()}
    of_teams = {
        name
        for name, inputs in pods.items()
        if not inputs["metadata"]["namespace"].startswith(("gpu-platform", "kube-"))
    }
    assert {"gpu-driver-installer", "validate-train"} <= secrets.keys() - of_teams
    for name, found in secrets.items():
        assert found == (None if name in of_teams else [{"name": "company-registry"}]), name
    _, out, _ = run("images", str(path), "--format", "json")
    document = json.loads(out)
    assert [one["namespace"] for one in document["pull_secrets"]] == ["gpu-platform-validation", "kube-system"]
    pulled = {one["image"] for one in document["images"]} - {"cos-nvidia-installer:fixed"}
    assert {image.partition("/")[0] for image in pulled} == {"registry.example.com"}


def test_every_object_and_pod_has_the_companys_labels_and_annotations(tmp_path: Path) -> None:
    plain = {one.name + one.type: dict(one.inputs) for one in _recorded(_stack(tmp_path, "local")).resources}
    objects = {"labels": _LABELS, "annotations": _ANNOTATIONS}
    program = _recorded(_stack(tmp_path, "local", objects=objects))
    labelled = 0
    for resource in program.resources:
        kind = resource.type.rpartition(":")[2]
        if not resource.type.startswith("kubernetes:") or kind == "Node":
            continue
        own = plain[resource.name + resource.type].get("metadata") or {}
        metadata = resource.inputs["metadata"]
        assert metadata["labels"] == {**_LABELS, **(own.get("labels") or {})}, resource.name
        assert metadata["annotations"] == {**_ANNOTATIONS, **(own.get("annotations") or {})}, resource.name
        labelled += 1
    assert labelled > 50
    for name, inputs in _pods(program).items():
        template = inputs["spec"]["template"]["metadata"]
        assert _LABELS.items() <= template["labels"].items(), name
        assert not _LABELS.keys() & inputs["spec"]["selector"]["matchLabels"].keys(), name


def test_pods_of_a_cron_job_have_the_labels_annotations_and_pull_secrets(tmp_path: Path) -> None:
    objects = {"labels": _LABELS, "annotations": _ANNOTATIONS}
    images = {"mirror": "registry.example.com", "pull_secrets": ["company-registry"]}
    stack = _stack(tmp_path, "local", objects=objects, images=images, cleanup={"finished_after": "168h"})
    program = _recorded(stack)
    [cron_job] = [one.inputs for one in program.resources if one.type.endswith(":CronJob")]
    template = cron_job["spec"]["jobTemplate"]["spec"]["template"]
    assert _LABELS.items() <= template["metadata"]["labels"].items()
    assert _ANNOTATIONS.items() <= template["metadata"]["annotations"].items()
    assert template["spec"]["imagePullSecrets"] == [{"name": "company-registry"}]


def test_reserved_keys_and_unused_registries_are_refused(tmp_path: Path) -> None:
    objects = {
        "labels": {"gpu-platform.dev/pool": "x"},
        "annotations": {"kueue.x-k8s.io/y": "z", "pulumi.com/a": ""},
    }
    images = {"registries": {"quay.io": "registry.example.com/quay", "docker.oi": "registry.example.com/hub"}}
    code, _, err = run("check", str(_stack(tmp_path, "local", objects=objects, images=images)))
    assert code == 2
    for place in ("objects.labels.gpu-platform.dev/pool", "objects.annotations.kueue.x-k8s.io/y", "pulumi.com/a"):
        assert place in err
    assert "images.registries.quay.io" in err
    assert "did you mean 'docker.io'?" in err


def test_tags_of_a_pool_are_on_its_instances(tmp_path: Path) -> None:
    program = _recorded(_stack(tmp_path, "eks-training", {"tags": {"cost-center": "ml"}}))
    template = next(
        one for one in program.resources if one.type.endswith(":LaunchTemplate") and "train" in one.name
    )
    assert all(one["tags"]["cost-center"] == "ml" for one in template.inputs["tagSpecifications"])
    program = _recorded(_stack(tmp_path, "gke-training", {"tags": {"cost-center": "ml"}}))
    pool = next(one for one in program.resources if one.type.endswith(":NodePool") and "train" in one.name)
    assert pool.inputs["nodeConfig"]["resourceLabels"]["cost-center"] == "ml"


@pytest.mark.parametrize(
    ("base", "tags", "said"),
    [
        ("eks-training", {"aws:x": "y"}, "AWS, Kubernetes or the program"),
        ("eks-training", {"Name": "y"}, "AWS, Kubernetes or the program"),
        ("eks-training", {"karpenter.k8s.aws/ec2nodeclass": "y"}, "AWS, Kubernetes or the program"),
        ("gke-training", {"Cost": "y"}, "a Google Cloud label"),
        ("gke-training", {"stack": "y"}, "Google or the program"),
        ("local", {"a": "b"}, "the program creates no cloud nodes"),
    ],
)
def test_tags_that_the_cloud_or_the_program_sets_are_refused(
    tmp_path: Path, base: str, tags: dict[str, str], said: str
) -> None:
    code, _, err = run("check", str(_stack(tmp_path, base, {"tags": tags})))
    assert code == 2
    assert "pools[0].tags" in err
    assert said in err
