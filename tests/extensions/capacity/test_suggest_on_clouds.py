"""Suggested pools set the fields that their cloud requires, such as zones, the capacity type and the requested
network.
"""

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

_ADAPTER = TypeAdapter(Demands)


def _suggest(*workloads: dict[str, Any], **rest: Any) -> Suggestion:
    document = {"workloads": list(workloads), **rest}
    return suggest(parse_document(document, "workloads.yaml", _ADAPTER), "workloads.yaml", load_catalog())


def _train(count: int = 2, **rest: Any) -> dict[str, Any]:
    base = {"name": "pretrain", "kind": "training", "count": count, "trust_domain": "a", "gpu_memory": "70GB"}
    return {**base, "gpus": 8, "cpu": "48", "memory": "256Gi", **rest}


def test_training_on_several_nodes_with_efa_names_its_zone_and_passes_check_on_eks(tmp_path: Path) -> None:
    found = _suggest(_train(), provider="aws")
    (pool,) = found.pools
    assert pool.pool["machine_type"] == "p4de.24xlarge"
    assert pool.pool["zones"] == ["us-east-1a"]
    assert refusals(stack_of(found, [_train()], CLUSTERS["aws"]), tmp_path) == []


def test_a_single_node_on_eks_names_no_zone() -> None:
    assert "zones" not in _suggest(_train(1), provider="aws").pools[0].pool


def test_a_pool_on_gke_names_a_zone_that_offers_its_machine_type(tmp_path: Path) -> None:
    want = _train(gpu_memory="30GB")
    found = _suggest(want, provider="gcp", machine_families=["a3-megagpu"])
    (pool,) = found.pools
    offered = load_catalog().offered(load_catalog().machine_types["a3-megagpu-8g"])
    assert offered is not None
    assert pool.pool["zones"][0] in offered.zones["us-central1"]
    assert refusals(stack_of(found, [want], CLUSTERS["gcp"]), tmp_path) == []


def test_more_nodes_than_one_placement_policy_holds_are_several_pools() -> None:
    found = _suggest(_train(100, gpu_memory="30GB"), provider="gcp", machine_families=["a3-megagpu"])
    assert [one.pool["count"]["desired"] for one in found.pools] == [96, 4]


def test_every_pool_is_in_the_zone_of_the_workloads_file() -> None:
    found = _suggest(_train(), region="us-east-2", zone="us-east-2b")
    assert [one.pool["zones"] for one in found.pools] == [["us-east-2b"]]


@pytest.mark.parametrize("place", [{"zone": "us-east-2b"}, {"region": "us-east-1", "zone": "us-east-2b"}])
def test_a_zone_outside_the_region_is_refused(place: dict[str, str]) -> None:
    with pytest.raises(BadInput, match=r"zone: found 'us-east-2b' with .* Fix: write region: us-east-2"):
        _suggest(_train(), **place)


def test_spot_applies_to_every_pool_and_not_on_premises() -> None:
    found = _suggest(_train(), provider="aws", capacity="spot")
    assert found.pools[0].pool["capacity"] == {"type": "spot"}
    with pytest.raises(BadInput, match="capacity: found 'spot' with provider on-prem"):
        _suggest(_train(), provider="on-prem", capacity="spot", usd_per_hour={"dgx-a100-640gb": 12.5})


def test_inference_that_asks_for_rdma_gets_whole_machines_with_efa_and_the_network(tmp_path: Path) -> None:
    plain = {**_train(), "kind": "inference", "name": "serve", "gpus": 4, "gpu_memory": "20GB", "cpu": "8"}
    want = {**plain, "memory": "64Gi", "rdma": True}
    without = _suggest(plain, provider="gcp")
    assert without.pools[0].pool["machine_type"].startswith("g2-standard"), (
        "Google Cloud's machines with L4 GPUs have no RDMA"
    )
    found = _suggest(want, provider="aws")
    (pool,) = found.pools
    # Computed by hand: the cheapest machine type with EFA and four GPUs that have at least 20 GB each.
    assert (pool.pool["machine_type"], pool.pool["network"]) == ("g6.12xlarge", {"rdma": True})
    assert pool.pool["zones"] == ["us-east-1a"]
    assert refusals(stack_of(found, [want], CLUSTERS["aws"]), tmp_path) == []


def test_rdma_on_a_partial_machine_is_refused_with_valid_sizes() -> None:
    with pytest.raises(BadInput, match=r"workloads\[0\].rdma: found 4 GPUs with RDMA; allowed: .*: 8\. Fix"):
        _suggest(_train(gpus=4, rdma=True), provider="aws", machine_families=["p4de"])


def test_machine_types_with_an_unsupported_fabric_are_suggested_without(tmp_path: Path) -> None:
    want = _train(gpu_memory="30GB")
    found = _suggest(want, provider="gcp", machine_families=["a3-highgpu"])
    assert found.pools[0].pool["network"] == {"rdma": False}
    assert refusals(stack_of(found, [want], CLUSTERS["gcp"]), tmp_path) == []
    with pytest.raises(
        BadInput, match=r"workloads\[0\].rdma: found 8 GPUs with RDMA; allowed: .*no allowed machine has any"
    ):
        _suggest({**want, "rdma": True}, provider="gcp", machine_families=["a3-highgpu"])


def test_training_pods_that_no_kubelet_aligns_on_one_node_get_two() -> None:
    """Three pods with 3, 3 and 2 GPUs need 8 GPUs in total, but do not fit on a machine whose two NUMA nodes have
    4 GPUs each.
    """
    base = {**_train(gpu_memory="30GB"), "cpu": "4", "memory": "16Gi", "count": 1}
    three, two = {**base, "name": "three", "gpus": 3, "count": 2}, {**base, "name": "two", "gpus": 2}
    found = _suggest(three, two, provider="aws", machine_families=["p4d"])
    assert [one.pool["count"] for one in found.pools] == [{"desired": 2}]
    four = {**base, "name": "four", "gpus": 4, "count": 2}
    assert [one.pool["count"] for one in _suggest(four, provider="aws", machine_families=["p4d"]).pools] == [
        {"desired": 1}
    ]
