"""Which parts of Kueue are built for a sandbox, and which Kueue objects are installed in the sandbox."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.base.errors import UnknownOutcome
from gpu_platform.base.progress import Progress
from gpu_platform.catalog import load_catalog
from sandbox import build
from sandbox._modules import DEFAULT, KUEUE, KUEUE_MODULE
from sandbox.kueue.manifests import DEFINITIONS, WEBHOOKS, definitions, webhooks
from tests.sandbox.test_control_plane_build import Go, cache, go

__all__ = ["cache", "go"]  # fixtures

QUIET = Progress(quiet=True)
SELECTOR = {"matchExpressions": [{"key": "gpu-platform.dev/team", "operator": "Exists"}]}


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """A folder with fake files of Kueue's Go module."""
    folder = tmp_path / "module"
    bases = folder / DEFINITIONS
    bases.mkdir(parents=True)
    for plural in ("workloads", "topologies"):
        spec = {"names": {"plural": plural}, "group": "kueue.x-k8s.io"}
        document = {"kind": "CustomResourceDefinition", "metadata": {"name": plural}, "spec": spec}
        (bases / f"{plural}.yaml").write_text(yaml.safe_dump(document))
    hooks = folder / WEBHOOKS
    hooks.parent.mkdir(parents=True)
    hooks.write_text(
        yaml.safe_dump(
            {
                "kind": "MutatingWebhookConfiguration",
                "metadata": {"name": "mutating-webhook-configuration"},
                "webhooks": [_webhook("batch", "/mutate-batch"), _webhook("kueue.x-k8s.io", "/mutate-queue")],
            }
        )
    )
    return folder


def _webhook(group: str, path: str) -> dict[str, Any]:
    service = {"name": "webhook-service", "namespace": "system", "path": path}
    return {"clientConfig": {"service": service}, "rules": [{"apiGroups": [group]}]}


def test_the_program_is_of_the_release_whose_chart_clouds_get() -> None:
    assert KUEUE.pinned(KUEUE_MODULE) == f"v{load_catalog().charts['kueue'].version}"


def test_the_checksums_name_the_module_that_the_checksum_database_lacks() -> None:
    sums = (KUEUE.folder / "go.sum").read_text()
    version = KUEUE.pinned("sigs.k8s.io/scheduler-library")
    assert f"sigs.k8s.io/scheduler-library {version} h1:" in sums
    assert f"sigs.k8s.io/scheduler-library {version}/go.mod h1:" in sums


def test_a_sandbox_without_queues_builds_no_kueue(go: Go) -> None:
    go.install()
    build.binaries(QUIET)
    assert not any("kueue" in command for command in go.calls("build"))


def test_kueue_is_built_once_with_the_manifests_of_its_module_beside_it(go: Go, module: Path) -> None:
    go.install(stale=(str(module),))
    binaries = build.binaries(QUIET, kueue=True)
    assert binaries.path("kueue").exists()
    assert [one["metadata"]["name"] for one in definitions(binaries.manifests("kueue"), 9443)] == [
        "topologies",
        "workloads",
    ]
    assert (binaries.manifests("kueue") / WEBHOOKS).read_text() == (module / WEBHOOKS).read_text()
    build.binaries(QUIET, kueue=True)
    assert len(go.calls("build")) == 2


def test_a_build_of_kueue_that_fails_says_so_and_keeps_the_control_plane(go: Go) -> None:
    go.install()
    build.binaries(QUIET)
    go.install(fails_at="build", says="no space left on device")
    with pytest.raises(UnknownOutcome, match=r"Building the sandbox's Kueue failed"):
        build.binaries(QUIET, kueue=True)
    assert build.binaries(QUIET).path("kwok").exists()


def test_the_programs_that_machines_have_built_stay_valid_beside_kueue() -> None:
    assert DEFAULT.copied == ()
    assert KUEUE.build_key != DEFAULT.build_key


def test_definitions_that_kueue_converts_have_a_place_for_its_certificate(module: Path) -> None:
    by_name = {one["metadata"]["name"]: one["spec"] for one in definitions(module, 9443)}
    service = by_name["workloads"]["conversion"]["webhook"]["clientConfig"]["service"]
    assert service == {
        "name": "kueue-webhook-service",
        "namespace": "kueue-system",
        "path": "/convert",
        "port": 9443,
    }
    assert "conversion" not in by_name["topologies"]


def test_job_webhooks_are_called_only_in_namespaces_of_kueue(module: Path) -> None:
    (document,) = webhooks(module, 9443, "QQ==", SELECTOR)
    assert document["metadata"]["name"] == "kueue-mutating-webhook-configuration"
    of_jobs, of_queues = document["webhooks"]
    assert of_jobs["namespaceSelector"] == SELECTOR
    assert "namespaceSelector" not in of_queues
    assert of_jobs["clientConfig"]["caBundle"] == "QQ=="
    assert of_jobs["clientConfig"]["service"]["path"] == "/mutate-batch"
