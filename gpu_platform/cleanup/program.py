"""One run of the clean-up. It lists objects, checks them, reports its findings and, with `delete`, deletes
objects.
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpu_platform.cleanup.kinds import KINDS, REPLICA_SET, Kind, Object
from gpu_platform.cleanup.rules import Activity, Finding, Settings, find
from validators.agent.api_server import ApiError, ApiServer, Conflict, NotFound, send

REPORT = "cleanup-report"
REPORT_KEY = "report.json"
_MANAGER = "gpu-platform-cleanup"
_PAGE = "500"
_MOST = 1000  # maximum number of entries in a report, so that the report fits into a ConfigMap
_PROMETHEUS_SECONDS = 30
_STEP_SECONDS = 300  # Prometheus' default lookback, for which an instant query still returns a sample
_MOST_MISSING_SECONDS = 3600
_FAILED = 1
_BAD_INPUT = 2


def main(arguments: Sequence[str]) -> int:
    """Run once with a settings file. Return 1 if something could not be listed, deleted or reported."""
    if len(arguments) != 1:
        print("usage: cleanup.pyz SETTINGS.json", file=sys.stderr)
        return _BAD_INPUT
    data: dict[str, Any] = json.loads(Path(arguments[0]).read_text("utf-8"))
    server = ApiServer.of_environment()
    run = Run(server, Settings.from_json(data), datetime.now(UTC))
    for team, declared in sorted(data["teams"].items()):
        run.clean(team, declared)
    run.report(data["namespace"])
    return _FAILED if run.failed else 0


def activity_query(namespace: str, window: int) -> str:
    """Return the PromQL query for the highest GPU activity of each pod in the last `window` seconds.

    A Prometheus that lost its data, that was down or that keeps metrics for less than the window has not seen
    whether a pod was active. The query therefore omits pods without metrics for more than a tenth of the window or
    more than an hour. The same fault in another project: openfaas/faas-idler#33.
    """
    activity = f'gpu:active:ratio{{namespace="{namespace}", pod!=""}}'
    step = min(_STEP_SECONDS, max(1, window // 10))
    missing = min(window // 10, _MOST_MISSING_SECONDS)
    measured = f"count_over_time(max by (pod) ({activity})[{window}s:{step}s])"
    return (
        f"max by (pod) (max_over_time({activity}[{window}s])) "
        f"and on (pod) {measured} >= {(window - missing) // step}"
    )


class Run:
    """One run of the clean-up over all its namespaces. `failed` is true if a request failed."""

    def __init__(self, server: ApiServer, settings: Settings, now: datetime) -> None:
        self._server = server
        self._settings = settings
        self._now = now
        self._entries: list[dict[str, str]] = []
        self._problems: list[str] = []
        self._unanswered = False
        self.failed = False

    def clean(self, namespace: str, declared: Sequence[str]) -> None:
        """Clean up one namespace. A namespace that cannot be listed is not changed."""
        try:
            objects = {kind: self._list(kind, namespace) for kind in (*KINDS, REPLICA_SET)}
        except ApiError as error:
            self._fail(f"{namespace}: {error}")
            return
        found, problems = find(objects, declared, self._settings, self._activity(namespace), self._now)
        for problem in problems:
            self._note(problem)
        for finding in found:
            self._end(finding, namespace)

    def report(self, namespace: str) -> None:
        """Apply the ConfigMap with all findings."""
        document = {
            "version": 1,
            "time": self._now.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "delete": self._settings.delete,
            "found": self._entries[:_MOST],
            "not_listed": max(0, len(self._entries) - _MOST),
            "problems": self._problems[:_MOST],
        }
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": REPORT, "namespace": namespace},
            "data": {REPORT_KEY: json.dumps(document, indent=1)},
        }
        path = f"/api/v1/namespaces/{namespace}/configmaps/{REPORT}"
        try:
            send(self._server, "PATCH", path, manifest, {"fieldManager": _MANAGER, "force": "true"})
        except ApiError as error:
            self._fail(f"the report could not be written: {error}")
        print(f"{len(self._entries)} found, {len(self._problems)} problems")

    def _list(self, kind: Kind, namespace: str) -> list[Object]:
        """Return the objects of a kind, or none if the cluster does not have the kind."""
        found: list[Object] = []
        query = {"limit": _PAGE}
        while True:
            try:
                page = send(self._server, "GET", kind.path(namespace), None, query)
            except NotFound:
                return found
            found += page["items"]
            metadata: Object = page.get("metadata") or {}
            following = metadata.get("continue")
            if not following:
                return found
            query["continue"] = following

    def _activity(self, namespace: str) -> Activity | None:
        """Return the highest GPU activity of each pod that Prometheus has measured all the time.

        Return None if Prometheus cannot be read. After a request without an answer, no further request is sent,
        because one timeout for each namespace could take longer than the run may.
        """
        address, window = self._settings.prometheus, self._settings.idle_after
        if address is None or window is None or self._unanswered:
            return None
        query = urllib.parse.urlencode({"query": activity_query(namespace, window)})
        url = f"{address.rstrip('/')}/api/v1/query?{query}"
        try:
            with urllib.request.urlopen(url, timeout=_PROMETHEUS_SECONDS) as answer:  # noqa: S310 - http or https by the schema
                result = json.loads(answer.read())["data"]["result"]
            return {one["metric"]["pod"]: float(one["value"][1]) for one in result}
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._unanswered = isinstance(error, OSError) and not isinstance(error, urllib.error.HTTPError)
            self._note(f"{address}: {error}")
            return None

    def _end(self, finding: Finding, namespace: str) -> None:
        """Delete an object, unless this run only reports. The object must not have changed since it was read."""
        metadata = finding.live["metadata"]
        place = f"{finding.kind.name} {namespace}/{metadata['name']}"
        done = "would be deleted"
        if self._settings.delete:
            body = {
                "propagationPolicy": "Background",
                "preconditions": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
            }
            try:
                send(self._server, "DELETE", finding.kind.path(namespace, metadata["name"]), body, {})
                done = "deleted"
                self._tell(finding, namespace)
            except (Conflict, NotFound):
                done = "not deleted, because it changed after it was read"
            except ApiError as error:
                done = f"not deleted: {error}"
                self._fail(f"{place}: {error}")
        print(f"{place}: {done}: {finding.why}")
        self._entries.append(
            {
                "kind": finding.kind.name,
                "namespace": namespace,
                "name": metadata["name"],
                "rule": finding.rule,
                "why": finding.why,
                "done": done,
            }
        )

    def _tell(self, finding: Finding, namespace: str) -> None:
        """Create an Event in the team's namespace, so that members see who deleted their object, and why."""
        metadata, time = finding.live["metadata"], self._now.strftime("%Y-%m-%dT%H:%M:%SZ")
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{metadata['name'][:200]}.", "namespace": namespace},
            "involvedObject": {
                "apiVersion": finding.kind.api_version,
                "kind": finding.kind.name,
                "namespace": namespace,
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "type": "Normal",
            "reason": "CleanedUp",
            "message": f"deleted: {finding.why}",
            "source": {"component": _MANAGER},
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
        }
        try:
            send(self._server, "POST", f"/api/v1/namespaces/{namespace}/events", event, {})
        except ApiError as error:
            self._note(f"Event about {finding.kind.name} {namespace}/{metadata['name']}: {error}")

    def _note(self, problem: str) -> None:
        print(problem, file=sys.stderr)
        self._problems.append(problem)

    def _fail(self, problem: str) -> None:
        self.failed = True
        self._note(problem)
