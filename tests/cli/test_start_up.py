"""A command must not import modules that it does not need, and must not collect garbage when it ends."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_platform.base import garbage

_SCRIPT = """
import atexit, gc, sys

@atexit.register  # called after all that the command registers
def _tell():
    print("frozen", gc.get_freeze_count(), file=sys.stderr)
    print("\\n".join(sys.modules), file=sys.stderr)

from gpu_platform.cli import main
main()
"""
_REPORTS = {"rich", "jinja2", "markdown_it", "extensions.capacity.suggest", "gpu_platform.planning.spending"}
_OTHER_COMMANDS = {
    "policies",
    "gpu_platform.online",
    "gpu_platform.planning.capacity",
    "extensions.capacity.rehearsal",
    "extensions.capacity.scheduling",
    "gpu_platform.planning.upgrades",
}
_LIBRARIES = {"boto3", "cel_expr_python", "grafana_foundation_sdk", "kubernetes", "ortools", "pytest"}
_CLOUDS = {
    "eks": {"gpu_platform.planning.clouds.eks", "components.eks", "pulumi_aws"},
    "gke": {"gpu_platform.planning.clouds.gke", "components.gke", "pulumi_gcp"},
    "aks": {"gpu_platform.planning.clouds.aks", "components.aks", "pulumi_azure"},
    "sandbox": {"gpu_platform.planning.clouds.sandbox", "sandbox"},
}


@pytest.mark.parametrize(
    ("stack", "clouds"),
    [
        ("gke-training", ("eks", "aks", "sandbox")),
        pytest.param("local", ("eks", "gke", "aks"), marks=pytest.mark.long),
    ],
)
def test_a_render_imports_only_its_modules_and_skips_final_collection(
    stack: str, clouds: tuple[str, ...], tmp_path: Path
) -> None:
    command = [sys.executable, "-c", _SCRIPT, "render", stack, "--out", str(tmp_path / "out")]
    frozen, *modules = subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()

    assert "gpu_platform.deploy.recorded.render" in modules
    unneeded = _REPORTS | _OTHER_COMMANDS | _LIBRARIES
    assert unneeded.union(*(_CLOUDS[cloud] for cloud in clouds)) & set(modules) == set()
    assert int(frozen.removeprefix("frozen ")) > 100_000


def test_garbage_collection_that_a_process_disabled_stays_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    registered: list[object] = []
    monkeypatch.setattr("atexit.register", registered.append)
    thresholds = gc.get_threshold()
    gc.disable()
    try:
        garbage.collect_seldom()
    finally:
        gc.enable()

    assert (gc.get_threshold(), registered) == (thresholds, [])


def test_a_command_in_a_process_that_goes_on_leaves_collection_enabled() -> None:
    with garbage.restored():
        gc.disable()

    assert gc.isenabled()
