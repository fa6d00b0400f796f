"""Dynamic Resource Allocation: the operator's GPUCluster, device classes, claims and quotas for claims."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.capacity.nodes import groups_of, node_capacities
from gpu_platform.planning.capacity.proof import prove
from gpu_platform.planning.dra.cel import check_cel
from gpu_platform.planning.dra.claims import selectors
from gpu_platform.planning.operator import allocation, check_allocation
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.claims import DeviceRequirements
from tests.planning.conftest import PlanMaker, pool, team

H200, T4 = "p5en.48xlarge", "g4dn.12xlarge"
PARTITIONED = {"mode": "dra", "partitions": True}


def claimed(
    name: str = "big", machine_type: str = H200, sharing: Any = PARTITIONED, **rest: Any
) -> dict[str, Any]:
    return pool(name, machine_type, workload="inference", sharing=sharing, **rest)


def by_claims(make_plan: PlanMaker, *teams: dict[str, Any], **rest: Any) -> EnvironmentPlan:
    return make_plan(claimed(), claimed("small", T4, {"mode": "dra"}), teams=list(teams), **rest)


def test_the_operator_gets_a_gpu_cluster_instead_of_a_cluster_policy(make_plan: PlanMaker) -> None:
    operator = by_claims(make_plan).operator
    assert operator.install == "gpu-cluster"
    assert operator.cluster_policy == {}
    assert operator.gpu_cluster["draDriver"] == {
        "computeDomains": {"enabled": False},
        "featureGates": {"DynamicMIG": True},
    }
    assert operator.device_plugin_config is None
    assert operator.mig_config is None


def test_a_real_cluster_has_gpu_cluster_values_and_no_device_plugin(
    make_plan: PlanMaker,
) -> None:
    plan = make_plan(
        claimed(sharing={"mode": "dra"}, nodes={"names": ["gpu-0"]}),
        cluster={"provider": "existing", "kubernetes": "1.36"},
        operator={"toolkit": "host"},
    )
    values = plan.operator.helm_values
    assert plan.operator.install == "helm"
    assert values["clusterPolicy"] == {"deployCR": False}
    assert values["gpuCluster"] == {"deployCR": True}
    assert values["driver"]["nvidiaDriverCRD"] == {"enabled": True}
    assert "featureGates" not in values["draDriver"]
    assert not {"devicePlugin", "migManager", "toolkit", "gfd", "mig"} & set(values)


def test_without_a_driver_of_the_operators_the_chart_makes_none(make_plan: PlanMaker) -> None:
    plan = make_plan(
        claimed(sharing={"mode": "dra"}, nodes={"names": ["gpu-0"]}),
        cluster={"provider": "existing", "kubernetes": "1.36"},
        operator={"toolkit": "host", "driver": {"owner": "host", "version": "580.173.02"}},
    )
    assert plan.operator.helm_values["driver"] == {"enabled": False, "nvidiaDriverCRD": {"enabled": False}}


@pytest.mark.parametrize(
    ("cluster", "said"), [("1.34", "1.34.2 or newer; verify this yourself"), ("1.35", None), ("1.36", None)]
)
def test_the_patch_that_a_minor_version_leaves_open_is_told(
    make_plan: PlanMaker, cluster: str, said: str | None
) -> None:
    plan = make_plan(
        claimed(sharing={"mode": "dra"}, nodes={"names": ["gpu-0"]}),
        cluster={"provider": "existing", "kubernetes": cluster},
        operator={"toolkit": "host"},
    )
    found = [one.chosen for one in plan.decisions if one.what == "Kubernetes patch"]
    assert found == ([said] if said else [])


def test_compute_domains_are_on_where_gpus_have_nvlink_between_nodes(make_plan: PlanMaker) -> None:
    catalog = load_catalog()
    machine = next(name for name, one in catalog.machine_types.items() if one.gpu == "gb200")
    plan = make_plan(
        claimed("rack", machine, {"mode": "dra"}, nodes={"names": ["gpu-0"]}),
        cluster={"provider": "existing", "kubernetes": "1.36"},
        operator={"toolkit": "host", "driver": {"version": "580.173.02"}},
    )
    assert plan.operator.gpu_cluster["draDriver"]["computeDomains"] == {"enabled": True}


def test_nodes_are_compared_by_resource_slices_and_no_extended_resources(make_plan: PlanMaker) -> None:
    big, small = by_claims(make_plan).pools
    assert (dict(big.node_expectation.allocatable), big.node_expectation.gpu_devices) == ({}, 8)
    assert (dict(small.node_expectation.allocatable), small.node_expectation.gpu_devices) == ({}, 4)
    assert set(big.node_expectation.mig_profiles) > {"1g.18gb", "7g.141gb", "1g.18gb+me"}
    assert small.node_expectation.mig_profiles == ()
    # GPU Feature Discovery does not run, and the driver changes the MIG mode when claims are created and deleted.
    assert "nvidia.com/gpu.product" not in big.node_expectation.labels
    assert not {"mig-mode", "mig-instances"} & set(big.expectations.expect)
    assert not {"nvidia.com/device-plugin.config", "nvidia.com/mig.config"} & set(big.labels)


def test_the_agent_sees_its_gpus_by_a_claim_and_not_by_a_runtime_class(make_plan: PlanMaker) -> None:
    plan = by_claims(make_plan)
    assert plan.validation.claims_devices
    assert all(one.software.gpu_access.claim for one in plan.pools)
    assert all(one.software.gpu_access.runtime_class is None for one in plan.pools)
    assert not make_plan(pool()).validation.claims_devices


def test_metrics_come_from_the_exporter_of_the_gpu_cluster(make_plan: PlanMaker) -> None:
    dra, plugin = by_claims(make_plan).monitoring, make_plan(pool()).monitoring
    assert dra is not None
    assert plugin is not None
    assert (dra.exporter, plugin.exporter) == ("nvidia-dcgm-exporter-dra", "nvidia-dcgm-exporter")


def test_a_quota_names_every_device_class_and_zero_if_not_granted(make_plan: PlanMaker) -> None:
    vision = team(quota={"devices": {"gpu.nvidia.com": 4}, "cpu": 10})
    plan = by_claims(make_plan, vision, device_classes={"large-gpu": {"memory": "100Gi"}})
    suffix = ".deviceclass.resource.k8s.io/devices"
    assert plan.teams[0].quota == {
        f"gpu.nvidia.com{suffix}": "4",
        f"large-gpu{suffix}": "0",
        f"mig.nvidia.com{suffix}": "0",
        f"vfio.gpu.nvidia.com{suffix}": "0",
        "requests.cpu": "10",
    }


def test_a_declared_device_class_can_grant_no_more_devices_than_it_means(make_plan: PlanMaker) -> None:
    classes = {"large-gpu": {"memory": "100Gi"}, "half": {"profile": "3g.71gb"}}
    by_claims(make_plan, team(quota={"devices": {"large-gpu": 8, "half": 16}}), device_classes=classes)
    for name, count in (("large-gpu", 9), ("half", 17)):
        with pytest.raises(BadInput, match=rf"teams\[0\]\.quota\.devices\.{name}"):
            by_claims(make_plan, team(quota={"devices": {name: count}}), device_classes=classes)


def test_a_claim_becomes_a_template_with_one_request(make_plan: PlanMaker) -> None:
    claims = [
        {"name": "big", "memory": "40Gi", "product": "H200", "count": 2},
        {"name": "slice", "profile": "1g.18gb"},
        {"name": "own", "device_class": "large-gpu", "selector": "device.driver == 'gpu.nvidia.com'"},
    ]
    vision = team(quota={"devices": {"gpu.nvidia.com": 2}}, claims=claims)
    plan = by_claims(make_plan, vision, device_classes={"large-gpu": {"memory": "100Gi"}})
    made = plan.teams[0].claims
    assert [(one.name, one.device_class, one.count) for one in made] == [
        ("big", "gpu.nvidia.com", 2),
        ("slice", "mig.nvidia.com", 1),
        ("own", "large-gpu", 1),
    ]
    assert made[0].selectors[0] == "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA H200'"
    assert "quantity('40Gi')" in made[0].selectors[1]
    assert made[2].selectors == ("device.driver == 'gpu.nvidia.com'",)
    assert "type == 'gpu'" in plan.device_classes[0].selectors[0]


def test_the_cel_of_every_typed_demand_is_cel() -> None:
    catalog = load_catalog()
    for gpu in catalog.gpus.values():
        for profile in [None, *(one.name for one in (gpu.mig.profiles if gpu.mig else ()))]:
            demand = DeviceRequirements(memory="40Gi", product=gpu.model, profile=profile)
            for expression in selectors(demand, catalog):
                assert check_cel(expression) is None, expression


def test_an_invalid_selector_is_a_problem_at_its_place(make_plan: PlanMaker) -> None:
    vision = team(
        quota={}, claims=[{"name": "big", "selector": "device.capacity['gpu.nvidia.com'].memory > '40Gi'"}]
    )
    classes = {"large-gpu": {"selector": "device.driver = 'x'"}}
    with pytest.raises(BadInput) as caught:
        by_claims(make_plan, vision, device_classes=classes)
    found = {problem.path: problem for problem in caught.value.problems}
    assert set(found) == {"teams[0].claims[0].selector", "device_classes.large-gpu.selector"}
    assert "'(kubernetes.Quantity, string)'" in found["teams[0].claims[0].selector"].found
    assert found["device_classes.large-gpu.selector"].fix == "write =="


def test_a_device_class_with_the_name_of_a_class_of_the_driver_is_refused(make_plan: PlanMaker) -> None:
    with pytest.raises(BadInput) as caught:
        by_claims(make_plan, device_classes={"mig.nvidia.com": {"memory": "100Gi"}})
    assert [(one.path, one.fix) for one in caught.value.problems] == [
        ("device_classes.mig.nvidia.com", "rename it")
    ]


def test_a_selector_of_an_unknown_attribute_is_a_warning_among_the_decisions(make_plan: PlanMaker) -> None:
    vision = team(
        quota={}, claims=[{"name": "big", "selector": "has(device.attributes['gpu.nvidia.com'].product)"}]
    )
    classes = {"large-gpu": {"selector": "has(device.capacity['gpu.nvidia.com'].memry)"}}
    plan = by_claims(make_plan, vision, device_classes=classes)
    warnings = {one.subject: one for one in plan.decisions if one.what == "warning: selector"}
    assert set(warnings) == {"claim big of team vision", "device class large-gpu"}
    assert "did you mean 'productName'?" in warnings["claim big of team vision"].why
    assert warnings["device class large-gpu"].chosen == "device.capacity['gpu.nvidia.com'].memry"


def test_a_workload_with_a_claim_requests_no_extended_resource(make_plan: PlanMaker) -> None:
    work = [{"name": "work", "pool": "big", "claim": "pair", "replicas": 2}]
    claims = [{"name": "pair", "count": 2}]
    vision = team(quota={"devices": {"gpu.nvidia.com": 4}}, claims=claims, workloads=work)
    [workload] = by_claims(make_plan, vision).teams[0].workloads
    assert workload.claims == ("pair",)
    assert (workload.resource, workload.units) == ("gpu.nvidia.com", 2)
    assert set(workload.requests) == {"cpu", "memory"}


def test_a_gpu_that_is_offered_whole_and_in_instances_is_granted_no_more_than_once(make_plan: PlanMaker) -> None:
    everything = team(quota={"devices": {"gpu.nvidia.com": 8, "mig.nvidia.com": 56}})
    plan = make_plan(claimed(), teams=[everything])
    assert plan.cost.pools[0].allocated_share == 1.0
    half = make_plan(claimed(), teams=[team(quota={"devices": {"gpu.nvidia.com": 4}})])
    assert half.cost.pools[0].allocated_share == 0.5


@pytest.mark.parametrize("queueing", [None, {}])
def test_pods_with_claims_preempt_no_pods_without_queues(
    make_plan: PlanMaker, queueing: dict[str, Any] | None
) -> None:
    """kube-scheduler cannot free claimed devices by preemption (kubernetes/enhancements#5690)."""
    plan = by_claims(make_plan, **({} if queueing is None else {"queueing": queueing}))
    found = {one.subject: one.chosen for one in plan.decisions if one.what == "preemption"}
    expected = {f"pool {name}": "none for pods that claim GPUs" for name in ("big", "small")}
    assert found == ({} if queueing == {} else expected)


@pytest.mark.parametrize(
    ("before", "refused"), [({}, False), ({"allocation": "dra"}, False), ({"pools": {}}, True)]
)
def test_a_deployed_cluster_keeps_its_way_of_allocation(
    make_plan: PlanMaker, before: dict[str, Any], refused: bool
) -> None:
    plan = by_claims(make_plan)
    assert allocation(plan.pools) == "dra"
    problems = Problems()
    check_allocation(before, plan.pools, problems)
    assert bool(problems.found) is refused


@pytest.mark.parametrize(
    ("gpus", "instances", "verdict"),
    [(8, 0, "placed"), (0, 56, "placed"), (4, 28, "placed"), (8, 1, "impossible"), (4, 29, "impossible")],
)
def test_quotas_of_gpus_and_of_their_instances_are_proven_on_the_same_gpus(
    make_plan: PlanMaker, gpus: int, instances: int, verdict: str
) -> None:
    quota = {"devices": {"gpu.nvidia.com": gpus, "mig.nvidia.com": instances}}
    plan = make_plan(claimed(), teams=[team(quota=quota)])
    assert prove(node_capacities(plan.pools, load_catalog()), groups_of(plan, load_catalog())).verdict == verdict


def test_a_larger_instance_takes_the_place_of_several_small_ones_in_the_proof(make_plan: PlanMaker) -> None:
    claims = [{"name": "half", "profile": "3g.71gb"}, {"name": "own", "device_class": "large-gpu"}]
    work = [
        {"name": "halves", "pool": "big", "claim": "half", "replicas": 2},
        {"name": "whole", "pool": "big", "claim": "own", "replicas": 2},
    ]
    quota = {"devices": {"gpu.nvidia.com": 0, "mig.nvidia.com": 2, "large-gpu": 2}}
    plan = make_plan(
        claimed(),
        device_classes={"large-gpu": {"memory": "100Gi"}},
        teams=[team(quota=quota, claims=claims, workloads=work)],
    )
    taken = {one.name: (one.resource, one.units) for one in plan.teams[0].workloads}
    assert taken == {"halves": ("mig.nvidia.com", 3), "whole": ("gpu.nvidia.com", 1)}
