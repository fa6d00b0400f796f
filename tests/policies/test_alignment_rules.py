"""Every pod that gpu-numa-alignment refuses is also rejected by an independent model of the kubelet."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_records import (
    UNKNOWN,
    Record,
    cluster_policy,
    deployment,
    device_plugin_config_map,
    ec2_node_class,
    eks_node_group,
    gke_node_pool,
    karpenter_node_pool,
    launch_template,
    node,
    not_checked,
    only,
    pod_spec,
    shared,
    violations,
)

from gpu_platform.catalog import load_catalog
from sandbox.simulator.admission import Rejection
from sandbox.simulator.device_plugin import Advertised
from sandbox.simulator.resource_managers import admit, aligned_node
from tests.support.size import size

RULE = "gpu-numa-alignment"
GPU = "nvidia.com/gpu"
OPERATOR = [cluster_policy(), device_plugin_config_map(train="version: v1", serve=shared(replicas=4))]
SANDBOX = "sandbox.gpu-platform.dev"
NODEADM = """
spec:
  kubelet:
    config:
      cpuManagerPolicy: {cpus}
      topologyManagerPolicy: restricted
      topologyManagerScope: {scope}
"""


def simulated(
    policy: str = "restricted", machine: str = "p4de.24xlarge", name: str = "train-0", **notes: str
) -> Record:
    annotations = {f"{SANDBOX}/machine-type": machine, **{f"{SANDBOX}/{key}": one for key, one in notes.items()}}
    labels = {"gpu-platform.dev/topology-policy": policy}
    return node(name, machine_type=machine, annotations=annotations, labels=labels)


def container(gpus: int, cpu: Any, requests: Any = None, name: str = "main") -> Record:
    limits = {"memory": "1Gi", **({GPU: gpus} if gpus else {}), **({"cpu": cpu} if cpu else {})}
    return {"name": name, "image": "none", "resources": {"limits": limits, "requests": requests or {}}}


def asking(*containers: Record, **spec: Any) -> Record:
    return deployment(pod_spec(*containers, **spec))


def refused(*records: Record) -> bool:
    return bool(violations(RULE, *OPERATOR, *records))


def test_whole_cpus_of_fewer_numa_nodes_than_the_gpus_are_found_with_both_ways_out() -> None:
    found = only(violations(RULE, *OPERATOR, simulated(), asking(container(8, "48")))).problem
    assert found.path.endswith("containers[0].resources.limits.cpu")
    assert found.found == "8 GPUs and 48 whole CPUs in one container"
    assert found.allowed.startswith("49 to 96 whole CPUs with 8 GPUs on a node of pool train")
    assert found.fix.startswith("write cpu: 47999m")


def test_single_numa_node_refuses_gpus_of_two_numa_nodes() -> None:
    single = simulated("single-numa-node")
    found = only(violations(RULE, *OPERATOR, single, asking(container(5, "900m")))).problem
    assert found.allowed == "at most 4 GPUs (one NUMA node) on a node of pool train"
    assert not refused(single, asking(container(4, "48")))
    assert refused(single, asking(container(4, "49")))


EXCLUSIVE = container(8, "8")


@pytest.mark.parametrize(
    "pod",
    [
        asking(container(8, "8500m")),
        asking(container(8, None)),
        asking(container(8, "8", {"cpu": "4"})),
        asking(container(8, "8", {"memory": "1Mi"})),
        asking(EXCLUSIVE, container(0, "1", {"cpu": "500m"}, name="sidecar")),
        asking(EXCLUSIVE, {"name": "sidecar", "image": "none"}),
        asking(EXCLUSIVE, initContainers=[{"name": "first", "image": "none"}]),
        asking(EXCLUSIVE, resources={"limits": {"cpu": "8", "memory": "1Gi"}}),
        asking(container(0, "8")),
    ],
)
def test_pods_whose_cpus_are_not_exclusive_or_without_gpus_pass(pod: Record) -> None:
    assert not refused(simulated(), pod)


def test_each_container_is_evaluated_by_itself_init_containers_too() -> None:
    assert refused(simulated(), asking(container(4, "8"), container(4, "60", name="second")))
    assert refused(simulated(), asking(container(1, "8"), initContainers=[container(8, "8", name="first")]))
    # With pod scope, the requests of both containers are added up: 8 GPUs and 68 CPUs, each from two NUMA nodes.
    both = asking(container(4, "8"), container(4, "60", name="second"))
    assert not refused(simulated(**{"topology-scope": "pod"}), both)
    assert refused(simulated(**{"topology-scope": "pod"}), asking(EXCLUSIVE))


@pytest.mark.parametrize(
    "other",
    [
        simulated("none", name="other-0"),
        simulated("best-effort", name="other-0"),
        # The simulator does not report the NUMA nodes of this machine type.
        simulated(machine="a2-ultragpu-8g", name="other-0"),
        node("other-0", patch=True, labels={"gpu-platform.dev/topology-policy": "restricted"}),
    ],
)
def test_a_pod_that_may_run_on_a_node_of_another_kind_passes(other: Record) -> None:
    config = [cluster_policy(), device_plugin_config_map(train="version: v1", other="version: v1")]
    assert violations(RULE, *config, simulated(), asking(EXCLUSIVE))
    assert not violations(RULE, *config, simulated(), other, asking(EXCLUSIVE))
    of_train = asking(EXCLUSIVE, nodeSelector={"gpu-platform.dev/pool": "train"})
    assert violations(RULE, *config, simulated(), other, of_train)


def test_a_pool_with_fewer_gpus_is_no_way_out_and_shares_named_as_gpus_are() -> None:
    few = simulated(machine="g5.12xlarge", name="few-0")
    config = device_plugin_config_map(
        train="version: v1", few="version: v1", many=shared(replicas=4, rename=False)
    )
    assert violations(RULE, cluster_policy(), config, simulated(), few, asking(EXCLUSIVE))
    many = simulated(name="many-0")  # 16 shares on each of the two NUMA nodes
    assert not violations(RULE, cluster_policy(), config, simulated(), many, asking(EXCLUSIVE))


@pytest.mark.parametrize(
    ("cpus", "scope", "one", "two"),
    [
        ("static", "container", True, True),
        ("static", "pod", True, False),
        ("none", "container", False, False),
    ],
)
def test_kubelet_configurations_of_clouds_are_read(cpus: str, scope: str, *, one: bool, two: bool) -> None:
    text = NODEADM.format(cpus=cpus, scope=scope)
    group = [launch_template(userData=base64.b64encode(text.encode()).decode()), eks_node_group()]
    karpenter = [ec2_node_class(text), karpenter_node_pool()]
    manager = {"policy": "restricted", "scope": scope}
    gke = [gke_node_pool(kubeletConfig={"cpuManagerPolicy": cpus, "topologyManager": manager})]
    for pool in (group, karpenter, gke):
        assert bool(violations(RULE, *pool, asking(EXCLUSIVE))) is one
        assert bool(violations(RULE, *pool, asking(EXCLUSIVE, container(0, "1", name="second")))) is two


def test_machine_types_are_named_only_if_all_are_known_and_refused() -> None:
    text = NODEADM.format(cpus="static", scope="container")

    def pool(*types: str) -> list[Record]:
        wanted = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": list(types)}]
        return [ec2_node_class(text), karpenter_node_pool(wanted)]

    assert violations(RULE, *pool("p5.48xlarge", "p4de.24xlarge"), asking(container(8, "48")))
    assert not violations(RULE, *pool("p5.48xlarge", "p4de.24xlarge"), asking(container(8, "60")))
    assert not violations(RULE, *pool("p5.48xlarge", "p9.48xlarge"), asking(container(8, "48")))


def test_cpus_are_on_numa_nodes_without_gpus_too() -> None:
    """The 256 CPUs of a DGX A100 are spread over eight NUMA nodes, but its GPUs over only four of them."""
    dgx = simulated(machine="dgx-a100-640gb")
    assert refused(dgx, asking(container(1, "33")))
    assert not refused(dgx, asking(container(1, "32")))
    assert not refused(dgx, asking(container(3, "33")))


def test_cpus_that_are_not_known_yet_are_not_checked() -> None:
    assert "limits.cpu" in not_checked(RULE, *OPERATOR, simulated(), asking(container(8, UNKNOWN)))


MACHINES = ("p4de.24xlarge", "p5.48xlarge", "dgx-a100-640gb", "a4x-highgpu-4g")
CPUS = st.one_of(
    st.integers(1, 224).map(str), st.integers(1, 200_000).map(lambda millis: f"{millis}m"), st.just("")
)
CONTAINERS = st.tuples(st.integers(0, 8), CPUS, st.sampled_from([None, None, None, {"cpu": "1m"}]))


def of_kubelet(pod: Record, machine: str, policy: str, scope: str) -> bool:
    """Return whether the kubelet of an empty node rejects a pod because of NUMA alignment, according to the
    kubelet's source.

    A pod that requests more than the node has does not count as rejected.
    """
    one = load_catalog().machine_types[machine]
    by_node = {found: (one.numa_nodes or ()).count(found) for found in one.numa_nodes or ()}
    offer = Advertised(one.gpu_count, one.gpu_count, numa=by_node, healthy_numa=by_node)
    labels = {"gpu-platform.dev/topology-policy": policy}
    aligned = aligned_node(labels, {f"{SANDBOX}/topology-scope": scope}, one, {GPU: offer})
    assert aligned is not None
    spec = pod["inputs"]["spec"]["template"]["spec"]
    resources = [one["resources"] for one in (*spec.get("initContainers", ()), *spec["containers"])]
    exact = all(
        {"cpu", "memory"} <= set(found["limits"]) and {**found["limits"], **found["requests"]} == found["limits"]
        for found in resources
    )
    status = {"qosClass": "Guaranteed" if exact else "Burstable"}
    got = admit({"spec": spec, "status": status}, aligned, [])
    return isinstance(got, Rejection) and got.reason == "TopologyAffinityError"


@settings(max_examples=size(150, 3000), deadline=None)
@given(
    st.sampled_from(MACHINES),
    st.sampled_from(["restricted", "single-numa-node"]),
    st.sampled_from(["container", "pod"]),
    st.lists(CONTAINERS, min_size=1, max_size=2),
    st.lists(CONTAINERS, max_size=1),
)
def test_what_the_rule_refuses_the_kubelet_of_an_empty_node_refuses(
    machine: str, policy: str, scope: str, run: list[Any], first: list[Any]
) -> None:
    names = iter("abc")
    containers, init = ([container(*drawn, name=next(names)) for drawn in found] for found in (run, first))
    pod = asking(*containers, initContainers=init)
    found = refused(simulated(policy, machine, **{"topology-scope": scope}), pod)
    kubelet = of_kubelet(pod, machine, policy, scope)
    assert kubelet or not found
    one = load_catalog().machine_types[machine]
    gpus, cpu, _ = run[0]
    if len(run) == 1 and not init and 0 < gpus <= one.gpu_count and not (cpu.isdecimal() and int(cpu) > 80):
        assert found is kubelet
