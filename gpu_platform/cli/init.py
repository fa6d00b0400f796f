"""`gpu-platform init`: write a first stack file that passes `check`. If there is no project, create one for it."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import typer
import yaml

from gpu_platform.base.errors import BadInput, ExitCode, Problem, did_you_mean
from gpu_platform.base.paths import PROJECT_ROOT, STACKS_DIR, stacks_dir
from gpu_platform.base.yaml_text import TextDumper
from gpu_platform.catalog import load_catalog
from gpu_platform.cli.new_project import project_files
from gpu_platform.cli.options import not_with
from gpu_platform.planning.clouds.registry import first_stacks
from gpu_platform.stack import CONFIG_KEY
from gpu_platform.stack.declared import PROVIDER_ALIASES
from gpu_platform.stack.loaded import plan_platform, stack_argument

_NEW = "new"
_SCHEMA = "# yaml-language-server: $schema=./platform.schema.json\n"


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers that `init` writes into a stack file. On a terminal, `init` asks for each answer that is None."""

    provider: str | None
    cluster: str | None
    machine_type: str | None
    nodes: int | None
    workload: str | None
    team: str | None
    member: str | None
    region: str | None
    zone: str | None
    project: str | None
    subscription: str | None
    admin: str | None
    node_names: str | None


_QUESTIONS: Mapping[str, tuple[str, str]] = {
    "provider": (f"Provider ({', '.join(first_stacks())})", "sandbox"),
    "cluster": ("Cluster (existing, or new: the program creates it)", "existing"),
    "region": ("Region", ""),
    "zone": ("Zone of the GPU nodes", ""),
    "project": ("Google Cloud project", ""),
    "subscription": ("Azure subscription (ID)", ""),
    "admin": ("IAM role or user (ARN), or Entra ID group (object ID), that administers the cluster", ""),
    "machine_type": ("Machine type (`gpu-platform machines list`)", ""),
    "nodes": ("Number of nodes", "2"),
    "node_names": ("Names of the GPU nodes, separated by commas", ""),
    "workload": ("Workload (training, inference, development)", "training"),
    "team": ("Name of the first team", "research"),
    "member": ("Its members, such as group:research", ""),
}


def write_stack(name: str, given: Answers, *, out: Path | None, to_json: bool) -> ExitCode:
    """Write a stack file from the answers, and print the next commands.

    Outside of a project, the current folder becomes a project, unless `out` names the file to write. Raises
    BadInput if an answer is missing without a terminal, if a file exists, or if the stack would not pass `check`.
    """
    is_new_project = out is None and stacks_dir() == STACKS_DIR and STACKS_DIR.parent != PROJECT_ROOT
    files = dict(project_files(STACKS_DIR.parent)) if is_new_project else {}
    path = out or stacks_dir() / f"Pulumi.{name}.yaml"
    stack = stack_argument(name, path)
    if path.exists():
        fix = f"use another name, or edit the file and run `gpu-platform check {stack}`"
        raise BadInput("init", [Problem("NAME", f"{path}, which exists", "a name without a stack file", fix)])
    answers = _complete(name, given)
    platform = _platform(name, answers)
    schema = "" if is_new_project else _SCHEMA  # `gpu-platform schema` writes the schema file
    stack_file = {"config": {CONFIG_KEY: platform}}
    # pyrefly: ignore[partially-unknown-type] - incomplete in PyYAML's stubs
    files[path] = schema + yaml.dump(
        stack_file, Dumper=TextDumper, sort_keys=False, default_flow_style=None, width=110
    )
    try:
        if is_new_project:
            path.parent.mkdir(exist_ok=True)
        for file, text in files.items():
            file.write_text(text, "utf-8")
    except OSError as error:
        problem = Problem(
            str(error.filename or path), error.strerror or str(error), "a folder that can be written to"
        )
        raise BadInput("init", [problem]) from error
    problem = _before_up(name, platform)
    commands = ("check", "up") if is_new_project else ("check", "capacity", "preview", "up")
    following = [f"gpu-platform {command} {stack}" for command in commands]
    if to_json:
        document = {"version": 1, "file": str(path), "next": following}
        print(json.dumps({**document, "before_up": None if problem is None else str(problem)}, indent=2))
    else:
        for file in files:
            print(f"wrote {file}")
        print("next:")
        for command in following:
            print(f"  {command}")
        if problem is not None:
            print(f"before up, write {problem.path} into the file: {problem.allowed}")
    return ExitCode.GOOD


def _before_up(name: str, platform: Mapping[str, Any]) -> Problem | None:
    """Return a problem that would stop the first `up` regardless of the answers to `init`, or None."""
    cloud = plan_platform(platform, name, source=f"init {name}").cluster.cloud
    return cloud.first_up_problem if cloud is not None else None


def _complete(name: str, given: Answers) -> dict[str, str]:
    """Return all answers: the given answers, then answers from the terminal, then the defaults.

    If an answer from the terminal is not valid in a stack file, the question is asked again. Raises BadInput for a
    missing or wrong answer.
    """
    answers = {key: str(value) for key, value in asdict(given).items() if value is not None}
    asks = sys.stdin.isatty() and not os.environ.get("CI")
    missing: list[Problem] = []

    def ask(key: str, default: str = "") -> None:
        question, usual = _QUESTIONS[key]
        default = default or usual
        option = _option(key)
        while asks and key not in answers:
            answers[key] = str(typer.prompt(question, default=default or None))
            for problem in _mistakes(name, answers):
                if problem.path == option:
                    print(f"  {problem}", file=sys.stderr)
                    answers.pop(key, None)
        if key not in answers and default:
            answers[key] = default
        elif key not in answers:
            missing.append(
                Problem(
                    option,
                    "nothing",
                    question if question[1].isupper() else question[0].lower() + question[1:],
                    f"add {option}",
                )
            )

    ask("provider")
    first = first_stacks().get(answers["provider"])
    if first is not None and first.new_cluster is not None:
        ask("cluster")
    # The other questions depend on these answers, and no question asks for the name.
    if problems := [one for one in _mistakes(name, answers) if one.path in {"NAME", "--provider", "--cluster"}]:
        raise BadInput(f"init {name}", problems)
    questions = _questions(answers)
    missing.extend(_without_use(given, questions, answers["provider"]))
    if asks and missing:
        raise BadInput(f"init {name}", missing)
    for key in questions:
        ask(key, _default(key, answers))
    if missing:
        flags = {_option(key) for key in answers}
        raise BadInput(f"init {name}", [*missing, *(one for one in _mistakes(name, answers) if one.path in flags)])
    if problems := _mistakes(name, answers):
        raise BadInput(f"init {name}", problems)
    return answers


def _questions(answers: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys of the questions that follow provider and cluster, in order."""
    first = first_stacks()[answers["provider"]]
    of_cluster = first.new_cluster or () if answers.get("cluster") == _NEW else ()
    nodes = ("nodes",) if first.asks_nodes else ()
    return (*first.questions, *of_cluster, "machine_type", *nodes, "workload", "team", "member")


def _default(key: str, answers: Mapping[str, str]) -> str:
    first = first_stacks()[answers["provider"]]
    if key == "machine_type":
        return first.machine_type
    return f"group:{answers['team']}" if key == "member" and first.groups and "team" in answers else ""


def _mistakes(name: str, answers: Mapping[str, str]) -> list[Problem]:
    """Return the mistakes in the answers, each with the flag of its answer. If a question has no answer yet, its
    default is checked.
    """
    wrong = _wrong_option("provider", answers["provider"], first_stacks()) or (
        _wrong_option("cluster", answers["cluster"], ("existing", _NEW)) if "cluster" in answers else []
    )
    if wrong:
        return wrong
    complete = {"cluster": "existing", **answers}
    for key in _questions(complete):
        complete.setdefault(key, _default(key, complete) or _QUESTIONS[key][1] or "?")
    try:
        plan_platform(_platform(name, complete), name, source=f"init {name}")
    except BadInput as error:
        return [replace(one, path=_flag(one.path)) for one in error.problems]
    return []


_FLAGS: Mapping[str, str] = {
    r"cluster\.name": "NAME",
    r"cluster\.(region|location)": "--region",
    r"cluster\.project": "--project",
    r"cluster\.subscription": "--subscription",
    r"cluster\.create\.admins": "--admin",
    r"pools\[0\]\.zones": "--zone",
    r"pools\[0\]\.machine_type": "--machine-type",
    r"pools\[0\]\.count": "--nodes",
    r"pools\[0\]\.nodes": "--node-names",
    r"pools\[0\]\.workload": "--workload",
    r"teams\[0\]\.name": "--team",
    r"teams\[0\]\.members": "--member",
}


def _flag(path: str) -> str:
    """Return the flag that sets a field of the stack file, or the field itself if no flag sets it."""
    return next((flag for field, flag in _FLAGS.items() if re.match(field, path)), path)


def _without_use(given: Answers, questions: Collection[str], provider: str) -> Iterator[Problem]:
    """Yield a problem for each given answer that has no effect with this provider."""
    known = {"provider", *questions}
    if first_stacks()[provider].new_cluster is not None:
        known.add("cluster")
    for key, value in asdict(given).items():
        if value is not None and key not in known:
            other = "--cluster existing" if key == "admin" and "cluster" in known else f"--provider {provider}"
            yield not_with(_option(key), repr(value), other)


def _option(key: str) -> str:
    return "--" + key.replace("_", "-")


def _wrong_option(key: str, value: str, known: Collection[str]) -> list[Problem]:
    """Return a problem if the value is not in `known`. If the value is the name of a cloud, the fix names its
    Kubernetes service.
    """
    if value in known:
        return []
    meant = {alias: name for name, aliases in PROVIDER_ALIASES.items() for alias in aliases if name in known}
    fix = f"write {meant[value]}" if value in meant else did_you_mean(value, known) or f"write {next(iter(known))}"
    return [Problem(_option(key), repr(value), "one of " + ", ".join(known), fix)]


def _platform(name: str, answers: Mapping[str, str]) -> dict[str, Any]:
    first = first_stacks()[answers["provider"]]
    cluster: dict[str, Any] = {"provider": answers["provider"], **first.cluster(name, answers)}
    pool: dict[str, Any] = {"name": "gpu", "machine_type": answers["machine_type"], **first.pool(answers)}
    nodes = int(answers["nodes"]) if answers.get("nodes", "").isdigit() else answers.get("nodes")
    if not first.asks_nodes:
        nodes = len(pool["nodes"]["names"])
    pool |= {"count": {"desired": nodes}, "workload": answers["workload"]}
    catalog = load_catalog()
    machine = catalog.machine_types.get(answers["machine_type"])
    sale = catalog.sale(answers["machine_type"]) if first.buys_nodes else None
    if sale is not None and "spot" in sale.sold_as:
        pool["capacity"] = {"type": "spot"}  # not sold on demand; other capacity types need more answers
    gpus = machine.gpu_count * nodes if machine is not None and isinstance(nodes, int) else 0
    priority = "inference" if answers["workload"] == "inference" else "training"
    return {
        "kind": "environment",
        "cluster": cluster,
        "pools": [pool],
        "teams": [
            {
                "name": answers["team"],
                "quota": {"gpus": gpus},
                "priority": priority,
                "members": [one.strip() for one in answers["member"].split(",")],
            }
        ],
    }
