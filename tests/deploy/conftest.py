"""Runs the small programs in tests/deploy/programs, and deploys lists of objects to the shared sandbox."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.deploy.changes import Changes
from gpu_platform.deploy.embedded.apply import apply
from gpu_platform.deploy.embedded.destroy import destroy
from gpu_platform.deploy.embedded.diff import preview
from gpu_platform.deploy.recorded.record import RecordedProgram, record_program
from gpu_platform.live.client import KubernetesClient
from sandbox.control_plane import Status
from tests.support.terminating import finalized_at_once

PROGRAMS = Path(__file__).parent / "programs"

Record = Callable[..., RecordedProgram]
Objects = list[dict[str, Any]]


@pytest.fixture(scope="session")
def record() -> Record:
    """Return a function that records a program of `programs/` by name, with a platform object as its
    configuration.
    """

    def run(name: str, platform: Mapping[str, Any] | None = None, **options: Any) -> RecordedProgram:
        config = {
            "gpu-platform:platform": json.dumps(platform or {"team": "vision", "replicas": 4}),
            "gpu-platform:token": "hunter2",
        }
        options = {"stack": "test", **options}
        return record_program(
            PROGRAMS / f"{name}.py",
            project="gpu-platform",
            config=config,
            secret_config=["gpu-platform:token"],
            **options,
        )

    return run


class Stack:
    """A stack of plain objects that the embedded engine deploys."""

    def __init__(self, name: str, client: KubernetesClient, record: Record) -> None:
        self.name = name
        self.client = client
        self._record = record

    def recorded(self, objects: Objects, outputs: Mapping[str, Any] | None = None) -> RecordedProgram:
        platform = {"objects": objects, "outputs": outputs or {}}
        return self._record("objects", platform, stack=self.name, preview=False, unknown_outputs=False)

    def up(self, objects: Objects, outputs: Mapping[str, Any] | None = None) -> Changes:
        return apply(self.client, self.recorded(objects, outputs))

    def preview(self, objects: Objects) -> Changes:
        return preview(self.client, self.recorded(objects))

    def destroy(self) -> Changes:
        return destroy(self.client, self.name)


@pytest.fixture(scope="module")
def client(sandbox: Status) -> KubernetesClient:
    return KubernetesClient(sandbox.kubeconfig)


@pytest.fixture
def stacks(sandbox: Status, client: KubernetesClient, record: Record) -> Iterator[Callable[[str], Stack]]:
    """Yield a function that returns a stack by name. All stacks are destroyed after the test."""
    made: dict[str, Stack] = {}
    yield lambda name: made.setdefault(name, Stack(name, client, record))
    with finalized_at_once(sandbox.kubeconfig):
        for stack in made.values():
            stack.destroy()


@pytest.fixture
def stack(stacks: Callable[[str], Stack]) -> Stack:
    return stacks("engine-test")


# -- objects ----------------------------------------------------------------------------------------------


def namespace(name: str) -> dict[str, Any]:
    return {"manifest": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}}


def config_map(name: str, place: str, data: Mapping[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": place}
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": data or {"a": "1"},
        **fields,
    }
    return {"manifest": manifest}


def node(name: str, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    metadata = {
        "name": name,
        "annotations": {"kwok.x-k8s.io/node": "fake", "sandbox.gpu-platform.dev/machine-type": "g5.xlarge"},
        "labels": {"kubernetes.io/hostname": name, **(labels or {})},
    }
    return {"manifest": {"apiVersion": "v1", "kind": "Node", "metadata": metadata}}


def limited(seconds: float) -> dict[str, Any]:
    """Return the timeouts of an object, for its creation and for its updates in later runs."""
    return {"timeouts": dict.fromkeys(("create", "update"), f"{seconds:g}s")}


def workload(
    kind: str, name: str, place: str, pod: Mapping[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "app:1"}], **(pod or {})},
    }
    return {
        "manifest": {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": place},
            "spec": {"selector": {"matchLabels": {"app": name}}, "template": template, **spec},
        }
    }
