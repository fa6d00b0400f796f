"""The Topology Manager of the simulated kubelet: refused pods, and the resources that admitted pods receive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from simulated_hardware import node

from gpu_platform.base import names
from gpu_platform.catalog import load_catalog
from gpu_platform.planning.pools import numa
from sandbox.simulator.admission import Rejection
from sandbox.simulator.device_plugin import advertise, parse_config
from sandbox.simulator.resource_managers import AlignedNode, Held, admit, aligned_node
from sandbox.simulator.topology_manager import Hint, merge
from tests.support.size import THOROUGH

GPU = "nvidia.com/gpu"
REFUSED = Rejection("TopologyAffinityError", "Resources cannot be allocated with Topology locality")


def kubelet(policy: str = "restricted", machine: str = "p4de.24xlarge", scope: str = "container") -> AlignedNode:
    found = aligned_node(
        {names.TOPOLOGY_POLICY_LABEL: policy},
        {names.SANDBOX_TOPOLOGY_SCOPE_ANNOTATION: scope},
        load_catalog().machine_types[machine],
        advertise(node(machine), parse_config(""), "none"),
    )
    assert found is not None
    return found


def container(gpus: int | str = 0, cpu: str = "", **rest: str) -> dict[str, Any]:
    limits = ({GPU: str(gpus)} if gpus else {}) | ({"cpu": cpu} if cpu else {})
    return {"name": "main", "resources": {"limits": limits}, **rest}


def pod(
    *containers: Mapping[str, Any], init: Sequence[Mapping[str, Any]] = (), qos: str = "Guaranteed"
) -> dict[str, Any]:
    spec = {"containers": list(containers), "initContainers": list(init)}
    return {"spec": spec, "status": {"qosClass": qos}}


def admitted(node: AlignedNode, *pods: Mapping[str, Any]) -> list[Held]:
    held: list[Held] = []
    for one in pods:
        got = admit(one, node, held)
        assert not isinstance(got, Rejection), (one, got)
        held.append(got)
    return held


@pytest.mark.parametrize(
    ("gpus", "cpu", "runs"),
    [
        (8, "95", True),
        (8, "49", True),  # more than the 48 CPUs of a NUMA node
        (8, "48", False),  # the CPUs fit on one NUMA node, but the GPUs need two
        (8, "900m", True),  # fractional CPUs are not exclusive
        (8, "", True),
        (4, "48", True),  # all 48 CPUs of NUMA node 1; one CPU of NUMA node 0 is reserved
        (4, "49", False),
        (5, "1", False),
        (1, "1", True),
    ],
)
def test_whole_cpus_must_need_as_many_numa_nodes_as_the_gpus(gpus: int, cpu: str, *, runs: bool) -> None:
    got = admit(pod(container(gpus, cpu)), kubelet(), [])
    assert (got != REFUSED) is runs
    burstable = admit(pod(container(gpus, cpu), qos="Burstable"), kubelet(), [])
    assert burstable != REFUSED


def test_gpus_scattered_over_numa_nodes_are_refused_until_a_pod_ends() -> None:
    three = pod(container(3))
    held = admitted(kubelet(), three, three)
    assert held == [{GPU: {0: 3}}, {GPU: {1: 3}}]
    two = pod(container(2))
    assert admit(two, kubelet(), held) == REFUSED
    assert admit(two, kubelet(), held[1:]) == {GPU: {0: 2}}
    best_effort = admit(two, kubelet("best-effort"), held)
    assert best_effort == {GPU: {0: 1, 1: 1}}


def test_exclusive_cpus_are_used_up_by_numa_node() -> None:
    held = admitted(kubelet(), *[pod(container(1, "30"))] * 2)
    assert held == [{GPU: {0: 1}, "cpu": {0: 30}}, {GPU: {1: 1}, "cpu": {1: 30}}]
    assert (
        admit(pod(container(1, "30")), kubelet(), held) == REFUSED
    )  # the two NUMA nodes have 17 and 18 free CPUs
    assert admit(pod(container(1, "18")), kubelet(), held) == {GPU: {1: 1}, "cpu": {1: 18}}


def test_cpus_of_two_numa_nodes_are_all_of_one_and_the_rest_of_the_other() -> None:
    """NUMA node 0 is not completely free, because one of its CPUs is reserved."""
    assert admit(pod(container(8, "50")), kubelet(), []) == {GPU: {0: 4, 1: 4}, "cpu": {0: 2, 1: 48}}


def test_no_pod_is_on_two_numa_nodes_under_single_numa_node() -> None:
    single = kubelet("single-numa-node")
    assert admit(pod(container(5)), single, []) == REFUSED
    assert admit(pod(container(cpu="49")), single, []) == REFUSED
    assert admit(pod(container(4, "47")), single, []) == {GPU: {0: 4}, "cpu": {0: 47}}


def test_containers_are_aligned_one_by_one_or_in_scope_pod_together() -> None:
    two = pod(container(4, "24"), container(4, "24"))
    assert admitted(kubelet(), two) == [{GPU: {0: 4, 1: 4}, "cpu": {0: 24, 1: 24}}]
    assert admit(two, kubelet(scope="pod"), []) == REFUSED  # 8 GPUs need two NUMA nodes, but 48 CPUs need one
    assert admit(pod(container(4, "24"), container(4, "25")), kubelet(scope="pod"), []) == {
        GPU: {0: 4, 1: 4},
        "cpu": {0: 47, 1: 2},  # CPUs come first from the NUMA node with the fewest free CPUs
    }


def test_a_container_reuses_resources_of_init_containers_not_sidecars() -> None:
    init, sidecar = container(2, "4"), container(2, "4", restartPolicy="Always")
    main = container(4, "8")
    assert admitted(kubelet(), pod(main, init=[init])) == [{GPU: {0: 4}, "cpu": {0: 8}}]
    assert admitted(kubelet(), pod(main, init=[sidecar])) == [{GPU: {0: 2, 1: 4}, "cpu": {0: 4, 1: 8}}]
    # With pod scope, a sidecar counts in addition to the main container, but an init container does not.
    assert admitted(kubelet(scope="pod"), pod(main, init=[init])) == [{GPU: {0: 4}, "cpu": {0: 8}}]
    assert admit(pod(main, init=[sidecar]), kubelet(scope="pod"), []) == REFUSED
    # Five GPUs are in use while the second init container runs together with the sidecar.
    beside = pod(container(1, "4"), init=[sidecar, container(3, "4")])
    assert admit(beside, kubelet(scope="pod"), []) == REFUSED


def test_a_container_uses_the_numa_node_of_its_init_container() -> None:
    held = admitted(kubelet(), pod(container(cpu="46")))  # one CPU is left on NUMA node 0
    both = pod(container(2, "900m"), init=[container(1, "2")])
    assert admit(both, kubelet(), held) == {GPU: {1: 2}, "cpu": {1: 2}}


def test_resources_of_the_pod_itself_leave_its_cpus_unaligned() -> None:
    own = pod(container(8, "8"))
    own["spec"]["resources"] = {"limits": {"cpu": "8", "memory": "1Gi"}}
    assert admit(own, kubelet(), []) == {GPU: {0: 4, 1: 4}}


def test_more_than_is_free_is_no_matter_of_alignment_to_best_effort() -> None:
    held = admitted(kubelet("best-effort"), pod(container(7, "90")))
    gpus = admit(pod(container(2)), kubelet("best-effort"), held)
    assert isinstance(gpus, Rejection)
    assert (gpus.reason, gpus.message) == (
        "UnexpectedAdmissionError",
        "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 2, "
        "Available: 1, which is unexpected",
    )
    cpus = admit(pod(container(1, "6")), kubelet("best-effort"), held)
    assert isinstance(cpus, Rejection)
    assert "not enough cpus available to satisfy request: requested=6, available=5" in cpus.message


def test_gpus_whose_numa_node_is_hidden_are_given_without_alignment() -> None:
    hidden = kubelet(machine="g4dn.12xlarge")
    assert admit(pod(container(4, "2")), hidden, []) == {GPU: {-1: 4}, "cpu": {0: 2}}


def test_shared_gpus_and_mig_devices_are_on_the_numa_node_of_their_gpu() -> None:
    shared = parse_config("sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}")
    seven = [{"1g.10gb": 7}] * 3
    assert advertise(node(), shared, "none")[GPU].numa == {0: 16, 1: 16}
    mixed = advertise(node("p4de.24xlarge", *seven, *[None] * 5), parse_config(""), "mixed")
    assert {name: offer.numa for name, offer in mixed.items()} == {
        GPU: {0: 1, 1: 4},
        "nvidia.com/mig-1g.10gb": {0: 21},
    }


def test_a_node_without_a_policy_aligns_nothing() -> None:
    machine = load_catalog().machine_types["p4de.24xlarge"]
    assert aligned_node({}, {}, machine, {}) is None
    assert aligned_node({names.TOPOLOGY_POLICY_LABEL: "none"}, {}, machine, {}) is None


@pytest.mark.parametrize(
    ("hints", "best"),
    [
        ([], (0b11, True)),
        ([None], (0b11, True)),
        ([[]], (0b11, False)),
        ([[Hint(0b10, True), Hint(0b11, False)]], (0b10, True)),
        ([[Hint(0b01, True), Hint(0b10, True)], [Hint(0b10, True)]], (0b10, True)),
        ([[Hint(0b01, True)], [Hint(0b10, True)]], (0b11, False)),  # no common NUMA node
        ([[Hint(0b01, True), Hint(0b11, False)], [Hint(0b11, True)]], (0b11, False)),
    ],
)
def test_hints_are_merged_as_the_kubelets_own_tests_say(
    hints: list[list[Hint] | None], best: tuple[int, bool]
) -> None:
    assert merge("restricted", 2, hints) == (Hint(*best), best[1])
    assert merge("best-effort", 2, hints) == (Hint(*best), True)


@pytest.mark.parametrize("policy", ["restricted", "single-numa-node"])
@pytest.mark.parametrize("machine", ["p4de.24xlarge", "p5.48xlarge", "dgx-a100-640gb", "a4x-highgpu-4g"])
def test_the_planner_calls_alignable_exactly_what_an_empty_node_admits(machine: str, policy: str) -> None:
    one = load_catalog().machine_types[machine]
    nodes = numa.numa_nodes(one, policy)
    assert nodes is not None
    simulated = kubelet(policy, machine)
    reserved = nodes.cpus * nodes.count - sum(simulated.usable["cpu"].values())
    every = range(1, one.vcpu + 1 - reserved)
    # The verdict changes only near numbers of CPUs that fill whole NUMA nodes, with or without reserved CPUs.
    edges = {nodes.cpus * count - less for count in range(nodes.count + 1) for less in (0, reserved)}
    near = {edge + by for edge in edges for by in (-1, 0, 1, 2)}
    tried = [cpus for cpus in every if THOROUGH or cpus in near or cpus % 16 == 0]
    assert {every[0], every[-1]} <= set(tried)
    for gpus in range(1, one.gpu_count + 1):
        most = numa.most_parts(gpus, nodes.units(one.gpu_count), nodes.policy)
        for cpus in tried:
            planned = numa.fewest(cpus, (nodes.cpus,) * nodes.count) == most
            got = admit(pod(container(gpus, str(cpus))), simulated, [])
            assert (got != REFUSED) is planned, (gpus, cpus, got)
