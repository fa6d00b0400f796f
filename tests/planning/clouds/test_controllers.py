"""Whether the nodes of a new cluster have room for the controllers that the stack installs."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base import names
from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.addons.known import KNOWN
from gpu_platform.planning.clouds.controllers import ControllerPods, Room, controller_pods, without_room
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.clouds.gke.plan import GkeClusterPlan
from gpu_platform.stack.loaded import plan_platform
from tests.planning.clouds.eks.test_cluster import KARPENTER, SERVE, created, eks
from tests.planning.conftest import environment

SCALED = {**SERVE, "count": {"min": 0, "desired": 1, "max": 4}}
GKE_POOL = {
    "name": "serve",
    "machine_type": "g2-standard-24",
    "count": {"min": 0, "desired": 0, "max": 2},
    "workload": "inference",
}
ALL = {"gateway": "install", "prometheus": "install", "kuberay": "install", "keda": "install"}


def plan(cluster: dict[str, Any], *pools: dict[str, Any], **rest: Any) -> EnvironmentPlan:
    made = plan_platform(environment(*(pools or (SCALED, KARPENTER)), cluster=cluster, **rest), "test")
    assert made.kind == "environment"
    return made


def system_types(cluster: dict[str, Any], *pools: dict[str, Any], **rest: Any) -> tuple[str, ...]:
    cloud = plan(cluster, *pools, **rest).cluster.cloud
    assert isinstance(cloud, EksClusterPlan)
    assert cloud.create is not None
    return cloud.create.system_pool.instance_types


def problem(cluster: dict[str, Any], *pools: dict[str, Any], **rest: Any) -> str:
    with pytest.raises(BadInput) as error:
        plan(cluster, *pools, **rest)
    (only,) = error.value.problems
    return str(only)


def gke(**create: Any) -> dict[str, Any]:
    return {"provider": "gke", "name": "ml", "project": "p-project", "location": "us-central1", "create": create}


def test_default_system_nodes_hold_karpenter_kueue_and_operator() -> None:
    assert system_types(created(), SERVE) == ("m7i.large", "m6i.large")
    assert system_types(created(), queueing={}) == ("m7i.xlarge", "m6i.xlarge")
    assert system_types(created(), queueing={}, addons=ALL) == ("m7i.xlarge", "m6i.xlarge")


def test_declared_system_nodes_without_room_are_refused_with_a_type_that_fits() -> None:
    small = problem(created({"system": {"machine_types": ["m7i.large"]}}), queueing={})
    assert "cluster.create.system: found 2 nodes of m7i.large, with 1.6 CPU and" in small
    assert "Karpenter 2 x 1 CPU" in small
    assert "write machine_types: [m7i.xlarge, m6i.xlarge]" in small
    fixed = created({"system": {"machine_types": ["m7i.xlarge", "m6i.xlarge"]}})
    assert system_types(fixed, queueing={}) == ("m7i.xlarge", "m6i.xlarge")


def test_more_nodes_hold_controllers_that_two_do_not() -> None:
    system = {"machine_types": ["m7i.large"], "desired": 4, "max": 4}
    assert system_types(created({"system": system}), queueing={}) == ("m7i.large",)


def test_replicas_of_karpenter_need_a_node_each() -> None:
    one = {"machine_types": ["m7i.8xlarge"], "min": 1, "desired": 1}
    assert system_types(created({"system": one}, production=False))
    pods = [ControllerPods(name="Karpenter", cpu_millicores=10, memory_mib=10, replicas=2, apart=True)]
    assert without_room(pods, [Room(1000, 1000)]) == ("Karpenter",)
    assert without_room(pods, [Room(1000, 1000)] * 2) == ()


def test_a_cpu_pool_holds_add_ons_but_not_what_adds_its_nodes() -> None:
    cpu = {"name": "general", "machine_type": "m7i.4xlarge", "count": {"desired": 1}, "workload": "general"}
    system = {"machine_types": ["m7i.large"]}
    assert system_types(created({"system": system}), SCALED, KARPENTER, cpu, queueing={}) == ("m7i.large",)
    own = ControllerPods(name="Karpenter", cpu_millicores=1000, memory_mib=10, replicas=1, critical=True)
    assert without_room([own], [Room(900, 900)], [Room(9000, 9000)]) == ("Karpenter",)


@pytest.mark.parametrize(
    "sometimes",
    [
        {"schedule": {"start": "07:00", "stop": "19:00", "time_zone": "UTC", "stops_work": True}},
        {"capacity": {"type": "spot"}},
    ],
    ids=["schedule", "spot"],
)
def test_a_cpu_pool_that_is_off_at_times_holds_no_controllers(sometimes: dict[str, Any]) -> None:
    cpu = {"name": "general", "machine_type": "m7i.4xlarge", "count": {"desired": 1}, "workload": "general"}
    small = created({"system": {"machine_types": ["m7i.large"]}})
    assert system_types(small, SCALED, KARPENTER, cpu, queueing={})
    assert "there is not enough room for" in problem(small, SCALED, KARPENTER, {**cpu, **sometimes}, queueing={})


def jobset(cpu: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}
    return {"jobset": {"values": {"controller": {"resources": resources}}}}


def test_values_of_the_stack_file_change_what_a_controller_requests() -> None:
    requests = {"controller": {"resources": {"requests": {"cpu": "900m", "memory": "3Gi"}}}}
    known = {pods.name: pods for pods in controller_pods("jobset", load_catalog(), requests)}
    assert (known["JobSet"].cpu_millicores, known["JobSet"].memory_mib) == (900, 3072)
    huge = {
        "jobset": {"values": {"controller": {"resources": {"requests": {"cpu": "40"}, "limits": {"cpu": "40"}}}}}
    }
    assert "there is not enough room for JobSet" in problem(created(), addons={"jobset": "install"}, charts=huge)


def test_an_unknown_machine_type_is_not_refused() -> None:
    assert system_types(created({"system": {"machine_types": ["t3.medium"]}}), queueing={}) == ("t3.medium",)


def test_system_nodes_of_gke_hold_the_controllers() -> None:
    cloud = plan(gke(), GKE_POOL, queueing={}, addons=ALL).cluster.cloud
    assert isinstance(cloud, GkeClusterPlan)
    assert cloud.create is not None
    assert (cloud.create.system_machine_type, cloud.create.system_vcpus) == ("e2-standard-4", 4)
    more = {**ALL, "jobset": "install", "leaderworkerset": "install"}
    large = {
        "jobset": {"values": {"controller": {"resources": {"requests": {"cpu": "5"}, "limits": {"cpu": "5"}}}}}
    }
    one = plan(gke(), GKE_POOL, queueing={}, addons=more, charts=large).cluster.cloud
    assert isinstance(one, GkeClusterPlan)
    assert one.create is not None
    assert one.create.system_machine_type == "e2-standard-8"


def test_declared_system_nodes_of_gke_without_room_are_refused() -> None:
    small = problem(gke(system={"machine_type": "e2-highcpu-2", "max": 3}), GKE_POOL, queueing={}, addons=ALL)
    assert "cluster.create.system: found at most 3 nodes of e2-highcpu-2" in small
    assert "write machine_type: e2-standard-4" in small
    assert "x86 CPUs and without GPUs" in problem(gke(system={"machine_type": "c4a-standard-4"}), GKE_POOL)


def test_an_existing_cluster_is_told_what_its_nodes_must_hold() -> None:
    notes = {one.what: one.chosen for one in plan(eks(), queueing={}).decisions}
    assert notes["room for controllers"] == "3.5 CPU and 4.7 GiB on nodes without GPUs"


def test_requests_of_every_chart_and_add_on_are_known() -> None:
    catalog = load_catalog()
    once_per_node = {"karpenter-crd", "aws-dranet", "aws-efa-k8s-device-plugin"}
    of_nodes = {"vpc-cni", "kube-proxy", "eks-pod-identity-agent", "eks-node-monitoring-agent"}
    installed = {*catalog.charts, names.OPERATOR_CHART, *catalog.eks_addons} - once_per_node - of_nodes
    assert installed | {"gke", "aks"} == set(catalog.controllers)
    assert {known.chart for known in KNOWN.values()} <= set(catalog.controllers)


def kueue(**resources: Any) -> dict[str, Any]:
    return {"kueue": {"values": {"controllerManager": {"manager": {"resources": resources}}}}}


def test_a_chart_that_requests_more_than_its_limit_is_refused() -> None:
    """The API server would refuse the chart's pods, and the installation would fail."""
    found = problem(created(), queueing={}, charts=kueue(requests={"cpu": "3"}))
    assert "charts.kueue.values.controllerManager.manager.resources.requests.cpu: found 3" in found
    assert "allowed: 2 or less" in found
    assert "write limits: {cpu: 3}" in found
    assert system_types(created(), queueing={}, charts=kueue(requests={"cpu": "3"}, limits={"cpu": "3"}))
    assert system_types(created(), queueing={}, charts=kueue(requests={"cpu": "3"}, limits=None))


def test_a_limit_below_what_the_chart_requests_is_refused() -> None:
    found = problem(created(), queueing={}, charts=kueue(limits={"memory": "256Mi"}))
    assert "requests.memory: found 512Mi; allowed: 256Mi or less" in found


def test_a_higher_limit_is_the_request_only_without_one() -> None:
    kuberay, of_kueue = (load_catalog().controllers[name].name for name in ("kuberay-operator", "kueue"))
    values = {"limits": {"cpu": "4", "memory": "4Gi"}}
    (pod,) = controller_pods(kuberay, load_catalog(), {"resources": values})
    assert (pod.cpu_millicores, pod.memory_mib) == (4000, 4096)
    (pod,) = controller_pods(of_kueue, load_catalog(), kueue(**values)["kueue"]["values"])
    assert (pod.cpu_millicores, pod.memory_mib) == (500, 512)


def test_a_limit_below_what_the_program_requests_is_refused() -> None:
    values = {"controller": {"resources": {"limits": {"cpu": "500m"}}}}
    found = problem(created(), charts={"karpenter": {"values": values}})
    assert "charts.karpenter.values.controller.resources.requests.cpu: found 1; allowed: 0.5 or less" in found


def selecting(chart: str, **values: Any) -> dict[str, Any]:
    return {"charts": {chart: {"values": values}}, "queueing": {}}


def test_a_selector_that_no_node_for_controllers_has_is_refused() -> None:
    """If no node has the selected label, Karpenter's pods stay pending, and `up` waits for these pods forever."""
    found = problem(created(), **selecting("karpenter", nodeSelector={"disk": "ssd"}))
    assert "charts.karpenter.values.nodeSelector: found disk: ssd" in found
    by_os = {"kubernetes.io/os": "linux", "eks.amazonaws.com/nodegroup": "system"}
    assert plan(created(), **selecting("karpenter", nodeSelector=by_os))
    assert plan(eks(), **selecting("kueue", controllerManager={"nodeSelector": {"disk": "ssd"}}))


def test_add_ons_may_select_a_cpu_pool_and_karpenter_may_not() -> None:
    cpu = {"name": "general", "machine_type": "m7i.4xlarge", "count": {"desired": 1}, "workload": "general"}
    pools = (SCALED, KARPENTER, {**cpu, "labels": {"disk": "ssd"}})
    of_kueue = selecting("kueue", controllerManager={"nodeSelector": {"disk": "ssd"}})
    assert plan(created(), *pools, **of_kueue)
    assert "nodeSelector: found disk: ssd" in problem(created(), **of_kueue)
    assert "found disk: ssd" in problem(created(), *pools, **selecting("karpenter", nodeSelector={"disk": "ssd"}))
