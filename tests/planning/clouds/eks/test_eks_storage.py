"""Storage classes on EKS: how they are planned, and which are refused."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.planning.clouds.eks.cluster_plan import Addon, EksClusterPlan
from gpu_platform.planning.clouds.eks.storage import EksStorage
from gpu_platform.planning.clouds.storage import StorageClassPlan, StoragePlan
from tests.support.eks_stacks import CREATED, EXISTING, plan_eks

IN_A = {"zones": ["us-east-2a"]}
IN_BOTH = {"name": "serve", "machine_type": "g6e.12xlarge", "workload": "inference", "zones": ["us-east-2b"]}


def planned(cluster: dict[str, Any] = CREATED, *pools: dict[str, Any], **storage: Any) -> StoragePlan:
    return plan_eks(*(pools or (IN_A,)), cluster=cluster, storage=storage).storage


def the(name: str, plan: StoragePlan) -> StorageClassPlan:
    [found] = [one for one in plan.classes if one.name == name]
    return found


def behind(plan: StoragePlan) -> EksStorage:
    assert isinstance(plan.cloud, EksStorage)
    return plan.cloud


def refused(cluster: dict[str, Any] = CREATED, *pools: dict[str, Any], **storage: Any) -> dict[str, str]:
    with pytest.raises(BadInput) as caught:
        planned(cluster, *pools, **storage)
    return {problem.path: str(problem) for problem in caught.value.problems}


def test_a_created_cluster_has_a_default_class_since_eks_marks_none() -> None:
    [found] = planned().classes
    assert (found.name, found.provisioner, found.default) == ("gp3", "ebs.csi.aws.com", True)
    assert found.parameters == {"type": "gp3", "encrypted": "true"}
    assert found.binding == "WaitForFirstConsumer"


def test_a_declared_default_class_replaces_the_programs_default() -> None:
    declared = {"fast": {"type": "disk", "disk": "io2", "iops": 16000, "default": True}}
    assert [one.name for one in planned(**declared).classes] == ["fast"]
    assert the("fast", planned(**declared)).parameters["iops"] == "16000"
    assert planned(EXISTING).classes == ()


def test_data_outlives_its_claim_on_file_systems_but_not_on_disks() -> None:
    plan = planned(work={"type": "disk"}, home={"type": "nfs"}, checkpoints={"type": "lustre"})
    policies = {one.name: one.reclaim_policy for one in plan.classes}
    assert policies == {"work": "Delete", "home": "Retain", "checkpoints": "Retain", "gp3": "Delete"}
    assert the("work", planned(work={"type": "disk", "retain": True})).reclaim_policy == "Retain"


@pytest.mark.parametrize("retain", [True, False])
def test_files_of_deleted_claims_stay_on_efs(retain: bool) -> None:
    storage = {"home": {"type": "nfs", "retain": retain}, "work": {"type": "disk"}}
    reasons = {one.what: one.why for one in plan_eks(IN_A, cluster=CREATED, storage=storage).decisions}
    assert "the files of a deleted claim stay" in reasons["home"]
    assert reasons["work"].endswith("deleted when its claim is deleted")


def test_a_lustre_class_is_in_the_zone_of_the_pools_or_the_declared_one() -> None:
    assert behind(planned(fast={"type": "lustre"})).lustre == {"fast": "us-east-2a"}
    declared = planned(CREATED, IN_A, IN_BOTH, fast={"type": "lustre", "zone": "us-east-2b"})
    assert behind(declared).lustre == {"fast": "us-east-2b"}


@pytest.mark.parametrize("cluster", [CREATED, EXISTING], ids=["created", "existing"])
def test_a_tag_that_the_fsx_driver_refuses_is_refused_with_a_lustre_class(cluster: dict[str, Any]) -> None:
    tagged = {**cluster, "tags": {"owner": "team=ml", "cost-center": "ml:4711"}}
    found = refused(tagged, fast={"type": "lustre"})
    assert list(found) == ["storage.fast.type"]
    assert "the tag 'owner': 'team=ml' in cluster.tags" in found["storage.fast.type"]
    assert planned(tagged, work={"type": "disk"}).classes


def test_a_tag_key_that_the_ebs_driver_would_cut_is_refused() -> None:
    assert list(refused({**CREATED, "tags": {"a=b": "c"}})) == ["cluster.tags.a=b"]
    planned({**EXISTING, "tags": {"a=b": "c"}})


def test_a_lustre_class_without_one_zone_is_refused() -> None:
    found = refused(CREATED, IN_A, IN_BOTH, fast={"type": "lustre"})
    assert found == {
        "storage.fast.zone": "storage.fast.zone: found nothing, and the pools name us-east-2a, us-east-2b; "
        "allowed: one zone: an FSx file system is in one subnet. Fix: write zone: us-east-2a"
    }
    elsewhere = refused(EXISTING, IN_A, fast={"type": "lustre", "zone": "us-east-2c"})
    assert "a zone of the cluster's network: us-east-2a" in elsewhere["storage.fast.zone"]


def test_the_driver_of_fsx_may_change_and_delete_only_file_systems_of_the_stack() -> None:
    plan = planned(fast={"type": "lustre"})
    [driver] = behind(plan).drivers
    statements: dict[str, Any] = {
        action: one["Condition"]["StringEquals"]
        for one in driver.statements
        if "Condition" in one
        for action in one["Action"]
    }
    tag = {"gpu-platform.dev/stack": "test"}
    assert statements["fsx:DeleteFileSystem"] == {f"aws:ResourceTag/{key}": value for key, value in tag.items()}
    assert statements["fsx:CreateFileSystem"] == {f"aws:RequestTag/{key}": value for key, value in tag.items()}
    [tagging] = [one for one in driver.statements if "fsx:TagResource" in one["Action"]]
    assert tagging["Condition"] == {
        "StringEquals": {"aws:RequestTag/gpu-platform.dev/stack": "test"},
        "StringEqualsIfExists": {"aws:ResourceTag/gpu-platform.dev/stack": "test"},
    }, "a file system of another stack cannot be taken over"
    assert tagging["Resource"] == "arn:aws:fsx:us-east-2:*:file-system/*"
    # IAM allows the driver to create only file systems with this tag, so the storage class sets the tag.
    assert the("fast", plan).parameters["extraTags"] == "gpu-platform.dev/stack=test"
    assert (driver.name, driver.managed_policies) == ("aws-fsx-csi-driver", ())


def test_access_points_of_efs_without_the_tags_of_the_company_are_named() -> None:
    home = {"home": {"type": "nfs"}}

    def warned(cluster: dict[str, Any]) -> list[str]:
        found = plan_eks(IN_A, cluster=cluster, storage=home).decisions
        return [one.chosen for one in found if one.what == "warning: home"]

    assert warned({**CREATED, "tags": {"cost-center": "ml"}}) == ["EFS access points without cluster.tags"]
    assert warned(CREATED) == []


def test_drivers_are_installed_for_declared_types_and_only_on_a_created_cluster() -> None:
    both = {"home": {"type": "nfs", "file_system": "fs-0a1b2c3d"}, "fast": {"type": "lustre"}}
    assert [one.name for one in behind(planned(**both)).drivers] == ["aws-efs-csi-driver", "aws-fsx-csi-driver"]
    assert behind(planned(EXISTING, **both)).drivers == ()


def test_an_existing_file_system_is_a_parameter_of_the_class_and_none_is_created() -> None:
    plan = planned(EXISTING, home={"type": "nfs", "file_system": "fs-0a1b2c3d"})
    assert the("home", plan).parameters["fileSystemId"] == "fs-0a1b2c3d"
    assert plan.cloud is None
    assert plan.retained == ()


def test_a_created_file_system_is_named_among_what_destroy_keeps() -> None:
    plan = planned(home={"type": "nfs"})
    assert [one.storage_class for one in behind(plan).file_systems] == ["home"]
    assert plan.retained == ("EFS file system of storage class home, with its files: delete it by hand",)


def test_mistakes_of_all_classes_are_shown_in_one_run() -> None:
    found = refused(
        EXISTING,
        home={"type": "nfs"},
        a={"type": "disk", "disk": "io2", "default": True},
        b={"type": "disk", "iops": 500, "default": True},
        c={"type": "disk", "disk": "pd-ssd"},
        f={"type": "disk", "iops": 80001},
        d={"type": "nfs", "file_system": "fs-0a1b2c3d", "tier": "zonal"},
    )
    assert set(found) == {
        "storage.home.file_system",
        "storage.a.iops",
        "storage.b.iops",
        "storage.f.iops",
        "storage.b.default",
        "storage.c.disk",
        "storage.d.tier",
    }


def test_the_driver_of_fsx_may_use_the_declared_key_and_no_other() -> None:
    key = "arn:aws:kms:us-east-2:123456789012:key/11111111-2222-3333-4444-555555555555"
    [driver] = behind(planned(fast={"type": "lustre", "kms_key": key})).drivers
    kms = [one for one in driver.statements if any(action.startswith("kms:") for action in one["Action"])]
    assert kms
    assert all(one["Resource"] in (key, [key]) for one in kms)
    [keyless] = behind(planned(fast={"type": "lustre"})).drivers
    assert not any(action.startswith("kms:") for one in keyless.statements for action in one["Action"])


def test_only_classes_of_file_systems_are_shared() -> None:
    plan = planned(work={"type": "disk"}, home={"type": "nfs"}, fast={"type": "lustre"})
    assert {one.name for one in plan.classes if one.shared} == {"home", "fast"}


def test_ebs_driver_uses_class_keys_and_grants_them_only_to_aws() -> None:
    key = "arn:aws:kms:us-east-2:123456789012:key/11111111-2222-3333-4444-555555555555"
    use, grant = (one for one in reversed(ebs_driver(work={"type": "disk", "kms_key": key}).statements))
    assert grant["Action"] == ["kms:CreateGrant"]
    assert grant["Condition"] == {"Bool": {"kms:GrantIsForAWSResource": "true"}}
    assert {"kms:GenerateDataKey*", "kms:Decrypt"} <= set(use["Action"])
    assert grant["Resource"] == use["Resource"] == [key]
    assert ebs_driver(work={"type": "disk"}, fast={"type": "lustre", "kms_key": key}).statements == ()


def ebs_driver(**storage: Any) -> Addon:
    """Return the EBS CSI driver add-on of a created cluster."""
    cluster = plan_eks(IN_A, cluster=CREATED, storage=storage).cluster.cloud
    assert isinstance(cluster, EksClusterPlan)
    assert cluster.create is not None
    [found] = [one for one in cluster.create.addons if one.name == "aws-ebs-csi-driver"]
    return found
