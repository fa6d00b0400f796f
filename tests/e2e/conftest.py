"""Fixtures for tests of whole stacks: a separate sandbox, and a helper that runs the command line."""

from __future__ import annotations

import copy
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.live.client import KubernetesClient
from sandbox import control_plane
from tests.support import command_line, pulumi_cli
from tests.support.command_line import COMMAND, Ran
from tests.support.eventually import eventually
from tests.support.restricted import satisfying

# Each worker of pytest-xdist has a separate sandbox, so that whole stacks are tested in parallel.
SANDBOX = f"e2e-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"
# Time limit for node validation in stacks whose nodes pass.
# Only a broken program exceeds this time limit, even on a loaded machine.
# The time limit of a whole test is longer.
VALIDATION_TIMEOUT = "4m"
TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}

BASE: dict[str, Any] = {
    "kind": "environment",
    "cluster": {"provider": "sandbox", "name": SANDBOX},
    "pools": [
        {"name": "train", "machine_type": "p4de.24xlarge", "count": {"desired": 1}, "workload": "training"},
        {
            "name": "serve",
            "machine_type": "g4dn.xlarge",
            "count": {"desired": 1},
            "workload": "inference",
            "sharing": {"mode": "time-slicing", "replicas": 4},
        },
        {
            "name": "lab",
            "machine_type": "p4de.24xlarge",
            "count": {"desired": 1},
            "workload": "development",
            "sharing": {"mode": "mig", "layout": {"1g.10gb": 7}},
        },
    ],
    "teams": [
        {
            "name": "vision",
            "quota": {"gpus": 4, "mig": {"1g.10gb": 14}, "cpu": 100, "memory": "1Ti"},
            "priority": "training",
            "members": ["group:vision"],
            "workloads": [{"name": "pretrain", "pool": "train", "gpus": 4}],
        },
        {
            "name": "search",
            "quota": {"gpus": 2, "shared": 2},
            "priority": "inference",
            "members": ["group:search"],
        },
    ],
    # Gated nodes refuse pods that tolerate all taints, and most tests do not test the gate.
    "validation": {"timeout": VALIDATION_TIMEOUT, "gate_nodes": "never"},
}


def quotas_are_free(client: KubernetesClient, namespace: str = "") -> bool:
    """Return whether the quotas of a namespace, or of all namespaces, count no GPUs, MIG instances, CPUs or
    memory.

    A quota still counts a pod for a moment after its deletion, so the next pod might be refused.
    """
    quotas = client.objects("v1", "ResourceQuota", namespace=namespace)
    used = [item for quota in quotas for item in quota.get("status", {}).get("used", {}).items()]
    of_pods = ("requests.", "limits.", "cpu", "memory")
    return all(amount == "0" for key, amount in used if key.startswith(of_pods) and "storage" not in key)


@dataclass
class Platform:
    """A sandbox, and a separate folder with stack files."""

    client: KubernetesClient
    kubeconfig: Path
    folder: Path
    state: dict[str, Any]  # last deployed platform object of each stack, for all tests of a group
    engine: str = "embedded"
    env: dict[str, str] = field(default_factory=dict)
    created: list[dict[str, Any]] = field(default_factory=list)

    def write(self, platform: dict[str, Any], stack: str = "shop") -> Path:
        file = self.folder / f"Pulumi.{stack}.yaml"
        file.write_text(yaml.safe_dump({"config": {"gpu-platform:platform": platform}}), "utf-8")
        return file

    def run(self, *arguments: str) -> Ran:
        if arguments[0] in {"up", "destroy"}:
            self.state.clear()
        if self.engine == "embedded":
            return command_line.run(*arguments, env=self.env)
        # The Pulumi CLI runs as a process with child processes, so the command also runs as a process.
        ran = subprocess.run(
            [*COMMAND, *arguments], env={**os.environ, **self.env}, capture_output=True, text=True, check=False
        )
        assert "Traceback" not in ran.stderr, ran.stderr
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    def up(self, platform: dict[str, Any], stack: str = "shop", *options: str) -> Ran:
        file = self.write(platform, stack)
        ran = self.run("up", str(file), "--engine", self.engine, "--format", "json", *options)
        if ran.code == 0:
            self.state[stack] = copy.deepcopy(platform)
        return ran

    def write_faults(self, **faults: list[dict[str, Any]]) -> None:
        """Write the faults of these nodes, and end the faults of all other nodes. The nodes need not exist yet."""
        metadata = {"name": "gpu-faults", "namespace": "sandbox-system"}
        data = {node: json.dumps(found) for node, found in faults.items()} or None
        self.client.merge({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})

    def allocatable(self, node: str) -> dict[str, str]:
        found = self.client.get("v1", "Node", node)
        assert found is not None
        offers = {k: v for k, v in found["status"]["allocatable"].items() if k.startswith("nvidia.com/")}
        # If a device plugin no longer advertises a resource, the resource stays at 0 until the kubelet restarts.
        return {name: count for name, count in offers.items() if count != "0"}

    def pod(
        self, name: str, resource: str, units: int = 1, *, tolerate: bool = True, **spec: Any
    ) -> dict[str, Any]:
        namespace = spec.pop("namespace", "default")
        amount = {"cpu": "100m", "memory": "64Mi", resource: str(units)}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "spec": satisfying(
                {
                    "containers": [
                        {"name": "main", "image": "none", "resources": {"requests": amount, "limits": amount}}
                    ],
                    "tolerations": [TOLERATION] if tolerate else [],
                    **spec,
                }
            ),
        }
        live = self.client.create(pod)
        self.created.append(pod)
        return live

    def find_pod(self, name: str, namespace: str = "default") -> dict[str, Any]:
        found = self.client.get("v1", "Pod", name, namespace)
        assert found is not None, f"pod {name} is gone"
        return found

    def unschedulable(self, name: str, namespace: str = "default") -> str:
        """Return why the scheduler leaves a pod Pending, once it has reported the reason."""

        def why() -> str:
            conditions = self.find_pod(name, namespace)["status"].get("conditions", ())
            return next((c["message"] for c in conditions if c.get("reason") == "Unschedulable"), "")

        return eventually(why)

    def remove_pods(self) -> None:
        for pod in self.created:
            metadata = pod["metadata"]
            live = self.client.get("v1", "Pod", metadata["name"], metadata["namespace"])
            if live is not None:
                self.client.delete(live)
        for namespace in {pod["metadata"]["namespace"] for pod in self.created}:
            ours = {pod["metadata"]["name"] for pod in self.created if pod["metadata"]["namespace"] == namespace}
            eventually(lambda place=namespace, ours=ours: ours.isdisjoint(self._pods(place)))
            if not self._pods(namespace):
                eventually(lambda place=namespace: quotas_are_free(self.client, place))
        self.created.clear()

    def _pods(self, namespace: str) -> set[str]:
        return {pod["metadata"]["name"] for pod in self.client.objects("v1", "Pod", namespace=namespace)}


def platform_of_the_cli(running: control_plane.Status, folder: Path, backend: Path) -> Platform:
    """Return a platform that the Pulumi CLI deploys to a sandbox. `folder` contains its stack files."""
    folder.mkdir(exist_ok=True)
    client = KubernetesClient(running.kubeconfig)
    return Platform(client, running.kubeconfig, folder, {}, engine="pulumi", env=pulumi_cli.environment(backend))


@pytest.fixture(scope="module")
def e2e_sandbox(start_sandbox: Callable[..., control_plane.Status]) -> control_plane.Status:
    return start_sandbox()


@pytest.fixture(scope="module")
def kueue_sandbox(start_sandbox: Callable[..., control_plane.Status]) -> control_plane.Status:
    """A sandbox for stacks with queues. tests/conftest.py builds Kueue if a test needs it."""
    return start_sandbox("queues")


@pytest.fixture
def platform(
    e2e_sandbox: control_plane.Status, tmp_path: Path, deployed_stacks: dict[str, Any]
) -> Iterator[Platform]:
    client = KubernetesClient(e2e_sandbox.kubeconfig)
    hand = Platform(client, e2e_sandbox.kubeconfig, tmp_path, deployed_stacks)
    yield hand
    hand.remove_pods()


@pytest.fixture
def base() -> dict[str, Any]:
    return copy.deepcopy(BASE)


@pytest.fixture
def deployed(platform: Platform, base: dict[str, Any]) -> Platform:
    """The deployed base stack. The stack is deployed again if another test changed it."""
    if platform.state.get("shop") != base:
        ran = platform.up(base)
        assert ran.code == 0, ran.err
    platform.write(base)
    return platform
