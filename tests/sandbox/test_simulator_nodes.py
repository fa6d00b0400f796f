"""The loop over simulated Nodes notices concurrent changes by others, even if the API server answers late."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, cast

from gpu_platform.base import names
from gpu_platform.catalog import load_catalog
from sandbox.simulator.cluster_policy import ClusterPolicy
from sandbox.simulator.kube import Informer, Object
from sandbox.simulator.nodes import Nodes, OperatorObjects, simulated_machine

OPERATOR = OperatorObjects(
    policy=ClusterPolicy(mig_config="mig"),
    owner=None,
    gpu_cluster=None,
    gpu_cluster_owner=None,
    config_maps={
        "mig": {
            "config.yaml": "version: v1\n"
            "mig-configs: {seven: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}]}"
        }
    },
    version=(1,),
)


class Server:
    """A fake API server that stores one Node. Before each patch, it calls `before_patch`."""

    def __init__(self, node: dict[str, Any]) -> None:
        self.node = node
        self.before_patch: Callable[[], None] = lambda: None

    def label(self, key: str, value: str) -> None:
        self._change({"metadata": {"labels": {key: value}}})

    def patch(self, item: Object, subresource: str, body: Object) -> Object:
        self.before_patch()
        self._change(dict(body))
        return copy.deepcopy(self.node)

    def _change(self, body: dict[str, Any]) -> None:
        _merge(self.node, body)
        self.node["metadata"]["resourceVersion"] = str(int(self.node["metadata"]["resourceVersion"]) + 1)


def _merge(into: dict[str, Any], change: dict[str, Any]) -> None:
    for key, value in change.items():
        if isinstance(value, dict):
            _merge(into.setdefault(key, {}), cast("dict[str, Any]", value))
        elif value is None:
            into.pop(key, None)
        else:
            into[key] = value


def _node() -> dict[str, Any]:
    annotations = {
        names.KWOK_NODE_ANNOTATION: "fake",
        names.SANDBOX_MACHINE_ANNOTATION: "p4de.24xlarge",
        names.SANDBOX_DRIVER_ANNOTATION: "580.95.05",
    }
    metadata = {"name": "a", "uid": "1", "resourceVersion": "1", "annotations": annotations, "labels": {}}
    return {"metadata": metadata, "status": {}}


def _reconcile_until_quiet(nodes: Nodes, server: Server) -> None:
    before = None
    while before != server.node:
        before = copy.deepcopy(server.node)
        nodes.reconcile(copy.deepcopy(server.node), OPERATOR, "")


def test_a_label_that_changes_while_the_node_is_patched_is_not_missed() -> None:
    server = Server(_node())
    nodes = Nodes(cast("Informer", server), load_catalog(), mig_seconds=0)
    _reconcile_until_quiet(nodes, server)
    assert server.node["status"]["allocatable"]["nvidia.com/gpu"] == "8"

    def somebody_selects_a_layout() -> None:
        server.before_patch = lambda: None
        server.label(names.MIG_CONFIG_LABEL, "seven")

    server.before_patch = somebody_selects_a_layout
    server.label(names.GPU_PRODUCT_LABEL, "wrong")  # feature discovery corrects the label
    _reconcile_until_quiet(nodes, server)
    assert server.node["metadata"]["labels"][names.MIG_STATE_LABEL] == "success"


def test_a_node_with_its_desired_state_is_not_patched_again() -> None:
    server = Server(_node())
    nodes = Nodes(cast("Informer", server), load_catalog(), mig_seconds=0)
    _reconcile_until_quiet(nodes, server)
    version = server.node["metadata"]["resourceVersion"]
    for _ in range(3):
        nodes.reconcile(copy.deepcopy(server.node), OPERATOR, "")
    assert server.node["metadata"]["resourceVersion"] == version


def test_each_rack_pool_is_one_simulated_fabric() -> None:
    catalog = load_catalog()

    def fabric(name: str, pool: str, machine_type: str = "p6e-gb200.36xlarge") -> str | None:
        annotations = {names.SANDBOX_MACHINE_ANNOTATION: machine_type}
        metadata = {"name": name, "labels": {names.POOL_LABEL: pool}, "annotations": annotations}
        machine = simulated_machine({"metadata": metadata}, "", catalog)
        assert not isinstance(machine, str)
        return machine.hardware.fabric

    assert fabric("rack-0", "rack") == fabric("rack-17", "rack")
    assert fabric("rack-0", "rack") != fabric("other-0", "other")
    assert fabric("train-0", "train", "p5.48xlarge") is None


def test_of_a_node_without_gpus_the_kubelet_alone_is_simulated() -> None:
    node = _node()
    node["metadata"]["annotations"] = {
        names.KWOK_NODE_ANNOTATION: "fake",
        names.SANDBOX_MACHINE_ANNOTATION: "m7i.2xlarge",
    }
    server = Server(node)
    nodes = Nodes(cast("Informer", server), load_catalog(), mig_seconds=0)
    _reconcile_until_quiet(nodes, server)
    assert server.node["status"]["allocatable"]["cpu"] == "7910m"
    assert server.node["metadata"]["labels"] == {}
    assert "nvidia.com/gpu" not in server.node["status"]["allocatable"]
    assert nodes.record("a") is None
