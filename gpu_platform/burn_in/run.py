"""Runs active checks on the idle nodes of a stack: creates the Jobs, reads their results, and deletes the Jobs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, cast

from gpu_platform.base import names
from gpu_platform.base.errors import BadInput, Problem, did_you_mean
from gpu_platform.burn_in.jobs import job_of
from gpu_platform.burn_in.nodes import NodeState, node_states, pairs_of
from gpu_platform.catalog.lost_pods import LOST_CONDITIONS
from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.objects import items_at, mapping_at
from gpu_platform.planning.burn_in.section import BurnInPlan, BurnInPoolPlan
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.workloads.section import PodPlan
from validators.burn_in import RECORD_KEY, record_name

Result = dict[str, Any]
_POLL_SECONDS: Final = 1.0
_SCHEDULED_SECONDS: Final = 60.0
"""If a pod is not scheduled within this time, its check is abandoned, because the node is no longer idle."""
_SLACK_SECONDS: Final = 30.0  # time that pods may take to terminate after the Job's deadline
_MOST_CHARACTERS: Final = 300  # maximum length of an error, in characters


@dataclass(slots=True)
class _Running:
    """A Job that runs on `nodes`, with the time of its creation. `result` is None until the Job has finished."""

    name: str
    nodes: tuple[str, ...]
    created: float
    result: Result | None = None


@dataclass(slots=True)
class NodeRecord:
    """Results of the checks on a node, `alone` and `together` with other nodes, in the format of
    `validators.burn_in`.
    """

    node: NodeState
    pool: BurnInPoolPlan
    alone: Result = field(default_factory=dict[str, Any])
    together: Result = field(default_factory=dict[str, Any])

    def to_json(self, time: str) -> Result:
        """Return the record in the format that is stored in the cluster."""
        return {
            "node": self.node.name,
            "node_uid": self.node.uid,
            "time": time,
            "alone": self.alone,
            "together": self.together,
        }


def run_burn_in(
    client: KubernetesClient,
    plan: EnvironmentPlan,
    burn_in: BurnInPlan,
    *,
    pools: Sequence[str],
    nodes: Sequence[str],
    tell: Callable[[str], None],
) -> list[NodeRecord]:
    """Run active checks on the idle nodes of all pools, or only of `pools` or `nodes`. Store and return the
    results.

    The Jobs are always deleted when the run ends. Raises BadInput for nodes that do not exist, and Refused or
    UnknownOutcome if a request to the cluster fails.
    """
    found = [NodeRecord(state, pool) for pool, state in _states(client, plan, burn_in)]
    _check_nodes(nodes, [record.node.name for record in found])
    records = [
        record
        for record in found
        if (not pools or record.pool.pool in pools) and (not nodes or record.node.name in nodes)
    ]
    run = f"{int(time.time())}"
    with _cleaned_up(client, burn_in, run):
        runner = _Runner(client, burn_in, run, plan.objects.labels, tell)
        for record in records:
            if record.node.busy:
                record.alone = record.together = {"not_run": record.node.busy}
                tell(f"{record.node.name}: not run: {record.node.busy}")
        idle = [record for record in records if not record.node.busy]
        runner.run([(_pod(record.pool.alone), (record,)) for record in idle], "alone")
        runner.run(list(_pairs(idle)), "together")
    when = datetime.now(UTC).isoformat(timespec="seconds")
    for record in records:
        if not record.node.busy:  # a busy node keeps its earlier result
            _keep(client, burn_in, record, when)
    return records


def _check_nodes(nodes: Sequence[str], known: Sequence[str]) -> None:
    allowed = "a node of a pool that is measured"
    missing = [Problem("--node", one, allowed, did_you_mean(one, known)) for one in nodes if one not in known]
    if missing:
        raise BadInput("burn-in", missing)


def _states(
    client: KubernetesClient, plan: EnvironmentPlan, burn_in: BurnInPlan
) -> Iterator[tuple[BurnInPoolPlan, NodeState]]:
    nodes, pods = list(client.objects("v1", "Node")), list(client.objects("v1", "Pod"))
    claims = list(client.objects("resource.k8s.io/v1", "ResourceClaim"))
    selectors = {pool.name: pool.node_selector for pool in plan.pools}
    for pool in burn_in.pools:
        if not pool.skipped:
            for state in node_states(nodes, pods, claims, selectors[pool.pool]):
                yield pool, state


def _pairs(idle: Sequence[NodeRecord]) -> Iterator[tuple[PodPlan, tuple[NodeRecord, ...]]]:
    """Yield the pod plan and the nodes for each Job that measures the network between nodes. Record that a node
    without a partner was not measured.
    """
    for pool in {record.pool.pool: record.pool for record in idle}.values():
        if pool.together is None:
            continue
        members = {record.node.name: record for record in idle if record.pool.pool == pool.pool}
        if len(members) == 1:
            next(iter(members.values())).together = {"not_run": "no other node of the pool is idle"}
        for pair in pairs_of(sorted(members)):
            yield pool.together, tuple(members[name] for name in pair)


def _pod(pod: PodPlan | None) -> PodPlan:
    if pod is None:
        raise ValueError("a pool without active checks")
    return pod


def _keep(client: KubernetesClient, burn_in: BurnInPlan, record: NodeRecord, when: str) -> None:
    """Write the record of a node to a ConfigMap that is deleted together with the Node object."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": record.node.name, "uid": record.node.uid}
    client.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": record_name(record.node.name),
                "namespace": burn_in.namespace,
                "labels": {names.BURN_IN_LABEL: "result"},
                "ownerReferences": [owner],
            },
            "data": {RECORD_KEY: json.dumps(record.to_json(when))},
        }
    )


@contextmanager
def _cleaned_up(client: KubernetesClient, burn_in: BurnInPlan, run: str) -> Generator[None]:
    """Delete the objects of a run when it ends or is interrupted."""
    try:
        yield
    finally:
        kinds = [("batch/v1", "Job"), ("v1", "Service"), ("resource.nvidia.com/v1beta1", "ComputeDomain")]
        for api_version, kind in kinds:
            selector = f"{names.BURN_IN_LABEL}={run}"
            for live in client.objects(api_version, kind, namespace=burn_in.namespace, label_selector=selector):
                client.delete(live)


class _Runner:
    def __init__(
        self,
        client: KubernetesClient,
        plan: BurnInPlan,
        run: str,
        labels: Mapping[str, str],
        tell: Callable[[str], None],
    ) -> None:
        self._client = client
        self._plan = plan
        self._run = run
        self._labels = labels
        self._tell = tell

    def run(self, wanted: Sequence[tuple[PodPlan, tuple[NodeRecord, ...]]], part: str) -> None:
        """Create all Jobs at once, wait for their results, and store each result in the record field that `part`
        names.
        """
        running: list[tuple[_Running, tuple[NodeRecord, ...]]] = []
        for pod, records in wanted:
            nodes = tuple(record.node.name for record in records)
            manifests = job_of(self._plan, pod, nodes, self._run, self._labels)
            for manifest in manifests:
                self._client.create(manifest)
            name = str(manifests[-1]["metadata"]["name"])
            running.append((_Running(name=name, nodes=nodes, created=time.monotonic()), records))
        while waiting := [job for job, _ in running if job.result is None]:
            for job in waiting:
                job.result = self._result(job)
                if job.result is not None:
                    self._tell(f"{', '.join(job.nodes)}: {_said(job.result)}")
            time.sleep(_POLL_SECONDS)
        for job, records in running:
            for record in records:
                found = dict(job.result or {})
                setattr(record, part, found if part == "alone" else {**found, "nodes": list(job.nodes)})

    def _result(self, job: _Running) -> Result | None:
        """Return the result of a Job that has finished or cannot run, or None for any other Job."""
        live = self._client.get("batch/v1", "Job", job.name, self._plan.namespace)
        if live is None:
            return {"not_run": "the Job was deleted"}
        selector = f"batch.kubernetes.io/job-name={job.name}"
        pods = list(self._client.objects("v1", "Pod", namespace=self._plan.namespace, label_selector=selector))
        ended = {one["type"]: one for one in items_at(live, "status", "conditions") if one["status"] == "True"}
        if "Complete" in ended or "Failed" in ended:
            return result_of(pods, ended.get("Failed"))
        age = time.monotonic() - job.created
        unscheduled = [pod for pod in pods if not mapping_at(pod, "spec").get("nodeName")]
        if age > _SCHEDULED_SECONDS and unscheduled:
            return {"not_run": f"not scheduled: {_why_unscheduled(unscheduled[0])}"}
        if age > self._plan.timeout_seconds + _SLACK_SECONDS:
            return {"error": f"no end after {age:.0f} s"}
        return None


def result_of(pods: Sequence[Mapping[str, Any]], failed: Mapping[str, Any] | None) -> Result:
    """Return the result or error that a pod of a Job wrote as its termination message."""
    ends = [
        mapping_at(status, "state", "terminated")
        for pod in pods
        for status in items_at(pod, "status", "containerStatuses")
    ]
    parsed = [found for end in ends if (found := _parsed(str(end.get("message") or ""))) is not None]
    if parsed:
        return next((one for one in parsed if "error" not in one), parsed[0])
    displaced = any(
        one["type"] in LOST_CONDITIONS for pod in pods for one in items_at(pod, "status", "conditions")
    )
    if displaced:
        return {"not_run": "pods were preempted, evicted, or lost with their node"}
    if failed is not None and failed.get("reason") == "DeadlineExceeded":
        return {"error": "did not finish within validation.burn_in.timeout"}
    texts = [f"exit code {end['exitCode']}: {end.get('message') or end.get('reason', '')}" for end in ends if end]
    why = next((text for text in texts if not text.startswith("exit code 0")), "")
    return {"error": (why or str((failed or {}).get("message") or "no result"))[-_MOST_CHARACTERS:]}


def _parsed(message: str) -> Result | None:
    try:
        found: Any = json.loads(message)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    result = cast("Result", found)
    return result if "version" in result else None


def _why_unscheduled(pod: Mapping[str, Any]) -> str:
    return next(
        (str(one.get("message")) for one in items_at(pod, "status", "conditions") if one.get("message")), ""
    )


def _said(result: Result) -> str:
    if "not_run" in result:
        return f"not run: {result['not_run']}"
    return str(result["error"]) if "error" in result else "measured"
