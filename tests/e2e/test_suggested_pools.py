"""The real kube-scheduler schedules the pods of suggested pools on the nodes of these pools."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from pydantic import TypeAdapter

from extensions.capacity.suggest import Suggestion, suggest
from extensions.capacity.suggest.demands import Demands
from extensions.capacity.suggest.suggest import PodsInPool
from gpu_platform.base import names
from gpu_platform.catalog import load_catalog
from gpu_platform.stack.load import parse_document
from tests.e2e.conftest import SANDBOX, TOLERATION, Platform
from tests.support.eventually import eventually
from tests.support.restricted import satisfying
from tests.support.size import THOROUGH, size

pytestmark = [pytest.mark.long, pytest.mark.sandbox, pytest.mark.xdist_group("e2e-place")]

SAMPLES = size(4, 30)
# In `make test-long`, the samples of the four seeds use whole GPUs, MIG, MPS and time-slicing.
SEEDS = range(1000) if THOROUGH else (1, 2, 10, 18)
# Maximum number of nodes per sample, because the nodes of all samples exist at the same time.
MOST_NODES = 3
RESOURCES = {"gpu": "nvidia.com/gpu", "share": "nvidia.com/gpu.shared"}
Sample = tuple[str, Suggestion, dict[str, dict[str, Any]]]


def workloads(draw: random.Random) -> list[dict[str, Any]]:
    """Return one or two demands whose pods need only a few nodes."""
    return [
        {
            "name": f"w{index}",
            "kind": draw.choice(["training", "inference", "development"]),
            "count": draw.randint(1, 5),
            "trust_domain": draw.choice(["a", "b"]),
            "gpu_memory": draw.choice(["512Mi", "1Gi", "3Gi", "9Gi", "20Gi", "38Gi"]),
            "compute": draw.choice([0.05, 0.14, 0.3, 0.5, 1.0]) if gpus == 1 else 1.0,
            "objective": draw.choice(["latency", "throughput"]),
            "cpu": draw.choice(["100m", "1", "6", "11"]),
            "memory": draw.choice(["256Mi", "4Gi", "30Gi"]),
            "gpus": gpus,
        }
        for index in range(draw.randint(1, 2))
        for gpus in [draw.choice([1, 1, 1, 1, 2, 8])]
    ]


def samples() -> Iterator[Sample]:
    """Yield suggestions with few nodes, each with a unique prefix for its pool names."""
    adapter, catalog = TypeAdapter(Demands), load_catalog()
    for seed in SEEDS:
        draw = random.Random(seed)
        wants = workloads(draw)
        document = {"workloads": wants, "provider": draw.choice(["aws", "gcp"])}
        found = suggest(parse_document(document, "workloads.yaml", adapter), "workloads.yaml", catalog)
        if sum(one.pool["count"]["desired"] for one in found.pools) <= MOST_NODES:
            yield f"s{seed}", found, {one["name"]: one for one in wants}


def stack_of(found: list[Sample]) -> dict[str, Any]:
    """Return an environment with the pools of all samples and without teams."""
    pools: list[dict[str, Any]] = []
    for prefix, suggestion, _ in found:
        for one in suggestion.pools:
            pool = {key: value for key, value in one.pool.items() if key not in ("zones", "capacity", "network")}
            pools.append({**pool, "name": f"{prefix}-{one.pool['name']}"[:40].rstrip("-")})
    assert len({pool["name"] for pool in pools}) == len(pools)
    # Node validation has separate tests, and takes a long time on nodes with large GPUs.
    return {
        "kind": "environment",
        "cluster": {"provider": "sandbox", "name": SANDBOX},
        "pools": pools,
        "teams": [],
        "validation": {"gate": False},
    }


def pods_of(sample: Sample, pools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the pods of a sample, with larger GPU requests first. Each pod may run on every pool that was sized
    for it.
    """
    prefix, suggestion, wants = sample
    own = [pool["name"] for pool in pools if pool["name"].startswith(f"{prefix}-")]
    by_slot: dict[tuple[str, str], list[tuple[str, PodsInPool]]] = {}
    for name, one in zip(own, suggestion.pools, strict=True):
        for placed in one.pods:
            by_slot.setdefault((placed.workload, placed.slot), []).append((name, placed))
    made: list[dict[str, Any]] = []
    for (workload, slot), places in by_slot.items():
        want = wants[workload]
        resource = RESOURCES.get(slot) or names.mig_resource(slot)
        amount = {"cpu": _alignable(want), "memory": want["memory"], resource: str(want["gpus"])}
        terms = [
            {"matchExpressions": [{"key": names.POOL_LABEL, "operator": "In", "values": [n for n, _ in places]}]}
        ]
        for index in range(sum(placed.pods for _, placed in places)):
            made.append(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {
                        "name": f"{prefix}-{workload}-{slot.replace('.', '-')}-{index}",
                        "namespace": "default",
                    },
                    "spec": satisfying(
                        {
                            "containers": [
                                {
                                    "name": "main",
                                    "image": "none",
                                    "resources": {"requests": amount, "limits": amount},
                                }
                            ],
                            "tolerations": [TOLERATION, {"operator": "Exists"}],
                            "affinity": {
                                "nodeAffinity": {
                                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
                                }
                            },
                        }
                    ),
                }
            )
    return sorted(
        made, key=lambda pod: -int(list(pod["spec"]["containers"][0]["resources"]["limits"].values())[2])
    )


def _alignable(want: dict[str, Any]) -> str:
    """Return the CPU request of a pod.

    A pod with 8 GPUs, which are on two NUMA nodes, requests a fractional number of CPUs, so that kubelets do not
    align the CPUs.
    """
    whole = str(want["cpu"]).isdecimal()
    return f"{int(want['cpu']) * 1000 - 1}m" if whole and want["gpus"] == 8 else want["cpu"]


@pytest.mark.timeout(7200)  # 30 samples with 50 nodes take minutes on an idle machine
def test_the_real_scheduler_places_all_pods_of_suggestions_on_the_suggested_pools(
    platform: Platform,
) -> None:
    found = list(islice(samples(), SAMPLES))
    assert len(found) == SAMPLES
    stack = stack_of(found)
    modes = {pool.get("sharing", {}).get("mode", "none") for pool in stack["pools"]}
    assert modes == {"none", "mig", "mps", "time-slicing"}
    ran = platform.up(stack)
    assert ran.code == 0, ran.err
    wanted = {pool["name"]: pool["count"]["desired"] for pool in stack["pools"]}
    eventually(lambda: _ready_nodes(platform) == wanted)
    expected = 0
    for sample in found:
        pods = pods_of(sample, stack["pools"])
        expected += len(pods)
        for pod in pods:
            platform.client.create(pod)
            platform.created.append(pod)
    assert expected == sum(placed.pods for _, one, _ in found for pool in one.pools for placed in pool.pods)
    waiting = eventually(lambda: _decided(platform, expected))
    assert waiting == ["all decided"], waiting


def _ready_nodes(platform: Platform) -> dict[str, int]:
    """Return, for each pool, the number of nodes that offer GPUs."""
    found: dict[str, int] = {}
    for node in platform.client.objects("v1", "Node"):
        offers = node["status"].get("allocatable", {})
        if any(name.startswith("nvidia.com/") and count != "0" for name, count in offers.items()):
            pool = node["metadata"]["labels"].get(names.POOL_LABEL, "")
            found[pool] = found.get(pool, 0) + 1
    return found


def _decided(platform: Platform, expected: int) -> list[str]:
    """Return why pods do not run, or `all decided` if all of them run. The list is empty until the scheduler and
    the kubelets have handled every pod.
    """
    pods = list(platform.client.objects("v1", "Pod", namespace="default"))
    reasons: list[str] = []
    for pod in pods:
        conditions = pod["status"].get("conditions", ())
        why = next((one.get("message", "") for one in conditions if one.get("reason") == "Unschedulable"), None)
        phase = pod["status"].get("phase")
        if pod["spec"].get("nodeName"):
            if phase == "Pending":
                return []
            if phase == "Failed":
                reasons.append(f"{pod['metadata']['name']}: {pod['status'].get('reason')}")
            continue
        if why is None:
            return []
        reasons.append(f"{pod['metadata']['name']}: {why}")
    return (reasons or ["all decided"]) if len(pods) == expected else []
