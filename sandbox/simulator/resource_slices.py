"""ResourceSlices of simulated nodes and DeviceClasses of the DRA driver."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.catalog import Catalog
from sandbox.simulator.cluster_policy import runs_on_node
from sandbox.simulator.dra_driver import SliceSpec, slice_specs
from sandbox.simulator.gpu_cluster import TYPE_OF_CLASS, device_class
from sandbox.simulator.kube import Api, Informer, Object, log, version_of
from sandbox.simulator.nodes import OperatorObjects, simulated_machine

SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"
CLASSES: Final = "/apis/resource.k8s.io/v1/deviceclasses"
_DIGEST_ANNOTATION: Final = "sandbox.gpu-platform.dev/digest"
_IDLE_SECONDS: Final = 60.0


class ResourceSlices:
    """Publishes the objects of the simulated DRA driver."""

    def __init__(self, api: Api, slices: Informer, classes: Informer, catalog: Catalog) -> None:
        self._api = api
        self._slices = slices
        self._classes = classes
        self._catalog = catalog
        self._published: dict[str, tuple[object, list[SliceSpec], str]] = {}
        """For each node: the inputs of its slices, the slices, and their digest."""

    def reconcile(self, node: Object, operator: OperatorObjects, faults: str) -> float:
        """Publish a node's devices if they have changed, and return the seconds until the next reconciliation."""
        name = node["metadata"]["name"]
        present = [one for one in self._slices.all() if one["spec"].get("nodeName") == name and _is_ours(one)]
        inputs = (node["metadata"]["uid"], version_of(node), operator.gpu_cluster, operator.driver, faults)
        if self._published.get(name, (None,))[0] != inputs:
            wanted = self._wanted(node, operator, faults)
            digest = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()[:16]
            self._published[name] = (inputs, wanted, digest)
        _, wanted, digest = self._published[name]
        if len(present) == len(wanted) and all(_digest(one) == digest for one in present):
            return _IDLE_SECONDS
        generation = 1 + max((one["spec"]["pool"]["generation"] for one in present), default=0)
        for old in present:
            self._slices.delete_now(old)
        for index, spec in enumerate(wanted):
            # If the watch has not delivered these slices yet, a second creation fails because the name exists.
            slice_name = f"{name}-{names.DRA_DRIVER}-{generation}-{index}"
            pool = {**spec["pool"], "generation": generation}
            self._api.create(SLICES, _slice(node, slice_name, digest, {**spec, "pool": pool}))
        log(f"node {name}: {len(wanted)} resource slices, generation {generation}")
        return _IDLE_SECONDS

    def _wanted(self, node: Object, operator: OperatorObjects, faults: str) -> list[SliceSpec]:
        labels: Mapping[str, str] = node["metadata"].get("labels") or {}
        if operator.gpu_cluster is None or not runs_on_node(labels, "dra-driver"):
            return []
        installed = operator.driver.version if operator.driver is not None else ""
        simulated = simulated_machine(node, faults, self._catalog, installed)
        if isinstance(simulated, str):
            return []
        return slice_specs(
            node["metadata"]["name"], simulated.hardware, dynamic_mig=operator.gpu_cluster.dynamic_mig
        )

    def reconcile_classes(self, owner: Object | None) -> float:
        """Create the driver's missing DeviceClasses. `owner` is the GPUCluster that owns them, or None if DRA is
        not used.
        """
        present = {each["metadata"]["name"] for each in self._classes.all()}
        if owner is not None:
            for name in TYPE_OF_CLASS:
                if name not in present:
                    self._api.create(CLASSES, device_class(name, owner))
        return _IDLE_SECONDS


def _slice(node: Object, name: str, digest: str, spec: SliceSpec) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Node", "name": node["metadata"]["name"], "uid": node["metadata"]["uid"]}
    metadata = {"name": name, "annotations": {_DIGEST_ANNOTATION: digest}, "ownerReferences": [owner]}
    return {"metadata": metadata, "spec": spec}


def _is_ours(item: Object) -> bool:
    return item["spec"].get("driver") == names.DRA_DRIVER


def _digest(item: Object) -> str:
    annotations: Mapping[str, str] = item["metadata"].get("annotations") or {}
    return annotations.get(_DIGEST_ANNOTATION, "")
