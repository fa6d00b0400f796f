"""The resources and labels of a simulated node, which depend on its labels, ClusterPolicy and ConfigMaps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from simulated_hardware import A100, OFF, T4, node

from gpu_platform.base.quantity import parse_quantity
from gpu_platform.catalog import load_catalog
from sandbox.nvml import NodeProfile, build_node
from sandbox.simulator.cluster_policy import ClusterPolicy, read_cluster_policy
from sandbox.simulator.device_plugin import Advertised
from sandbox.simulator.hardware import Hardware, observe
from sandbox.simulator.kubelet import node_status, rejection, status_patch
from sandbox.simulator.node import (
    ConfigMaps,
    DesiredNode,
    MigMemory,
    desired_node,
    mig_request,
    read_mig_memory,
)
from sandbox.simulator.nodes import SimulatedMachine, is_simulated, simulated_machine

POLICY = ClusterPolicy(device_plugin_config="plugin-abc", device_plugin_default="default", mig_config="mig-abc")
MAPS: ConfigMaps = {
    "plugin-abc": {
        "default": "version: v1",
        "serve": "sharing: {timeSlicing: {renameByDefault: true, resources: [{name: gpu, replicas: 4}]}}",
        "notebooks": "flags: {migStrategy: mixed}",
        "broken": "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 1}]}}",
    },
    "mig-abc": {
        "config.yaml": "version: v1\n"
        "mig-configs: {seven: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}]}"
    },
}
SERVE = {"nvidia.com/device-plugin.config": "serve"}
SEVEN = {"1g.10gb": 7}


def _desired(
    labels: Mapping[str, str],
    hardware: Hardware | None = None,
    policy: ClusterPolicy | None = POLICY,
    maps: ConfigMaps = MAPS,
    *,
    operands_stopped: bool = False,
) -> DesiredNode:
    return desired_node(policy, maps, labels, hardware or node(T4), operands_stopped=operands_stopped)


def _counts(desired: DesiredNode) -> dict[str, int]:
    return {name.removeprefix("nvidia.com/"): offer.count for name, offer in desired.advertised.items()}


# -- the ClusterPolicy ------------------------------------------------------------------------------------


def test_what_a_cluster_policy_does_not_say_has_the_operators_default() -> None:
    assert read_cluster_policy({}) == ClusterPolicy()
    assert read_cluster_policy({"devicePlugin": {"config": None}, "mig": {}}) == ClusterPolicy()


def test_the_parts_of_a_cluster_policy_that_the_operands_read() -> None:
    spec: dict[str, Any] = {
        "devicePlugin": {"enabled": False, "config": {"name": "plugin", "default": "d"}},
        "gfd": {"enabled": False},
        "mig": {"strategy": "mixed"},
        "migManager": {"enabled": False, "config": {"name": "mig", "default": "all-disabled"}},
        "operator": {"runtimeClass": "nvidia-legacy"},
    }
    assert read_cluster_policy(spec) == ClusterPolicy(
        False, "plugin", "d", False, "mixed", False, "mig", "all-disabled", "nvidia-legacy"
    )


def test_without_a_cluster_policy_there_are_no_gpu_resources_and_no_labels() -> None:
    assert _desired({"nvidia.com/gpu.product": "Tesla-T4"}, policy=None) == DesiredNode()


def test_without_a_config_map_in_the_cluster_policy_the_gpus_are_whole() -> None:
    assert _counts(_desired(SERVE, policy=ClusterPolicy())) == {"gpu": 4}


def test_the_mig_strategy_of_the_cluster_policy_reaches_the_plugin() -> None:
    cut = node(A100, SEVEN)
    assert _counts(_desired({}, cut, replace(POLICY, mig_strategy="single"))) == {"gpu": 56}
    assert _counts(_desired({"nvidia.com/device-plugin.config": "notebooks"}, cut)) == {"mig-1g.10gb": 56}
    assert _counts(_desired({}, cut)) == {"gpu": 8}


# -- config by node label ---------------------------------------------------------------------------------


def test_the_nodes_label_chooses_its_config_and_others_take_the_default() -> None:
    assert _counts(_desired(SERVE)) == {"gpu.shared": 16}
    assert _counts(_desired({})) == {"gpu": 4}


@pytest.mark.parametrize(
    ("labels", "maps", "note"),
    [
        ({"nvidia.com/device-plugin.config": "typo"}, MAPS, "specified config typo does not exist"),
        ({"nvidia.com/device-plugin.config": "broken"}, MAPS, "number of replicas must be >= 2"),
        (SERVE, {}, 'configmap "plugin-abc" not found'),
    ],
)
def test_a_wrong_config_advertises_nothing_says_why_and_leaves_old_labels(
    labels: Mapping[str, str], maps: ConfigMaps, note: str
) -> None:
    before = {**labels, "nvidia.com/gpu.product": "Tesla-T4"}
    desired = _desired(before, maps=maps)
    assert desired.advertised == {}
    assert note in desired.notes[0]
    assert desired.labels == {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.present": "true"}


def test_a_plugin_that_fails_does_not_keep_feature_discovery_from_saying_so() -> None:
    uneven = node(A100, {"1g.10gb": 1, "3g.40gb": 1})
    desired = _desired({}, uneven, replace(POLICY, mig_strategy="single"))
    assert desired.advertised == {}
    assert desired.labels["nvidia.com/gpu.product"].endswith("-MIG-INVALID")


# -- operands switched off --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "policy"),
    [
        ({}, replace(POLICY, device_plugin=False)),
        ({"nvidia.com/gpu.deploy.device-plugin": "false"}, POLICY),
        ({"nvidia.com/gpu.deploy.operands": "false"}, POLICY),
    ],
)
def test_without_the_device_plugin_nothing_is_advertised(labels: Mapping[str, str], policy: ClusterPolicy) -> None:
    assert _desired(labels, policy=policy).advertised == {}


@pytest.mark.parametrize(
    ("labels", "policy"),
    [({}, replace(POLICY, feature_discovery=False)), ({"nvidia.com/gpu.deploy.operands": "false"}, POLICY)],
)
def test_without_feature_discovery_only_the_operators_label_is_there(
    labels: Mapping[str, str], policy: ClusterPolicy
) -> None:
    assert _desired({**labels, "nvidia.com/gpu.count": "4"}, policy=policy).labels == {
        "nvidia.com/gpu.present": "true"
    }


def test_while_the_mig_manager_works_nothing_is_advertised_and_labels_stay() -> None:
    before = {"nvidia.com/gpu.count": "8"}
    desired = _desired(before, node(A100), operands_stopped=True)
    assert desired.advertised == {}
    assert desired.labels == {"nvidia.com/gpu.count": "8", "nvidia.com/gpu.present": "true"}


def test_mig_nodes_without_a_config_are_labelled_with_the_default() -> None:
    told = replace(POLICY, mig_default="all-disabled")
    assert _desired({}, node(A100), told).labels["nvidia.com/mig.config"] == "all-disabled"
    assert "nvidia.com/mig.config" not in _desired({}, node(T4), told).labels
    assert "nvidia.com/mig.config" not in _desired({"nvidia.com/mig.config": "seven"}, node(A100), told).labels


# -- config requests to the MIG manager -------------------------------------------------------------------


def _request(labels: Mapping[str, str], hardware: Hardware | None = None, **changes: Any) -> Any:
    given: dict[str, Any] = {"policy": POLICY, "maps": MAPS, "busy": False, "refused": "", **changes}
    shown = hardware or node(A100)
    return mig_request(
        given["policy"],
        given["maps"],
        labels,
        shown,
        shown.layouts,
        busy=given["busy"],
        refused=given["refused"],
    )


WISH = {"nvidia.com/mig.config": "seven"}


def test_a_refused_mig_request_keeps_its_digest_when_it_succeeds() -> None:
    refused, free = _request(WISH, refused="In use by another client"), _request(WISH)
    assert (refused.outcome.state, free.outcome.state) == ("failed", "success")
    assert refused.digest == free.digest, "after a refusal, the MIG manager waits until the label changes"


def test_the_mig_manager_creates_the_layout_of_the_label() -> None:
    outcome = _request(WISH).outcome
    assert (outcome.state, outcome.gpus) == ("success", (SEVEN,) * 8)


@pytest.mark.parametrize(
    ("labels", "changes"),
    [
        ({}, {}),
        (WISH, {"policy": None}),
        (WISH, {"policy": replace(POLICY, mig_manager=False)}),
        (WISH, {"maps": {}}),
        (WISH, {"maps": {"mig-abc": {"other.yaml": ""}}}),
        (WISH, {"hardware": node(T4)}),
        ({**WISH, "nvidia.com/gpu.deploy.mig-manager": "false"}, {}),
    ],
)
def test_the_mig_manager_needs_to_run_and_a_config_to_have_a_request(
    labels: Mapping[str, str], changes: dict[str, Any]
) -> None:
    assert _request(labels, **changes) is None


def test_an_unreadable_mig_config_fails_and_changes_nothing() -> None:
    outcome = _request(WISH, maps={"mig-abc": {"config.yaml": "version: v1"}}).outcome
    assert (outcome.state, outcome.gpus, outcome.at_once) == ("failed", (OFF,) * 8, True)


def test_without_a_config_map_named_the_hardwares_own_configs_count() -> None:
    outcome = _request({"nvidia.com/mig.config": "all-3g.40gb"}, policy=ClusterPolicy()).outcome
    assert outcome.gpus == ({"3g.40gb": 2},) * 8


def test_the_digest_changes_with_the_request_and_not_with_its_outcome() -> None:
    fresh = _request(WISH).digest
    other_content = {
        "mig-abc": {"config.yaml": MAPS["mig-abc"]["config.yaml"].replace("1g.10gb: 7", "3g.40gb: 2")}
    }
    assert _request(WISH, node(A100, SEVEN)).digest == fresh
    assert _request(WISH, maps=other_content).digest != fresh
    assert _request({"nvidia.com/mig.config": "typo"}).digest != fresh
    assert _request(WISH, busy=True).digest != fresh


@pytest.mark.parametrize("text", [None, "", "nonsense", "[]", '{"layouts": [null], "handled": "x"}'])
def test_a_node_without_a_readable_memory_of_its_gpus_is_as_new(text: str | None) -> None:
    assert read_mig_memory(text, 2) == MigMemory((OFF, OFF))


def test_the_memory_of_the_gpus_survives_its_annotation() -> None:
    memory = MigMemory((OFF, {}, SEVEN), "abc", "failed")
    assert read_mig_memory(memory.to_text(), 3) == memory


# -- NVML readings ----------------------------------------------------------------------------------------


def _observed(faults: list[dict[str, Any]], *layouts: Mapping[str, int] | None) -> Hardware:
    catalog = load_catalog()
    profile = NodeProfile.model_validate(
        {"machine_type": A100, "driver_version": "580.95.05", "mig_layout": layouts, "faults": faults}
    )
    machine = catalog.machine_types[A100]
    return observe(machine, catalog.gpu_of(machine), build_node(profile, catalog))


def test_a_healthy_node_shows_its_gpus_as_the_mig_manager_left_them() -> None:
    assert _observed([]) == node(A100)
    assert _observed([], *[SEVEN] * 8) == node(A100, SEVEN)
    assert _observed([], {}, *[OFF] * 7) == node(A100, {}, *[OFF] * 7)


def test_faults_change_what_the_node_shows() -> None:
    seven = _observed([{"kind": "gpu-missing", "index": 3}])
    assert len(seven.gpus) == 7
    wrong = _observed([{"kind": "mig-wrong-layout", "index": 0, "instances": {"3g.40gb": 2}}], *[SEVEN] * 8)
    assert wrong.layouts == ({"3g.40gb": 2}, *[SEVEN] * 7)
    lost = _observed([{"kind": "gpu-lost", "index": 1}])
    assert [gpu.lost for gpu in lost.gpus[:3]] == [False, True, False]
    assert not _observed([{"kind": "nvml-missing"}]).driver_answers
    assert _observed([{"kind": "wrong-driver", "version": "470.57.02"}]).driver_version == "470.57.02"
    assert _observed([{"kind": "nvml-hang"}]) == node(A100)


def _node_object(machine_type: str, **annotations: str) -> dict[str, Any]:
    kwok = {"kwok.x-k8s.io/node": "fake", "sandbox.gpu-platform.dev/machine-type": machine_type}
    return {"metadata": {"name": "train-0", "annotations": kwok | annotations}}


def test_simulated_nodes_have_the_named_or_the_newest_driver() -> None:
    named = _node_object(A100, **{"sandbox.gpu-platform.dev/driver-version": "570.86.15"})
    simulated = simulated_machine(named, "", load_catalog())
    unnamed = simulated_machine(_node_object(A100), "", load_catalog())
    assert isinstance(simulated, SimulatedMachine)
    assert isinstance(unnamed, SimulatedMachine)
    assert (simulated.hardware.driver_version, simulated.profile.node) == ("570.86.15", "train-0")
    assert unnamed.hardware.driver_version == load_catalog().operator_releases["v26.7.0"].default_driver


def test_a_missing_gpu_keeps_its_layout_while_the_others_are_cut() -> None:
    simulated = simulated_machine(_node_object(A100), '[{"kind": "gpu-missing", "index": 1}]', load_catalog())
    assert isinstance(simulated, SimulatedMachine)
    request = _request(WISH, simulated.hardware)
    memory = simulated.remembering(request)
    assert memory == MigMemory((SEVEN, OFF, *[SEVEN] * 6), request.digest, "success")


def test_a_machine_type_that_is_not_in_the_catalogue_is_named() -> None:
    assert "'p4.typo' is not in the catalogue" in str(
        simulated_machine(_node_object("p4.typo"), "", load_catalog())
    )


@pytest.mark.parametrize("faults", ["nonsense", '[{"kind": "typo"}]', '[{"kind": "gpu-missing", "index": 8}]'])
def test_faults_that_make_no_sense_are_ignored_and_named(faults: str) -> None:
    simulated = simulated_machine(_node_object(A100), faults, load_catalog())
    assert isinstance(simulated, SimulatedMachine)
    assert len(simulated.hardware.gpus) == 8
    assert "faults ignored" in simulated.notes[0]


def test_only_nodes_of_kwok_with_a_machine_type_are_simulated() -> None:
    assert is_simulated(_node_object(A100))
    assert not is_simulated(_node_object(A100, **{"kwok.x-k8s.io/node": "real"}))
    assert not is_simulated({"metadata": {"name": "n", "annotations": {"kwok.x-k8s.io/node": "fake"}}})
    assert not is_simulated({"metadata": {**_node_object(A100)["metadata"], "deletionTimestamp": "now"}})


# -- the kubelet ------------------------------------------------------------------------------------------


def test_a_new_node_gets_its_machines_capacity_and_a_little_less_to_allocate() -> None:
    machine = load_catalog().machine_types[T4]
    status = node_status(machine, {"nvidia.com/gpu": Advertised(4, 3)}, {})
    assert status["capacity"] == {
        "cpu": "48",
        "memory": "196608Mi",
        "ephemeral-storage": "100Gi",
        "pods": "110",
        "nvidia.com/gpu": "4",
    }
    assert status["allocatable"]["nvidia.com/gpu"] == "3"
    for name in ("cpu", "memory", "ephemeral-storage"):
        share = parse_quantity(status["allocatable"][name]) / parse_quantity(status["capacity"][name])
        assert 0.85 < share < 1


def test_a_resource_that_is_no_longer_advertised_stays_with_zero() -> None:
    machine = load_catalog().machine_types[T4]
    present = {"capacity": {"nvidia.com/gpu": "4", "hugepages-2Mi": "0"}, "allocatable": {"nvidia.com/gpu": "4"}}
    status = node_status(machine, {"nvidia.com/gpu.shared": Advertised(16, 16)}, present)
    assert {name: value for name, value in status["allocatable"].items() if name.startswith("nvidia")} == {
        "nvidia.com/gpu.shared": "16",
        "nvidia.com/gpu": "0",
    }


def test_equal_quantities_in_another_spelling_are_not_patched() -> None:
    wanted = {"capacity": {"memory": "196608Mi", "cpu": "48"}, "allocatable": {"cpu": "47810m", "pods": "110"}}
    present = {"capacity": {"memory": "192Gi", "cpu": "48"}, "allocatable": {"cpu": "47.81"}}
    assert status_patch(wanted, present) == {"allocatable": {"pods": "110"}}
    assert status_patch(wanted, wanted) == {}


def _pod(*limits: Mapping[str, str], init: Mapping[str, str] | None = None) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "resources": {"limits": dict(each)}} for each in limits]
    }
    if init is not None:
        spec["initContainers"] = [{"name": "init", "resources": {"limits": dict(init)}}]
    return {"spec": spec}


ONE_EACH = {"nvidia.com/gpu.shared": Advertised(16, 16, single_only=True), "nvidia.com/gpu": Advertised(8, 8)}


def test_two_shared_replicas_are_refused_with_the_kubelets_message() -> None:
    rejected = rejection(_pod({"nvidia.com/gpu.shared": "2"}), ONE_EACH)
    assert rejected is not None
    assert rejected.status()["message"] == (
        "Pod was rejected: Allocate failed due to rpc error: code = Unknown desc = invalid allocation request for "
        '"nvidia.com/gpu.shared": invalid request: maximum request size for shared resources is 1; found 2, '
        "which is unexpected"
    )


@pytest.mark.parametrize(
    "pod",
    [
        _pod({"nvidia.com/gpu.shared": "1"}),
        _pod({"nvidia.com/gpu.shared": "1"}, {"nvidia.com/gpu.shared": "1"}),
        _pod({"nvidia.com/gpu": "8"}),
        _pod({"cpu": "4"}),
        _pod({"nvidia.com/unknown": "2"}),
        {"spec": {"containers": [{"name": "main"}]}},
    ],
)
def test_pods_that_the_kubelet_takes(pod: dict[str, Any]) -> None:
    assert rejection(pod, ONE_EACH) is None


def test_an_init_container_is_asked_too() -> None:
    assert rejection(_pod({}, init={"nvidia.com/gpu.shared": "3"}), ONE_EACH) is not None


def test_where_the_config_allows_it_more_than_one_replica_is_granted() -> None:
    assert rejection(_pod({"nvidia.com/gpu.shared": "2"}), {"nvidia.com/gpu.shared": Advertised(16, 16)}) is None
