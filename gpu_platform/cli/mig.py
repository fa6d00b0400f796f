"""`gpu-platform mig`: the profiles of a GPU model, layout checks, and the minimum number of GPUs for a demand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import yaml
from rich.console import Console

from gpu_platform.base.console import console
from gpu_platform.base.errors import BadInput, ExitCode, Finding, Problem, did_you_mean
from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Gpu, Mig, load_catalog
from gpu_platform.cli.tables import Column, show_table
from gpu_platform.planning.mig.geometry import GpuInstance, check_layout, layout_text, place
from gpu_platform.planning.mig.layouts import Blocked, blocked_by, maximal_multisets, maximal_placements
from gpu_platform.planning.mig.solve import MigSolution, mig_parted_document, solve_mig

_MAX_INSTANCES = 100_000
"""Maximum number of instances of a profile in a demand. No cluster has more instances, and a search for this many
takes only seconds.
"""


def list_profiles(model: str, *, to_json: bool) -> ExitCode:
    """Print the profiles of a GPU model, and its maximal layouts."""
    gpu, mig = _mig_gpu(model)
    placements, multisets = maximal_placements(mig), maximal_multisets(mig)
    if to_json:
        document = {
            "version": 1,
            "gpu": gpu.product,
            "memory_slices": mig.memory_slices,
            "compute_slices": mig.compute_slices,
            "profiles": [profile.model_dump(mode="json") for profile in mig.profiles],
            "maximal_placements": len(placements),
            "maximal_layouts": [dict(layout) for layout in multisets],
            "source": str(mig.source),
        }
        print(json.dumps(document, indent=2))
        return ExitCode.GOOD
    columns = (
        Column("profile"),
        Column("compute slices", 1, right=True),
        Column("memory slices", 2, right=True),
        Column("memory MiB", right=True),
        Column("max per GPU", right=True),
        Column("starts", 3),
    )
    rows = [
        (
            profile.name,
            str(profile.compute_slices),
            str(profile.memory_slices),
            str(profile.memory_mib),
            str(profile.max_instances),
            ", ".join(map(str, profile.starts)),
        )
        for profile in mig.profiles
    ]
    out = console()
    show_table(out, columns, rows, f"{gpu.product}: MIG profiles")
    out.print(
        f"{mig.compute_slices} compute slices, {mig.memory_slices} memory slices; {len(multisets)} maximal "
        f"layouts without media engines, in {len(placements)} placements ({mig.source}):"
    )
    for layout in multisets:
        out.print("  " + layout_text(dict(layout)))
    return ExitCode.GOOD


def check_instances(model: str, instances: Sequence[str], *, to_json: bool) -> ExitCode:
    """Print whether one GPU can hold the instances, with the placement or the conflicts."""
    gpu, mig = _mig_gpu(model)
    layout = _counts(instances, gpu, mig)
    illegal = check_layout(gpu, layout)
    blocked = blocked_by(mig, layout)
    placed = blocked[0] if blocked else place(mig, layout) or ()
    reasons = _reasons(mig, blocked[1]) if blocked else []
    if to_json:
        document: dict[str, Any] = {
            "version": 1,
            "gpu": gpu.product,
            "layout": layout,
            "legal": illegal is None,
            "placed": [asdict(instance) for instance in placed],
            "reasons": reasons,
            "fix": illegal.fix if illegal else "",
        }
        print(json.dumps(document, indent=2))
    else:
        out = console()
        out.print(f"{'legal' if illegal is None else 'illegal'} on {gpu.product}: {layout_text(layout)}")
        _show_placed(out, placed, mig)
        for reason in reasons:
            out.print(reason)
        if illegal:
            out.print(illegal.fix)
    return ExitCode.GOOD if illegal is None else ExitCode.FINDING


def solve_demands(
    models: Sequence[str], demands: Sequence[str], *, gpus_per_node: int, seconds: float, to_json: bool
) -> ExitCode:
    """Print the minimum number of GPUs of each model for its demand, the placements, and a mig-parted config."""
    if len(models) != len(demands):
        problem = Problem(
            "--demand",
            f"{counted(len(demands), 'demand')} for {counted(len(models), 'GPU model')}",
            "one --demand for each --gpu",
            "write --gpu A --demand ... --gpu B --demand ...",
        )
        raise BadInput("mig solve", [problem])
    solved: list[tuple[Gpu, Mig, dict[str, int], MigSolution]] = []
    for model, demand in zip(models, demands, strict=True):
        gpu, mig = _mig_gpu(model)
        requested = _counts(demand.split(","), gpu, mig)
        solved.append((gpu, mig, requested, solve_mig(mig, requested, seconds=seconds)))
    if to_json:
        print(json.dumps({"version": 1, "solutions": [_document(one, gpus_per_node) for one in solved]}, indent=2))
        return ExitCode.GOOD
    out = console()
    for gpu, mig, requested, solution in solved:
        proof = "optimal" if solution.optimal else "not proven optimal, increase --seconds"
        out.print(
            f"{gpu.product}: {counted(len(solution.gpus), 'GPU')} for "
            f"{layout_text(requested)}; "
            f"lower bound {solution.bound}, {proof}"
        )
        for number, instances in enumerate(solution.gpus):
            out.print(f"GPU {number}:")
            _show_placed(out, instances, mig)
        config = mig_parted_document(solution.gpus, gpus_per_node, gpu.model)
        print(yaml.safe_dump(config, sort_keys=False), end="")
    return ExitCode.GOOD


def _document(one: tuple[Gpu, Mig, dict[str, int], MigSolution], gpus_per_node: int) -> dict[str, Any]:
    gpu, _, requested, solution = one
    return {
        "gpu": gpu.product,
        "demand": requested,
        "gpus": len(solution.gpus),
        "bound": solution.bound,
        "optimal": solution.optimal,
        "placements": [[asdict(instance) for instance in instances] for instances in solution.gpus],
        "mig_parted": mig_parted_document(solution.gpus, gpus_per_node, gpu.model),
    }


def _show_placed(out: Console, placed: Sequence[GpuInstance], mig: Mig) -> None:
    for instance in placed:
        out.print(f"  {instance.profile:<12} memory slices {_slices(instance)} of 0-{mig.memory_slices - 1}")


def _slices(instance: GpuInstance) -> str:
    last = instance.start + instance.size - 1
    return f"{instance.start}" if last == instance.start else f"{instance.start}-{last}"


def _reasons(mig: Mig, blocked: Blocked) -> list[str]:
    """Return the reasons why the next instance does not fit on the GPU: a limit, or the instances that overlap
    each possible placement.
    """
    if blocked.why:
        return [f"no free slices for another {blocked.profile}: {blocked.why}"]
    return [f"no free slices for another {blocked.profile}:"] + [
        f"  start {start} overlaps " + ", ".join(f"{one.profile} ({_slices(one)})" for one in held)
        for start, held in blocked.by_start
    ]


def _mig_gpu(model: str) -> tuple[Gpu, Mig]:
    """Return the GPU model with this name, in any spelling, and its MIG support.

    Raises BadInput if it is unknown, or Finding if it does not support MIG.
    """
    catalog = load_catalog()
    gpu = catalog.find_gpu(model)
    known = [one.model for one in catalog.gpus.values() if one.mig]
    if gpu is not None and gpu.mig is not None:
        return gpu, gpu.mig
    if gpu is not None:
        raise Finding(f"{gpu.product} does not support MIG. GPUs with MIG: {', '.join(known)}")
    problem = Problem("--gpu", f"{model!r}", "one of " + ", ".join(known), did_you_mean(model, known))
    raise BadInput("mig", [problem])


def _counts(texts: Sequence[str], gpu: Gpu, mig: Mig) -> dict[str, int]:
    """Parse strings such as `3g.40gb:1` or `3g.40gb=1`, at most one per profile. Raises one BadInput that lists
    every mistake.
    """
    names = [profile.name for profile in mig.profiles]
    counts: dict[str, int] = {}
    problems: list[Problem] = []
    for text in (part.strip() for part in texts):
        name, found, number = text.replace("=", ":").partition(":")
        if not found or not number.isascii() or not number.strip("0") or not number.isdigit():
            problems.append(Problem(text or "(nothing)", repr(text), "PROFILE:COUNT", f"for example {names[0]}:2"))
        elif name not in names:
            allowed = f"a profile of {gpu.product}: " + ", ".join(names)
            problems.append(Problem(text, repr(name), allowed, did_you_mean(name, names)))
        elif name in counts:
            problems.append(Problem(text, f"a second {name}", "each profile once", "add the counts"))
        elif len(number) > len(str(_MAX_INSTANCES)) or int(number) > _MAX_INSTANCES:
            problems.append(Problem(name, "a larger count", f"at most {_MAX_INSTANCES}", "split the demand"))
        else:
            counts[name] = int(number)
    if problems:
        raise BadInput("mig", problems)
    return counts
