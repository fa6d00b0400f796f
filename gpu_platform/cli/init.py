"""`gpu-platform init`: write a first stack file that passes `check`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typer
import yaml

from gpu_platform.catalog import load_catalog
from gpu_platform.cli.options import not_with
from gpu_platform.errors import BadInput, ExitCode, Problem, did_you_mean
from gpu_platform.paths import stacks_dir
from gpu_platform.planning.clouds.registry import first_stacks
from gpu_platform.spec import CONFIG_KEY, stack_name
from gpu_platform.stacks import plan_platform

_SCHEMA = "# yaml-language-server: $schema=./platform.schema.json\n"


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers from which `init` writes a stack file; None: `init` asks on the terminal."""

    provider: str | None
    machine_type: str | None
    nodes: int | None
    workload: str | None
    team: str | None
    member: str | None
    region: str | None
    zone: str | None
    project: str | None
    node_names: str | None


_QUESTIONS: Mapping[str, tuple[str, str]] = {
    "provider": (f"Provider ({', '.join(first_stacks())})", "sandbox"),
    "region": ("Region", ""),
    "zone": ("Zone of the GPU nodes", ""),
    "project": ("Google Cloud project", ""),
    "machine_type": ("Machine type (`gpu-platform machines list`)", ""),
    "nodes": ("Number of nodes", "2"),
    "node_names": ("Names of the GPU nodes, separated by commas", ""),
    "workload": ("Workload (training, inference, development)", "training"),
    "team": ("Name of the first team", "research"),
    "member": ("Its members, such as group:research", ""),
}


def write_stack(name: str, given: Answers, *, out: Path | None, to_json: bool) -> ExitCode:
    """Write the stack file of the answers, and print what to do next.

    Raises BadInput if an answer is missing without a terminal, the file exists, or the stack would not pass.
    """
    path = out or stacks_dir() / f"Pulumi.{name}.yaml"
    if path.exists():
        fix = f"use another name, or edit it and run `gpu-platform check {name}`"
        raise BadInput("init", [Problem("NAME", f"{path}, which exists", "a name without a stack file", fix)])
    answers = _complete(name, given)
    platform = _platform(name, answers)
    plan_platform(platform, stack_name(path), source=f"init {name}", folder=path.parent)
    text = _SCHEMA + yaml.safe_dump(
        {"config": {CONFIG_KEY: platform}}, sort_keys=False, default_flow_style=None, width=110
    )
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        problem = Problem(str(path), error.strerror or str(error), "a folder that can be written to")
        raise BadInput("init", [problem]) from error
    stack = name if out is None else str(path)
    following = [f"gpu-platform {command} {stack}" for command in ("check", "capacity", "preview", "up")]
    if to_json:
        print(json.dumps({"version": 1, "file": str(path), "next": following}, indent=2))
    else:
        print(f"wrote {path}")
        print("next:")
        for command in following:
            print(f"  {command}")
    return ExitCode.GOOD


def _complete(name: str, given: Answers) -> dict[str, str]:
    """Return all answers: given ones, then those of a terminal, then the defaults."""
    answers = {key: str(value) for key, value in asdict(given).items() if value is not None}
    asks = sys.stdin.isatty() and not os.environ.get("CI")
    missing: list[Problem] = []

    def ask(key: str, default: str = "") -> None:
        question, usual = _QUESTIONS[key]
        default = default or usual
        if key in answers:
            return
        if asks:
            answers[key] = str(typer.prompt(question, default=default or None))
        elif default:
            answers[key] = default
        else:
            option = _option(key)
            missing.append(Problem(option, "nothing", question[0].lower() + question[1:], f"add {option}"))

    ask("provider")
    _check_provider(name, answers["provider"])
    first = first_stacks()[answers["provider"]]
    missing.extend(_without_use(given, answers["provider"]))
    if asks and missing:
        raise BadInput(f"init {name}", missing)
    for key in first.questions:
        ask(key)
    ask("machine_type", first.machine_type)
    for key in ("nodes", "workload", "team"):
        if key != "nodes" or first.asks_nodes:
            ask(key)
    ask("member", f"group:{answers['team']}" if first.groups else "")
    if missing:
        raise BadInput(f"init {name}", missing)
    return answers


def _without_use(given: Answers, provider: str) -> Iterator[Problem]:
    """Yield the given answers that a stack file of the provider does not need."""
    first = first_stacks()[provider]
    used = {"provider", "machine_type", "workload", "team", "member", *first.questions}
    if first.asks_nodes:
        used.add("nodes")
    for key, value in asdict(given).items():
        if value is not None and key not in used:
            yield not_with(_option(key), repr(value), f"--provider {provider}")


def _option(key: str) -> str:
    return "--" + key.replace("_", "-")


def _check_provider(name: str, provider: str) -> None:
    """Raise BadInput for a provider that is none; clouds are known by the names of their Kubernetes services."""
    known = first_stacks()
    if provider not in known:
        meant = {alias: name for name, first in known.items() for alias in first.aliases}
        fix = f"write {meant[provider]}" if provider in meant else did_you_mean(provider, known) or "write sandbox"
        raise BadInput(f"init {name}", [Problem("--provider", repr(provider), "one of " + ", ".join(known), fix)])


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
        pool["capacity"] = {"type": "spot"}  # it is not sold on demand, and the other ways need more answers
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
