"""A suggestion uses reserved machines first, at no cost. The remaining pods run on other machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from extensions.capacity.suggest import Suggestion, suggest
from extensions.capacity.suggest.demands import Demands
from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from gpu_platform.stack.load import parse_document
from tests.extensions.capacity.suggested import CLUSTERS, refusals, stack_of
from tests.support.command_line import run

_ADAPTER = TypeAdapter(Demands)
BLOCK = "cr-0a1b2c3d4e5f60718"


def _suggest(*workloads: dict[str, Any], **rest: Any) -> Suggestion:
    document = {"workloads": list(workloads), **rest}
    return suggest(parse_document(document, "workloads.yaml", _ADAPTER), "workloads.yaml", load_catalog())


def _train(count: int, name: str = "pretrain", **rest: Any) -> dict[str, Any]:
    base = {"name": name, "kind": "training", "count": count, "trust_domain": "a", "gpu_memory": "70GB"}
    return {**base, "gpus": 8, "cpu": "48", "memory": "256Gi", **rest}


def _reserved(count: int, machine_type: str = "p5.48xlarge", **rest: Any) -> dict[str, Any]:
    base = {"reservation": BLOCK, "machine_type": machine_type, "count": count, "zone": "us-east-1b"}
    return {**base, **rest}


def _pools(found: Suggestion) -> dict[tuple[str, str | None], int]:
    return {(one.pool["machine_type"], one.reservation): one.pool["count"]["desired"] for one in found.pools}


def test_reserved_machines_come_before_cheaper_ones_and_cost_nothing(tmp_path: Path) -> None:
    found = _suggest(_train(2), provider="aws", reservations=[_reserved(3)])
    assert _pools(found) == {("p5.48xlarge", BLOCK): 2}
    assert found.usd_per_hour == pytest.approx(0, abs=0.001)
    assert found.unused == {BLOCK: 1}
    [pool] = found.pools
    assert pool.pool["capacity"] == {"type": "reservation", "reservation": BLOCK, "zone": "us-east-1b"}
    assert "zones" not in pool.pool
    assert refusals(stack_of(found, [_train(2)], CLUSTERS["aws"]), tmp_path) == []


def test_what_a_reservation_does_not_hold_is_bought(tmp_path: Path) -> None:
    found = _suggest(_train(3), provider="aws", reservations=[_reserved(2)])
    assert _pools(found) == {("p5.48xlarge", BLOCK): 2, ("p4de.24xlarge", None): 1}
    assert found.usd_per_hour == pytest.approx(27.44705, abs=0.001)
    assert found.optimal
    assert refusals(stack_of(found, [_train(3)], CLUSTERS["aws"]), tmp_path) == []


def test_workloads_that_share_no_pool_share_a_reservation() -> None:
    serve = _train(1, "serve", kind="inference", rdma=True)
    found = _suggest(
        _train(1), serve, provider="aws", reservations=[_reserved(1)], machine_families=["p4de", "p5"]
    )
    assert sum(one.pool["count"]["desired"] for one in found.pools if one.reservation) == 1
    assert found.usd_per_hour == pytest.approx(27.44705, abs=0.001)


def test_a_reserved_pools_next_best_is_its_cost_without_reservation() -> None:
    [pool] = _suggest(_train(2), provider="aws", reservations=[_reserved(2)]).pools
    assert pool.next_best is not None
    assert pool.next_best.pools == ("2 x p4de.24xlarge (whole)",)
    assert pool.throughput is None


def test_a_reservation_of_google_has_its_name_and_zone(tmp_path: Path) -> None:
    want = _train(2, gpu_memory="30GB")
    reserved = _reserved(2, "a3-megagpu-8g", reservation="h100-pool", zone="us-central1-a")
    found = _suggest(want, provider="gcp", reservations=[reserved])
    assert _pools(found) == {("a3-megagpu-8g", "h100-pool"): 2}
    assert refusals(stack_of(found, [want], CLUSTERS["gcp"]), tmp_path) == []


def test_machines_left_over_are_printed_and_a_reserved_pool_has_no_price(tmp_path: Path) -> None:
    file = tmp_path / "workloads.yaml"
    file.write_text(
        "provider: aws\n"
        f"reservations: [{{reservation: {BLOCK}, machine_type: p5.48xlarge, count: 3, zone: us-east-1b}}]\n"
        "workloads:\n"
        "  - {name: pretrain, kind: training, count: 2, trust_domain: a, gpu_memory: 70GB, gpus: 8, cpu: 48}\n",
        "utf-8",
    )
    ran = run("capacity", "suggest", "--workloads", str(file))
    assert ran.code == 0, ran.err
    assert f"# reservation {BLOCK}: 1 machine left over" in ran.out
    assert "2 x p5.48xlarge, reserved" in ran.out
    assert f"on reservation {BLOCK}: paid for whether it is used or not" in ran.out
    printed = run("capacity", "suggest", "--workloads", str(file), "--format", "json").json
    assert printed["reserved_machines_left"] == {BLOCK: 1}


@pytest.mark.parametrize(
    ("reservations", "path", "found"),
    [
        ([_reserved(1, "p5.48xlarg")], "reservations[0].machine_type", "'p5.48xlarg'"),
        ([_reserved(1, "a3-megagpu-8g")], "reservations[0].machine_type", "'a3-megagpu-8g' of provider gcp"),
        ([_reserved(1, "m7i.large")], "reservations[0].machine_type", "'m7i.large'"),
        ([_reserved(1), _reserved(2)], "reservations[1].reservation", f"'{BLOCK}'"),
        ([_reserved(1, zone="eu-west-1a")], "reservations[0].zone", "'eu-west-1a' with region us-east-1"),
    ],
)
def test_a_reservation_that_cannot_be_is_refused_at_its_place(
    reservations: list[dict[str, Any]], path: str, found: str
) -> None:
    with pytest.raises(BadInput) as caught:
        _suggest(_train(1), provider="aws", region="us-east-1", reservations=reservations)
    [problem] = caught.value.problems
    assert problem.path == path
    assert problem.found.startswith(found)
    assert problem.fix
