"""The alternative machine types that an EKS pool may have, and the resources that its pods can request."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest

from gpu_platform.catalog import load_catalog
from gpu_platform.planning.changes import pool_changes, pool_facts
from gpu_platform.planning.clouds.eks.alternatives import check_alternatives
from gpu_platform.planning.expectations.hardware import expectations_for_machine
from gpu_platform.planning.prerequisites import gpu_quotas
from gpu_platform.planning.problems import Problems
from tests.planning.clouds.eks.eks_pools import (
    RESERVATION,
    node_group,
    plan_and_decisions,
    planned,
    pool,
    problems_of,
)
from tests.support.eks_stacks import plan_eks

SERVE: dict[str, Any] = {"machine_type": "g6e.8xlarge", "workload": "inference", "count": {"desired": 1, "max": 8}}
FOUR = ["g6e.16xlarge", "g6e.4xlarge", "g6e.2xlarge"]


def spot(*alternatives: str, **rest: Any) -> dict[str, Any]:
    return {**SERVE, "capacity": {"type": "spot", "alternatives": list(alternatives)}, **rest}


def found(**form: Any) -> dict[str, str]:
    return {problem.path.removeprefix("pool."): str(problem) for problem in problems_of(pool(**form))}


@pytest.mark.parametrize("kind", ["spot", "on-demand"])
def test_a_managed_node_group_has_its_types_in_the_order_of_the_file(kind: str) -> None:
    form = SERVE | {"capacity": {"type": kind, "alternatives": FOUR}}
    plan = node_group(**form)
    assert plan.instance_types == ("g6e.8xlarge", *FOUR)
    assert node_group(**SERVE).instance_types == ()


@pytest.mark.parametrize("provisioner", ["managed", "karpenter"])
def test_pods_can_request_the_resources_of_the_smallest_node(provisioner: str) -> None:
    count = {"desired": 0, "max": 8}
    form = SERVE | {"machine_type": "g6e.2xlarge", "provisioner": provisioner, "count": count}
    smallest = planned(**form)
    several = planned(**spot(*FOUR, provisioner=provisioner, count=count))
    assert (several.cpu_millicores, several.memory_mib) == (smallest.cpu_millicores, smallest.memory_mib)
    assert several.machine_type == "g6e.8xlarge"


def test_the_autoscaler_expects_a_node_of_the_smallest_type() -> None:
    smallest = planned(**(SERVE | {"machine_type": "g6e.2xlarge"}))
    tags = node_group(**spot(*FOUR)).group_tags
    resources = "k8s.io/cluster-autoscaler/node-template/resources"
    assert tags[f"{resources}/memory"] == f"{smallest.memory_mib}Mi"
    assert tags[f"{resources}/nvidia.com/gpu"] == "1"


def test_karpenter_takes_the_same_field_and_still_the_old_one() -> None:
    of_karpenter: dict[str, Any] = {**SERVE, "provisioner": "karpenter", "count": {"desired": 0, "max": 8}}
    new = planned(**(of_karpenter | {"capacity": {"type": "on-demand", "alternatives": FOUR}}))
    old = planned(**of_karpenter, karpenter={"alternatives": FOUR})
    assert new.cloud == old.cloud
    assert new.cloud_nodes.alternatives == tuple(FOUR)


def test_both_fields_together_are_refused() -> None:
    form = spot("g6e.4xlarge", provisioner="karpenter", count={"desired": 0, "max": 8})
    problems = found(**form, karpenter={"alternatives": ["g6e.2xlarge"]})
    assert set(problems) == {"karpenter.alternatives"}
    assert "remove karpenter.alternatives" in problems["karpenter.alternatives"]


@pytest.mark.parametrize(
    ("form", "words"),
    [
        (spot("g5.8xlarge"), "GPU a10g"),
        (spot("g6e.12xlarge"), "4 GPUs"),
        (spot("g6e.8xlarge"), "again"),
        (spot("g6e.8large"), "one of the"),
        (spot("g2-standard-16"), "AWS machine types"),
        (spot("g6e.4xlarge", network={"rdma": True}, zones=["us-east-2a"]), "0 EFA interfaces"),
    ],
)
def test_a_type_that_pods_would_tell_from_the_pools_own_is_refused(form: dict[str, Any], words: str) -> None:
    problems = found(**form)
    assert set(problems) == {"capacity.alternatives[0]"}
    assert words in problems["capacity.alternatives[0]"]


@pytest.mark.parametrize(
    ("update", "words"),
    [
        ({"arch": "arm64"}, "architecture"),
        ({"local_nvme_gb": 0}, "no local NVMe"),
        ({"nvlinks_per_gpu": 4}, "NVLinks"),
    ],
)
def test_a_type_with_an_equal_gpu_but_other_hardware_is_refused(update: dict[str, Any], words: str) -> None:
    catalog = load_catalog()
    twin = catalog.machine_types["g6e.4xlarge"].model_copy(update={"name": "g6e.5xlarge", **update})
    catalog = dataclasses.replace(catalog, machine_types={**catalog.machine_types, twin.name: twin})
    problems = Problems("pool")
    check_alternatives(pool(**spot(twin.name)), catalog.machine_types["g6e.8xlarge"], catalog, problems)
    assert [words in str(problem) for problem in problems.found] == [True]


def test_a_reservation_has_no_alternatives() -> None:
    with pytest.raises(ValueError, match="alternatives"):
        pool(capacity={**RESERVATION, "alternatives": ["p5.48xlarge"]})


def test_quotas_count_the_largest_type_and_the_nodes_of_a_roll() -> None:
    stack = plan_eks({**spot(*FOUR), "zones": ["us-east-2a"]})
    (need,) = gpu_quotas(stack, load_catalog())
    assert (need.name, need.unit) == ("All G and VT Spot Instance Requests", "vCPU")
    assert need.amount == (8 + need.surge) * 64
    assert need.surge == 2


def test_the_first_alternative_replaces_the_node_group() -> None:
    with_types = plan_eks({**SERVE, "capacity": {"type": "on-demand", "alternatives": FOUR}})
    (change,) = pool_changes(pool_facts(plan_eks(SERVE)), with_types, load_catalog())
    assert change.effect == "replaced"
    assert [cause.field for cause in change.causes] == ["pools[0].capacity.alternatives"]


def test_the_reason_names_the_types_and_who_chooses_among_them() -> None:
    _, said = plan_and_decisions(**spot(*FOUR))
    assert said["machine types"].chosen == "g6e.8xlarge, g6e.16xlarge, g6e.4xlarge, g6e.2xlarge"
    assert "least likely to be reclaimed" in said["machine types"].why


def test_node_checks_expect_the_same_of_all_alternatives() -> None:
    catalog = load_catalog()
    machines = [one for one in catalog.machine_types.values() if one.vendor == "aws" and one.has_gpus]
    compared = 0
    for machine, other in itertools.permutations(machines, 2):
        problems = Problems("pool")
        check_alternatives(pool(**{**spot(other.name), "machine_type": machine.name}), machine, catalog, problems)
        if not problems.found:
            compared += 1
            one, two = (expectations_for_machine(each, catalog).expect for each in (machine, other))
            values = [{check: expected.value for check, expected in each.items()} for each in (one, two)]
            assert values[0] == values[1], (machine.name, other.name)
    assert compared > 50
