"""A compute class rendered for GKE, and the node pools that it names."""

from __future__ import annotations

from gke_forms import gke_environment, gke_pool

from gpu_platform.deploy.recorded.properties import UNKNOWN
from tests.support.recorded import Recorded, record_platform

L4 = {"machine_type": "g2-standard-48", "workload": "inference", "count": {"min": 0, "desired": 0, "max": 4}}
POOLS = [gke_pool("steady", **L4), gke_pool("spare", **L4, capacity={"type": "spot"})]


def recorded() -> Recorded:
    classes = [{"name": "l4", "pools": ["steady", "spare"]}]
    return record_platform({**gke_environment(*POOLS), "compute_classes": classes})


def test_the_compute_class_has_one_rule_for_each_node_pool() -> None:
    found = recorded()
    record = found.one("ComputeClass", "l4")
    assert record.inputs["apiVersion"] == "cloud.google.com/v1"
    spec = record.inputs["spec"]
    assert spec["priorities"] == [{"nodepools": [UNKNOWN]}, {"nodepools": [UNKNOWN]}]
    assert spec["whenUnsatisfiable"] == "DoNotScaleUp"
    pools = {one.urn for one in found.of("NodePool") if one.name in ("steady", "spare")}
    assert pools <= set(record.property_dependencies["spec"])


def test_node_pools_of_a_compute_class_have_its_label_and_taint() -> None:
    found = recorded()
    for name in ("steady", "spare"):
        config = found.one("NodePool", name).inputs["nodeConfig"]
        assert config["labels"]["cloud.google.com/compute-class"] == "l4"
        taint = {"key": "cloud.google.com/compute-class", "value": "l4", "effect": "NO_SCHEDULE"}
        assert taint in config["taints"]
