"""One EFA interface for each network card that supports EFA (tests/components/eks/checklist.md, line 1)."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.catalog import load_catalog
from gpu_platform.planning.clouds.eks.network import interfaces
from tests.planning.clouds.eks.eks_pools import eks, node_group, planned, shape

ONE_ZONE = {"zones": ["us-east-2a"]}
CARDS = {
    "p4d.24xlarge": 4,
    "p4de.24xlarge": 4,
    "p5.48xlarge": 32,
    "p5e.48xlarge": 32,
    "p5en.48xlarge": 16,
    "p6-b200.48xlarge": 8,
    "g6e.48xlarge": 4,
    "g6e.24xlarge": 2,
    "p3dn.24xlarge": 1,
    "g5.48xlarge": 1,
}


@pytest.mark.parametrize(("machine_type", "cards"), CARDS.items())
def test_eks_1_one_per_network_card_that_carries_efa(machine_type: str, cards: int) -> None:
    plan = node_group(machine_type=machine_type, network={"rdma": True})
    efa = [one for one in plan.interfaces if one.interface_type != "interface"]
    assert [one.network_card_index for one in efa] == list(range(cards))


@pytest.mark.parametrize(("machine_type", "cards"), CARDS.items())
def test_eks_1_layout_ena_and_efa_card_0_device_0_interface_and_device_1_efa_only(
    machine_type: str, cards: int
) -> None:
    plan = node_group(machine_type=machine_type, network={"rdma": True, "layout": "ena-and-efa"})
    assert shape(plan.interfaces) == [
        (0, 0, "interface"),
        (0, 1, "efa-only"),
        *((card, 1, "efa-only") for card in range(1, cards)),
    ]


@pytest.mark.parametrize(("machine_type", "cards"), CARDS.items())
def test_eks_1_layout_efa_primary_card_0_device_0_efa_others_efa_only(machine_type: str, cards: int) -> None:
    plan = node_group(machine_type=machine_type, network={"rdma": True, "layout": "efa-primary"})
    assert shape(plan.interfaces) == [(0, 0, "efa"), *((card, 1, "efa-only") for card in range(1, cards))]


def test_eks_1_p6_b300_has_17_cards_and_no_efa_on_card_0() -> None:
    plan = node_group(machine_type="p6-b300.48xlarge")
    assert shape(plan.interfaces) == [(0, 0, "interface"), *((card, 0, "efa-only") for card in range(1, 17))]


def test_eks_1_default_layout_has_a_plain_primary_interface() -> None:
    assert node_group().interfaces == node_group(network={"layout": "ena-and-efa"}).interfaces


def test_a_family_without_a_separate_efa_has_efa_on_the_primary() -> None:
    catalog = load_catalog()
    machine = catalog.machine_types["p4d.24xlarge"]
    family = catalog.aws_family(machine).model_copy(update={"efa_only": False})
    assert shape(interfaces(machine, family, "efa-primary")) == [
        (0, 0, "efa"),
        (1, 1, "efa"),
        (2, 1, "efa"),
        (3, 1, "efa"),
    ]


def test_training_takes_efa_where_the_type_has_it() -> None:
    assert node_group(machine_type="p5.48xlarge").efa
    assert not node_group(machine_type="g5.xlarge").efa


@pytest.mark.parametrize("workload", ["inference", "development"])
def test_what_stays_within_a_node_takes_no_efa_unless_the_stack_says_so(workload: str) -> None:
    assert not node_group(workload=workload).efa
    assert node_group(workload=workload, network={"rdma": True}).efa


def test_without_efa_no_interfaces_are_set_so_eks_attaches_the_cluster_group() -> None:
    plan = node_group(network={"rdma": False})
    assert (plan.efa, plan.interfaces) == (False, ())


@pytest.mark.parametrize(
    "form", [{}, {"provisioner": "karpenter", "zones": ["us-east-2a"], "count": {"desired": 0, "max": 8}}]
)
def test_nodes_with_efa_are_expected_to_offer_every_interface(form: dict[str, Any]) -> None:
    expected = planned(**form).node_expectation
    assert expected.allocatable == {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32}
    assert expected.gpu_resources == {"nvidia.com/gpu": 8}
    assert expected.sources["vpc.amazonaws.com/efa"].startswith(
        "stack: pools[0].network on machine type p5.48xlarge"
    )


def test_nodes_with_dra_are_expected_to_offer_every_efa_interface() -> None:
    expected = planned(sharing={"mode": "dra"}).node_expectation
    assert expected.allocatable == {"vpc.amazonaws.com/efa": 32}


def test_nodes_without_efa_are_expected_to_offer_no_interfaces() -> None:
    assert planned(network={"rdma": False}).node_expectation.allocatable == {"nvidia.com/gpu": 8}


def test_nodes_with_efa_say_so_by_a_label() -> None:
    assert node_group().labels["vpc.amazonaws.com/efa.present"] == "true"
    assert "vpc.amazonaws.com/efa.present" not in node_group(network={"rdma": False}).labels


def test_pods_on_the_pod_network_do_not_reach_instance_metadata() -> None:
    assert node_group(cluster=eks()).metadata_hop_limit == 1
