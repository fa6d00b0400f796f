"""Inputs that the comparison with the GKE API accepts or refuses. Tests of components rely on this comparison."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

import pytest
from gke_api import NODE_POOL, NotInTheApi, node_pool, unspelt
from google.cloud import container_v1

from gpu_platform.deploy.recorded.properties import UNKNOWN

POOL = {
    "cluster": UNKNOWN,
    "namePrefix": "train-",
    "nodeCount": 2,
    "nodeLocations": ["us-central1-a"],
    "autoscaling": {"totalMinNodeCount": 0, "totalMaxNodeCount": 4, "locationPolicy": "ANY"},
    "placementPolicy": {"type": "COMPACT", "policyName": UNKNOWN},
    "nodeConfig": {
        "machineType": "a3-megagpu-8g",
        "diskSizeGb": 200,
        "labels": {"a": "b"},
        "maxRunDuration": "604800s",
        "guestAccelerators": [
            {
                "type": "nvidia-h100-mega-80gb",
                "count": 8,
                "gpuDriverInstallationConfig": {"gpuDriverVersion": "LATEST"},
            }
        ],
        "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}],
        "kubeletConfig": {"cpuManagerPolicy": "static", "cpuCfsQuota": True},
    },
}


def changed(**node_config: object) -> dict[str, object]:
    return {**POOL, "nodeConfig": {**POOL["nodeConfig"], **node_config}}


def test_inputs_as_the_provider_spells_them_become_the_apis_node_pool():
    pool = node_pool(POOL)
    assert pool.initial_node_count == 2
    assert list(pool.locations) == ["us-central1-a"]
    assert pool.autoscaling.enabled
    assert pool.autoscaling.location_policy == container_v1.NodePoolAutoscaling.LocationPolicy.ANY
    assert pool.placement_policy.type_ == container_v1.NodePool.PlacementPolicy.Type.COMPACT
    (accelerator,) = pool.config.accelerators
    assert (accelerator.accelerator_type, accelerator.accelerator_count) == ("nvidia-h100-mega-80gb", 8)
    assert cast("timedelta", pool.config.max_run_duration).days == 7
    assert pool.config.kubelet_config.cpu_cfs_quota is True


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({**POOL, "nodePoolName": "x"}, "NodePool.nodePoolName: NodePool has no field"),
        (changed(machineTyp="x"), "NodePool.nodeConfig.machineTyp"),
        (changed(machine_type="x"), "NodePool.nodeConfig.machine_type"),
        (changed(guestAccelerators=[{"typ": "x"}]), r"guestAccelerators\[0\].typ"),
        (changed(taints=[{"effect": "NoSchedule"}]), "'NoSchedule'; Effect has"),
        (changed(taints=[{"effect": "EFFECT_UNSPECIFIED"}]), "EFFECT_UNSPECIFIED"),
        (changed(diskSizeGb="200"), "diskSizeGb: '200' is str"),
        (changed(machineType=8), "machineType: 8 is int"),
        (changed(spot="true"), "spot: 'true' is str"),
        (changed(spot=1), "spot"),
        (changed(diskSizeGb=1.5), "disk"),
        (changed(maxRunDuration="7d"), "max_?run_?duration|Duration"),
        (changed(guestAccelerators={"type": "x"}), "the API expects a list"),
        (changed(kubeletConfig="static"), "the API expects a message NodeKubeletConfig"),
        (changed(labels={"a": 1}), "labels|string|str"),
    ],
)
def test_what_the_api_does_not_have_is_refused_and_named(inputs: dict[str, object], words: str):
    with pytest.raises(NotInTheApi, match=words):
        node_pool(inputs)


def test_a_value_that_is_not_known_yet_still_has_its_name_checked():
    assert node_pool(changed(spot=UNKNOWN, gvnic=UNKNOWN, taints=UNKNOWN)).config.spot is False
    with pytest.raises(NotInTheApi, match="spott"):
        node_pool(changed(spott=UNKNOWN))


def test_the_table_names_only_messages_and_fields_that_the_api_has():
    assert list(unspelt(NODE_POOL, container_v1.NodePool)) == []
