"""The contents of the agent's single file, and how a standard Python interpreter runs it."""

from __future__ import annotations

import ast
import base64
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from agent_tables import DRIVER

from gpu_platform.base.paths import PROJECT_ROOT
from gpu_platform.catalog import load_catalog
from gpu_platform.cleanup.packed import build_cleanup
from gpu_platform.planning.expectations import DeclaredNode, expectations_for_machine
from gpu_platform.stack.project import version
from sandbox.nvml import NodeProfile
from tests.support.eventually import DEADLINES_SECONDS
from validators import agent as agent_package
from validators.zipapp import build_agent, without_prose

CONFIG_MAP_LIMIT = 1 << 20


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    path = tmp_path_factory.mktemp("agent") / "agent.pyz"
    path.write_bytes(build_agent())
    return path


@pytest.fixture
def expectations(tmp_path):
    catalog = load_catalog()
    document = expectations_for_machine(
        catalog.machine_types["p4de.24xlarge"], catalog, DeclaredNode(pool="train")
    ).to_json()
    path = tmp_path / "expectations.json"
    path.write_text(json.dumps(document))
    return path


def run(*arguments, **options):
    return subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, **options)


def run_simulated(agent, tmp_path, *arguments, faults=()):
    profile = tmp_path / "profile.json"
    node = NodeProfile(machine_type="p4de.24xlarge", driver_version=DRIVER, faults=faults)
    profile.write_text(node.model_dump_json())
    return run("-m", "sandbox.nvml.run", "--profile", profile, "--", agent, *arguments)


def test_the_same_sources_give_the_same_bytes():
    first = build_agent()
    build_agent.cache_clear()
    assert build_agent() == first


def test_no_byte_depends_on_the_machine_or_the_day_it_was_built():
    with zipfile.ZipFile(io.BytesIO(build_agent())) as archive:
        entries = archive.infolist()
    assert [entry.filename for entry in entries] == sorted(entry.filename for entry in entries)
    assert {entry.compress_type for entry in entries} == {zipfile.ZIP_STORED}
    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}
    assert {(entry.create_system, entry.external_attr >> 16) for entry in entries} == {(3, 0o100644)}


def test_the_agent_has_the_version_of_the_project():
    assert version() == agent_package.AGENT_VERSION


def test_it_fits_a_config_map_with_room_to_grow():
    assert len(base64.b64encode(build_agent())) < CONFIG_MAP_LIMIT * 0.75


def test_the_agent_with_metrics_fits_a_config_map():
    assert len(base64.b64encode(build_agent(metrics=True))) < CONFIG_MAP_LIMIT * 0.97


def code(source: bytes) -> list[str]:
    """Return the statements of a module with their lines, without docstrings and other bare strings."""

    def is_prose(node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        )

    statements = [
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt) and not is_prose(node)
    ]
    for node in statements:
        for name in ("body", "orelse", "finalbody"):
            if hasattr(node, name):
                setattr(node, name, [])
    return [f"{node.lineno} {ast.dump(node)}" for node in statements]


@pytest.mark.parametrize("program", [build_agent(metrics=True), build_cleanup()], ids=["agent", "clean-up"])
def test_each_packed_statement_is_on_the_line_of_its_source(program):
    with zipfile.ZipFile(io.BytesIO(program)) as archive:
        packed = {
            name: archive.read(name) for name in archive.namelist() if name.startswith(("validators", "gpu"))
        }
    modules = {name: content for name, content in packed.items() if content}
    assert len(modules) > 5
    for name, content in modules.items():
        assert code(content) == code((PROJECT_ROOT / name).read_bytes()), name


def test_no_docstring_and_no_comment_is_sent_to_the_nodes():
    module = (
        b'"""What it does."""\n# why\nLIMIT = "# 3"  # GiB\n\n\ndef read():\n    """Read.\n\n    More.\n    """\n'
    )
    assert without_prose(module) == b'""\n\nLIMIT = "# 3"\n\n\ndef read():\n    ""\n\n\n\n'


def test_it_holds_the_agent_the_bindings_and_their_license_and_nothing_else():
    with zipfile.ZipFile(io.BytesIO(build_agent())) as archive:
        names = set(archive.namelist())
        notice = archive.read("NVIDIA-ML-PY.txt").decode()
    sources = {f"validators/agent/{path.name}" for path in Path(agent_package.__file__).parent.glob("*.py")}
    assert names == sources | {"__main__.py", "validators/__init__.py", "pynvml.py", "NVIDIA-ML-PY.txt"}
    assert "Redistributions in binary form must reproduce the above copyright" in notice
    assert "THIS SOFTWARE IS PROVIDED" in notice


def test_its_sources_are_python_3_9_and_import_only_pynvml():
    for path in Path(agent_package.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text("utf-8"), feature_version=(3, 9))
        for statement in ast.walk(tree):
            modules = []
            if isinstance(statement, ast.Import):
                modules = [alias.name for alias in statement.names]
            elif isinstance(statement, ast.ImportFrom):
                modules = [statement.module or "a relative import"]
            for module in modules:
                inside = module == "validators.agent" or module.startswith("validators.agent.")
                top = module.partition(".")[0]
                assert inside or top in sys.stdlib_module_names | {"pynvml"}, f"{path.name}: {module}"


def test_it_runs_isolated_from_every_installed_package(agent, tmp_path):
    """With `-I -S`, only the standard library and the bundled bindings can be imported."""
    done = run("-I", "-S", agent, "check", "--format", "json", cwd=tmp_path)
    report = json.loads(done.stdout)
    assert report["version"] == 1
    assert len(report["checks"]) == len({check["id"] for check in report["checks"]}) > 25
    assert done.returncode in (0, 1, 3)
    assert done.stderr == ""


def test_a_node_in_order_passes(agent, expectations, tmp_path):
    done = run_simulated(agent, tmp_path, "check", "--expect", expectations, "--format", "json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["verdict"]) == (0, "pass")
    assert report["pool"] == "train"
    assert report["machine_type"] == "p4de.24xlarge"
    assert report["expectations_hash"] == json.loads(expectations.read_text())["hash"]


def test_a_node_with_seven_of_eight_gpus_fails_and_says_why(agent, expectations, tmp_path):
    faults = ({"kind": "gpu-missing", "index": 3},)
    done = run_simulated(agent, tmp_path, "check", "--expect", expectations, faults=faults)
    assert done.returncode == 1
    assert "FAIL gpu-count: 7\n       expected: 8 (machine type p4de.24xlarge (" in done.stdout


def test_a_hanging_driver_is_unknown_and_is_named(agent, expectations, tmp_path):
    faults = ({"kind": "nvml-hang", "call": "nvmlDeviceGetEccMode", "index": 0},)
    done, seconds = None, 0.0
    for seconds in DEADLINES_SECONDS:
        arguments = ("check", "--expect", expectations, "--deadline", f"{4 * seconds:g}")
        done = run_simulated(agent, tmp_path, *arguments, faults=faults)
        # The next deadline is longer if this deadline passed before the other calls were made.
        if "pass gpu-count: 8" in done.stdout and "pass temperature" in done.stdout:
            break
    assert done is not None
    assert done.returncode == 3
    assert f"nvml: nvmlDeviceGetEccMode on GPU 0 did not return within {seconds:g} s" in done.stdout
    assert "???? ecc GPU 0: nvmlDeviceGetEccMode: did not return" in done.stdout
    assert "pass gpu-count: 8" in done.stdout
    assert "pass temperature" in done.stdout


def test_without_expectations_only_health_is_checked(agent, tmp_path):
    done = run_simulated(agent, tmp_path, "check", "--format", "json")
    judged = {entry["id"] for entry in json.loads(done.stdout)["checks"] if entry["verdict"] == "pass"}
    assert {"nvml", "gpu-uuid", "throttle-reasons", "temperature", "row-remapping", "ecc-errors"} <= judged
    assert not {"gpu-count", "gpu-product", "nvlink-count", "compute-mode"} & judged


def test_a_wrong_profile_is_unknown_with_its_reason(agent, tmp_path):
    profile = tmp_path / "profile.json"
    profile.write_text('{"machine_type": "p4de.24xlage", "driver_version": "580.65.06"}')
    done = run("-m", "sandbox.nvml.run", "--profile", profile, "--", agent, "check")
    assert done.returncode == 3
    assert "did you mean 'p4de.24xlarge'" in done.stdout


def test_every_mistake_in_expectations_is_named_at_once(agent, tmp_path):
    path = tmp_path / "wrong.json"
    path.write_text('{"version": 1, "pool": 3, "expect": {"ecc": {"value": 1}, "numa": {"value": 1}}}')
    done = run(agent, "serve", "--expect", path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[0].endswith("3 problems")


def test_expectations_that_are_not_there_are_bad_input(agent):
    done = run(agent, "check", "--expect", "nowhere.json")
    assert done.returncode == 2
    assert "nowhere.json" in done.stderr
    assert "Traceback" not in done.stderr
