"""README and docs/ describe what the program accepts and prints."""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from pages import Block, Command, blocks, commands, inline_commands, lines

from gpu_platform.base.errors import ExitCode
from gpu_platform.base.paths import PROJECT_ROOT
from gpu_platform.catalog import load_catalog
from gpu_platform.cli import main
from gpu_platform.cli.app import app
from gpu_platform.cli.check import check_stack
from gpu_platform.cli.schema import stack_file_schema
from gpu_platform.stack.loaded import load_stack, plan_platform
from gpu_platform.stack.utilisation import read_utilisation
from policies import rules
from policies._stack import Stack
from policies._workloads import workloads
from tools.docs.__main__ import generated, stale
from tools.docs.outputs import documents

STACK_FILE = "config:\n  gpu-platform:platform:"
FRAGMENT = "fragment of a stack file"
FILE = "file"
WITH_DEFAULTS = "manifest of a team with defaults"
OFFLINE = {"check", "capacity", "capacity suggest", "mig list", "mig check", "mig solve", "render"}
COMMANDS: Any = typer.main.get_command(app)
NAV = yaml.safe_load((PROJECT_ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]


def command_of(words: list[str] | tuple[str, ...]) -> tuple[Any, list[str]]:
    """Return the command that these words call, and the remaining words. Raises KeyError if there is no such
    command.
    """
    found = COMMANDS
    rest = list(words)
    while hasattr(found, "commands"):
        if rest and rest[0] in found.commands:
            found = found.commands[rest.pop(0)]
        elif rest and rest[0].startswith("--"):
            break
        elif "show" in found.commands:
            found = found.commands["show"]
        else:
            raise KeyError(f"gpu-platform {' '.join(words)}")
    return found, rest


# -- tables -


def test_no_row_is_cut_off_from_its_table():
    cut: list[str] = []
    for page in documents():
        text = re.sub(
            r"^```.*?^```$", lambda code: "\n" * code[0].count("\n"), page.read_text("utf-8"), flags=re.M | re.S
        )
        for match in re.finditer(r"(?:^|\n)[^|\n]*\n(\|[^\n]*)\n(?!\|[ :|-]+\|\n)", text):
            cut.append(f"{page.name}: {match[1][:60]}")
    assert cut == []


# -- generated parts ----------------------------------------------------------------------------------------


def test_generated_pages_and_quoted_outputs_are_up_to_date():
    assert stale(generated()) == []


def test_a_changed_page_is_reported_with_the_lines_that_differ(tmp_path: Path):
    page = PROJECT_ROOT / "docs" / "reference" / "cli.md"
    found = stale({page: page.read_text("utf-8") + "one more line\n"})
    assert len(found) == 1
    assert "+one more line" in found[0]


# -- YAML ---------------------------------------------------------------------------------------------------


def yaml_blocks(kind: str) -> list[Block]:
    return [block for block in blocks("yaml") if kind_of(block) == kind]


def kind_of(block: Block) -> str:
    """Return the kind of a block, which selects its test: the comment before the block, or `stack file`."""
    if not block.mark and STACK_FILE in block.text:
        return "stack file"
    return block.mark.partition(":")[0]


def test_every_yaml_block_is_of_a_kind_that_is_tested():
    kinds = {"stack file", FRAGMENT, FILE, "manifest", WITH_DEFAULTS, "refused manifest", "utilisation file"}
    kinds.add("manifest of an older operator")  # test_migrating_jobs.py tests these manifests
    odd = [str(block) for block in blocks("yaml") if kind_of(block) not in kinds]
    assert not odd
    assert all(yaml_blocks(kind) for kind in kinds)


@pytest.mark.parametrize("block", yaml_blocks("stack file"), ids=str)
def test_a_stack_file_of_the_documents_passes_check(block: Block, tmp_path: Path):
    shutil.copy(PROJECT_ROOT / "stacks" / "Pulumi.local.yaml", tmp_path)  # the environment of a team's stack
    path = tmp_path / "Pulumi.documented.yaml"
    path.write_text(block.text)
    assert check_stack(str(path), output="text") is ExitCode.GOOD


ON_CLOUD: dict[str, dict[str, Any]] = {
    "eks": {"machine_type": "p4d.24xlarge", "zones": ["us-east-2a"]},
    "gke": {"machine_type": "a2-highgpu-8g", "zones": ["us-central1-a"]},
    "aks": {"machine_type": "Standard_ND96isr_H100_v5"},
    "existing": {"machine_type": "dgx-a100-640gb", "nodes": {"names": ["gpu-0"]}},
    "sandbox": {"machine_type": "p4de.24xlarge"},
}
"""For each provider, the fields of a pool. The test adds this pool to fragments that have no pools."""


@pytest.mark.parametrize("block", yaml_blocks(FRAGMENT), ids=str)
def test_a_fragment_of_the_documents_is_part_of_a_stack_file(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # Fragments name the Python modules in examples/policy-rules, which a user copies to the root folder.
    monkeypatch.syspath_prepend(str(PROJECT_ROOT / "examples" / "policy-rules"))
    whole: dict[str, Any] = {
        "kind": "environment",
        "cluster": {"provider": "sandbox", "name": "documented"},
        **yaml.safe_load(block.text),
    }
    provider = whole["cluster"]["provider"]
    pool = {"name": "train", "count": {"desired": 1}, "workload": "training", **ON_CLOUD[provider]}
    whole.setdefault("pools", [pool])
    if provider != "sandbox" or "operator" in whole:
        plan_platform(whole, "documented")  # the fragment lacks fields that policies need
        return
    path = tmp_path / "Pulumi.documented.yaml"
    path.write_text(yaml.safe_dump({"config": {"gpu-platform:platform": whole}}))
    assert check_stack(str(path), output="text") is ExitCode.GOOD


@pytest.mark.parametrize("block", [*yaml_blocks("manifest"), *yaml_blocks(WITH_DEFAULTS)], ids=str)
def test_a_manifest_of_the_documents_violates_no_policy_rule(block: Block):
    manifest = yaml.safe_load(block.text)
    version = manifest["apiVersion"] if "/" in manifest["apiVersion"] else f"core/{manifest['apiVersion']}"
    kind = f"kubernetes:{version}:{manifest['kind']}"
    stack = Stack.from_records([{"urn": "urn:x", "type": kind, "name": "x", "inputs": manifest}], load_catalog())
    settings = {rule.id: rule.settings() for rule in rules()}
    if kind_of(block) == WITH_DEFAULTS:
        added_in = {"addedIn": [manifest["metadata"]["namespace"]]}
        settings["gpu-toleration"] = type(settings["gpu-toleration"]).model_validate(added_in)
    breaches = [
        breach
        for rule in rules()
        for subject in rule.subjects(stack)
        for breach in rule.check(stack, subject, settings[rule.id])
    ]
    assert not breaches
    # No rule applies to claims or compute domains. The rules must find a workload in every other manifest.
    unjudged = {"PersistentVolumeClaim", "ComputeDomain"}
    assert bool(list(stack.view(workloads))) == (manifest["kind"] not in unjudged)


def test_a_block_that_names_a_file_shows_a_part_of_it():
    shown = [block for block in blocks("yaml", "python", "typescript") if kind_of(block) == FILE]
    assert shown
    for block in shown:
        path = block.mark.partition(": ")[2]
        assert block.text in (PROJECT_ROOT / path).read_text("utf-8"), str(block)


def test_the_utilisation_file_of_the_documents_is_read(tmp_path: Path):
    for block in yaml_blocks("utilisation file"):
        path = tmp_path / "utilisation.yaml"
        path.write_text(block.text)
        assert read_utilisation(path, ["train", "serve", "notebooks"])


# -- commands -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", commands(), ids=str)
def test_a_command_of_a_console_block_is_accepted_by_the_parser(command: Command):
    found, rest = command_of(command.arguments)
    found.make_context(found.name, rest)  # raises an error for an unknown option or missing arguments


def offline() -> list[tuple[str, ...]]:
    """Return every distinct command line that needs neither a cluster nor a cloud."""
    found = [one.arguments for one in commands() if not one.has_placeholder]
    return [words for words in dict.fromkeys(found) if {" ".join(words[:1]), " ".join(words[:2])} & OFFLINE]


@pytest.mark.parametrize("words", offline(), ids=" ".join)
def test_a_command_that_needs_no_cluster_succeeds(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(PROJECT_ROOT)
    arguments = [str(tmp_path / word) if word == "out" else word for word in words]
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 0


def test_a_command_in_running_text_exists_with_its_options():
    for page, text in inline_commands():
        command, rest = command_of(text.split())
        known = {name for parameter in command.params for name in parameter.opts} | {"--help"}
        unknown = [word for word in rest if word.startswith("--") and word not in known]
        assert not unknown, f"{page.name}: gpu-platform {text}"


def test_make_targets_and_python_programs_of_console_blocks_exist():
    targets = re.findall(r"^([a-z-]+):", (PROJECT_ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    seen = 0
    for block in blocks("console"):
        for line in lines(block):
            words = line.split()
            if words[0] == "make":
                assert words[1] in targets, f"{block}: {line}"
            elif words[0].endswith("python") and words[1] == "-m":
                assert importlib.util.find_spec(words[2]) is not None, f"{block}: {line}"
            elif words[0].endswith("python"):
                assert (PROJECT_ROOT / words[1]).is_file(), f"{block}: {line}"
            else:
                continue
            seen += 1
    assert seen >= 4


@pytest.mark.parametrize("block", [block for block in blocks("python") if kind_of(block) != FILE], ids=str)
def test_a_python_block_imports_what_exists(block: Block):
    compiled = compile(block.text, str(block), "exec")
    assert compiled
    imports = "\n".join(line for line in block.text.splitlines() if line.startswith(("import ", "from ")))
    exec(imports, {})


# -- README and navigation ----------------------------------------------------------------------------------


def test_the_readme_fits_on_two_screens():
    assert len((PROJECT_ROOT / "README.md").read_text("utf-8").splitlines()) <= 100


def test_the_readme_has_the_numbers_of_the_catalogue():
    readme, catalog = (PROJECT_ROOT / "README.md").read_text("utf-8"), load_catalog()
    newest = next(iter(catalog.operator_releases.values()))
    first, *_, last = sorted(catalog.eks_addons["vpc-cni"].versions)
    assert f"{' to '.join(newest.kubernetes)} with GPU Operator {newest.version}" in readme
    assert f"{first} to {last} for new EKS clusters" in readme


def test_links_between_documents_lead_to_files():
    for page in documents():
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8")):
            if not target.startswith(("http:", "https:")):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def pages_of(entry: Any) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    return [page for child in (entry.values() if isinstance(entry, dict) else entry) for page in pages_of(child)]


def test_the_navigation_has_every_page_once():
    there = {str(page.relative_to(PROJECT_ROOT / "docs")) for page in (PROJECT_ROOT / "docs").rglob("*.md")}
    listed = pages_of(NAV)
    assert len(listed) == len(set(listed))
    assert set(listed) == there


def limits_of(node: Any) -> list[int]:
    """Return the maximum numbers of entries in a schema field, in its alternatives and in its nested fields."""
    inner = [*node.get("anyOf", ()), *(node[key] for key in ("items", "additionalProperties") if node.get(key))]
    own = [node[key] for key in ("maxItems", "maxProperties") if key in node]
    return own + [limit for one in inner if isinstance(one, dict) for limit in limits_of(one)]


def test_the_reference_of_the_stack_file_names_how_many_entries_a_field_may_have():
    page = (PROJECT_ROOT / "docs" / "reference" / "stack-file.md").read_text("utf-8")
    sections = {one.partition("\n")[0]: one for one in page.split("\n## ")[1:]}
    found = [
        (name, field, limit)
        for name, definition in stack_file_schema()["$defs"].items()
        if name in sections
        for field, node in definition.get("properties", {}).items()
        for limit in limits_of(node)
    ]
    assert ("EksCluster", "security_groups", 3) in found
    rows = {(name, field): re.findall(rf"^\|.*`{field}`.*$", sections[name], re.M) for name, field, _ in found}
    assert [one for one in found if not any(f"{one[2]:,} entries" in row for row in rows[one[0], one[1]])] == []


def test_the_monitoring_page_lists_the_alerts_with_their_severity():
    text = (PROJECT_ROOT / "docs" / "monitoring.md").read_text("utf-8")
    listed = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", text, re.MULTILINE))
    runbooks = (PROJECT_ROOT / "docs" / "runbooks.md").read_text("utf-8")
    assert set(listed) == set(re.findall(r"^### (\w+)$", runbooks, re.MULTILINE))
    plan = load_stack("eks-training").plan
    assert plan.kind == "environment"
    assert plan.monitoring is not None
    for alert in plan.monitoring.alerts:
        assert listed[alert.alert] == alert.severity


def test_the_architecture_page_lists_the_packages_of_planning():
    text = (PROJECT_ROOT / "docs" / "architecture.md").read_text("utf-8")
    listed = set(
        re.findall(r"^\| `(\w+)/` \|", text.partition("## Planning, package by package")[2], re.MULTILINE)
    )
    planning = PROJECT_ROOT / "gpu_platform" / "planning"
    assert listed == {path.parent.name for path in planning.glob("*/__init__.py")}


def test_paths_that_documents_name_exist():
    roots = {path.name for path in PROJECT_ROOT.iterdir()} - {"site", "out"}
    for page in documents():
        for text in re.findall(r"`([\w.]+/[\w./-]+)`", page.read_text("utf-8")):
            if text.partition("/")[0] in roots:
                assert (PROJECT_ROOT / text).exists(), f"{page.name}: {text}"
