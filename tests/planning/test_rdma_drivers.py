"""P6e-GB200 has GPUDirect RDMA over EFA only with drivers older than R595."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.planning.decision import Decision
from tests.planning.conftest import PlanMaker, pool
from tests.support.racks import CLUSTERS, ULTRASERVER

EXISTING = {"provider": "existing", "kubernetes": "1.35"}
P6E = pool(machine_type="p6e-gb200.36xlarge", nodes={"names": ["gpu-0"]})


def operator(version: str | None = None, **driver: str) -> dict[str, Any]:
    return {"release": "v26.7.0", "driver": driver | ({} if version is None else {"version": version})}


def warned(make_plan: PlanMaker, one: dict[str, Any], **rest: Any) -> list[Decision]:
    return [found for found in make_plan(one, **rest).decisions if found.what == "warning: driver"]


def test_a_default_driver_that_rules_out_efa_is_refused_with_one_that_works(make_plan: PlanMaker) -> None:
    with pytest.raises(BadInput) as caught:
        make_plan(P6E, cluster=EXISTING, operator=operator())
    [problem] = caught.value.problems
    assert problem.path == "operator.driver.version"
    assert problem.fix == "write version: 580.173.02, or 595.91.07 if no job uses the NICs"
    assert not warned(make_plan, P6E, cluster=EXISTING, operator=operator("580.173.02"))


@pytest.mark.parametrize("owner", ["operator", "host"])
def test_a_declared_driver_that_rules_out_efa_is_warned_of(make_plan: PlanMaker, owner: str) -> None:
    [found] = warned(make_plan, P6E, cluster=EXISTING, operator=operator("595.91.07", owner=owner))
    assert found.chosen.startswith("595.91.07")


def test_a_declared_image_whose_driver_rules_out_efa_is_warned_of(make_plan: PlanMaker) -> None:
    assert not warned(make_plan, ULTRASERVER, cluster=CLUSTERS["eks"])
    image = {"ami": "ami-0a1b2c3d4e5f60718", "driver": "595.91.07"}
    assert warned(make_plan, ULTRASERVER | {"image": image}, cluster=CLUSTERS["eks"])


def test_the_driver_of_others_is_not_chosen_for_them(make_plan: PlanMaker) -> None:
    cluster = {**EXISTING, "parts": {"gpu_operator": "present"}}
    assert make_plan(P6E, cluster=cluster, operator=operator())
