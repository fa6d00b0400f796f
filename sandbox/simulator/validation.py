"""Runs the node agent of validation pods, as a kubelet and a container runtime do on a real node.

The zipapp and the expectations come from the ConfigMaps that the pod mounts. The token belongs to the pod's
service account, and NVML is simulated. The agent's verdict becomes the pod's readiness.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from gpu_platform.base import names
from sandbox.nvml import NodeProfile
from sandbox.nvml.run import READER_VARIABLE, SYSFS_VARIABLE
from sandbox.simulator.agents import Agents
from sandbox.simulator.kube import Api, ApiError, Informer, Object, key_of, log, version_of
from validators.agent.serve import REPUBLISH_SECONDS

AGENT_KEY: Final = "agent.pyz"
EXPECTATIONS_KEY: Final = "expectations.json"

_READ_SECONDS: Final = 10  # the agent's limit for reading NVML; a simulated driver answers immediately
_AGENT_SECONDS: Final = 45  # an agent's time limit, slightly above its limits for reading, checking and publishing
_AGAIN_SECONDS: Final = 5.0
_IDLE_SECONDS: Final = 60.0
_TOKEN_SECONDS: Final = 3600
_KEPT: Final = ("PATH", "PYTHONPATH", "HOME", "LANG", "TMPDIR")  # environment variables that an agent inherits
_OURS: Final = "GPU_PLATFORM_"
_QUIET_VERDICTS: Final = ("pass", "not-applicable")

PatchStatus = Callable[[Object, Object], None]


@dataclass(frozen=True, slots=True)
class Mounted:
    """The files that a validation pod mounts. `version` changes with their content."""

    agent: str
    expectations: str
    version: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one run of the agent."""

    ready: bool
    message: str


@dataclass(slots=True)
class _Check:
    """One validation pod. The agent's worker thread writes `result` and `ended`. The control loop writes all other
    fields.
    """

    inputs: object = None
    running: bool = False
    result: Result | None = None
    ended: float = 0.0
    token: tuple[str, float] = ("", 0.0)
    """The token, and the time (in monotonic seconds) at which another token is requested."""


class ValidationPods:
    """All validation pods. `changed` is set when an agent ends. At most `workers` agents run at a time."""

    def __init__(self, api: Api, *, workers: int) -> None:
        self._api = api
        self.changed = threading.Event()
        path = f"/api/v1/namespaces/{names.VALIDATION_NAMESPACE}/configmaps"
        no_reports = {"labelSelector": f"!{names.VALIDATION_REPORT_LABEL}"}
        self._config_maps = Informer(api, path, self.changed, no_reports)
        self._workers = ThreadPoolExecutor(workers, thread_name_prefix="agent")
        self._folder = Path(tempfile.mkdtemp(prefix="simulator-"))
        self._agents = Agents(self._folder)
        self._checks: dict[str, _Check] = {}
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def reconcile(self, pod: Object, profile: NodeProfile, patch_status: PatchStatus) -> float:
        """Start the agent of a pod, or show its result, and return the seconds until the next reconciliation."""
        mounted = read_mounts(pod, self._config_maps.all())
        if mounted is None:
            return _IDLE_SECONDS  # a kubelet also waits for missing volumes
        check = self._checks.setdefault(pod["metadata"]["uid"], _Check())
        if pod["status"].get("phase") != "Running":
            patch_status(pod, pod_status(pod, Result(ready=False, message="the agent is starting")))
        elif check.result is not None and shown_result(pod) != check.result:
            patch_status(pod, pod_status(pod, check.result))
            log(f"pod {key_of(pod)}: {check.result.message}")
        if check.running:
            return _IDLE_SECONDS
        inputs = (mounted.version, profile)
        if check.inputs == inputs and check.result is not None:
            again = again_after(check.result, time.monotonic() - check.ended)
            if again > 0:
                return min(again, _IDLE_SECONDS)
        check.inputs = inputs
        check.running = True
        self._workers.submit(self._work, check, pod, profile, mounted)
        return _IDLE_SECONDS

    def forget_all_but(self, uids: set[str]) -> None:
        """Drop the state of deleted pods."""
        self._checks = {uid: check for uid, check in self._checks.items() if uid in uids}

    def stop(self) -> None:
        """Stop every agent and remove the files."""
        self._workers.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._stopped = True
            for agent in self._running:
                agent.send_signal(signal.SIGINT)
        self._workers.shutdown(wait=True)
        self._agents.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _work(self, check: _Check, pod: Object, profile: NodeProfile, mounted: Mounted) -> None:
        try:
            check.result = self._run(check, pod, profile, mounted)
        except (ApiError, OSError) as error:
            check.result = Result(ready=False, message=f"the agent could not be started: {error}")
        finally:
            check.ended = time.monotonic()
            check.running = False
            self.changed.set()

    def _run(self, check: _Check, pod: Object, profile: NodeProfile, mounted: Mounted) -> Result:
        agent = base64.b64decode(mounted.agent)
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            folder = Path(name)
            files = {
                "profile": profile.model_dump_json(),
                "expectations": mounted.expectations,
                "token": self._token(check, pod),
            }
            for file, text in files.items():
                (folder / file).write_text(text)
            command = ["check", "--expect", str(folder / "expectations"), "--deadline", str(_READ_SECONDS)]
            environment = {
                **{key: os.environ[key] for key in _KEPT if key in os.environ},
                **pod_environment(pod),
                READER_VARIABLE: json.dumps(self._agents.reader(agent, folder / "profile")),
                SYSFS_VARIABLE: os.devnull,
                "GPU_PLATFORM_API_SERVER": self._api.server,
                "GPU_PLATFORM_TOKEN_FILE": str(folder / "token"),
                "GPU_PLATFORM_CA_FILE": self._api.authority,
            }
            run = self._agents.command(agent, *command, "--format", "json", "--publish")
            return self._await(run, environment)

    def _await(self, command: Sequence[str], environment: Mapping[str, str]) -> Result:
        with self._lock:
            if self._stopped:
                return Result(ready=False, message="the simulator stops")
            # The agent is in the simulator's process group, so that both are stopped together.
            agent = subprocess.Popen(
                command,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            self._running.add(agent)
        try:
            output, errors = agent.communicate(timeout=_AGENT_SECONDS)
        except subprocess.TimeoutExpired:
            agent.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                agent.communicate(timeout=3)
            agent.kill()
            agent.communicate()
            return Result(ready=False, message=f"unknown: the agent did not end within {_AGENT_SECONDS} s")
        finally:
            with self._lock:
                self._running.discard(agent)
        return read_result(agent.returncode, output.decode(errors="replace"), errors.decode(errors="replace"))

    def _token(self, check: _Check, pod: Object) -> str:
        """Return a token of the pod's service account. Like the tokens that a kubelet requests, it is bound to the
        pod.
        """
        token, until = check.token
        if time.monotonic() < until:
            return token
        metadata, account = pod["metadata"], pod["spec"].get("serviceAccountName", "default")
        bound = {"kind": "Pod", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"]}
        answer = self._api.create(
            f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{account}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": _TOKEN_SECONDS, "boundObjectRef": bound},
            },
        )
        check.token = (answer["status"]["token"], time.monotonic() + _TOKEN_SECONDS / 2)
        return check.token[0]


# -- pure functions ---------------------------------------------------------------------------------------


def read_mounts(pod: Object, config_maps: Sequence[Object]) -> Mounted | None:
    """Return the agent and the expectations from a pod's ConfigMap volumes, or None if one is missing."""
    by_name = {each["metadata"]["name"]: each for each in config_maps}
    agent: tuple[str, int] | None = None
    expectations: tuple[str, int] | None = None
    for volume in pod["spec"].get("volumes", ()):
        config_map = by_name.get(volume.get("configMap", {}).get("name", ""), {})
        binary: Mapping[str, str] = config_map.get("binaryData") or {}
        data: Mapping[str, str] = config_map.get("data") or {}
        if AGENT_KEY in binary:
            agent = (binary[AGENT_KEY], version_of(config_map))
        if EXPECTATIONS_KEY in data:
            expectations = (data[EXPECTATIONS_KEY], version_of(config_map))
    if agent is None or expectations is None:
        return None
    return Mounted(agent[0], expectations[0], (agent[1], expectations[1]))


def again_after(result: Result, since: float) -> float:
    """Return the seconds until an agent runs again if nothing changes. The last run ended `since` seconds ago.

    If the checks pass, the report is written again at the same interval as on a real node.
    """
    return (REPUBLISH_SECONDS if result.ready else _AGAIN_SECONDS) - since


def pod_environment(pod: Object) -> dict[str, str]:
    """Return the agent's environment variables, from the values in its container and from the downward API."""
    metadata = pod["metadata"]
    variables = pod["spec"]["containers"][0].get("env") or ()
    ours = {one["name"]: one["value"] for one in variables if one["name"].startswith(_OURS) and "value" in one}
    return {
        **ours,
        "NODE_NAME": pod["spec"]["nodeName"],
        "POD_NAME": metadata["name"],
        "POD_UID": metadata["uid"],
        "POD_NAMESPACE": metadata["namespace"],
    }


def read_result(code: int, output: str, errors: str) -> Result:
    """Return the result of an agent that has ended. Only exit code 0 means that the node is ready.

    The message contains every check that did not pass, or otherwise the last line of the agent's errors.
    """
    last = (errors.strip().splitlines() or [f"exit code {code}"])[-1]
    try:
        report = cast("dict[str, Any]", json.loads(output))
        found = [
            f"{entry['id']}{' on ' + entry['device'] if entry['device'] else ''}: "
            f"expected {entry['expected']}, observed {entry['observed']}"
            for entry in report["checks"]
            if entry["verdict"] not in _QUIET_VERDICTS
        ]
        verdict = str(report["verdict"])
    except (ValueError, KeyError, TypeError):
        return Result(ready=False, message=f"unknown: the agent gave no report: {last}")
    if code == 0:
        return Result(ready=True, message=verdict)
    return Result(ready=False, message=f"{verdict}: {'; '.join(found) or last}" if verdict != "pass" else last)


def pod_status(pod: Object, result: Result) -> dict[str, Any]:
    """Return the status of a running validation pod, as a strategic merge patch."""
    spec, status = pod["spec"], pod["status"]
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    started = status.get("startTime") or now
    readiness = {
        "status": "True" if result.ready else "False",
        "reason": "Validated" if result.ready else "NotValidated",
        "message": result.message,
    }
    before = {each["type"]: each for each in status.get("conditions", ())}
    kinds = {
        "PodReadyToStartContainers": {"status": "True"},
        "Initialized": {"status": "True"},
        "ContainersReady": readiness,
        "Ready": readiness,
    }
    return {
        "phase": "Running",
        "startTime": started,
        "conditions": [
            {"type": kind, **condition, "lastTransitionTime": _since(before.get(kind), condition["status"], now)}
            for kind, condition in kinds.items()
        ],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": result.ready,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": started}},
            }
            for container in spec["containers"]
        ],
    }


def _since(before: Mapping[str, Any] | None, status: str, now: str) -> str:
    """Return the time at which a condition changed to its current status."""
    if before is not None and before["status"] == status:
        return before.get("lastTransitionTime") or now
    return now


def shown_result(pod: Object) -> Result | None:
    """Return the result in a pod's status, or None if there is none."""
    for condition in pod["status"].get("conditions", ()):
        if condition["type"] == "Ready":
            return Result(condition["status"] == "True", condition.get("message", ""))
    return None
