"""`gpu-platform review` and its CI templates, as far as they can run in a shell without GitHub and GitLab."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.base.paths import PROJECT_ROOT, STACKS_DIR
from tests.support.code_host import code_host
from tests.support.command_line import run

CI = PROJECT_ROOT / "examples/ci"


def _edited(path: Path, old: str, new: str) -> Path:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")
    return path


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Create a repository with the stack `local` and the CI scripts in one commit."""
    folder = tmp_path / "repository"
    (folder / "stacks").mkdir(parents=True)
    shutil.copy(STACKS_DIR / "Pulumi.local.yaml", folder / "stacks")
    shutil.copytree(CI, folder / "examples/ci")
    _git(folder, "init", "--quiet", "--initial-branch", "main")
    _git(folder, "add", ".")
    _git(folder, "commit", "--quiet", "--message", "first")
    return folder


def _git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", "-C", folder, *who, *arguments], check=True, capture_output=True, text=True
    ).stdout


def _script(folder: Path, command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path} | variables
    call = ["bash", "-eo", "pipefail", "-c", command]
    return subprocess.run(call, cwd=folder, env=environment, capture_output=True, text=True)


def test_a_comment_has_pools_before_and_after_and_the_cost_of_the_change(tmp_path: Path) -> None:
    before, after = tmp_path / "Pulumi.a.yaml", tmp_path / "Pulumi.b.yaml"
    shutil.copy(STACKS_DIR / "Pulumi.gke-training.yaml", before)
    document = yaml.safe_load(before.read_text("utf-8"))
    train = document["config"]["gpu-platform:platform"]["pools"][0]
    old, train["count"] = train["count"], {"desired": 5}
    after.write_text(yaml.safe_dump(document), "utf-8")
    code, out, _ = run("review", str(after), "--base", str(before))
    assert code == 0
    assert out.startswith("### gpu-platform: `Pulumi.b.yaml`")
    row = next(line for line in out.splitlines() if line.startswith("| train |"))
    assert f"| {old['desired']} → **5** | {8 * old['desired']} → **40** |" in row
    assert re.search(r"^\| \*\*all\*\* \|.*→", out, re.MULTILINE)
    assert "USD a month" in out
    code, out, _ = run("review", str(after), "--base", str(tmp_path / "nothing.yaml"))
    assert f"The stack is new: there is no file `{tmp_path / 'nothing.yaml'}`." in out


def test_a_comment_leaves_out_an_edit_of_desired_that_changes_no_nodes(tmp_path: Path) -> None:
    before, after = tmp_path / "Pulumi.a.yaml", tmp_path / "Pulumi.b.yaml"
    shutil.copy(STACKS_DIR / "Pulumi.gke-training.yaml", before)
    shutil.copy(before, after)
    _edited(after, "{min: 0, desired: 0, max: 8}", "{min: 0, desired: 4, max: 8}")
    code, out, _ = run("review", str(after), "--base", str(before))
    assert code == 0
    assert "| develop | g2-standard-12 | 0 | 0 | 0 |" in out
    assert not re.search(r"^\| .*→", out, re.MULTILINE), "no size or cost differs"
    assert "`pools[2].count.desired 0 → 4`: the edit changes no nodes" in out


def test_a_comment_has_quotas_and_the_budget_before_and_after(tmp_path: Path) -> None:
    before, after = tmp_path / "Pulumi.a.yaml", tmp_path / "Pulumi.b.yaml"
    shutil.copy(STACKS_DIR / "Pulumi.gke-training.yaml", before)
    document = yaml.safe_load(before.read_text("utf-8"))
    team = document["config"]["gpu-platform:platform"]["teams"][0]
    document["config"]["gpu-platform:platform"]["budget"] = {"usd_per_month": 900_000}
    team["quota"]["cpu"], old = 1, team["quota"]["cpu"]
    after.write_text(yaml.safe_dump(document), "utf-8")
    _, out, _ = run("review", str(after), "--base", str(before))
    assert f"- team {team['name']}: quota cpu: {old} → cpu: 1" in out
    assert "- budget: USD a month (none) → 900,000" in out
    _, out, _ = run("review", str(before), "--base", str(before))
    assert "Quotas" not in out


def test_invalid_files_and_violated_rules_become_comments(tmp_path: Path) -> None:
    broken = PROJECT_ROOT / "tests/broken_stacks/Pulumi.two_mistakes_in_one_pool.yaml"
    code, out, _ = run("review", str(broken))
    assert code == 2
    assert "not valid: 2 mistakes" in out
    assert "- line 10, column 17: pools[0].count.desired" in out
    path = Path(shutil.copy(STACKS_DIR / "Pulumi.local.yaml", tmp_path / "Pulumi.local.yaml"))
    document = yaml.safe_load(path.read_text("utf-8"))
    document["config"]["gpu-platform:platform"]["policy"] = {
        "rules": {"cost-ceiling": {"enforcementLevel": "mandatory", "maxUsdPerHour": 1}}
    }
    path.write_text(yaml.safe_dump(document), "utf-8")
    code, out, _ = run("review", str(path))
    assert (code, "**A mandatory rule is violated.**" in out, "mandatory `cost-ceiling`" in out) == (1, True, True)


def test_a_comment_has_the_warnings_of_check(tmp_path: Path) -> None:
    path = Path(shutil.copy(STACKS_DIR / "Pulumi.dev.yaml", tmp_path / "Pulumi.dev.yaml"))
    _, before, _ = run("review", str(path))
    assert "charts.lws" not in before
    document = yaml.safe_load(path.read_text("utf-8"))
    document["config"]["gpu-platform:platform"]["charts"] = {"lws": {"values": {"a": 1}}}
    path.write_text(yaml.safe_dump(document), "utf-8")
    code, out, _ = run("review", str(path))
    assert code == 0
    assert "Warnings: " in out
    assert "- charts.lws: this stack does not install the chart" in out


def _preview(changes: list[dict[str, Any]]) -> str:
    return json.dumps({"impact": {"effect": "x", "cluster_read": True, "order": [], "changes": changes}})


def test_the_impact_table_cannot_mention_users(tmp_path: Path) -> None:
    file = tmp_path / "preview.json"
    change = {
        "subject": "pool train", "effect": "removes-capacity", "field": "count.desired", "old": "4", "new": "2",
        "nodes": 2, "gpus": 16, "pods": [{"name": "a"}], "data": [{"name": "claim <b>@team|x"}],
    }  # fmt: skip
    file.write_text(_preview([change]), "utf-8")
    _, out, _ = run("review", "local", "--preview", str(file))
    row = next(line for line in out.splitlines() if line.startswith("| removes-capacity"))
    assert (
        row == "| removes-capacity | pool train: count.desired 4 → 2 | 2 | 16 | 1 | claim &lt;b>@\u200bteam\\|x |"
    )
    file.write_text(_preview([]), "utf-8")
    assert "Impact: none" in run("review", "local", "--preview", str(file))[1]
    file.write_text("", "utf-8")
    assert "Impact: unknown" in run("review", "local", "--preview", str(file))[1]
    file.write_text("[]", "utf-8")
    code, _, err = run("review", "local", "--preview", str(file))
    assert (code, "another document" in err) == (2, True)


def test_the_script_reviews_changed_files_and_exits_with_the_worst_code(
    repository: Path,
) -> None:
    base = _git(repository, "rev-parse", "HEAD").strip()
    ran = _script(repository, f"examples/ci/review.sh {base} comment.md")
    assert (ran.returncode, (repository / "comment.md").read_text()) == (
        0,
        "gpu-platform: no stack file changes.\n",
    )
    stacks = repository / "stacks"
    shutil.copy(stacks / "Pulumi.local.yaml", stacks / "Pulumi.other.yaml")
    _edited(stacks / "Pulumi.other.yaml", "workload: training", "workload: trainin")
    (stacks / "Pulumi.local.yaml").unlink()
    _git(repository, "add", ".")
    ran = _script(repository, f"examples/ci/review.sh {base} comment.md")
    comment = (repository / "comment.md").read_text()
    assert ran.returncode == 2, ran.stderr
    assert "`Pulumi.local.yaml`\n\n**The stack file is removed." in comment
    assert "did you mean 'training'?" in comment
    assert len(_git(repository, "worktree", "list").splitlines()) == 1


@pytest.mark.long
def test_the_commands_of_both_templates_write_one_comment_that_each_push_replaces(repository: Path) -> None:
    base = _git(repository, "rev-parse", "HEAD").strip()
    _edited(repository / "stacks/Pulumi.local.yaml", "workload: training", "workload: training # changed")
    _git(repository, "commit", "--quiet", "--all", "--message", "second")
    steps = yaml.safe_load((CI / "github.yaml").read_text("utf-8"))["jobs"]["review"]["steps"]
    named = {one.get("name"): one["run"] for one in steps if "run" in one}
    assert _script(repository, named["Review"]).returncode == 0
    with code_host("github") as github:
        for _ in range(2):
            ran = _script(repository, named["Comment"], **github.environment)
            assert ran.returncode == 0, ran.stderr
    (comment,) = github.written
    assert "`Pulumi.local.yaml`" in comment["body"]
    assert github.updates == 1
    (repository / "comment.md").unlink()
    job = yaml.safe_load((CI / "gitlab.yaml").read_text("utf-8"))["gpu-platform"]
    with code_host("gitlab") as gitlab:
        for line in (*job["script"], *job["after_script"], *job["after_script"]):
            event = {"CI_MERGE_REQUEST_EVENT_TYPE": "detached", "CI_MERGE_REQUEST_DIFF_BASE_SHA": base}
            variables = {**event, **gitlab.environment}
            ran = _script(repository, line.partition(" #")[0], **variables)
            assert ran.returncode == 0, ran.stderr
    (note,) = gitlab.written
    assert "`Pulumi.local.yaml`" in note["body"]
    assert gitlab.updates == 1


@pytest.mark.long
@pytest.mark.parametrize("template", ["github", "gitlab"])
def test_a_review_omits_stacks_that_others_changed_meanwhile(repository: Path, template: str) -> None:
    """The merge commit that CI checks out can contain commits of the target branch that are newer than the event's
    base commit.
    """
    stacks = repository / "stacks"
    shutil.copy(stacks / "Pulumi.local.yaml", stacks / "Pulumi.other.yaml")
    _git(repository, "add", ".")
    _git(repository, "commit", "--quiet", "--message", "two stacks")
    stale = _git(repository, "rev-parse", "HEAD").strip()
    target = _git(repository, "branch", "--show-current").strip()
    _git(repository, "checkout", "--quiet", "-b", "mine")
    _edited(stacks / "Pulumi.local.yaml", "workload: training", "workload: training # mine")
    _git(repository, "commit", "--quiet", "--all", "--message", "mine")
    _git(repository, "checkout", "--quiet", target)
    _edited(stacks / "Pulumi.other.yaml", "workload: training", "workload: training # theirs")
    _git(repository, "commit", "--quiet", "--all", "--message", "theirs")
    _git(repository, "checkout", "--quiet", "--detach")
    _git(repository, "merge", "--quiet", "--no-edit", "mine")
    if template == "github":
        steps = yaml.safe_load((CI / "github.yaml").read_text("utf-8"))["jobs"]["review"]["steps"]
        (command,) = (one["run"] for one in steps if one.get("name") == "Review")
    else:
        (command,) = yaml.safe_load((CI / "gitlab.yaml").read_text("utf-8"))["gpu-platform"]["script"]
    variables = {"CI_MERGE_REQUEST_EVENT_TYPE": "merged_result", "CI_MERGE_REQUEST_DIFF_BASE_SHA": stale}
    assert _script(repository, command, **variables).returncode == 0
    comment = (repository / "comment.md").read_text("utf-8")
    assert ("`Pulumi.local.yaml`" in comment, "`Pulumi.other.yaml`" in comment) == (True, False)


def test_a_read_only_token_leaves_the_review_in_the_summary(tmp_path: Path) -> None:
    """For pull requests from forks, GitHub answers 403, "Resource not accessible by integration"."""
    (tmp_path / "comment.md").write_text("the review", "utf-8")
    summary = tmp_path / "summary.md"
    with code_host("github") as host:
        host.reads_only = True
        env = {**host.environment, "GITHUB_STEP_SUMMARY": str(summary)}
        ran = _script(tmp_path, f"{CI}/comment.py comment.md", **env)
    assert (ran.returncode, ran.stdout.startswith("::warning ")) == (0, True), ran.stderr
    assert summary.read_text("utf-8") == "the review\n"


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_only_the_previous_comment_of_the_same_author_is_replaced(kind: str, tmp_path: Path) -> None:
    (tmp_path / "comment.md").write_text("second", "utf-8")
    with code_host(kind) as host:
        host.add("mallory", "<!-- gpu-platform review -->\nmine")
        for number in range(120):
            host.add("alice", f"comment {number}")
        host.add(host.account, "<!-- gpu-platform review -->\nfirst")
        ran = _script(tmp_path, f"{CI}/comment.py comment.md", **host.environment)
        assert ran.returncode == 0, ran.stderr
    assert host.updates == 1
    assert [one["body"] for one in host.comments if host.author(one) == host.account] == [
        "<!-- gpu-platform review -->\nsecond"
    ]
    assert host.comments[0]["body"].endswith("mine")


def test_a_comment_that_is_too_long_is_cut_and_refusals_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "comment.md").write_text("x" * 70_000, "utf-8")
    with code_host("github") as host:
        ran = _script(tmp_path, f"{CI}/comment.py comment.md", **host.environment)
        assert ran.returncode == 0, ran.stderr
        assert len(host.written[0]["body"]) == 65_536
        wrong = {**host.environment, "GH_TOKEN": "other"}
        ran = _script(tmp_path, f"{CI}/comment.py comment.md", **wrong)
        assert (ran.returncode, "answers 401" in ran.stderr, "Traceback" in ran.stderr) == (1, True, False)
        ran = _script(tmp_path, f"{CI}/comment.py missing.md", **host.environment)
        assert (ran.returncode, "no file missing.md" in ran.stderr) == (1, True)
        ran = _script(tmp_path, f"{CI}/comment.py comment.md", **{**host.environment, "NUMBER": ""})
        assert (ran.returncode, "NUMBER is not set" in ran.stderr) == (1, True)
