"""After a program has applied a printed fix, the stack is valid or has a different problem.

No fix restores an earlier stack.
"""

from __future__ import annotations

import copy
import itertools
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from gpu_platform.base.errors import BadInput, Problem
from gpu_platform.base.paths import STACKS_DIR
from gpu_platform.catalog import load_catalog
from gpu_platform.deploy.recorded.policy_check import evaluate_policies
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, load_stack
from policies import Level
from tests.support.printed_fixes import fixed_by

FOLDER = Path(__file__).parent.parent / "broken_stacks"
FILES = sorted(FOLDER.glob("Pulumi.*.yaml"))
KEY = "gpu-platform:platform"
DEPTH = 6
REFUSED = {
    "mps_over_16_clients_on_volta": "sharing-replicas-bounded",
    "mps_over_48_clients": "sharing-replicas-bounded",
    "replicas_of_a_gpu_model_too_many": "sharing-replicas-bounded",
}
"""Mandatory rules that refuse a stack with an applied fix. Their limits differ from the limits of planning."""


_verdicts: dict[str, Mapping[str, str]] = {}


class Step(NamedTuple):
    """A stack file after a fix, with the problem, the applied change and the remaining problems."""

    problem: Problem | None
    did: str
    document: dict[str, Any]
    left: tuple[Problem, ...]
    loaded: LoadedStack | None


def _document(file: Path) -> dict[str, Any] | None:
    try:
        found = yaml.safe_load(file.read_text("utf-8"))["config"][KEY]
    except (yaml.YAMLError, KeyError, TypeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all broken stacks, because some stacks name another stack as their environment."""
    found = tmp_path_factory.mktemp("stacks")
    for file in FILES:
        shutil.copy(file, found)
    return found


def _load(document: Mapping[str, Any], folder: Path) -> tuple[tuple[Problem, ...], LoadedStack | None]:
    path = folder / "Pulumi.fixed.yaml"
    path.write_text(yaml.safe_dump({"config": {KEY: document}}, sort_keys=False), "utf-8")
    try:
        return (), load_stack(str(path))
    except BadInput as error:
        return tuple(error.problems), None


def _chains(
    document: dict[str, Any], problems: tuple[Problem, ...], folder: Path, before: tuple[dict[str, Any], ...]
) -> Iterator[Step]:
    """Yield every step of every chain of fixes. Fails if all fixes of a problem lead to an earlier document."""
    if len(before) >= DEPTH:
        return
    first = (
        problems if not before else problems[:1]
    )  # later problems are fixed one by one, because the order of fixes does not matter
    for problem in first:
        fixes = list(fixed_by(document, problem))
        # One alternative of a fix with "or" may undo the last fix.
        ahead = [(did, changed) for did, changed in fixes if changed not in before]
        assert ahead or not fixes, f"{problem}: every fix leads back to an earlier stack file"
        for did, changed in ahead:
            left, loaded = _load(changed, folder)
            yield Step(problem, did, changed, left, loaded)
            yield from _chains(changed, left, folder, (*before, document))


def _refused(loaded: LoadedStack) -> Mapping[str, str]:
    """Return the messages of the mandatory rules that a stack violates, by rule.

    The result is cached for each plan, because many fixes lead to the same plan.
    """
    key = repr(loaded.plan)
    if key not in _verdicts:
        report = evaluate_policies(record_stack(loaded), loaded.plan)
        found = [one for one in report.violations if one.level is Level.MANDATORY]
        _verdicts[key] = {one.rule: str(one) for one in found}
    return _verdicts[key]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.split(".")[1])
def test_a_fix_leads_to_a_stack_that_passes_or_to_another_problem(file: Path, folder: Path) -> None:
    document = _document(file)
    if document is None:
        return  # not YAML, or not a stack file
    problems, _ = _load(document, folder)
    refused: set[str] = set()
    for problem, did, _, left, loaded in _chains(document, problems, folder, ()):
        assert problem not in left, f"after {did!r}"
        if loaded is not None:
            refused |= _refused(loaded).keys()
    assert refused == {REFUSED[name] for name in (file.name.split(".")[1],) if name in REFUSED}


# -- planning and pack ----------------------------------------------------------------------------------------

SHIPPED = {
    path.name.split(".")[1]: document
    for path in sorted(STACKS_DIR.glob("Pulumi.*.yaml"))
    if (document := _document(path)) and document["kind"] == "environment"
}
SHARINGS: tuple[dict[str, Any] | None, ...] = (
    None,
    {"mode": "time-slicing", "replicas": 4},
    {"mode": "mps", "replicas": 4},
    {"mode": "mig", "layout": "all-balanced"},
)
CLAIMED: tuple[dict[str, Any], ...] = ({"mode": "dra"}, {"mode": "dra", "partitions": True})
"""Sharing modes in which pods claim GPUs. One cluster has either only these modes or only the other modes."""
PROVISIONERS: dict[str, tuple[dict[str, Any], ...]] = {
    "eks": (
        {"provisioner": "managed", "count": {"desired": 1}},
        {"provisioner": "karpenter", "count": {"desired": 0, "max": 2}},
    ),
    "gke": (
        {"device_plugin": "operator", "count": {"desired": 1}},
        {"device_plugin": "provider", "count": {"min": 0, "desired": 0, "max": 2}},
    ),
    "aks": ({"count": {"desired": 1}}, {"count": {"min": 0, "desired": 0, "max": 2}}),
    "sandbox": ({"count": {"desired": 1}}, {"count": {"desired": 1, "max": 2}}),
    "existing": ({},),
}


def _variants() -> Iterator[Any]:
    """Yield every combination of a shipped stack, a provisioner and the sharing modes of the stack's pools."""
    for stack, document in SHIPPED.items():
        marks = pytest.mark.long if stack.endswith("-monitoring") else ()
        for number, _ in enumerate(PROVISIONERS[document["cluster"]["provider"]]):
            for first, _ in enumerate(SHARINGS):
                sharings = (*SHARINGS[first:], *SHARINGS[:first])
                yield pytest.param(stack, sharings, number, id=f"{stack}-shared-{first}-{number}", marks=marks)
            for one in CLAIMED:
                yield pytest.param(stack, (one,), number, id=f"{stack}-{'-'.join(one)}-{number}", marks=marks)


@pytest.mark.parametrize(("stack", "sharings", "provisioner"), list(_variants()))
def test_what_planning_accepts_or_advises_is_not_refused_by_the_pack(
    stack: str, sharings: tuple[dict[str, Any] | None, ...], provisioner: int, folder: Path
) -> None:
    document = copy.deepcopy(SHIPPED[stack]) | {"sharing": {}}
    document.pop("teams", None)
    machines = load_catalog().machine_types
    pools = [number for number, one in enumerate(document["pools"]) if machines[one["machine_type"]].has_gpus]
    for number in pools if sharings[0] in CLAIMED else ():
        document["pools"][number]["sharing"] = sharings[0]
    others: list[LoadedStack] = []
    whole: LoadedStack | None = None
    for number, sharing in zip(pools, itertools.cycle(sharings), strict=False):
        changed = copy.deepcopy(document)
        pool = changed["pools"][number]
        pool.pop("sharing", None)
        pool.update(PROVISIONERS[document["cluster"]["provider"]][provisioner], workload="inference")
        pool |= {"sharing": sharing} if sharing else {}
        problems, loaded = _load(changed, folder)
        steps = [Step(None, "nothing", changed, problems, loaded), *_chains(changed, problems, folder, ())]
        for step in steps:
            assert step.problem not in step.left, f"after {step.did!r}"
        ends = [(step.document, step.loaded) for step in steps if step.loaded is not None]
        if ends:  # if no fix can be applied automatically, the pool stays unchanged
            (document, whole), *alternatives = ends
            others += [after for _, after in alternatives]
    for after in [whole, *others] if whole else []:
        assert _refused(after) == {}
