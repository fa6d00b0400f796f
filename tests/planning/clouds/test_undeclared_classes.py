"""Volumes can use the storage classes that a new cluster has by default. Declared classes replace the
program's default class.
"""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from tests.planning.conftest import team
from tests.support.eks_stacks import CREATED
from tests.support.recorded import record_platform

GKE = {"provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1", "create": {}}
MACHINES = {"eks": "g6.12xlarge", "gke": "g2-standard-48"}


def stack(cluster: dict[str, Any], storage_class: str | None, machine: str = "", **storage: Any) -> dict[str, Any]:
    home = {"directory": "/home/me", "size": "50Gi", "storage_class": storage_class}
    members = {"quota": {"gpus": 1}, "members": ["user:a@example.com"]}
    pool = {
        "name": "lab",
        "machine_type": machine or MACHINES[cluster["provider"]],
        "count": {"desired": 1},
        "workload": "development",
        "zones": ["us-central1-a" if cluster["provider"] == "gke" else "us-east-2a"],
    }
    notebook = {"name": "lab", "pool": "lab", "gpus": 1, "home": home}
    teams = [team(**members, notebooks=[notebook])]
    return {"kind": "environment", "cluster": cluster, "pools": [pool], "storage": storage, "teams": teams}


def plan(*args: Any, **storage: Any) -> EnvironmentPlan:
    found = plan_platform(stack(*args, **storage), "test")
    assert isinstance(found, EnvironmentPlan)
    return found


@pytest.mark.parametrize(
    ("cluster", "storage_class"),
    [(CREATED, "gp3"), (CREATED, None), (GKE, "standard-rwo"), (GKE, "premium-rwo"), (GKE, None)],
)
def test_classes_of_the_cluster_can_be_named(cluster: dict[str, Any], storage_class: str | None) -> None:
    (claim,) = [one.claim for one in plan(cluster, storage_class).workloads[0].notebooks]
    assert claim is not None
    assert claim.storage_class == storage_class


def test_a_declared_gp3_is_the_only_class_of_that_name_and_the_default() -> None:
    program = record_platform(stack(CREATED, "gp3", gp3={"type": "disk", "iops": 5000}))
    [made] = program.of("StorageClass")
    assert made.inputs["parameters"]["iops"] == "5000"
    assert made.inputs["metadata"]["annotations"] == {"storageclass.kubernetes.io/is-default-class": "true"}


def test_without_the_added_class_its_name_is_unknown() -> None:
    with pytest.raises(BadInput, match=r"found 'gp3'.*allowed: a declared storage class \('mine'\)"):
        plan(CREATED, "gp3", mine={"type": "disk", "default": True})


@pytest.mark.parametrize(("cluster", "name"), [(CREATED, "gp2"), (GKE, "standard-rwo")])
def test_a_declared_class_of_the_cloud_is_refused(cluster: dict[str, Any], name: str) -> None:
    with pytest.raises(BadInput, match=f"storage.{name}: found '{name}'.*a name of your own"):
        plan(cluster, None, **{name: {"type": "disk", "default": True}})


def test_gkes_default_class_is_refused_where_nodes_attach_only_hyperdisk() -> None:
    with pytest.raises(BadInput, match=r"disks of type pd-balanced.*write storage_class: hyperdisk-balanced"):
        plan(GKE, None, "g4-standard-48")
    assert plan(GKE, "hyperdisk-balanced", "g4-standard-48")
