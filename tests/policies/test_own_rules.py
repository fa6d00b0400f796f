"""A company's own rules, in `check` and in the Pulumi CLI's policy pack, and rules that cannot be loaded."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.base.paths import PROJECT_ROOT, STACKS_DIR
from tests.policies.test_policy_pack import running
from tests.support.command_line import run

EXAMPLE = PROJECT_ROOT / "examples/policy-rules"


@pytest.fixture(autouse=True)
def on_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.syspath_prepend(str(tmp_path))


def _platform(policy: dict[str, Any], **more: Any) -> dict[str, Any]:
    document = yaml.safe_load((STACKS_DIR / "Pulumi.local.yaml").read_text("utf-8"))
    return {**document["config"]["gpu-platform:platform"], "policy": policy, **more}


def _stack(tmp_path: Path, policy: dict[str, Any], **more: Any) -> str:
    path = tmp_path / "Pulumi.own.yaml"
    path.write_text(yaml.safe_dump({"config": {"gpu-platform:platform": _platform(policy, **more)}}), "utf-8")
    return str(path)


def test_an_own_rule_stops_check_and_its_settings_are_in_the_stack_file(tmp_path: Path) -> None:
    code, out, _ = run("check", _stack(tmp_path, {"own_rules": ["acme_rules"]}))
    assert code == 1
    assert "mandatory: acme.image-registry (high): validate-train" in out
    settings = {"acme.image-registry": {"registries": ["registry.example.com/"]}}
    policy = {"own_rules": ["acme_rules"], "rules": settings}
    code, out, err = run("check", _stack(tmp_path, policy, images={"mirror": "registry.example.com/mirror"}))
    assert (code, "acme" in out) == (0, False), err
    code, out, _ = run("check", _stack(tmp_path, {"own_rules": ["acme_rules"]}), "--format", "sarif")
    log = json.loads(out)["runs"][0]
    assert "acme.image-registry" in {one["ruleId"] for one in log["results"]}
    assert "acme.image-registry" in {one["id"] for one in log["tool"]["driver"]["rules"]}


def test_the_pack_of_the_pulumi_cli_has_the_own_rules() -> None:
    config = {"gpu-platform:platform": json.dumps(_platform({"own_rules": ["acme_rules"]}))}
    with running(PULUMI_CONFIG=json.dumps(config), PULUMI_STACK="local", PYTHONPATH=str(EXAMPLE)) as pack:
        assert "acme.image-registry" in {one.name for one in pack.info().policies}


def test_policies_list_and_explain_know_the_own_rules_of_a_stack(tmp_path: Path) -> None:
    exempt = [{"resource": "dcgm-*", "reason": "signed", "owner": "ops", "until": "2099-01-31"}]
    settings = {"acme.image-registry": {"registries": ["registry.example.com/"], "exempt": exempt}}
    stack = _stack(tmp_path, {"own_rules": ["acme_rules"], "rules": settings, "level": "advisory"})
    code, out, err = run("policies", "list", "--stack", stack)
    assert code == 0, err
    assert "acme.image-registry" in out
    assert "including 1 of the stack's own" in " ".join(out.split())
    listed = json.loads(run("policies", "list", "--stack", stack, "--format", "json")[1])["rules"]
    assert {one["level"] for one in listed} <= {"advisory", "disabled"}
    code, out, _ = run("policies", "explain", "acme.image-registry", "--stack", stack)
    assert code == 0
    assert "own rule from module acme_rules" in out
    assert "exempt: dcgm-*: signed (ops, until 2099-01-31)" in out
    found = json.loads(run("policies", "explain", "acme.image-registry", "--stack", stack, "--format", "json")[1])
    assert (found["module"], found["level"], found["default_level"]) == ("acme_rules", "advisory", "mandatory")
    (setting,) = found["settings"]
    assert (setting["name"], setting["value"]) == ("registries", ["registry.example.com/"])
    assert setting["default"] == ["registry.acme.example/"]


def test_an_own_rule_without_its_stack_is_an_error_that_names_the_option() -> None:
    code, _, err = run("policies", "explain", "acme.image-registry")
    assert code == 2
    assert "`--stack STACK`" in err


@pytest.mark.parametrize(
    ("case", "content", "said"),
    [
        (0, None, "no module 'broken_rules'; allowed: a module with RULES"),
        (1, "1 / 0", "module 'broken_rules' raises ZeroDivisionError: division by zero"),
        (2, "", "broken_rules has no RULES"),
        (3, "RULES = (1,)", "1 in broken_rules.RULES"),
        (
            4,
            "from policies import rules\nRULES = rules()[:1]",
            "id 'sharing-for-training' in broken_rules; allowed: an id with a prefix of your own",
        ),
    ],
)
def test_a_module_that_is_no_module_of_rules_is_an_error_at_its_line(
    tmp_path: Path, case: int, content: str | None, said: str
) -> None:
    name = f"broken_rules_{case}"  # each case needs a new name, because a process imports a module only once
    if content is not None:
        (tmp_path / f"{name}.py").write_text(content, "utf-8")
    importlib.invalidate_caches()
    code, _, err = run("check", _stack(tmp_path, {"own_rules": [name]}))
    assert code == 2
    assert "policy.own_rules[0]" in err
    assert said in " ".join(err.split()).replace(name, "broken_rules")
    assert "Traceback" not in err


def test_the_name_of_a_file_is_answered_with_the_name_of_its_module(tmp_path: Path) -> None:
    code, _, err = run("check", _stack(tmp_path, {"own_rules": ["acme_rules.py"]}))
    assert code == 2
    assert "Fix: write acme_rules, which is the name of the module, not of its file" in " ".join(err.split())


def test_an_error_at_the_import_of_own_rules_names_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "unfinished_rules.py").write_text("from policies.api import Rule\nRULES = (Rule(id='a.b'),)\n")
    importlib.invalidate_caches()
    _, _, err = run("check", _stack(tmp_path, {"own_rules": ["unfinished_rules"]}))
    assert f"correct line 2 of {tmp_path / 'unfinished_rules.py'}: RULES = (Rule(id='a.b'),)" in " ".join(
        err.split()
    )


def test_own_rules_that_do_not_load_hide_no_mistake_in_the_pack(tmp_path: Path) -> None:
    policy = {"own_rules": ["no_such_rules"], "rules": {"gpu-tolerations": "advisory", "acme.other": "advisory"}}
    _, _, err = run("check", _stack(tmp_path, policy))
    assert "policy.own_rules[0]" in err
    assert "policy.rules.gpu-tolerations" in err
    assert "policy.rules.acme.other" not in err


def test_an_own_rule_that_raises_is_one_line_with_its_id_file_and_line(tmp_path: Path) -> None:
    text = (EXAMPLE / "acme_rules.py").read_text("utf-8")
    changed = text.replace("    for container in", '    {}["a team without the label"]\n    for container in', 1)
    assert changed != text
    (tmp_path / "raising_rules.py").write_text(changed, "utf-8")
    importlib.invalidate_caches()
    code, _, err = run("check", _stack(tmp_path, {"own_rules": ["raising_rules"]}))
    line = changed.splitlines().index('    {}["a team without the label"]') + 1
    assert code == 2
    assert f"raising_rules.py:{line}: 1 problem" in err.replace("\n", "")
    assert "rule acme.image-registry: found KeyError: 'a team without the label'" in " ".join(err.split())
