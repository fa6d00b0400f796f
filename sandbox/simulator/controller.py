"""The one loop: looks at everything, has it patched where it differs, waits for a change."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from gpu_platform import names
from gpu_platform.catalog import Catalog
from sandbox.simulator.cluster_policy import read_cluster_policy
from sandbox.simulator.gpu_cluster import read_gpu_cluster
from sandbox.simulator.kube import Api, ApiError, Informer, key_of, log, version_of
from sandbox.simulator.kubelet import holds_devices
from sandbox.simulator.nodes import Nodes, Operator, is_simulated
from sandbox.simulator.pods import Pods
from sandbox.simulator.resource_slices import CLASSES, SLICES, ResourceSlices
from sandbox.simulator.validation import ValidationPods

_RUNTIME_CLASSES: Final = "/apis/node.k8s.io/v1/runtimeclasses"
_IDLE_SECONDS: Final = 60.0
_RETRY_SECONDS: Final = 0.5


class Controller:
    """Everything simulated on one API server. `mig_seconds`: how long a change of MIG takes."""

    def __init__(self, api: Api, catalog: Catalog, *, mig_seconds: float, validation: ValidationPods) -> None:
        self._api = api
        self._changed = validation.changed
        self._stop = threading.Event()

        def watch(path: str, **selectors: str) -> Informer:
            return Informer(api, path, self._changed, selectors)

        only_faults = f"metadata.name={names.SANDBOX_FAULTS_CONFIG_MAP}"
        self._node_objects = watch("/api/v1/nodes")
        self._pod_objects = watch("/api/v1/pods", fieldSelector="spec.nodeName!=")
        self._policies = watch("/apis/nvidia.com/v1/clusterpolicies")
        self._gpu_clusters = watch("/apis/nvidia.com/v1alpha1/gpuclusters")
        self._of_dra = slices, classes = watch(SLICES), watch(CLASSES)
        self._resource_slices = ResourceSlices(api, slices, classes, catalog)
        self._config_maps = watch(f"/api/v1/namespaces/{names.OPERATOR_NAMESPACE}/configmaps")
        self._faults = watch(f"/api/v1/namespaces/{names.SANDBOX_NAMESPACE}/configmaps", fieldSelector=only_faults)
        self._runtime_classes = watch(_RUNTIME_CLASSES)
        self._nodes = Nodes(self._node_objects, catalog, mig_seconds=mig_seconds)
        self._pods = Pods(self._pod_objects, self._nodes, validation)

    def stop(self) -> None:
        """Make `run` return soon. May be called from a signal handler."""
        self._stop.set()
        self._changed.set()

    def run(self) -> None:
        """Work until `stop`."""
        for informer in (
            self._node_objects,
            self._pod_objects,
            self._policies,
            self._gpu_clusters,
            *self._of_dra,
            self._config_maps,
            self._faults,
            self._runtime_classes,
        ):
            while not informer.synced.wait(0.1):
                if self._stop.is_set():
                    return
        log("simulator: watching")
        first = True
        while not self._stop.is_set():
            self._changed.clear()
            self._changed.wait(self._look(first=first))
            first = False

    def _look(self, *, first: bool) -> float:
        """Look at everything once and return after how many seconds to look again without a change."""
        operator = self._operator()
        fault_maps = self._faults.all()
        faults: Mapping[str, str] = fault_maps[0].get("data") or {} if fault_maps else {}
        nodes = {node["metadata"]["name"]: node for node in self._node_objects.all()}
        pods = self._pod_objects.all()
        self._nodes.forget_all_but(nodes)
        self._pods.forget_all_but(pods)
        holders: dict[str, list[str]] = {}
        for pod in pods:
            if holds_devices(pod):
                holders.setdefault(pod["spec"]["nodeName"], []).append(key_of(pod))
        of_classes = partial(self._resource_slices.look_at_classes, operator.gpu_cluster_owner)
        waits = [
            _carefully("runtime class", partial(self._runtime_class, operator)),
            _carefully("device classes", of_classes),
        ]
        for name, node in nodes.items():
            if is_simulated(node):
                look = partial(self._nodes.look, node, operator, faults.get(name, ""), holders.get(name, ()))
                waits.append(_carefully(f"node {name}", look))
                publish = partial(self._resource_slices.look, node, operator, faults.get(name, ""))
                waits.append(_carefully(f"resource slices of {name}", publish))
        for pod in pods:
            look = partial(self._pods.look, pod, nodes, first=first)
            waits.append(_carefully(f"pod {key_of(pod)}", look))
        return min(waits)

    def _operator(self) -> Operator:
        policies = sorted(self._policies.all(), key=lambda policy: policy["metadata"]["creationTimestamp"])
        maps = self._config_maps.all()
        # There can be one ClusterPolicy only: the operator ignores every other than the first.
        owner = policies[0] if policies else None
        # Its name is fixed, so there is one at most; beside a ClusterPolicy it waits ("PrerequisiteNotMet").
        clusters = self._gpu_clusters.all()
        cluster = clusters[0] if clusters and owner is None else None
        return Operator(
            policy=read_cluster_policy(owner.get("spec", {})) if owner else None,
            owner=owner,
            gpu_cluster=read_gpu_cluster(cluster.get("spec", {})) if cluster else None,
            gpu_cluster_owner=cluster,
            config_maps={each["metadata"]["name"]: each.get("data") or {} for each in maps},
            version=(version_of(owner) if owner else 0, *sorted(version_of(each) for each in maps)),
        )

    def _runtime_class(self, operator: Operator) -> float:
        """Make the RuntimeClass that pods with the driver's libraries name; it goes with the ClusterPolicy."""
        present = {each["metadata"]["name"] for each in self._runtime_classes.all()}
        if operator.policy is None or operator.owner is None or operator.policy.runtime_class in present:
            return _IDLE_SECONDS
        name, owner = operator.policy.runtime_class, operator.owner["metadata"]
        reference = {
            "apiVersion": "nvidia.com/v1",
            "kind": "ClusterPolicy",
            "name": owner["name"],
            "uid": owner["uid"],
            "controller": True,
        }
        metadata = {"name": name, "ownerReferences": [reference]}
        self._api.create(_RUNTIME_CLASSES, {"metadata": metadata, "handler": name})
        return _IDLE_SECONDS


def _carefully(what: str, look: Callable[[], float]) -> float:
    """Return what `look` returns; try again soon where the API server refuses or is away."""
    try:
        return look()
    except ApiError as error:
        if error.status in (404, 409):
            return _IDLE_SECONDS  # it went away meanwhile, or one of the same name has another uid
        log(f"{what}: {error}")
        return _RETRY_SECONDS
    except Exception:  # one odd object must not stop the simulation of all others
        log(f"{what}: {traceback.format_exc()}")
        return _IDLE_SECONDS
