"""The simulated node, the cluster checks and the policies detect a mistake in the planner.

Each test plants one mistake in the planner's facts or code, plans a stack, runs the program, and applies the
registered objects to simulated nodes. The simulator and the policies use the same wrong catalogue as the planner.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml
from simulated_cluster import Cluster

from gpu_platform.base import names
from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import Catalog, MigProfile, load_catalog
from gpu_platform.deploy.recorded.objects import kubernetes_objects
from gpu_platform.deploy.recorded.policy_check import evaluate_policies
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.mig import place
from gpu_platform.planning.nodes.allocatable import NodeResources, allocatable, capacity
from gpu_platform.planning.sharing.section import ResourceOffer
from gpu_platform.planning.sharing.sharing import offered_resources
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import load_stack
from policies import PolicyReport
from sandbox.control_plane import Status
from sandbox.simulator.allocatable import node_allocatable
from sandbox.simulator.cluster_policy import read_cluster_policy
from sandbox.simulator.kubelet import node_status
from sandbox.simulator.node import ConfigMaps, desired_node, mig_request
from sandbox.simulator.nodes import MIG_MEMORY_ANNOTATION, SimulatedMachine, simulated_machine
from tests.support.eventually import eventually
from validators.cluster import check_node

A100 = "a100-80gb"


@dataclass(frozen=True)
class Simulated:
    """A planned stack, the failed cluster checks of its simulated nodes, and the policy report."""

    plan: EnvironmentPlan
    failed: Mapping[str, Mapping[str, str]]
    """Observed values of the failed checks, by node and then by check id or device."""
    policies: PolicyReport

    @property
    def broken_rules(self) -> set[str]:
        return {violation.rule for violation in self.policies.violations}


@pytest.fixture
def simulate(tmp_path: Path) -> Callable[..., Simulated]:
    """Plan a stack, run its program, and simulate each Node that the program registers."""

    def run(*pools: dict[str, Any]) -> Simulated:
        file = tmp_path / "Pulumi.broken.yaml"
        cluster = {"provider": "sandbox", "name": "broken"}
        stack = {"kind": "environment", "cluster": cluster, "pools": list(pools)}
        file.write_text(yaml.safe_dump({"config": {"gpu-platform:platform": stack}}), "utf-8")
        loaded = load_stack(str(file))
        plan = loaded.plan
        assert isinstance(plan, EnvironmentPlan)
        program = record_stack(loaded)
        objects = [one.manifest for one in kubernetes_objects(program.resources)]
        expected = {pool.name: pool.node_expectation for pool in plan.pools}
        failed: dict[str, dict[str, str]] = {}
        for node in (one for one in objects if one["kind"] == "Node"):
            brought_up = bring_up(node, objects)
            results = check_node(brought_up, expected[node["metadata"]["labels"][names.POOL_LABEL]])
            failed[node["metadata"]["name"]] = {
                one.device or one.id: one.observed for one in results if one.verdict != "pass"
            }
        return Simulated(plan, failed, evaluate_policies(program, plan))

    return run


def bring_up(node: Mapping[str, Any], objects: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a Node once the simulated operator and the kubelet have made all their changes."""
    policy = read_cluster_policy(next(one["spec"] for one in objects if one["kind"] == "ClusterPolicy"))
    maps: ConfigMaps = {
        one["metadata"]["name"]: one["data"]
        for one in objects
        if one["kind"] == "ConfigMap" and one["metadata"]["namespace"] == names.OPERATOR_NAMESPACE
    }
    metadata = node["metadata"]
    labels: dict[str, str] = dict(metadata["labels"])
    catalog = sys.modules["gpu_platform.stack.loaded"].load_catalog()

    def machine(annotations: Mapping[str, str]) -> SimulatedMachine:
        found = simulated_machine({"metadata": {**metadata, "annotations": annotations}}, "", catalog)
        assert isinstance(found, SimulatedMachine), found
        return found

    simulated = machine(metadata["annotations"])
    request = mig_request(policy, maps, labels, simulated.hardware, simulated.memory.layouts, busy=False)
    if request is not None:
        memory = simulated.remembering(request)
        labels[names.MIG_STATE_LABEL] = memory.state
        simulated = machine({**metadata["annotations"], MIG_MEMORY_ANNOTATION: memory.to_text()})
    desired = desired_node(policy, maps, labels, simulated.hardware, operands_stopped=False)
    return {
        "metadata": {**metadata, "labels": labels | desired.labels},
        "spec": node["spec"],
        "status": {
            **node_status(simulated.machine, desired.advertised, {}),
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def put(monkeypatch: pytest.MonkeyPatch, replacement: Callable[..., Any], original: Callable[..., Any]) -> None:
    """Replace the function `original` in every module that has imported it."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("gpu_platform", "policies", "sandbox"):
            for attribute in [key for key, value in vars(module).items() if value is original]:
                monkeypatch.setattr(module, attribute, replacement)


def give(monkeypatch: pytest.MonkeyPatch, catalog: Catalog) -> None:
    """Replace the catalogue of the planner, the simulator and the policies."""
    put(monkeypatch, lambda: catalog, load_catalog)


def with_mig(model: str, change: Callable[[MigProfile], MigProfile], **mig: int) -> Catalog:
    """Return the catalogue with changed MIG facts for one GPU model."""
    catalog = load_catalog()
    gpu = catalog.gpus[model]
    assert gpu.mig is not None
    facts = gpu.mig.model_copy(update={"profiles": tuple(change(each) for each in gpu.mig.profiles), **mig})
    gpus = {**catalog.gpus, model: gpu.model_copy(update={"mig": facts})}
    return replace(catalog, gpus=MappingProxyType(gpus))


def changed(profile: str, /, **facts: Any) -> Callable[[MigProfile], MigProfile]:
    """Return a function that changes the facts of one profile."""
    return lambda each: each.model_copy(update=facts) if each.name == profile else each


def lab(layout: Mapping[str, int], **rest: Any) -> dict[str, Any]:
    sharing = {"mode": "mig", "layout": dict(layout)}
    return {"name": "lab", "machine_type": "p4de.24xlarge", "count": {"desired": 1}, "workload": "development",
            "sharing": sharing, **rest}  # fmt: skip


def serve(replicas: int) -> dict[str, Any]:
    sharing = {"mode": "time-slicing", "replicas": replicas}
    return {"name": "serve", "machine_type": "g4dn.12xlarge", "count": {"desired": 1}, "workload": "inference",
            "sharing": sharing}  # fmt: skip


# -- a correct planner ------------------------------------------------------------------------------------


def test_without_a_mistake_every_check_passes(simulate: Callable[..., Simulated]) -> None:
    found = simulate(lab({"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2}), serve(4))
    assert found.failed == {"lab-0": {}, "serve-0": {}}
    assert found.broken_rules == set()


def test_without_a_mistake_the_planner_refuses_what_the_driver_refuses(simulate: Callable[..., Simulated]) -> None:
    with pytest.raises(BadInput) as refused:
        simulate(lab({"3g.40gb": 2, "1g.10gb": 1}))
    assert "3g.40gb x2 is legal" in str(refused.value)


# -- mistakes in MIG facts and MIG code -------------------------------------------------------------------

THREE = {"starts": (0, 4, 8), "max_instances": 3}
WRONG_FACTS: dict[str, tuple[Catalog, dict[str, int]]] = {
    "an additional placement of 3g.40gb": (
        with_mig(A100, changed("3g.40gb", **THREE), memory_slices=12, compute_slices=9),
        {"3g.40gb": 3},
    ),
    "3g.40gb with three memory slices instead of four": (
        with_mig(A100, changed("3g.40gb", memory_slices=3)),
        {"3g.40gb": 2, "1g.10gb": 1},
    ),
    "1g.20gb with one memory slice instead of two": (
        with_mig(A100, changed("1g.20gb", memory_slices=1, starts=(0, 1, 2, 3, 4, 5, 6), max_instances=7)),
        {"1g.20gb": 5},
    ),
    "two instances may have the media engines": (
        with_mig(A100, changed("1g.10gb+me", max_instances=2, media_engines=False)),
        {"1g.10gb+me": 2},
    ),
    "a wrong profile name": (with_mig(A100, changed("3g.40gb", name="3g.48gb")), {"3g.48gb": 2}),
}


@pytest.mark.parametrize("mistake", WRONG_FACTS)
def test_wrong_mig_facts_are_seen(
    mistake: str, simulate: Callable[..., Simulated], monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, layout = WRONG_FACTS[mistake]
    give(monkeypatch, catalog)
    found = simulate(lab(layout))
    assert found.failed["lab-0"][names.MIG_STATE_LABEL] == "failed"
    assert {name: seen for name, seen in found.failed["lab-0"].items() if "/mig-" in name} == {
        names.mig_resource(profile): "none" for profile in layout
    }
    unknown_name = mistake == "a wrong profile name"
    assert found.broken_rules == {"mig-profile-matches-model" if unknown_name else "mig-geometry-valid"}


def test_a_planner_that_places_everything_is_seen(
    simulate: Callable[..., Simulated], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(monkeypatch, lambda mig, layout: (), place)
    found = simulate(lab({"4g.40gb": 1, "2g.20gb": 2}))
    assert found.failed["lab-0"][names.MIG_STATE_LABEL] == "failed"
    assert found.broken_rules == {"mig-geometry-valid"}


def test_a_gpu_that_the_catalogue_wrongly_gives_mig_is_seen(
    simulate: Callable[..., Simulated], monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = load_catalog()
    mig = catalog.gpus["a30"].mig
    l4 = catalog.gpus["l4"].model_copy(update={"mig": mig, "pci_id": "0x27B810DE"})
    give(monkeypatch, replace(catalog, gpus=MappingProxyType({**catalog.gpus, "l4": l4})))
    found = simulate(lab({"1g.6gb": 4}, machine_type="g6.12xlarge"))
    assert found.failed["lab-0"][names.MIG_STATE_LABEL] == "none"
    assert found.broken_rules == {"mig-on-unsupported-gpu"}


# -- replicas ---------------------------------------------------------------------------------------------


def test_a_planner_that_counts_more_replicas_than_it_configures_is_seen(
    simulate: Callable[..., Simulated], monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_more(*arguments: Any) -> tuple[ResourceOffer, ...]:
        return tuple(
            replace(offer, per_node=offer.per_node + int(offer.gpus)) for offer in offered_resources(*arguments)
        )

    put(monkeypatch, one_more, offered_resources)
    found = simulate(serve(4))
    assert found.plan.pools[0].resources[0].per_node == 20
    assert found.failed == {"serve-0": {names.SHARED_GPU_RESOURCE: "16"}}


def test_a_planner_that_configures_more_replicas_than_are_allowed_is_seen(
    simulate: Callable[..., Simulated],
) -> None:
    assert simulate(serve(6)).broken_rules == {"sharing-replicas-bounded"}


# -- allocatable resources --------------------------------------------------------------------------------


def test_the_planner_never_promises_more_than_the_kubelet_leaves() -> None:
    promised = {name: allocatable(machine) for name, machine in load_catalog().machine_types.items()}
    left = {name: node_allocatable(machine) for name, machine in load_catalog().machine_types.items()}
    too_much = {
        name: (promised[name], left[name])
        for name in promised
        if promised[name].cpu_millicores > left[name].cpu_millicores
        or promised[name].memory_mib > left[name].memory_mib
    }
    assert too_much == {}


@pytest.mark.parametrize(
    ("machine_type", "cpu_millicores", "memory_mib"),
    [
        # EKS: 48 x 1000 - (60 + 10 + 10 + 110) millicores; 192 GiB - (255 + 11 x (8 x 29 + 2) + 100) MiB.
        ("g4dn.12xlarge", 47_810, 196_608 - 2_829 - 100),
        # GKE: 48 x 1000 - 190 millicores; 192 GiB - (1024 + 819.2 + 819.2 + 6881.28 + 1310.72 + 100) MiB.
        ("g2-standard-48", 47_810, 196_608 - 10_854 - 100),
    ],
)
def test_allocatable_is_what_the_providers_formula_gives_by_hand(
    machine_type: str, cpu_millicores: int, memory_mib: int
) -> None:
    found = node_allocatable(load_catalog().machine_types[machine_type])
    assert (found.cpu_millicores, found.memory_mib) == (cpu_millicores, memory_mib)


def _without_kube_reserved(promised: NodeResources) -> NodeResources:
    del promised
    return capacity(load_catalog().machine_types["g4dn.xlarge"])


def _without_eviction(promised: NodeResources) -> NodeResources:
    return promised._replace(memory_mib=promised.memory_mib + 100)


def _one_millicore_more(promised: NodeResources) -> NodeResources:
    return promised._replace(cpu_millicores=promised.cpu_millicores + 1)


@pytest.mark.sandbox
@pytest.mark.parametrize("mistake", [_without_kube_reserved, _without_eviction, _one_millicore_more])
def test_a_pod_that_only_a_wrong_formula_fits_stays_pending(
    sandbox: Status, mistake: Callable[[NodeResources], NodeResources]
) -> None:
    promised = allocatable(load_catalog().machine_types["g4dn.xlarge"])
    with Cluster(sandbox) as cluster:
        node = cluster.node("g4dn.xlarge")
        right = cluster.pod(node, resources=_request(promised))
        eventually(lambda: cluster.phase(right), "Running")
        uid = cluster.get_pod(right)["metadata"]["uid"]
        cluster.api.delete_now(f"/api/v1/namespaces/default/pods/{right}", uid)
        wrong = cluster.pod(node, resources=_request(mistake(promised)))
        eventually(lambda: "Insufficient" in _scheduling_message(cluster, wrong), True)
        assert cluster.phase(wrong) == "Pending"


def _request(promised: NodeResources) -> dict[str, str]:
    return {"cpu": f"{promised.cpu_millicores}m", "memory": f"{promised.memory_mib}Mi"}


def _scheduling_message(cluster: Cluster, pod: str) -> str:
    conditions = cluster.get_pod(pod)["status"].get("conditions", ())
    return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")
