"""Simulated Nodes: the simulated machine of each Node, and the patches that apply its desired state."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import NAMESPACE_DNS, uuid5

from gpu_platform.base import names
from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import Catalog, Gpu, MachineType
from sandbox.nvml import NodeProfile, build_node, parse_faults
from sandbox.simulator.cluster_policy import ClusterPolicy
from sandbox.simulator.device_plugin import Advertised
from sandbox.simulator.driver_upgrade import ManagedDriver, State, running_driver, state_of
from sandbox.simulator.feature_discovery import stale_labels
from sandbox.simulator.gpu_cluster import GpuCluster
from sandbox.simulator.hardware import Hardware, observe
from sandbox.simulator.kube import Informer, Object, log, version_of
from sandbox.simulator.kubelet import node_status, status_patch
from sandbox.simulator.node import ConfigMaps, MigMemory, MigRequest, desired_node, mig_request, read_mig_memory
from sandbox.simulator.operands import operands_restart

MIG_MEMORY_ANNOTATION: Final = "sandbox.gpu-platform.dev/mig-memory"

_IDLE_SECONDS: Final = 60.0
_KARPENTER_NODES: Final = "kwok://"  # prefix of the provider IDs that Karpenter's KWOK provider sets


@dataclass(frozen=True, slots=True)
class OperatorObjects:
    """The GPU Operator's current objects. `version` changes when any of them changes."""

    policy: ClusterPolicy | None
    owner: Object | None
    """The ClusterPolicy object that owns the RuntimeClass."""
    gpu_cluster: GpuCluster | None
    """With DRA, the configuration of the DRA driver. None if there is a ClusterPolicy, because a cluster has only
    one of the two objects.
    """
    gpu_cluster_owner: Object | None
    config_maps: ConfigMaps
    version: tuple[int, ...]
    nvidia_driver: ManagedDriver | None = None
    """With DRA, the driver of the operator's NVIDIADriver."""
    release: str = ""
    """Release of the operator, from the label that the chart sets on its custom resource."""

    @property
    def driver(self) -> ManagedDriver | None:
        """Driver that the operator installs."""
        if self.policy is None:
            return self.nvidia_driver
        policy = self.policy
        return ManagedDriver(policy.driver_version, policy.upgrades, device_plugin=policy.device_plugin)


@dataclass(frozen=True, slots=True)
class SimulatedMachine:
    """The simulated machine of one Node. `profile` is the input of its simulated NVML."""

    machine: MachineType
    gpu: Gpu
    profile: NodeProfile
    memory: MigMemory
    hardware: Hardware
    visible: tuple[int, ...]
    """Physical indices of the GPUs that the driver reports."""
    notes: tuple[str, ...]

    def remembering(self, request: MigRequest) -> MigMemory:
        """Return the MIG state after a request. A GPU that the driver does not report keeps its layout."""
        layouts = list(self.memory.layouts)
        for index, layout in zip(self.visible, request.outcome.gpus, strict=True):
            layouts[index] = layout
        return MigMemory(tuple(layouts), request.digest, request.outcome.state)


@dataclass(slots=True)
class NodeRecord:
    """The state of one Node between two reconciliations."""

    uid: str
    settled_at: tuple[object, ...] | None = None
    """Inputs of the last reconciliation if nothing is left to do, otherwise None."""
    advertised: Mapping[str, Advertised] = field(default_factory=dict[str, Advertised])
    profile: NodeProfile | None = None
    mig_change: tuple[str, float] | None = None
    """Digest and start time (monotonic seconds) of the MIG request in progress."""
    notes: tuple[str, ...] = ()


def is_simulated(node: Object) -> bool:
    """Return whether a Node is one of the sandbox's simulated nodes, with or without GPUs."""
    metadata = node["metadata"]
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    return (
        annotations.get(names.KWOK_NODE_ANNOTATION) == "fake"
        and names.SANDBOX_MACHINE_ANNOTATION in annotations
        and "deletionTimestamp" not in metadata
    )


def unannounced_machine(node: Object) -> str | None:
    """Return the machine type of a new Node from Karpenter's KWOK provider, or None if an annotation already names
    it.
    """
    metadata = node["metadata"]
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    labels: Mapping[str, str] = metadata.get("labels") or {}
    if names.SANDBOX_MACHINE_ANNOTATION in annotations or "deletionTimestamp" in metadata:
        return None
    by_karpenter = node.get("spec", {}).get("providerID", "").startswith(_KARPENTER_NODES)
    return labels.get(names.INSTANCE_TYPE_LABEL) if by_karpenter else None


def simulated_machine(
    node: Object, faults: str, catalog: Catalog, installed_by_operator: str = ""
) -> SimulatedMachine | str:
    """Return the simulated machine of a Node with GPUs, or the reason why there is none.

    `faults` contains the faults of this node as JSON, or is empty. `installed_by_operator` is the ClusterPolicy's
    driver version.
    """
    annotations: Mapping[str, str] = node["metadata"]["annotations"]
    machine_type = annotations[names.SANDBOX_MACHINE_ANNOTATION]
    machine = catalog.machine_types.get(machine_type)
    if machine is None:
        return f"machine type {machine_type!r} is not in the catalogue, so the node has no status"
    if not machine.has_gpus:
        return f"machine type {machine_type!r} has no GPUs"
    gpu = catalog.gpu_of(machine)
    memory = read_mig_memory(annotations.get(MIG_MEMORY_ANNOTATION), machine.gpu_count)
    profile = NodeProfile(
        machine_type=machine_type,
        driver_version=running_driver(annotations, installed_by_operator, _default_driver(catalog)),
        mig_layout=tuple(None if layout is None else dict(layout) for layout in memory.layouts),
        node=node["metadata"]["name"],
    )
    notes: tuple[str, ...] = ()
    try:
        given = parse_faults(faults, names.SANDBOX_FAULTS_CONFIG_MAP) if faults else ()
        faulty = profile.model_copy(update={"faults": given})
        simulated, profile = build_node(faulty, catalog), faulty
    except BadInput as error:
        notes = (f"faults ignored: {error}",)
        simulated = build_node(profile, catalog)
    missing = {fault.index for fault in profile.faults if fault.kind == "gpu-missing"}
    return SimulatedMachine(
        machine=machine,
        gpu=gpu,
        profile=profile,
        memory=memory,
        hardware=observe(machine, gpu, simulated, _fabric(node, machine, catalog)),
        # A recorded node may have fewer GPUs than its machine type.
        visible=tuple(index for index in range(machine.gpu_count) if index not in missing)[: len(simulated.gpus)],
        notes=notes,
    )


def _fabric(node: Object, machine: MachineType, catalog: Catalog) -> str | None:
    """Return the UUID of the NVLink fabric that connects the nodes of a pool, or None if there is none."""
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    pool = labels.get(names.POOL_LABEL)
    if pool is None or catalog.nvlink_domain(machine) is None:
        return None
    return str(uuid5(NAMESPACE_DNS, pool))


def _without_gpus(node: Object, catalog: Catalog) -> MachineType | None:
    """Return the machine of a Node without GPUs, or None. Only its kubelet is simulated, and no operand runs
    there.
    """
    machine = catalog.machine_types.get(node["metadata"]["annotations"][names.SANDBOX_MACHINE_ANNOTATION])
    return machine if machine is not None and not machine.has_gpus else None


def has_gpus(node: Object, catalog: Catalog) -> bool:
    """Return whether a simulated Node has GPUs, and the operator's operands therefore run on it."""
    return catalog.has_gpus(node["metadata"]["annotations"][names.SANDBOX_MACHINE_ANNOTATION])


def _default_driver(catalog: Catalog) -> str:
    newest = max(catalog.operator_releases.values(), key=lambda release: release.date)
    return newest.default_driver


class Nodes:
    """All simulated Nodes. `mig_seconds` is the duration of a MIG change."""

    def __init__(self, informer: Informer, catalog: Catalog, *, mig_seconds: float) -> None:
        self._informer = informer
        self._catalog = catalog
        self._mig_seconds = mig_seconds
        self._records: dict[str, NodeRecord] = {}

    def record(self, name: str) -> NodeRecord | None:
        """Return the state of a reconciled Node, or None if it has no simulated machine."""
        record = self._records.get(name)
        return record if record is not None and record.profile is not None else None

    def forget_all_but(self, nodes: Mapping[str, Object]) -> None:
        """Drop the state of deleted Nodes."""
        self._records = {
            name: record
            for name, record in self._records.items()
            if name in nodes and nodes[name]["metadata"]["uid"] == record.uid
        }

    def announce(self, node: Object, machine_type: str) -> float:
        """Set the annotation with the machine type on a Node that Karpenter created, so that its simulation
        starts.
        """
        annotations = {names.SANDBOX_MACHINE_ANNOTATION: machine_type}
        self._informer.patch(node, "", {"metadata": {"annotations": annotations}})
        return 0.0

    def reconcile(
        self, node: Object, operator: OperatorObjects, faults: str, holders: Sequence[str] = ()
    ) -> float:
        """Patch a Node if it differs from its desired state, and return the seconds until the next reconciliation.

        `holders` contains the pods to which devices of the node are allocated.
        """
        name = node["metadata"]["name"]
        record = self._records.setdefault(name, NodeRecord(node["metadata"]["uid"]))
        if record.settled_at == (version_of(node), operator.version, faults):
            return _IDLE_SECONDS
        if (plain := _without_gpus(node, self._catalog)) is not None:
            node = self._patch_status(node, plain, {})
            node = self._end_start(node)
            record.settled_at = (version_of(node), operator.version, faults)
            return _IDLE_SECONDS
        installed = operator.driver.version if operator.driver is not None else ""
        simulated = simulated_machine(node, faults, self._catalog, installed)
        if isinstance(simulated, str):
            _note(name, record, (simulated,))
            record.settled_at = (version_of(node), operator.version, faults)
            return _IDLE_SECONDS

        labels: Mapping[str, str] = node["metadata"].get("labels") or {}
        memory, wait = self._manage_mig(record, simulated, operator, labels, holders)
        read = node
        desired = desired_node(
            operator.policy,
            operator.config_maps,
            labels,
            simulated.hardware,
            # The operator stops the clients of a driver while the driver is replaced.
            operands_stopped=record.mig_change is not None
            or state_of(labels) is State.POD_RESTART_REQUIRED
            or operands_restart(node),
        )
        state = "pending" if record.mig_change else memory.state
        wanted = desired.labels | ({names.MIG_STATE_LABEL: state} if state and operator.policy else {})
        annotations: dict[str, str] = {}
        if memory != simulated.memory:
            annotations[MIG_MEMORY_ANNOTATION] = memory.to_text()
        if installed and names.SANDBOX_RUNNING_DRIVER_ANNOTATION not in node["metadata"]["annotations"]:
            annotations[names.SANDBOX_RUNNING_DRIVER_ANNOTATION] = simulated.profile.driver_version
        node = self._patch_metadata(node, labels, wanted, annotations)
        if memory != simulated.memory:
            return self.reconcile(node, operator, faults, holders)  # the layout of the GPUs has changed
        node = self._patch_status(node, simulated.machine, desired.advertised)
        if record.mig_change is None:
            node = self._end_start(node)
        record.advertised = desired.advertised
        record.profile = simulated.profile
        # A patch also returns changes that other clients made after `read`, so the node is reconciled again.
        settled = version_of(node) == version_of(read) and record.mig_change is None
        record.settled_at = (version_of(node), operator.version, faults) if settled else None
        _note(name, record, (*simulated.notes, *desired.notes))
        return wait

    def _manage_mig(
        self,
        record: NodeRecord,
        simulated: SimulatedMachine,
        operator: OperatorObjects,
        labels: Mapping[str, str],
        holders: Sequence[str],
    ) -> tuple[MigMemory, float]:
        """Return the MIG state of the GPUs, and the remaining seconds of a MIG change in progress."""
        faults = simulated.profile.faults
        request = mig_request(
            operator.policy,
            operator.config_maps,
            labels,
            simulated.hardware,
            tuple(simulated.memory.layouts[index] for index in simulated.visible),
            busy=any(fault.kind == "mig-config-failed" for fault in faults),
            refused=_refusal(holders, failing=any(fault.kind == "mig-change-failed" for fault in faults)),
        )
        if request is None or request.digest == simulated.memory.handled:
            record.mig_change = None
            return simulated.memory, _IDLE_SECONDS
        if not request.outcome.at_once:
            now = time.monotonic()
            if record.mig_change is None or record.mig_change[0] != request.digest:
                record.mig_change = (request.digest, now)
            takes = next((one.seconds for one in faults if one.kind == "mig-change-slow"), self._mig_seconds)
            left = record.mig_change[1] + takes - now
            if left > 0:
                return simulated.memory, left
        record.mig_change = None
        log(f"node {simulated.profile.node}: MIG {request.outcome.state}: {request.outcome.message}")
        return simulated.remembering(request), _IDLE_SECONDS

    def _patch_metadata(
        self,
        node: Object,
        labels: Mapping[str, str],
        wanted: Mapping[str, str],
        annotations: Mapping[str, str],
    ) -> Object:
        metadata: dict[str, Any] = {}
        changed = {key: value for key, value in wanted.items() if labels.get(key) != value}
        gone = dict.fromkeys(stale_labels(labels, wanted))
        if changed or gone:
            metadata["labels"] = changed | gone
        if annotations:
            metadata["annotations"] = dict(annotations)
        return self._informer.patch(node, "", {"metadata": metadata}) if metadata else node

    def _end_start(self, node: Object) -> Object:
        """Remove the startup taint of a node that Karpenter created, once the node offers its final resources.

        Karpenter's provider writes these resources to the status before they exist. Without the taint, a pod could
        start on GPUs that have not been partitioned yet. A real kubelet prevents this.
        """
        taints: Sequence[Mapping[str, str]] = node.get("spec", {}).get("taints") or ()
        left = [one for one in taints if one["key"] != names.SANDBOX_STARTING_TAINT]
        if len(left) == len(taints):
            return node
        # The list also contains taints that other clients have set.
        return self._informer.patch(node, "", {"spec": {"taints": left}}, only_unchanged=True)

    def _patch_status(self, node: Object, machine: MachineType, advertised: Mapping[str, Advertised]) -> Object:
        present: dict[str, Mapping[str, str]] = {
            part: node["status"].get(part) or {} for part in ("capacity", "allocatable")
        }
        status = status_patch(node_status(machine, advertised, present), present)
        return self._informer.patch(node, "status", {"status": status}) if status else node


def _refusal(holders: Sequence[str], *, failing: bool) -> str:
    """Return the driver's error if no GPU of a node can be changed, or an empty string."""
    if holders:
        who = ", ".join(holders)
        return f"error clearing MigConfig: error destroying Compute instance: In use by another client ({who})"
    return "error clearing MigConfig: error destroying GPU instance: Unknown Error" if failing else ""


def _note(name: str, record: NodeRecord, notes: tuple[str, ...]) -> None:
    for note in notes:
        if note not in record.notes:
            log(f"node {name}: {note}")
    record.notes = notes
