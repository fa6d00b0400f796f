"""Two objects with the same kind, namespace and name are refused. The error is reported where the stack file has
the name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.planning import object_names
from gpu_platform.planning.headroom import PRIORITY_CLASS
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, plan_platform
from tests.planning.conftest import PlanMaker, pool, team
from tests.support.eks_stacks import eks_environment

BUCKET = {"type": "bucket", "bucket": "acme"}
DISK = {"type": "disk"}
HOME = {"directory": "/home/member", "storage_class": "fast", "size": "10Gi"}


def problems(**rest: Any) -> dict[str, str]:
    with pytest.raises(BadInput) as caught:
        plan_platform(eks_environment({"zones": ["us-east-2a"]}, **rest), "test")
    return {one.path: one.found for one in caught.value.problems}


def test_a_priority_class_of_the_program_is_refused(make_plan: PlanMaker) -> None:
    with pytest.raises(BadInput, match=f"priorities.{PRIORITY_CLASS}: found PriorityClass"):
        make_plan(pool(), priorities={PRIORITY_CLASS: 5})


@pytest.mark.parametrize(
    ("storage_name", "entry"),
    [
        ("lab-home", {"notebooks": [{"name": "lab", "pool": "train", "home": HOME}]}),
        (
            "fit-checkpoints",
            {
                "training_jobs": [
                    {
                        "name": "fit",
                        "pool": "train",
                        "gpus": 1,
                        "image": "acme/fit:1",
                        "command": ["fit"],
                        "run_as_user": 1000,
                        "checkpoints": HOME,
                    }
                ]
            },
        ),
    ],
)
def test_a_volume_with_the_name_of_an_entrys_claim_is_refused(storage_name: str, entry: dict[str, Any]) -> None:
    found = problems(storage={"fast": DISK, storage_name: BUCKET}, teams=[team(**entry)])
    assert found == {f"storage.{storage_name}": f"PersistentVolumeClaim {storage_name!r} in namespace vision"}


def test_volumes_of_two_teams_with_one_joined_name_are_refused() -> None:
    found = problems(
        storage={"b-c": {**BUCKET, "teams": ["a"]}, "c": {**BUCKET, "teams": ["a-b"]}},
        teams=[team("a", quota={}), team("a-b", quota={})],
    )
    assert found == {"storage.c": "PersistentVolume 'a-b-c'"}


def test_a_service_of_a_controller_is_refused_as_the_name_of_an_entry() -> None:
    def service(name: str, **rest: Any) -> dict[str, Any]:
        return {"name": name, "pool": "train", "image": "acme/s:1", "run_as_user": 1000, "gpus": 1, **rest}

    found = problems(
        addons={"leaderworkerset": "install"},
        teams=[
            team(quota={"gpus": 8}, inference_services=[service("chat", nodes=2, replicas=2), service("chat-1")])
        ],
    )
    assert found["teams[0].inference_services[1].name"] == "Service 'chat-1' in namespace vision"
    workers = {"name": "w", "pool": "train", "gpus": 1}
    ray = {"name": "r", "image": "acme/ray:1", "version": "2.50.0", "run_as_user": 1000, "head": {}}
    found = problems(
        addons={"kuberay": "install"},
        teams=[
            team(
                quota={"gpus": 8},
                ray_clusters=[{**ray, "workers": [workers]}],
                inference_services=[service("r-head-svc")],
            )
        ],
    )
    assert found == {"teams[0].inference_services[0].name": "Service 'r-head-svc' in namespace vision"}


@pytest.mark.parametrize("name", ["efa.networking.k8s.aws", "mrdma.google.com", "any.nvidia.com"])
def test_device_classes_of_drivers_are_refused(make_plan: PlanMaker, name: str) -> None:
    with pytest.raises(BadInput, match="drivers have classes with such names"):
        make_plan(pool(sharing={"mode": "dra"}), kubernetes="1.35", device_classes={name: {"memory": "40Gi"}})


def test_a_program_that_declares_an_object_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """This check also finds duplicate names that the planner does not check."""
    monkeypatch.setattr(object_names, "check", lambda *_: None)
    grown = {
        "machine_type": "g6.12xlarge",
        "workload": "inference",
        "count": {"min": 0, "desired": 1, "max": 2},
        "headroom": 1,
    }
    platform = eks_environment(grown, priorities={PRIORITY_CLASS: 5})
    loaded = LoadedStack("test", Path("Pulumi.test.yaml"), platform, plan_platform(platform, "test"))
    with pytest.raises(
        BadInput, match=f"PriorityClass.scheduling.k8s.io {PRIORITY_CLASS}, which .* also declares"
    ):
        record_stack(loaded)
