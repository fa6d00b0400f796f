"""An extra check: with the real CustomResourceDefinitions installed, the API server accepts all that is rendered.

Run by hand or in CI with a folder of CRDs:  GPU_PLATFORM_CRDS=DIR pytest tests/e2e/test_real_crds.py
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gpu_platform.cli.render import render_to
from gpu_platform.engine.client import KubernetesClient
from gpu_platform.progress import Progress
from gpu_platform.stacks import load_stack
from sandbox import control_plane

CRDS = os.environ.get("GPU_PLATFORM_CRDS", "")
NAME = "e2e-crds"

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.xdist_group("e2e-crds"),
    pytest.mark.skipif(not CRDS, reason="GPU_PLATFORM_CRDS names no folder of CRDs"),
]


@pytest.fixture(scope="module")
def client() -> Iterator[KubernetesClient]:
    status = control_plane.up(NAME, crds_dir=Path(CRDS), progress=Progress(quiet=True))
    yield KubernetesClient(status.kubeconfig)
    control_plane.down(NAME)


@pytest.mark.parametrize("stack", ["local", "dev", "speech"])
def test_every_rendered_object_is_accepted_with_strict_field_validation(
    client: KubernetesClient, tmp_path: Path, stack: str
) -> None:
    render_to(stack, tmp_path / stack)
    manifests = [
        yaml.safe_load(file.read_text("utf-8")) for file in (tmp_path / stack / "manifests").rglob("*.yaml")
    ]
    assert manifests
    for manifest in manifests:
        namespace = manifest["metadata"].get("namespace")
        if namespace and client.get("v1", "Namespace", namespace) is None:
            client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    for manifest in manifests:
        client.apply(manifest, dry_run=True)


def test_a_misspelt_field_of_a_cluster_policy_is_refused(client: KubernetesClient) -> None:
    from gpu_platform.engine.client import Refused

    spec = {"devicePlugin": {"config": {"nmae": "x"}}}
    policy = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "typo"}, "spec": spec}
    with pytest.raises(Refused, match="nmae"):
        client.apply(policy, dry_run=True)


def test_what_a_helm_release_hands_to_the_operator_is_a_valid_cluster_policy(client: KubernetesClient) -> None:
    plan = load_stack("dev").plan
    assert plan.kind == "environment"
    spec = dict(plan.operator.cluster_policy)
    policy = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "dev"}, "spec": spec}
    client.apply(policy, dry_run=True)
