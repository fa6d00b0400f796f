"""Which KEDA binaries are built for tests in a sandbox, and when."""

from __future__ import annotations

from pathlib import Path

from gpu_platform.base.progress import Progress
from gpu_platform.catalog import load_catalog
from sandbox import build
from sandbox._modules import KEDA, KEDA_MODULE
from tests.sandbox.test_control_plane_build import Go, cache, go

__all__ = ["cache", "go"]  # fixtures


def test_the_programs_are_no_older_than_the_chart_that_clouds_get() -> None:
    chart = load_catalog().charts["keda"].version
    pinned = KEDA.pinned(KEDA_MODULE).removeprefix("v")
    assert [int(part) for part in pinned.split(".")] >= [int(part) for part in chart.split(".")]


def test_it_keeps_the_replacement_of_its_own_go_mod() -> None:
    assert "replace github.com/nexus-rpc/nexus-proto-annotations v0.1.0 =>" in KEDA.go_mod


def test_neither_a_sandbox_nor_a_build_of_all_versions_builds_it(go: Go) -> None:
    go.install()
    assert build.main(["--all"]) == 0
    assert not any("keda" in command for command in go.calls("build"))
    assert not build.has_keda()


def test_it_is_built_on_request_with_its_definitions_beside_it(go: Go, tmp_path: Path) -> None:
    bases = tmp_path / "config/crd/bases"
    bases.mkdir(parents=True)
    (bases / "scaledobjects.yaml").write_text("kind: CustomResourceDefinition\n")
    go.install(stale=(str(tmp_path),))
    binaries = build.binaries(Progress(quiet=True), keda=True)
    assert binaries.path("keda-operator").exists()
    assert binaries.path("keda-adapter").exists()
    assert (binaries.manifests("keda-adapter") / "config/crd/bases/scaledobjects.yaml").exists()
