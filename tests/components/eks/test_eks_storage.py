"""The rendered storage resources on EKS: classes, drivers, file systems, and network access to file systems."""

from __future__ import annotations

import json
from typing import Any

from gpu_platform.deploy.recorded.properties import UNKNOWN
from tests.components.eks.aws_model import problems
from tests.components.eks.aws_requests import requests_of
from tests.support.eks_stacks import CLUSTER_ARN, CREATED, EXISTING, record_eks
from tests.support.recorded import Recorded

KEY = "arn:aws:kms:us-east-2:123456789012:key/0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
IN_A = {"zones": ["us-east-2a"]}
ALL = {
    "work": {"type": "disk", "disk": "io2", "iops": 20000},
    "home": {"type": "nfs", "kms_key": KEY},
    "checkpoints": {"type": "lustre", "throughput": 500},
}


def made(cluster: dict[str, Any] = CREATED, **storage: Any) -> Recorded:
    return record_eks(IN_A, cluster=cluster, storage=storage)


def ports(recorded: Recorded, kind: str, group: str) -> set[tuple[int, int]]:
    """Return the ports in the rules of the security group with this name."""
    urn = recorded.one("SecurityGroup", group).urn
    return {
        (rule.inputs["fromPort"], rule.inputs["toPort"])
        for rule in recorded.of(kind)
        if urn in rule.property_dependencies.get("securityGroupId", ())
    }


def test_every_request_of_storage_passes_the_models_of_the_aws_api() -> None:
    records = [r for r in made(**ALL).resources if "EksFileSystems" in r.parent and r.type.startswith("aws:")]
    assert {r.type.rsplit(":", 1)[-1] for r in records} >= {"FileSystem", "MountTarget", "Addon", "RolePolicy"}
    for record in records:
        for request in requests_of(record):
            found = [one for one in problems(request) if "'unknown' does not match" not in one]
            assert found == [], record.urn


def test_a_created_file_system_is_encrypted_kept_and_reachable_in_every_zone() -> None:
    recorded = made(**ALL)
    [file_system] = recorded.of("FileSystem")
    assert file_system.inputs["encrypted"] is True
    assert file_system.inputs["kmsKeyId"] == KEY
    assert file_system.retain_on_delete
    targets = recorded.of("MountTarget")
    subnets = {one for target in targets for one in target.property_dependencies["subnetId"]}
    assert len(subnets) == len(targets) == 2
    assert all(not target.retain_on_delete for target in targets)
    assert ports(recorded, "SecurityGroupIngressRule", "ml-storage-nfs") == {(2049, 2049)}


def test_only_lustre_traffic_is_allowed_between_servers_and_nodes() -> None:
    recorded = made(**ALL)
    lustre = {(988, 988), (1018, 1023)}
    assert ports(recorded, "SecurityGroupIngressRule", "ml-storage-lustre") == lustre
    assert ports(recorded, "SecurityGroupEgressRule", "ml-storage-lustre") == lustre
    group = recorded.one("SecurityGroup", "ml-storage-lustre").urn
    at_nodes = [
        rule
        for rule in recorded.of("SecurityGroupIngressRule")
        if group in rule.property_dependencies.get("referencedSecurityGroupId", ())
        and group not in rule.property_dependencies.get("securityGroupId", ())
    ]
    assert {(rule.inputs["fromPort"], rule.inputs["toPort"]) for rule in at_nodes} == lustre


def test_storage_classes_refer_to_created_file_systems() -> None:
    recorded = made(**ALL)
    home = recorded.one("StorageClass", "home")
    assert home.inputs["parameters"]["fileSystemId"] == UNKNOWN
    assert recorded.of("FileSystem")[0].urn in home.property_dependencies["parameters"]
    checkpoints = recorded.one("StorageClass", "checkpoints").inputs["parameters"]
    assert (checkpoints["subnetId"], checkpoints["securityGroupIds"]) == (UNKNOWN, UNKNOWN)
    assert checkpoints["perUnitStorageThroughput"] == "500"


def test_only_the_service_account_of_a_driver_can_assume_its_role() -> None:
    recorded = made(**ALL)
    role = recorded.one("Role", "ml-aws-fsx-csi-driver")
    [statement] = json.loads(role.inputs["assumeRolePolicy"])["Statement"]
    assert statement["Condition"]["StringEquals"] == {
        "aws:RequestTag/kubernetes-namespace": "kube-system",
        "aws:RequestTag/kubernetes-service-account": "fsx-csi-controller-sa",
    }
    assert statement["Condition"]["StringLike"] == {"aws:RequestTag/eks-cluster-arn": CLUSTER_ARN}
    policy = recorded.one("RolePolicy", "ml-aws-fsx-csi-driver")
    allowed = [one for one in json.loads(policy.inputs["policy"])["Statement"] if one["Resource"] == "*"]
    assert [one["Action"] for one in allowed] == [["fsx:DescribeFileSystems"]]


def test_the_default_class_is_marked_and_a_changed_class_is_replaced_by_name() -> None:
    recorded = made()
    default = recorded.one("StorageClass", "gp3")
    assert default.inputs["metadata"]["annotations"] == {"storageclass.kubernetes.io/is-default-class": "true"}
    assert default.delete_before_replace
    assert "annotations" not in recorded_class(made(**ALL), "work")["metadata"]


def recorded_class(recorded: Recorded, name: str) -> dict[str, Any]:
    return dict(recorded.one("StorageClass", name).inputs)


TEAM = {"name": "vision", "quota": {"gpus": 1}, "priority": "training", "members": ["group:vision"]}
BUCKET = {"type": "bucket", "bucket": "acme-datasets", "prefix": "imagenet", "kms_key": KEY}


def with_bucket(cluster: dict[str, Any] = CREATED) -> Recorded:
    return record_eks(IN_A, cluster=cluster, storage={"datasets": BUCKET}, teams=[TEAM])


def test_a_volume_of_a_bucket_belongs_to_the_claim_of_its_team_and_is_retained() -> None:
    recorded = with_bucket()
    volume = recorded.one("PersistentVolume", "vision-datasets")
    spec = volume.inputs["spec"]
    assert (spec["claimRef"]["namespace"], spec["claimRef"]["name"]) == ("vision", "datasets")
    assert (spec["storageClassName"], spec["persistentVolumeReclaimPolicy"]) == ("", "Retain")
    assert (spec["accessModes"], spec["csi"]["readOnly"]) == (["ReadOnlyMany"], True)
    assert spec["csi"]["volumeAttributes"]["bucketName"] == "acme-datasets"
    made = recorded.one("PersistentVolumeClaim", "vision/datasets")
    assert volume.urn in made.property_dependencies["spec"]  # with this dependency, Pulumi deletes the claim first
    claim = made.inputs
    assert (claim["metadata"]["name"], claim["metadata"]["namespace"]) == ("datasets", "vision")
    assert (claim["spec"]["volumeName"], claim["spec"]["storageClassName"]) == ("vision-datasets", "")
    assert claim["spec"]["accessModes"] == spec["accessModes"]
    assert not [one for one in recorded.of("NetworkPolicy") if one.name == "vision/buckets"]


def test_the_bucket_driver_has_its_own_role_before_its_pods_start() -> None:
    recorded = with_bucket()
    association = recorded.one("PodIdentityAssociation", "ml-storage-aws-mountpoint-s3-csi-driver")
    assert association.inputs["serviceAccount"] == "s3-csi-driver-sa"
    assert association.inputs["namespace"] == "kube-system"
    addon = recorded.one("Addon", "ml-storage-aws-mountpoint-s3-csi-driver")
    assert association.urn in addon.dependencies
    assert "podIdentityAssociations" not in addon.inputs
    role = recorded.one("Role", "ml-aws-mountpoint-s3-csi-driver")
    assert role.urn in association.property_dependencies["roleArn"]
    [statement] = json.loads(role.inputs["assumeRolePolicy"])["Statement"]
    account = statement["Condition"]["StringEquals"]["aws:RequestTag/kubernetes-service-account"]
    assert account == "s3-csi-driver-sa"


def test_every_request_for_a_bucket_passes_the_models_of_the_aws_api() -> None:
    records = [r for r in with_bucket().resources if "EksFileSystems" in r.parent and r.type.startswith("aws:")]
    assert {"Addon", "PodIdentityAssociation", "Role", "RolePolicy"} <= {
        r.type.rsplit(":", 1)[-1] for r in records
    }
    for record in records:
        for request in requests_of(record):
            found = [one for one in problems(request) if "'unknown' does not match" not in one]
            assert found == [], record.urn


def test_an_existing_cluster_gets_the_volume_of_a_bucket_and_no_driver() -> None:
    recorded = with_bucket(EXISTING)
    assert recorded.has("PersistentVolume")
    assert not recorded.has("Addon")


def test_an_existing_cluster_gets_classes_and_no_drivers() -> None:
    recorded = made(EXISTING, home={"type": "nfs", "file_system": "fs-0a1b2c3d"}, work={"type": "disk"})
    assert {one.name for one in recorded.of("StorageClass")} == {"home", "work"}
    assert not recorded.has("Addon")
    assert not recorded.has("FileSystem")


def test_no_role_of_a_cluster_with_a_long_name_is_longer_than_iam_allows() -> None:
    recorded = with_bucket({**CREATED, "name": "m" * 63})
    roles = [one for one in recorded.of("Role") if one.type.startswith("aws:iam")]
    assert "s3-csi" in " ".join(one.inputs["assumeRolePolicy"] for one in roles)
    assert [one.name for one in roles if len(one.name) + 8 > 64] == []  # Pulumi appends 8 characters to each name
