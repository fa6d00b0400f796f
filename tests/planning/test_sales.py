"""`check`, `suggest`, `init` and `machines` take into account how the clouds sell each machine type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from gpu_platform.cli.init import Answers, write_stack
from gpu_platform.stack.loaded import plan_platform
from tests.extensions.capacity.test_suggest import _suggest, _want
from tests.planning.conftest import environment, pool

GKE = {"provider": "gke", "name": "ml", "project": "p-project", "location": "europe-west4"}
EKS = {"provider": "eks", "name": "ml", "region": "us-east-2"}
ZONE = "europe-west4-b"


def problems(cluster: dict[str, Any], **of_pool: Any) -> dict[str, str]:
    try:
        plan_platform(environment({**pool(), "workload": "inference", **of_pool}, cluster=cluster), "test")
    except BadInput as error:
        return {problem.path: str(problem) for problem in error.problems}
    return {}


@pytest.mark.parametrize(
    "machine", ["a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g", "a3-ultragpu-8g", "a4-highgpu-8g"]
)
def test_machines_that_are_not_sold_on_demand_are_refused(machine: str) -> None:
    found = problems(GKE, machine_type=machine, zones=[ZONE])
    assert list(found) == ["pools[0].capacity.type"]
    assert "Fix: write capacity: {type: flex-start}" in found["pools[0].capacity.type"]
    assert problems(GKE, machine_type=machine, zones=[ZONE], capacity={"type": "spot"}) == {}


def test_machines_without_such_facts_are_sold_in_every_way() -> None:
    catalog = load_catalog()
    assert catalog.sale("a3-megagpu-8g") is None
    assert catalog.is_sold_as("a3-megagpu-8g", "on-demand")
    assert not catalog.is_sold_as("p6e-gb200.36xlarge", "spot")


def test_an_alternative_that_is_not_sold_on_demand_is_refused() -> None:
    capacity = {"type": "on-demand", "alternatives": ["p5e.48xlarge"]}
    found = problems(EKS, machine_type="p5en.48xlarge", capacity=capacity)
    assert (
        "p5e.48xlarge is sold only as capacity-block or reservation" in found["pools[0].capacity.alternatives[0]"]
    )


def test_every_sale_names_machine_types_of_the_catalogue() -> None:
    catalog = load_catalog()
    named = {name: catalog.sale(name) for name in catalog.machine_types}
    assert {sale.name for sale in named.values() if sale is not None} == set(catalog.sales)


def test_a_pool_on_nodes_of_others_may_have_any_machine() -> None:
    assert problems({"provider": "sandbox"}, machine_type="a4-highgpu-8g") == {}


def test_a_first_stack_buys_such_a_machine_as_spot(tmp_path: Path) -> None:
    answers = Answers(
        provider="gke",
        machine_type="a3-highgpu-1g",
        nodes=1,
        workload="inference",
        team="vision",
        member="user:ada@example.com",
        region="europe-west4",
        zone=ZONE,
        project="p-project",
        subscription=None,
        cluster="existing",
        admin=None,
        node_names=None,
    )
    written = tmp_path / "Pulumi.first.yaml"
    write_stack("first", answers, out=written, to_json=False)
    platform = yaml.safe_load(written.read_text("utf-8"))["config"]["gpu-platform:platform"]
    assert platform["pools"][0]["capacity"] == {"type": "spot"}


def test_suggest_offers_no_machine_that_is_not_sold_on_demand() -> None:
    want = _want("serve", count=1, gpu_memory="70GB", cpu="4", memory="16Gi", trust_domain="a")
    bought = _suggest(want, families=["a3-highgpu"], provider="gcp")
    assert {one.pool["machine_type"] for one in bought.pools} == {"a3-highgpu-8g"}
    spot = _suggest(want, families=["a3-highgpu"], provider="gcp", capacity="spot")
    assert {one.pool["machine_type"] for one in spot.pools} == {"a3-highgpu-1g"}
