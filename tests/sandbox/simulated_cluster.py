"""A wrapper around the sandbox for the simulator's tests. It creates and reads objects, and at the end removes the
objects that it created.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any

from gpu_platform.base import names
from sandbox.control_plane import Status
from sandbox.simulator.kube import Api, ApiError, Object

POLICY = f"/apis/nvidia.com/v1/clusterpolicies/{names.CLUSTER_POLICY}"
TAINT = {"key": names.GPU_TAINT_KEY, "value": names.GPU_TAINT_VALUE, "effect": "NoSchedule"}
TOLERATION = {"key": names.GPU_TAINT_KEY, "operator": "Exists"}
_SERIAL = itertools.count()


class Cluster:
    """A sandbox for one test. It removes the objects that the test created."""

    def __init__(self, status: Status) -> None:
        self.api = Api(status.kubeconfig)
        self._made: list[str] = []

    def make(self, path: str, body: Mapping[str, Any]) -> Object:
        """Create an object. `path` is the API path of its collection."""
        made = self.api.create(path, body)
        self._made.append(f"{path}/{body['metadata']['name']}")
        return made

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for path in reversed(self._made):
            with suppress(ApiError):
                self.api.delete_now(path, self.api.get(path)["metadata"]["uid"])

    def namespace(self, name: str) -> None:
        """Create a namespace if it does not exist. The namespace is not removed at the end of the test."""
        with suppress(ApiError):
            self.api.create("/api/v1/namespaces", {"metadata": {"name": name}})

    def operator(self, mig: str = "", **plugin: str) -> None:
        """Create a ClusterPolicy with the device plugin configs `plugin` and the mig-parted config `mig`."""
        self.namespace(names.OPERATOR_NAMESPACE)
        self.config_map("plugin", **plugin)
        spec: dict[str, Any] = {"devicePlugin": {"config": {"name": "plugin", "default": "default"}}}
        if mig:
            self.config_map("mig", **{"config.yaml": mig})
            spec["migManager"] = {"config": {"name": "mig"}}
        metadata = {"name": names.CLUSTER_POLICY}
        body = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": metadata, "spec": spec}
        self.make("/apis/nvidia.com/v1/clusterpolicies", body)

    def faults(self, **by_node: str | None) -> None:
        """Set the faults of nodes as JSON, or remove them with None."""
        maps = f"/api/v1/namespaces/{names.SANDBOX_NAMESPACE}/configmaps"
        path = f"{maps}/{names.SANDBOX_FAULTS_CONFIG_MAP}"
        try:
            self.api.patch(path, {"data": by_node}, "merge")
        except ApiError:
            self.make(maps, {"metadata": {"name": names.SANDBOX_FAULTS_CONFIG_MAP}, "data": by_node})

    def node(self, machine_type: str, **labels: str) -> str:
        """Create a simulated node with additional labels, and return its name."""
        name = f"simulated-{next(_SERIAL)}"
        annotations = {
            names.KWOK_NODE_ANNOTATION: "fake",
            names.SANDBOX_MACHINE_ANNOTATION: machine_type,
            names.SANDBOX_DRIVER_ANNOTATION: "580.95.05",
        }
        self.make(
            "/api/v1/nodes",
            {
                "metadata": {
                    "name": name,
                    "annotations": annotations,
                    "labels": {names.HOSTNAME_LABEL: name, **labels},
                },
                "spec": {"taints": [TAINT]},
            },
        )
        return name

    def config_map(self, name: str, namespace: str = names.OPERATOR_NAMESPACE, **data: str) -> None:
        self.make(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": name}, "data": data})

    def pod(
        self, node: str, *, tolerates: bool = True, resources: Mapping[str, str] | None = None, **limits: int
    ) -> str:
        """Create a pod on `node` that requests `resources` and `limits`, and return its name.

        The names in `limits` omit the prefix `nvidia.com/`, and use `_` instead of `.`.
        """
        name = f"pod-{next(_SERIAL)}"
        gpus = {f"nvidia.com/{resource.replace('_', '.')}": str(count) for resource, count in limits.items()}
        requested = {**(resources or {}), **gpus}
        self.make(
            "/api/v1/namespaces/default/pods",
            {
                "metadata": {"name": name},
                "spec": {
                    "nodeSelector": {names.HOSTNAME_LABEL: node},
                    "tolerations": [TOLERATION] if tolerates else [],
                    "containers": [{"name": "main", "image": "none", "resources": {"limits": requested}}],
                },
            },
        )
        return name

    def remove_pod(self, name: str) -> None:
        """Delete a pod without a grace period."""
        self.api.delete_now(f"/api/v1/namespaces/default/pods/{name}", self.get_pod(name)["metadata"]["uid"])

    def get_node(self, name: str) -> Object:
        return self.api.get(f"/api/v1/nodes/{name}")

    def gpus(self, name: str) -> dict[str, str]:
        """Return a node's allocatable GPU resources without the prefix `nvidia.com/`. Resources with 0 units are
        omitted.
        """
        allocatable = self.get_node(name)["status"].get("allocatable", {})
        return {
            resource.removeprefix("nvidia.com/"): count
            for resource, count in allocatable.items()
            if resource.startswith("nvidia.com/") and count != "0"
        }

    def labels(self, name: str) -> dict[str, str]:
        return dict(self.get_node(name)["metadata"]["labels"])

    def label(self, name: str, **labels: str | None) -> None:
        self.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}}, "merge")

    def get_pod(self, name: str) -> Object:
        return self.api.get(f"/api/v1/namespaces/default/pods/{name}")

    def phase(self, name: str) -> str:
        return self.get_pod(name)["status"]["phase"]
