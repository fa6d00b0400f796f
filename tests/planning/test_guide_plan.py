"""Examples in guides fit the remaining quota. The tests declare them in the stack file to prove it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_platform.base.quantity import parse_quantity
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.guide import ExamplePlan, GuidePlan
from gpu_platform.stack.loaded import load_stack, plan_platform
from tests.planning.conftest import environment, pool, team
from tests.support.size import size

LAB = pool("lab", workload="development", sharing={"mode": "mig", "layout": {"1g.10gb": 7}})
SERVE = pool("serve", "g4dn.xlarge", workload="inference", sharing={"mode": "time-slicing", "replicas": 4})
CPU = pool("cpu", "m7i.4xlarge", workload="general")
EKS = {"provider": "eks", "name": "prod", "region": "us-east-2"}


def guide(platform: dict[str, Any]) -> GuidePlan:
    plan = plan_platform(platform, "test")
    assert isinstance(plan, EnvironmentPlan)
    return plan.guides[0]


def examples(*pools: dict[str, Any], **rest: Any) -> dict[str, ExamplePlan]:
    return {one.kind: one for one in guide(environment(*pools, **rest)).examples}


def test_each_example_is_on_the_pool_of_its_purpose() -> None:
    quota = {"gpus": 8, "shared": 4, "mig": {"1g.10gb": 7}}
    found = examples(pool(), LAB, SERVE, teams=[team(quota=quota)])
    assert {kind: one.workload.pool for kind, one in found.items()} == {
        "training": "train",
        "inference": "serve",
        "notebook": "lab",
        "batch": "lab",
    }


def test_a_quota_of_two_nodes_makes_training_a_gang_of_two_whole_nodes() -> None:
    training = examples(pool(count={"desired": 2}), teams=[team(quota={"gpus": 16})])["training"].workload
    assert (training.replicas, training.units) == (2, 8)


def test_a_quota_below_two_nodes_makes_training_one_pod_of_what_is_left() -> None:
    used = [{"name": "other", "pool": "train", "gpus": 3}]
    training = examples(pool(count={"desired": 2}), teams=[team(quota={"gpus": 15}, workloads=used)])["training"]
    assert (training.workload.replicas, training.workload.units) == (1, 8)
    small = examples(pool(), teams=[team(quota={"gpus": 5}, workloads=used)])["training"].workload
    assert (small.replicas, small.units) == (1, 2)


def test_spot_nodes_are_the_last_choice() -> None:
    pools = [pool("spot", capacity={"type": "spot"}), pool("train")]
    found = examples(*pools, cluster=EKS, teams=[team(quota={"gpus": 4})])
    assert found["training"].workload.pool == "train"


def test_a_team_whose_quota_is_used_up_gets_the_reason_instead_of_an_example() -> None:
    used = [{"name": "other", "pool": "train", "gpus": 1}]
    told = guide(environment(pool(), teams=[team(workloads=used)]))
    assert told.examples == ()
    assert set(told.missing) == {"training", "inference", "notebook", "batch"}
    assert "no quota left" in told.missing["training"]


def test_a_team_without_gpus_gets_a_batch_job_on_the_cpu_pool() -> None:
    found = examples(pool(), CPU, cluster=EKS, teams=[team(quota={})])
    assert list(found) == ["batch"]
    assert found["batch"].workload.requests.keys() == {"cpu", "memory"}


def test_devices_are_asked_for_by_a_claim_of_the_team() -> None:
    dra = pool(sharing={"mode": "dra"})
    quota = {"devices": {"gpu.nvidia.com": 4}}
    claims = [{"name": "pair", "count": 2}]
    found = examples(dra, teams=[team(quota=quota, claims=claims)])
    assert found["training"].workload.claims == ("pair",)
    without = guide(environment(dra, teams=[team(quota=quota)]))
    assert "add claims" in without.missing["training"]


def test_a_claim_of_a_mig_instance_is_not_a_whole_gpu() -> None:
    dra = pool("train", "p5.48xlarge", sharing={"mode": "dra", "partitions": True})
    quota = {"devices": {"gpu.nvidia.com": 4, "mig.nvidia.com": 14}}
    claims = [{"name": "slice", "profile": "1g.10gb"}, {"name": "half", "count": 4}]
    for declared in (claims, claims[::-1]):
        found = examples(dra, teams=[team(quota=quota, claims=declared)])
        assert {kind: one.workload.claims for kind, one in found.items()} == {
            "training": ("half",),
            "inference": ("slice",),
            "notebook": ("slice",),
            "batch": ("slice",),
        }
        half, part = (parse_quantity(found[kind].workload.requests["cpu"]) for kind in ("training", "batch"))
        assert half > 20 * part


def test_checkpoints_go_to_a_volume_of_the_team_that_it_may_write() -> None:
    storage = {
        "data": {
            "type": "existing",
            "system": "efs",
            "file_system": "fs-0123456789abcdef0",
            "teams": ["vision"],
            "read_only": True,
        },
        "work": {"type": "existing", "system": "efs", "file_system": "fs-0123456789abcdef1", "teams": ["vision"]},
    }
    found = examples(pool(), cluster=EKS, storage=storage, teams=[team()])
    assert found["training"].volume == "work"


def test_a_gang_shares_its_checkpoints_or_has_none() -> None:
    disk = {"disk": {"type": "disk"}}
    gang = {"cluster": EKS, "teams": [team(quota={"gpus": 16})]}
    alone = {"cluster": EKS, "teams": [team(quota={"gpus": 8})]}
    two = pool(count={"desired": 2}, zones=["us-east-2a"])
    assert examples(two, storage=disk, **gang)["training"].storage_class is None
    assert examples(two, storage=disk, **alone)["training"].storage_class == "disk"


@pytest.mark.parametrize("stack", ["local", "dev", "eks-training", "gke-training", "speech"])
def test_every_team_of_a_shipped_stack_has_an_example_of_each_kind(stack: str) -> None:
    plan = load_stack(stack).plan
    for one in plan.guides:
        assert not one.missing, (one.namespace, one.missing)


SSO_ROLE = (
    "arn:aws:iam::123456789012:role/aws-reserved/sso.amazonaws.com/us-east-2/AWSReservedSSO_a_0123456789abcdef"
)
"""A role of IAM Identity Center. Users receive it when they log in, and nobody can assume it directly."""


@pytest.mark.parametrize(
    ("cluster", "member", "told"),
    [
        (EKS, "group:a", "aws eks update-kubeconfig --name prod --region us-east-2"),
        (
            {**EKS, "logins": [{"principal": "arn:aws:iam::123456789012:role/a", "groups": ["a"]}]},
            "group:a",
            "aws eks update-kubeconfig --name prod --region us-east-2 --role-arn arn:aws:iam::123456789012:role/a",
        ),
        (
            {**EKS, "logins": [{"principal": SSO_ROLE, "groups": ["a"]}]},
            "group:a",
            "aws eks update-kubeconfig --name prod --region us-east-2",
        ),
        (
            {"provider": "gke", "name": "prod", "project": "my-project", "location": "us-central1"},
            "group:a@example.com",
            "gcloud container clusters get-credentials prod --location us-central1 --project my-project",
        ),
    ],
)
def test_the_guide_has_the_clouds_own_command_for_a_kubeconfig(
    cluster: dict[str, Any], member: str, told: str
) -> None:
    gke = cluster["provider"] == "gke"
    nodes = pool(machine_type="a2-highgpu-8g", zones=["us-central1-a"]) if gke else pool()
    platform = environment(nodes, cluster=cluster, teams=[team(members=[member])])
    assert guide(platform).login == (told,)


@pytest.mark.parametrize(
    ("member", "acting"),
    [
        ("group:a", "--as member --as-group a"),
        ("user:ada", "--as ada"),
        ("serviceaccount:ci/deployer", "--as system:serviceaccount:ci:deployer"),
    ],
)
def test_in_a_sandbox_the_guide_explains_how_to_act_as_a_member(member: str, acting: str) -> None:
    cluster = {"provider": "sandbox", "name": "shop"}
    platform = environment(pool(), cluster=cluster, teams=[team(members=[member])])
    assert guide(platform).login == (
        "export KUBECONFIG=~/.local/state/gpu-platform/sandbox/shop/kubeconfig"
        "   # or as `gpu-platform sandbox status --name shop` says",
        f"alias kubectl='kubectl {acting}'   # from now on as a member",
    )


# -- properties -----------------------------------------------------------------------------------------

DECLARED = st.lists(
    st.sampled_from(
        [
            {"pool": "train", "gpus": 2, "cpu": "8", "memory": "64Gi"},
            {"pool": "serve", "gpus": 1, "cpu": "500m", "memory": "2Gi"},
            {"pool": "lab", "gpus": 1, "cpu": "2", "memory": "16Gi"},
        ]
    ),
    max_size=4,
)


@st.composite
def platforms(draw: st.DrawFn) -> dict[str, Any]:
    declared = [{"name": f"w{index}", **one} for index, one in enumerate(draw(DECLARED))]
    used = {name: sum(one["pool"] == name for one in declared) for name in ("train", "serve", "lab")}
    quota: dict[str, Any] = {
        "gpus": draw(st.integers(2 * used["train"], 16)),
        "shared": draw(st.integers(used["serve"], 8)),
        "mig": {"1g.10gb": draw(st.integers(used["lab"], 28))},
    }
    if draw(st.booleans()):
        quota |= {"cpu": draw(st.integers(60, 200)), "memory": f"{draw(st.integers(600, 2000))}Gi"}
    pools = [pool(count={"desired": draw(st.integers(2, 3))}), {**SERVE, "count": {"desired": 2}}, LAB]
    queueing = {"queueing": {}} if draw(st.booleans()) else {}
    return environment(*pools, teams=[team(quota=quota, workloads=declared)], **queueing)


@settings(max_examples=size(15, 400))
@given(platforms())
def test_every_example_may_be_declared_next_to_the_others(
    platform: dict[str, Any],
) -> None:
    for example in guide(platform).examples:
        planned = example.workload
        declared = copy.deepcopy(platform)
        profile = {"profile": "1g.10gb"} if "mig" in planned.resource else {}
        declared["teams"][0]["workloads"].append(
            {
                "name": "example",
                "pool": planned.pool,
                "replicas": planned.replicas,
                "gpus": planned.units,
                "cpu": planned.cpu,
                "memory": planned.memory,
                **profile,
            }
        )
        plan_platform(declared, "test")  # raises BadInput if the quota or the node is too small


@settings(max_examples=size(15, 400))
@given(platforms())
def test_an_example_leaves_room_for_daemon_set_pods(platform: dict[str, Any]) -> None:
    plan = plan_platform(platform, "test")
    assert isinstance(plan, EnvironmentPlan)
    pools = {one.name: one for one in plan.pools}
    for example in plan.guides[0].examples:
        nodes = pools[example.workload.pool]
        assert parse_quantity(example.workload.cpu) * 1000 <= nodes.cpu_millicores * 0.9
        assert parse_quantity(example.workload.memory) / 2**20 <= nodes.memory_mib * 0.9


def test_an_example_takes_all_memory_that_a_small_quota_leaves_and_no_more() -> None:
    found = examples(pool(), teams=[team(quota={"gpus": 8, "cpu": 16, "memory": "300Gi"})])
    assert found["training"].workload.requests["memory"] == "300Gi"


def test_a_guide_names_the_numa_nodes_of_pools_whose_kubelets_align_pods() -> None:
    free = pool("free", topology={"policy": "best-effort"})
    cut = pool("cut", sharing=LAB["sharing"], topology={"policy": "restricted"})
    quota = {"gpus": 8, "mig": {"1g.10gb": 7}}
    found = guide(environment(pool(), cut, free, teams=[team(quota=quota)]))
    assert {one.name: one.aligned for one in found.pools} == {"train": (4, 48), "cut": None, "free": None}


def test_examples_keep_the_shared_memory_of_the_mps_daemon() -> None:
    shared_by_mps = {**SERVE, "sharing": {"mode": "mps", "replicas": 4}}
    of_mode = {
        one["sharing"]["mode"]: examples(one, teams=[team(quota={"shared": 4})])[
            "inference"
        ].workload.shared_memory
        for one in (SERVE, shared_by_mps)
    }
    assert of_mode["time-slicing"] is not None
    assert of_mode["mps"] is None
