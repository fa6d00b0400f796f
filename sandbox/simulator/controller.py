"""The control loop, which reconciles all nodes, pods and slices and then waits for a change."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from gpu_platform.base import names
from gpu_platform.catalog import Catalog
from sandbox.simulator.cluster_policy import read_cluster_policy
from sandbox.simulator.driver_upgrade import read_nvidia_driver
from sandbox.simulator.driver_upgrades import DriverUpgrades
from sandbox.simulator.gpu_cluster import read_gpu_cluster
from sandbox.simulator.kube import Api, ApiError, Informer, Object, key_of, log, version_of
from sandbox.simulator.kubelet import holds_devices
from sandbox.simulator.nodes import Nodes, OperatorObjects, has_gpus, is_simulated, unannounced_machine
from sandbox.simulator.operands import Operands
from sandbox.simulator.pods import Pods
from sandbox.simulator.resource_slices import CLASSES, SLICES, ResourceSlices
from sandbox.simulator.validation import ValidationPods

_RUNTIME_CLASSES: Final = "/apis/node.k8s.io/v1/runtimeclasses"
_IDLE_SECONDS: Final = 60.0
_RETRY_SECONDS: Final = 0.5


class Controller:
    """The simulated GPU Operator for one API server. `mig_seconds` is the duration of a MIG change, and
    `driver_seconds` the duration of a driver restart.
    """

    def __init__(
        self,
        api: Api,
        catalog: Catalog,
        *,
        mig_seconds: float,
        driver_seconds: float,
        validation: ValidationPods,
    ) -> None:
        self._api = api
        self._catalog = catalog
        self._changed = validation.changed
        self._stop = threading.Event()

        def watch(path: str, **selectors: str) -> Informer:
            return Informer(api, path, self._changed, selectors)

        only_faults = f"metadata.name={names.SANDBOX_FAULTS_CONFIG_MAP}"
        self._node_objects = watch("/api/v1/nodes")
        self._pod_objects = watch("/api/v1/pods", fieldSelector="spec.nodeName!=")
        self._policies = watch("/apis/nvidia.com/v1/clusterpolicies")
        self._gpu_clusters = watch("/apis/nvidia.com/v1alpha1/gpuclusters")
        self._nvidia_drivers = watch("/apis/nvidia.com/v1alpha1/nvidiadrivers")
        self._claims = watch("/apis/resource.k8s.io/v1/resourceclaims")
        self._of_dra = slices, classes = watch(SLICES), watch(CLASSES)
        self._resource_slices = ResourceSlices(api, slices, classes, catalog)
        self._config_maps = watch(f"/api/v1/namespaces/{names.OPERATOR_NAMESPACE}/configmaps")
        self._faults = watch(f"/api/v1/namespaces/{names.SANDBOX_NAMESPACE}/configmaps", fieldSelector=only_faults)
        self._runtime_classes = watch(_RUNTIME_CLASSES)
        self._nodes = Nodes(self._node_objects, catalog, mig_seconds=mig_seconds)
        self._driver_upgrades = DriverUpgrades(api, self._node_objects, driver_seconds=driver_seconds)
        self._operands = Operands(self._node_objects, restart_seconds=driver_seconds)
        self._pods = Pods(api, self._pod_objects, self._nodes, validation, catalog)

    def stop(self) -> None:
        """Make `run` return soon. This method may be called from a signal handler."""
        self._stop.set()
        self._changed.set()

    def run(self) -> None:
        """Reconcile until `stop` is called."""
        for informer in (
            self._node_objects,
            self._pod_objects,
            self._policies,
            self._gpu_clusters,
            self._nvidia_drivers,
            self._claims,
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
            self._changed.wait(self._reconcile_all(first=first))
            first = False

    def _reconcile_all(self, *, first: bool) -> float:
        """Reconcile every object once, and return the seconds until the next reconciliation if nothing changes."""
        operator = self._operator()
        fault_maps = self._faults.all()
        faults: Mapping[str, str] = fault_maps[0].get("data") or {} if fault_maps else {}
        nodes = {node["metadata"]["name"]: node for node in self._node_objects.all()}
        pods = self._pod_objects.all()
        self._nodes.forget_all_but(nodes)
        self._pods.forget_all_but(pods)
        holders: dict[str, list[str]] = {}
        by_node: dict[str, list[Object]] = {}
        for pod in pods:
            by_node.setdefault(pod["spec"]["nodeName"], []).append(pod)
            if holds_devices(pod):
                holders.setdefault(pod["spec"]["nodeName"], []).append(key_of(pod))
        of_classes = partial(self._resource_slices.reconcile_classes, operator.gpu_cluster_owner)
        waits = [
            _reconcile("runtime class", partial(self._runtime_class, operator)),
            _reconcile("device classes", of_classes),
        ]
        for name, node in nodes.items():
            if (machine_type := unannounced_machine(node)) is not None:
                waits.append(_reconcile(f"node {name}", partial(self._nodes.announce, node, machine_type)))
            if is_simulated(node):
                update = partial(
                    self._nodes.reconcile, node, operator, faults.get(name, ""), holders.get(name, ())
                )
                waits.append(_reconcile(f"node {name}", update))
                publish = partial(self._resource_slices.reconcile, node, operator, faults.get(name, ""))
                waits.append(_reconcile(f"resource slices of {name}", publish))
        simulated = [node for node in self._node_objects.all() if is_simulated(node)]
        of_operator = [node for node in simulated if has_gpus(node, self._catalog)]
        claims = {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in self._claims.all()}
        upgrade = partial(self._driver_upgrades.reconcile, of_operator, by_node, claims, operator.driver)
        waits.append(_reconcile("driver upgrades", upgrade))
        restart = partial(self._operands.reconcile, of_operator, operator.release)
        waits.append(_reconcile("operands", restart))
        # A kubelet admits new pods in the order of their creation.
        for pod in sorted(pods, key=lambda pod: pod["metadata"]["creationTimestamp"]):
            update = partial(self._pods.reconcile, pod, nodes, first=first)
            waits.append(_reconcile(f"pod {key_of(pod)}", update))
        return min(waits)

    def _operator(self) -> OperatorObjects:
        policies = sorted(self._policies.all(), key=lambda policy: policy["metadata"]["creationTimestamp"])
        maps = self._config_maps.all()
        # The operator uses the oldest ClusterPolicy and ignores all others.
        owner = policies[0] if policies else None
        # A cluster has at most one GPUCluster, which is not reconciled if there is a ClusterPolicy.
        clusters = self._gpu_clusters.all()
        cluster = clusters[0] if clusters and owner is None else None
        # Without a ClusterPolicy, NVIDIADrivers determine the drivers.
        # gpu-platform creates only the default NVIDIADriver.
        drivers = self._nvidia_drivers.all() if owner is None else []
        driver = next((one for one in drivers if one.get("spec", {}).get("default") is True), None)
        return OperatorObjects(
            policy=read_cluster_policy(owner.get("spec", {})) if owner else None,
            owner=owner,
            gpu_cluster=read_gpu_cluster(cluster.get("spec", {})) if cluster else None,
            gpu_cluster_owner=cluster,
            config_maps={each["metadata"]["name"]: each.get("data") or {} for each in maps},
            nvidia_driver=read_nvidia_driver(driver["spec"]) if driver else None,
            release=_release(owner or cluster),
            version=(
                version_of(owner) if owner else 0,
                version_of(driver) if driver else 0,
                *sorted(version_of(each) for each in maps),
            ),
        )

    def _runtime_class(self, operator: OperatorObjects) -> float:
        """Create the RuntimeClass for pods that use the driver's libraries. The ClusterPolicy owns it."""
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


def _release(owner: Object | None) -> str:
    labels: Mapping[str, str] = (owner["metadata"].get("labels") or {}) if owner is not None else {}
    return labels.get(names.VERSION_LABEL, "")


def _reconcile(what: str, reconcile: Callable[[], float]) -> float:
    """Call `reconcile` and return its delay, or a short delay after an API server error."""
    try:
        return reconcile()
    except ApiError as error:
        if error.status in (404, 409):
            return _IDLE_SECONDS  # the object was deleted or replaced in the meantime
        log(f"{what}: {error}")
        return _RETRY_SECONDS
    except Exception:  # one malformed object must not stop the simulation of all others
        log(f"{what}: {traceback.format_exc()}")
        return _IDLE_SECONDS
