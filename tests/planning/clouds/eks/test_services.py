"""The address range of the Services of a new EKS cluster."""

from __future__ import annotations

import pytest

from tests.planning.clouds.eks.test_cluster import create_plan, created, decisions, problems

WARNING = "warning: Service range"


@pytest.mark.parametrize("network", ["172.20.8.0/24", "10.100.0.0/16"])
def test_a_network_in_a_range_that_eks_may_choose_for_services_is_a_warning(network: str) -> None:
    chosen, why = decisions(created({"api_access": [network, "203.0.113.0/24"]}))[WARNING]
    assert "10.100.0.0/16 or 172.20.0.0/16" in chosen
    assert why.startswith(f"{network} of create.api_access")
    assert "write create.services_cidr" in why


def test_a_declared_range_of_services_ends_the_warning() -> None:
    create = {"api_access": ["172.20.8.0/24"], "services_cidr": "172.21.0.0/16"}
    assert WARNING not in decisions(created(create))
    assert create_plan(created(create)).services_cidr == "172.21.0.0/16"


@pytest.mark.parametrize("network", ["172.16.0.0/12", "10.0.0.0/8", "203.0.113.0/24"])
def test_other_networks_are_no_warning_about_services(network: str) -> None:
    assert WARNING not in decisions(created({"api_access": [network]}))


@pytest.mark.parametrize(
    ("services", "allowed"),
    [
        ("10.0.128.0/20", "a range outside the VPC"),
        ("100.64.0.0/16", "a /12 to /24 of 10.0.0.0/8"),
        ("203.0.113.0/24", "a /12 to /24 of 10.0.0.0/8"),
        ("172.20.0.0/25", "a /12 to /24 of 10.0.0.0/8"),
    ],
)
def test_a_range_of_services_that_eks_refuses_is_refused(services: str, allowed: str) -> None:
    found = problems(created({"services_cidr": services}))
    assert list(found) == ["cluster.create.services_cidr"]
    assert allowed in found["cluster.create.services_cidr"]
    assert create_plan(created({"services_cidr": "172.20.0.0/16"}))
