"""Which fields are refused because the provider does not support them, with each error's place and message."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel

from gpu_platform.planning.pools.declared_fields import check_declared_fields
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.declared import On, described, takes
from gpu_platform.stack.nodes import Disk
from gpu_platform.stack.pool import Pool


def refused(provider: Any, **said: Any) -> dict[str, str]:
    pool = {"name": "a", "machine_type": "g6.xlarge", "count": {"desired": 1}, "workload": "inference", **said}
    problems = Problems("pool")
    check_declared_fields(Pool.model_validate(pool, strict=False), provider, problems)
    return {problem.path: str(problem) for problem in problems.found}


@pytest.mark.parametrize("provider", ["sandbox", "existing"])
def test_a_field_of_cloud_nodes_is_refused_elsewhere_even_with_its_default(provider: str) -> None:
    found = refused(provider, local_nvme=True, zones=["us-east-2a"], disk={"type": "gp3"})
    assert found["pool.local_nvme"] == (
        f"pool.local_nvme: found local_nvme on provider {provider}; allowed: local_nvme only on EKS and GKE: "
        "elsewhere the program does not set up local disks. Fix: remove local_nvme"
    )
    # Fields below a refused field are not reported separately.
    assert set(found) == {"pool.local_nvme", "pool.zones", "pool.disk"}


def test_a_field_that_is_not_written_is_not_refused() -> None:
    assert refused("sandbox") == {}
    assert refused("sandbox", placement=None) == {}


def test_a_value_is_refused_where_only_other_values_are_taken() -> None:
    assert refused("eks", image={"family": "cos"}) == {
        "pool.image.family": "pool.image.family: found 'cos' on provider eks; allowed: al2023 or bottlerocket; "
        "cos only on GKE: EKS and AKS have different image families. Fix: remove family"
    }
    assert refused("gke", image={"family": "cos"}) == {}


def test_a_variant_is_refused_with_the_variants_that_the_provider_takes() -> None:
    found = refused("gke", capacity={"type": "capacity-block", "reservation": "cr-0a", "zone": "us-east-2a"})
    assert found == {
        "pool.capacity.type": "pool.capacity.type: found 'capacity-block' on provider gke; allowed: on-demand, "
        "spot, reservation or flex-start; capacity-block only on EKS: capacity blocks are sold by EC2. "
        "Fix: write type: on-demand"
    }


def test_declarations_list_a_providers_values_for_other_checks() -> None:
    assert takes(Disk, "type", "gp3", "eks")
    assert not takes(Disk, "type", "gp3", "gke")
    assert takes(Disk, "size_gb", 100, "gke")


def test_the_schema_names_the_providers_of_a_field_in_its_description() -> None:
    class Model(BaseModel):
        whole: Annotated[int, On(("eks",), "why")] = 1
        part: Annotated[Literal["a", "b"], On(("eks", "gke"), "why", values=("b",))] = "a"
        free: int = 1

    assert [described(field) for field in Model.model_fields.values()] == [
        "Only on EKS.",
        "b only on EKS and GKE.",
        "",
    ]
    description = Pool.model_json_schema()["$defs"]["Topology"]["properties"]["memory"]["description"]
    assert description.endswith("Only on EKS and GKE.")
