"""Reads the pods in a file, which contains Kubernetes manifests or a short list of `pods`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

from extensions.capacity.pod_sources.demand import PodDemand, parse_pods
from extensions.capacity.pod_sources.manifest_mapping import ManifestMapping
from extensions.capacity.pod_sources.manifests import read_manifests
from extensions.capacity.pod_sources.pod_spec import Cluster, Skipped, read_pod
from extensions.capacity.scheduling.model import PodGroup
from gpu_platform.api.documents import read_yaml_documents
from gpu_platform.api.plans import EnvironmentPlan
from gpu_platform.base import names
from gpu_platform.base.errors import BadInput, Problem, did_you_mean

_FORMS: Final = "Kubernetes manifests (apiVersion and kind), or one document with a list of pods"
_SUGGEST: Final = (
    "the file is an input for `capacity suggest` and contains no resource requests; list pods with their requests"
)


@dataclass(frozen=True, slots=True)
class Workloads:
    """The pods of a file in order, and the workloads that are not placed."""

    groups: tuple[PodGroup, ...]
    skipped: tuple[Skipped, ...]


def read_workloads(path: Path, plan: EnvironmentPlan, *, any_team: bool = False) -> Workloads:
    """Read the pods in a file. Raises BadInput, which lists every problem with its path.

    With `any_team`, namespaces that belong to no team of the stack are also allowed, because quotas are read from
    the cluster.
    """
    documents = read_yaml_documents(path)
    problems: list[Problem] = []
    if _is_short(documents):
        found = list(_short(documents, str(path), plan, problems))
    else:
        _check_manifests(documents, problems)
        found = (
            list[PodGroup | Skipped]()
            if problems
            else read_manifests(documents, Cluster(plan), problems, any_team=any_team)
        )
        if not found and not problems:
            problems.append(Problem("(the whole file)", "no pods", _FORMS, "name a file with workloads"))
    if problems:
        raise BadInput(str(path), dict.fromkeys(problems))
    return Workloads(
        groups=tuple(one for one in found if isinstance(one, PodGroup)),
        skipped=tuple(one for one in found if isinstance(one, Skipped)),
    )


def _is_short(documents: Sequence[object]) -> bool:
    first = documents[0] if len(documents) == 1 else None
    keys = cast("Mapping[object, object]", first) if isinstance(first, Mapping) else {}
    return "pods" in keys and "kind" not in keys


def _check_manifests(documents: Sequence[object], problems: list[Problem]) -> None:
    for index, document in enumerate(documents):
        if document is None:
            continue
        place = f"document {index + 1}"
        if not isinstance(document, Mapping):
            problems.append(Problem(place, type(document).__name__, _FORMS, "write a mapping"))
            continue
        keys = cast("Mapping[str, Any]", document)
        missing = [key for key in ("apiVersion", "kind") if not isinstance(keys.get(key), str)]
        if missing:
            fix = (
                _SUGGEST if "workloads" in keys else did_you_mean("pods", keys) or f"write {' and '.join(missing)}"
            )
            problems.append(Problem(place, f"keys {', '.join(map(str, keys))}", _FORMS, fix))


def _short(
    documents: Sequence[object], source: str, plan: EnvironmentPlan, problems: list[Problem]
) -> Iterator[PodGroup | Skipped]:
    cluster = Cluster(plan)
    try:
        demands = parse_pods(documents[0], source).pods
    except BadInput as error:
        problems += error.problems
        wrong = {problem.path for problem in error.problems}
        found: list[Problem] = []
        for index, entry in enumerate(_entries(documents[0])):
            _check(entry, f"pods[{index}]", plan, found)
        problems += [problem for problem in found if problem.path not in wrong]
        return
    for index, demand in enumerate(demands):
        path = f"pods[{index}]"
        known = len(problems)
        _check(demand.model_dump(), path, plan, problems)
        if len(problems) > known:
            continue
        spec = ManifestMapping(_spec(demand, plan), path, problems)
        group = read_pod(spec, cluster, team=demand.team, name=demand.name, kind="Pod", count=demand.count)
        if isinstance(group, PodGroup):
            devices = {name: int(n) for name, n in demand.requests.items() if name == names.GPU_DEVICE_CLASS}
            yield replace(group, requests={**group.requests, **devices})


def _entries(document: object) -> Iterator[Mapping[str, object]]:
    """Yield the pods of an invalid document, with an empty mapping for each entry that is not a mapping."""
    pods = cast("Mapping[str, object]", document).get("pods")
    for entry in cast("list[object]", pods) if isinstance(pods, list) else ():
        yield cast("Mapping[str, object]", entry) if isinstance(entry, Mapping) else {}


def _check(pod: Mapping[str, object], path: str, plan: EnvironmentPlan, problems: list[Problem]) -> None:
    """Report a team, pool or priority class that the stack does not have."""
    team = next((one for one in plan.teams if one.namespace == pod.get("team")), None)
    priorities = team.priorities if team is not None else [one.name for one in plan.priority_classes]
    for key, known in (
        ("team", [one.namespace for one in plan.teams]),
        ("pool", [pool.name for pool in plan.pools]),
        ("priority", list(priorities)),
    ):
        value = pod.get(key)
        if isinstance(value, str) and value not in known:
            allowed = f"one of {', '.join(known)}" if known else f"none, because the stack has no {key}"
            problems.append(Problem(f"{path}.{key}", repr(value), allowed, did_you_mean(value, known)))


def _spec(demand: PodDemand, plan: EnvironmentPlan) -> dict[str, Any]:
    pool = next((one for one in plan.pools if one.name == demand.pool), None)
    team = next((one for one in plan.teams if one.namespace == demand.team), None)
    requests = {name: amount for name, amount in demand.requests.items() if name != names.GPU_DEVICE_CLASS}
    gpus = [name for name in demand.requests if names.is_gpu_resource(name) or name not in requests]
    if pool is not None:
        tolerated = [(taint.key, taint.effect) for taint in pool.all_taints]
    else:
        tolerated = [(names.GPU_TAINT_KEY, "")] if gpus else []
    own = team.priorities[0] if team is not None and team.priorities else None
    return {
        "containers": [{"name": "main", "resources": {"requests": requests}}],
        "nodeSelector": {**(pool.node_selector if pool is not None else {}), **demand.node_selector},
        "tolerations": [{"key": key, "operator": "Exists", "effect": effect} for key, effect in tolerated],
        "priorityClassName": demand.priority or own,
    }
