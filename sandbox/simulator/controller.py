"""Carries what the operands decide to the API: looks at everything, patches what differs, waits for a change."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gpu_platform import names
from gpu_platform.catalog import Catalog, Gpu, MachineType
from gpu_platform.errors import BadInput
from sandbox.nvml import NodeProfile, build_node, parse_faults
from sandbox.simulator.cluster_policy import ClusterPolicy, read_cluster_policy
from sandbox.simulator.device_plugin import Advertised
from sandbox.simulator.feature_discovery import stale_labels
from sandbox.simulator.hardware import Hardware, observe
from sandbox.simulator.kube import Api, ApiError, Informer, Object, key_of, log, version_of
from sandbox.simulator.kubelet import REJECTED, node_status, rejection, status_patch
from sandbox.simulator.mig_manager import MigOutcome
from sandbox.simulator.node import ConfigMaps, MigMemory, MigRequest, desired_node, mig_request, read_mig_memory
from sandbox.simulator.validation import ValidationPods

MIG_MEMORY_ANNOTATION: Final = "sandbox.gpu-platform.dev/mig-memory"

_RUNTIME_CLASSES: Final = "/apis/node.k8s.io/v1/runtimeclasses"
_IDLE_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 0.5
_ORPHAN_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Operator:
    """The operator's objects as they are now. `version` changes with any of them."""

    policy: ClusterPolicy | None
    owner: Object | None
    """The ClusterPolicy itself."""
    config_maps: ConfigMaps
    version: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Machine:
    """What stands behind one Node: facts, and what its NVML would answer from."""

    machine: MachineType
    gpu: Gpu
    profile: NodeProfile
    memory: MigMemory
    hardware: Hardware
    visible: tuple[int, ...]
    """Physical indices of the GPUs that the driver shows."""
    notes: tuple[str, ...]


@dataclass(slots=True)
class NodeRecord:
    """What the controller knows of one Node between two looks."""

    uid: str
    settled_at: tuple[object, ...] | None = None
    """The inputs after which nothing was left to do."""
    advertised: Mapping[str, Advertised] = field(default_factory=dict[str, Advertised])
    profile: NodeProfile | None = None
    mig_change: tuple[str, float] | None = None
    """Digest of the wish in work, and when the work began (monotonic seconds)."""
    notes: tuple[str, ...] = ()


class Controller:
    """The one loop. `mig_seconds`: how long a change of MIG takes."""

    def __init__(self, api: Api, catalog: Catalog, *, mig_seconds: float, validation: ValidationPods) -> None:
        self._api = api
        self._catalog = catalog
        self._mig_seconds = mig_seconds
        self._validation = validation
        self._changed = validation.changed
        self._stop = threading.Event()
        self._records: dict[str, NodeRecord] = {}
        self._admitted: dict[str, str | None] = {}
        self._orphans: dict[str, float] = {}
        self._first_look = True
        operator_maps = f"/api/v1/namespaces/{names.OPERATOR_NAMESPACE}/configmaps"
        sandbox_maps = f"/api/v1/namespaces/{names.SANDBOX_NAMESPACE}/configmaps"
        only_faults = {"fieldSelector": f"metadata.name={names.SANDBOX_FAULTS_CONFIG_MAP}"}
        self._nodes = Informer(api, "/api/v1/nodes", self._changed)
        self._runtime_classes = Informer(api, _RUNTIME_CLASSES, self._changed)
        self._policies = Informer(api, "/apis/nvidia.com/v1/clusterpolicies", self._changed)
        self._config_maps = Informer(api, operator_maps, self._changed)
        self._faults = Informer(api, sandbox_maps, self._changed, only_faults)
        self._pods = Informer(api, "/api/v1/pods", self._changed, {"fieldSelector": "spec.nodeName!="})

    def stop(self) -> None:
        """Make `run` return soon. May be called from a signal handler."""
        self._stop.set()
        self._changed.set()

    def run(self) -> None:
        """Work until `stop`."""
        informers = (
            self._nodes,
            self._runtime_classes,
            self._policies,
            self._config_maps,
            self._faults,
            self._pods,
        )
        for informer in informers:
            while not informer.synced.wait(0.1):
                if self._stop.is_set():
                    return
        log("simulator: watching")
        while not self._stop.is_set():
            self._changed.clear()
            self._changed.wait(self._look())

    def _look(self) -> float:
        """Look at everything once and return after how many seconds to look again without a change."""
        operator = self._operator()
        fault_maps = self._faults.all()
        faults: Mapping[str, str] = fault_maps[0].get("data") or {} if fault_maps else {}
        nodes = {node["metadata"]["name"]: node for node in self._nodes.all()}
        pods = self._pods.all()
        self._forget(nodes, pods)
        waits = [self._carefully("runtime class", self._runtime_class, operator)]
        for name, node in nodes.items():
            if is_simulated(node):
                waits.append(self._carefully(f"node {name}", self._node, node, operator, faults.get(name, "")))
        for pod in pods:
            waits.append(self._carefully(f"pod {key_of(pod)}", self._pod, pod, nodes))
        self._first_look = False
        return min(waits)

    def _carefully(self, what: str, look: Any, *arguments: object) -> float:  # noqa: ANN401 - one of two methods
        """Return what `look` returns; try again soon where the API server refuses or is away."""
        try:
            return look(*arguments)
        except ApiError as error:
            if error.status in (404, 409):
                return _IDLE_SECONDS  # it went away meanwhile; one of the same name has another uid
            log(f"{what}: {error}")
            return _RETRY_SECONDS
        except Exception:  # one odd object must not stop the simulation of all others
            log(f"{what}: {traceback.format_exc()}")
            return _IDLE_SECONDS

    def _operator(self) -> Operator:
        policies = sorted(self._policies.all(), key=lambda policy: policy["metadata"]["creationTimestamp"])
        maps = self._config_maps.all()
        # There can be one ClusterPolicy only: the operator ignores every other than the first.
        owner = policies[0] if policies else None
        return Operator(
            policy=read_cluster_policy(owner.get("spec", {})) if owner else None,
            owner=owner,
            config_maps={each["metadata"]["name"]: each.get("data") or {} for each in maps},
            version=(*(version_of(each) for each in policies), *sorted(version_of(each) for each in maps)),
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
        body = {"handler": name, "metadata": {"name": name, "ownerReferences": [reference]}}
        self._api.create(_RUNTIME_CLASSES, body)
        return _IDLE_SECONDS

    def _forget(self, nodes: Mapping[str, Object], pods: list[Object]) -> None:
        uids = {pod["metadata"]["uid"] for pod in pods}
        self._records = {
            name: record
            for name, record in self._records.items()
            if name in nodes and nodes[name]["metadata"]["uid"] == record.uid
        }
        self._admitted = {uid: reason for uid, reason in self._admitted.items() if uid in uids}
        self._orphans = {uid: since for uid, since in self._orphans.items() if uid in uids}
        self._validation.forget_all_but(uids)

    # -- nodes --------------------------------------------------------------------------------------------

    def _node(self, node: Object, operator: Operator, faults: str) -> float:
        name = node["metadata"]["name"]
        record = self._records.setdefault(name, NodeRecord(node["metadata"]["uid"]))
        inputs = (version_of(node), operator.version, faults)
        if record.settled_at == inputs:
            return _IDLE_SECONDS
        behind = self._behind(node, faults)
        if isinstance(behind, str):
            self._note(name, record, (behind,))
            record.settled_at = inputs
            return _IDLE_SECONDS

        labels: Mapping[str, str] = node["metadata"].get("labels") or {}
        current = tuple(behind.memory.layouts[index] for index in behind.visible)
        request = mig_request(
            operator.policy,
            operator.config_maps,
            labels,
            behind.hardware,
            current,
            busy=any(fault.kind == "mig-config-failed" for fault in behind.profile.faults),
        )
        state = labels.get(names.MIG_STATE_LABEL, "") if operator.policy else ""
        memory = behind.memory
        wait = _IDLE_SECONDS
        if request is None:
            record.mig_change = None
        elif request.digest == memory.handled:
            record.mig_change = None
            state = memory.state
        elif (wait := self._mig_seconds_left(record, request)) <= 0:
            memory = _after(behind, request)
            state = memory.state
            log(f"node {name}: MIG {state}: {request.outcome.message}")
        else:
            state = "pending"

        desired = desired_node(
            operator.policy, operator.config_maps, labels, behind.hardware, mig_changing=state == "pending"
        )
        wanted = desired.labels | ({names.MIG_STATE_LABEL: state} if state else {})
        node = self._patch_metadata(node, labels, wanted, memory if memory != behind.memory else None)
        if memory != behind.memory:
            return self._node(node, operator, faults)  # the GPUs are other ones now
        node = self._patch_status(node, behind.machine, desired.advertised)
        record.advertised = desired.advertised
        record.profile = behind.profile
        self._note(name, record, (*behind.notes, *desired.notes))
        record.settled_at = None if record.mig_change else (version_of(node), operator.version, faults)
        return wait

    def _behind(self, node: Object, faults: str) -> Machine | str:
        """Return what stands behind a Node, or why that cannot be said."""
        annotations: Mapping[str, str] = node["metadata"]["annotations"]
        machine_type = annotations[names.SANDBOX_MACHINE_ANNOTATION]
        machine = self._catalog.machine_types.get(machine_type)
        if machine is None:
            return f"machine type {machine_type!r} is not in the catalogue: no status"
        gpu = self._catalog.gpu_of(machine)
        memory = read_mig_memory(annotations.get(MIG_MEMORY_ANNOTATION), machine.gpu_count)
        profile = NodeProfile(
            machine_type=machine_type,
            driver_version=annotations.get(names.SANDBOX_DRIVER_ANNOTATION) or self._default_driver(),
            mig_layout=tuple(None if layout is None else dict(layout) for layout in memory.layouts),
            node=node["metadata"]["name"],
        )
        notes: tuple[str, ...] = ()
        try:
            given = parse_faults(faults, names.SANDBOX_FAULTS_CONFIG_MAP) if faults else ()
            faulty = profile.model_copy(update={"faults": given})
            simulated, profile = build_node(faulty, self._catalog), faulty
        except BadInput as error:
            notes = (f"faults ignored: {error}",)
            simulated = build_node(profile, self._catalog)
        lost = {fault.index for fault in profile.faults if fault.kind == "gpu-missing"}
        return Machine(
            machine=machine,
            gpu=gpu,
            profile=profile,
            memory=memory,
            hardware=observe(machine, gpu, simulated),
            visible=tuple(index for index in range(machine.gpu_count) if index not in lost),
            notes=notes,
        )

    def _default_driver(self) -> str:
        newest = max(self._catalog.operator_releases.values(), key=lambda release: release.date)
        return newest.default_driver

    def _mig_seconds_left(self, record: NodeRecord, request: MigRequest) -> float:
        """Return how long the change still takes; begins it where it has not begun."""
        if request.outcome.at_once:
            return 0
        now = time.monotonic()
        if record.mig_change is None or record.mig_change[0] != request.digest:
            record.mig_change = (request.digest, now)
        return self._mig_seconds - (now - record.mig_change[1])

    def _patch_metadata(
        self, node: Object, labels: Mapping[str, str], wanted: Mapping[str, str], memory: MigMemory | None
    ) -> Object:
        patch: dict[str, Any] = {}
        changed = {key: value for key, value in wanted.items() if labels.get(key) != value}
        gone = dict.fromkeys(stale_labels(labels, wanted))
        if changed or gone:
            patch["labels"] = changed | gone
        if memory is not None:
            patch["annotations"] = {MIG_MEMORY_ANNOTATION: memory.to_text()}
        return (
            self._patch(self._nodes, f"/api/v1/nodes/{node['metadata']['name']}", node, {"metadata": patch})
            if patch
            else node
        )

    def _patch_status(self, node: Object, machine: MachineType, advertised: Mapping[str, Advertised]) -> Object:
        present = {part: node["status"].get(part) or {} for part in ("capacity", "allocatable")}
        patch = status_patch(node_status(machine, advertised, present), present)
        path = f"/api/v1/nodes/{node['metadata']['name']}/status"
        return self._patch(self._nodes, path, node, {"status": patch}) if patch else node

    def _patch(self, informer: Informer, path: str, item: Object, patch: Object) -> Object:
        # The uid keeps the patch from a new object of the same name.
        body = {**patch, "metadata": {**patch.get("metadata", {}), "uid": item["metadata"]["uid"]}}
        patched = self._api.patch(path, body, "strategic")
        informer.remember(patched)
        return patched

    def _note(self, name: str, record: NodeRecord, notes: tuple[str, ...]) -> None:
        for note in notes:
            if note not in record.notes:
                log(f"node {name}: {note}")
        record.notes = notes

    # -- pods ---------------------------------------------------------------------------------------------

    def _pod(self, pod: Object, nodes: Mapping[str, Object]) -> float:
        node = nodes.get(pod["spec"]["nodeName"])
        if node is None:
            return self._orphan(pod)
        record = self._records.get(node["metadata"]["name"])
        if record is None or record.profile is None or "deletionTimestamp" in pod["metadata"]:
            return _IDLE_SECONDS
        labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
        if labels.get(names.NAME_LABEL) == names.VALIDATION_APP:
            return self._validation.look(pod, record.profile, self._patch_pod_status)
        self._admit(pod, record.advertised)
        return _IDLE_SECONDS

    def _admit(self, pod: Object, advertised: Mapping[str, Advertised]) -> None:
        """Refuse a pod that a device plugin refuses, once, when it is first seen on its node.

        KWOK may have it running by then (it needs about as long as this loop), so a refused pod is patched
        until it is seen failed. A pod that ran before the simulator started was admitted.
        """
        uid = pod["metadata"]["uid"]
        phase = pod["status"].get("phase")
        if uid not in self._admitted:
            seen_before = self._first_look and phase != "Pending"
            self._admitted[uid] = None if seen_before else rejection(pod, advertised)
            if self._admitted[uid]:
                log(f"pod {key_of(pod)}: {self._admitted[uid]}")
        reason = self._admitted[uid]
        if reason is None or phase == "Failed":
            return
        conditions = [
            {"type": kind, "status": "False", "reason": "PodFailed"} for kind in ("Ready", "ContainersReady")
        ]
        self._patch_pod_status(
            pod,
            {
                "phase": "Failed",
                "reason": REJECTED,
                "message": reason,
                "conditions": conditions,
                "containerStatuses": None,
                "initContainerStatuses": None,
            },
        )

    def _patch_pod_status(self, pod: Object, status: Object) -> None:
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        self._patch(self._pods, path, pod, {"status": status})

    def _orphan(self, pod: Object) -> float:
        """Remove a pod whose node is gone, as a cloud's node removal does; Kubernetes itself waits 40 s."""
        uid = pod["metadata"]["uid"]
        since = self._orphans.setdefault(uid, time.monotonic())
        left = since + _ORPHAN_SECONDS - time.monotonic()
        if left <= 0:
            metadata = pod["metadata"]
            self._api.delete_now(f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}", uid)
            return _IDLE_SECONDS
        return left


def is_simulated(node: Object) -> bool:
    """Tell whether a Node is one of the sandbox's simulated GPU nodes."""
    metadata = node["metadata"]
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    return (
        annotations.get(names.KWOK_NODE_ANNOTATION) == "fake"
        and names.SANDBOX_MACHINE_ANNOTATION in annotations
        and "deletionTimestamp" not in metadata
    )


def _after(behind: Machine, request: MigRequest) -> MigMemory:
    """Return the memory of a node's GPUs after a wish was handled; GPUs that are not shown keep their layout."""
    outcome: MigOutcome = request.outcome
    layouts = list(behind.memory.layouts)
    for index, layout in zip(behind.visible, outcome.gpus, strict=True):
        layouts[index] = layout
    return replace(behind.memory, layouts=tuple(layouts), handled=request.digest, state=outcome.state)
