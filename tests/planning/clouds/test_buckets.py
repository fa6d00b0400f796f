"""How each cloud mounts buckets as volumes of teams, and which settings are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.base.errors import BadInput
from gpu_platform.planning.clouds.eks.storage import EksStorage
from gpu_platform.planning.clouds.gke.buckets import BucketGrant
from gpu_platform.planning.clouds.gke.storage import GkeStorage
from gpu_platform.planning.clouds.storage import StoragePlan, VolumePlan
from gpu_platform.planning.plan import EnvironmentPlan, TeamStackPlan
from gpu_platform.stack.loaded import plan_platform
from tests.components.gke.gke_recorded import CREATED as GKE_CREATED
from tests.components.gke.gke_recorded import platform_of
from tests.support.eks_stacks import CREATED, EXISTING, eks_environment, plan_eks

KEY = "arn:aws:kms:us-east-2:123456789012:key/11111111-2222-3333-4444-555555555555"
DATASETS = {"type": "bucket", "bucket": "acme-datasets", "prefix": "imagenet"}
CHECKPOINTS = {"type": "bucket", "bucket": "acme-checkpoints", "purpose": "checkpoints"}


def team(name: str) -> dict[str, Any]:
    return {"name": name, "quota": {"gpus": 1}, "priority": "training", "members": [f"group:{name}@example.com"]}


TEAMS = [team("vision"), team("speech")]


def eks(cluster: dict[str, Any] = CREATED, **storage: Any) -> EnvironmentPlan:
    return plan_eks({"zones": ["us-east-2a"]}, cluster=cluster, storage=storage, teams=TEAMS)


def gke(**storage: Any) -> EnvironmentPlan:
    platform = {**platform_of({}, cluster=GKE_CREATED), "storage": storage, "teams": TEAMS}
    plan = plan_platform(platform, "test")
    assert plan.kind == "environment"
    return plan


def the(plan: StoragePlan, name: str, namespace: str = "vision") -> VolumePlan:
    [found] = [one for one in plan.volumes if (one.name, one.namespace) == (name, namespace)]
    return found


def refused(**storage: Any) -> dict[str, str]:
    with pytest.raises(BadInput) as caught:
        eks(**storage)
    return {problem.path: str(problem) for problem in caught.value.problems}


@pytest.mark.parametrize(
    ("bucket", "uses"), [(CHECKPOINTS, "reads and writes the bucket"), (DATASETS, "reads the bucket")]
)
def test_the_decision_on_a_bucket_states_how_the_driver_uses_it(bucket: dict[str, Any], uses: str) -> None:
    [why] = [one.why for one in eks(bucket=bucket).decisions if (one.subject, one.what) == ("storage", "bucket")]
    assert f"the driver's identity {uses}" in why
    assert "a bucket outside us-east-2 cannot be mounted" in why


def statements(**storage: Any) -> list[dict[str, Any]]:
    cloud = eks(**storage).storage.cloud
    assert isinstance(cloud, EksStorage)
    [driver] = [one for one in cloud.drivers if one.name == "aws-mountpoint-s3-csi-driver"]
    return [dict(one) for one in driver.statements]


@pytest.mark.parametrize("cloud", [eks, gke])
def test_every_team_gets_a_claim_unless_the_bucket_names_its_teams(cloud: Any) -> None:
    plan = cloud(datasets=DATASETS, checkpoints={**CHECKPOINTS, "teams": ["speech"]}).storage
    assert {(one.name, one.namespace) for one in plan.volumes} == {
        ("datasets", "vision"),
        ("datasets", "speech"),
        ("checkpoints", "speech"),
    }
    assert len({one.handle for one in plan.volumes}) == len({one.volume for one in plan.volumes}) == 3
    assert [one.name for one in plan.classes if one.name in ("datasets", "checkpoints")] == []


@pytest.mark.parametrize("cloud", [eks, gke])
def test_datasets_are_read_only_and_checkpoints_writable_by_default(cloud: Any) -> None:
    plan = cloud(datasets=DATASETS, checkpoints=CHECKPOINTS).storage
    assert the(plan, "datasets").read_only
    assert not the(plan, "checkpoints").read_only
    turned = cloud(
        datasets={**DATASETS, "read_only": False}, checkpoints={**CHECKPOINTS, "read_only": True}
    ).storage
    assert not the(turned, "datasets").read_only
    assert the(turned, "checkpoints").read_only


def test_mountpoint_sees_only_the_prefix_and_caches_datasets() -> None:
    plan = eks(datasets=DATASETS, checkpoints=CHECKPOINTS).storage
    datasets, checkpoints = the(plan, "datasets"), the(plan, "checkpoints")
    assert {"prefix imagenet/", "read-only", "region us-east-2", "metadata-ttl 300"} <= set(datasets.mount_options)
    assert datasets.attributes["cacheEmptyDirSizeLimit"] == "50Gi"
    assert {"allow-delete", "allow-overwrite"} <= set(checkpoints.mount_options)
    assert not any(one.startswith(("prefix", "read-only", "metadata-ttl")) for one in checkpoints.mount_options)
    assert "cache" not in checkpoints.attributes
    assert datasets.attributes["authenticationSource"] == "driver"
    assert not datasets.in_pod


def test_cloud_storage_fuse_sees_the_prefix_alone_and_caches_datasets() -> None:
    plan = gke(datasets=DATASETS, checkpoints={**CHECKPOINTS, "cache_gb": 10}).storage
    datasets, checkpoints = the(plan, "datasets"), the(plan, "checkpoints")
    assert {"implicit-dirs", "only-dir=imagenet", "file-cache:max-size-mb:51200"} <= set(datasets.mount_options)
    assert "metadata-cache:ttl-secs:600" in datasets.mount_options
    assert {"rename-dir-limit=200000", "file-cache:max-size-mb:10240"} <= set(checkpoints.mount_options)
    assert datasets.in_pod


def test_check_and_the_guide_name_the_annotations_that_pods_with_buckets_need_on_gke() -> None:
    needed = {"gke-gcsfuse/volumes": "true", "gke-gcsfuse/ephemeral-storage-limit": "0"}
    plan = gke(datasets=DATASETS, checkpoints=CHECKPOINTS)
    (decision,) = [one for one in plan.decisions if one.what == "pods with buckets"]
    assert all(f'{key}: "{value}"' in decision.chosen for key, value in needed.items())
    (guide,) = [one for one in plan.guides if one.namespace == "vision"]
    assert [one.annotations for one in guide.volumes] == [needed, needed]
    on_eks = eks(datasets=DATASETS)
    assert not [one for one in on_eks.decisions if one.what == "pods with buckets"]
    assert [one.annotations for guide in on_eks.guides for one in guide.volumes] == [{}, {}]


def test_bucket_driver_writes_only_where_pods_may_write() -> None:
    found = statements(datasets=DATASETS, checkpoints=CHECKPOINTS)
    by_action = {action: one for one in found for action in one["Action"] if action != "s3:ListBucket"}
    datasets, checkpoints = "arn:aws:s3:::acme-datasets/imagenet/*", "arn:aws:s3:::acme-checkpoints/*"
    assert by_action["s3:GetObject"]["Resource"] == [datasets, checkpoints]
    assert by_action["s3:PutObject"]["Resource"] == by_action["s3:DeleteObject"]["Resource"] == [checkpoints]
    lists = {one["Resource"]: one.get("Condition") for one in found if one["Action"] == ["s3:ListBucket"]}
    assert lists == {
        "arn:aws:s3:::acme-datasets": {"StringLike": {"s3:prefix": ["imagenet/*"]}},
        "arn:aws:s3:::acme-checkpoints": None,
    }
    assert not any(action.startswith("kms:") for action in by_action)
    assert "s3:PutObject" not in {action for one in statements(datasets=DATASETS) for action in one["Action"]}


def test_bucket_keys_are_used_only_through_s3_and_for_writes() -> None:
    read = statements(datasets={**DATASETS, "kms_key": KEY})
    by_action = {action: one for one in read for action in one["Action"]}
    assert by_action["kms:Decrypt"]["Resource"] == [KEY]
    assert by_action["kms:Decrypt"]["Condition"] == {
        "StringEquals": {"kms:ViaService": "s3.us-east-2.amazonaws.com"}
    }
    assert "kms:GenerateDataKey" not in by_action
    written = statements(checkpoints={**CHECKPOINTS, "kms_key": KEY})
    assert "kms:GenerateDataKey" in {action for one in written for action in one["Action"]}


def test_on_gke_outside_the_prefix_only_object_names_are_readable() -> None:
    cloud = gke(datasets={**DATASETS, "teams": ["vision"]}, checkpoints=CHECKPOINTS).storage.cloud
    assert isinstance(cloud, GkeStorage)
    found = {(one.bucket, one.namespace, one.role): one.condition for one in cloud.grants}
    assert set(found) == {
        ("acme-datasets", "vision", "roles/storage.objectViewer"),
        ("acme-datasets", "vision", "roles/storage.legacyBucketReader"),
        ("acme-checkpoints", "vision", "roles/storage.objectUser"),
        ("acme-checkpoints", "speech", "roles/storage.objectUser"),
    }
    condition = found["acme-datasets", "vision", "roles/storage.objectViewer"]
    assert condition is not None
    assert condition.startswith('resource.name.startsWith("projects/_/buckets/acme-datasets/objects/imagenet/")')
    assert found["acme-datasets", "vision", "roles/storage.legacyBucketReader"] is None
    assert len({one.name for one in cloud.grants}) == len(cloud.grants)


def test_an_existing_cluster_gets_claims_and_its_owner_the_driver() -> None:
    plan = eks(EXISTING, datasets=DATASETS)
    assert {one.namespace for one in plan.storage.volumes} == {"vision", "speech"}
    assert plan.storage.cloud is None
    [decision] = [one for one in plan.decisions if one.what == "datasets"]
    assert "the cluster's owner installs aws-mountpoint-s3-csi-driver" in decision.why


def test_a_team_that_the_environment_lacks_is_refused_with_the_nearest_name() -> None:
    found = refused(datasets={**DATASETS, "teams": ["vision", "speach"]})
    assert list(found) == ["storage.datasets.teams[1]"]
    assert "speech" in found["storage.datasets.teams[1]"].partition("Fix:")[2]


def test_names_and_keys_that_s3_cannot_have_are_refused_in_one_run() -> None:
    found = refused(
        a={"type": "bucket", "bucket": "acme--use2-az1--x-s3"},
        b={"type": "bucket", "bucket": "acme_datasets"},
        c={**DATASETS, "kms_key": KEY.replace("us-east-2", "eu-west-1")},
    )
    assert set(found) == {"storage.a.bucket", "storage.b.bucket", "storage.c.kms_key"}


@pytest.mark.parametrize("prefix", ["/imagenet", "a//b", "a b", "", "a/../b", "image*"])
def test_a_prefix_is_a_path_below_the_bucket(prefix: str) -> None:
    assert list(refused(datasets={**DATASETS, "prefix": prefix})) == ["storage.datasets.prefix"]


def own_stack(folder: Path, name: str, environment: dict[str, Any]) -> TeamStackPlan:
    """Return the plan of a team stack in an environment."""
    config = {"config": {"gpu-platform:platform": environment}}
    (folder / "Pulumi.prod.yaml").write_text(yaml.safe_dump(config), "utf-8")
    plan = plan_platform(
        {"kind": "team", "environment": {"stack": "prod"}, "team": team(name)}, name, folder=folder
    )
    assert plan.kind == "team"
    return plan


def test_a_team_stack_creates_the_volume_of_its_environment(tmp_path: Path) -> None:
    storage = {"datasets": {**DATASETS, "teams": ["vision"], "team_stacks": ["chat"]}, "others": DATASETS}
    environment = eks_environment({"zones": ["us-east-2a"]}, storage=storage, teams=TEAMS)
    plan = plan_platform(environment, "prod")
    assert plan.kind == "environment"
    assert {one.volume for one in plan.storage.volumes} == {"vision-datasets", "vision-others", "speech-others"}
    [volume] = own_stack(tmp_path, "chat", environment).volumes
    assert (volume.volume, volume.handle, volume.read_only) == ("chat-datasets", "chat-datasets", True)
    assert volume.source == "s3://acme-datasets/imagenet/"
    assert own_stack(tmp_path, "code", environment).volumes == ()


def test_on_gke_the_environment_admits_the_namespace_of_a_team_stack() -> None:
    cloud = gke(datasets={**DATASETS, "teams": ["vision"], "team_stacks": ["chat"]}).storage.cloud
    assert isinstance(cloud, GkeStorage)
    assert {one.namespace for one in cloud.grants} == {"vision", "chat"}


def test_a_team_of_the_environment_is_not_one_with_a_stack_of_its_own() -> None:
    found = refused(datasets={**DATASETS, "team_stacks": ["vision", "chat", "chat"]})
    assert "write it in teams" in found["storage.datasets.team_stacks[0]"]
    assert "'chat' again" in found["storage.datasets.team_stacks[2]"]


def test_roles_of_teams_and_buckets_named_alike_have_different_names() -> None:
    alike = [
        BucketGrant(bucket="b-c", namespace="a", role="r/x"),
        BucketGrant(bucket="c", namespace="a-b", role="r/x"),
    ]
    assert alike[0].name != alike[1].name


def warnings_of_caches(plan: EnvironmentPlan) -> list[str]:
    return [f"{one.chosen}; {one.why}" for one in plan.decisions if one.what == "warning: caches"]


def test_caches_of_all_teams_on_an_eks_node_are_compared_with_its_disk() -> None:
    def plan(size: int, **pool: Any) -> list[str]:
        nodes = {"zones": ["us-east-2a"], "local_nvme": False, "disk": {"size_gb": 200}, **pool}
        storage = {"a": {**DATASETS, "cache_gb": size}, "b": {**DATASETS, "prefix": "b", "cache_gb": size}}
        return warnings_of_caches(plan_eks(nodes, cluster=CREATED, storage=storage, teams=TEAMS))

    [found] = plan(50)
    assert found.startswith("up to 4 bucket caches with 200 GiB on a node of pool train, whose disk has 200 GiB")
    assert found.endswith("write cache_gb: 45 or less for each bucket, or pools[0].disk.size_gb: 223")
    assert plan(45) == plan(50, disk={"size_gb": 223}) == plan(500, local_nvme=True) == []


def test_caches_of_all_pods_on_a_gke_node_are_compared_with_its_disk() -> None:
    def plan(size: int, machine: str) -> list[str]:
        pool = {"machine_type": machine, "workload": "inference", "disk": {"size_gb": 200}}
        stack = {**platform_of(pool, cluster=GKE_CREATED), "teams": TEAMS}
        made = plan_platform({**stack, "storage": {"a": {**DATASETS, "cache_gb": size}}}, "test")
        assert made.kind == "environment"
        return warnings_of_caches(made)

    [found] = plan(50, "g2-standard-96")
    assert found.startswith("up to 8 bucket caches with 400 GiB on a node of pool")
    assert plan(22, "g2-standard-96") == plan(50, "g2-standard-4") == []
