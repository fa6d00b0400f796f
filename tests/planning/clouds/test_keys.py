"""One check for all fields that name a customer-managed key, and the permissions that the keys require."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.clouds.aks.plan import AksClusterPlan
from gpu_platform.planning.clouds.aks.prerequisites import aks_prerequisites
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.clouds.eks.prerequisites import eks_prerequisites
from gpu_platform.planning.clouds.gke.plan import GkeClusterPlan
from gpu_platform.planning.clouds.gke.prerequisites import gke_prerequisites
from gpu_platform.stack.loaded import plan_platform
from tests.planning.clouds.eks.test_cluster import ADMIN, KARPENTER, SERVE
from tests.planning.conftest import environment, team

KEY = "arn:aws:kms:us-east-2:123456789012:key/0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
ELSEWHERE = KEY.replace("us-east-2", "eu-west-1")
GOV = KEY.replace("arn:aws:", "arn:aws-us-gov:")
GOV_POLICY = "arn:aws-us-gov:iam::aws:policy/b"
GUID = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
GOOGLE = "projects/my-project/locations/us-central1/keyRings/r/cryptoKeys/k"
OF_KIND = {
    "bucket": {"type": "bucket", "bucket": "acme-data", "purpose": "datasets", "teams": ["vision"]},
    "lustre": {"type": "lustre", "zone": "us-east-2a"},
}
L4 = {
    "name": "l4",
    "machine_type": "g2-standard-8",
    "count": {"min": 0, "desired": 0, "max": 2},
    "workload": "inference",
}


def on_eks(field: str, key: str) -> dict[str, Any]:
    """Return a platform with a key in one of the fields that accept a key."""
    create: dict[str, Any] = {"admins": [ADMIN]}
    pool: dict[str, Any] = {**SERVE}
    storage: dict[str, Any] = {}
    teams = [team()]
    match field.split("."):
        case ["create"]:
            create["kms_key"] = key
        case ["system"]:
            create["system"] = {"kms_key": key}
        case ["pool"]:
            pool["disk"] = {"kms_key": key}
        case ["team"]:
            teams = [team(identity={"buckets": [{"name": "acme-data", "kms_key": key}]})]
        case ["storage", kind]:
            storage["data"] = {**OF_KIND.get(kind, {"type": kind}), "kms_key": key}
        case _:
            raise ValueError(field)
    cluster = {"provider": "eks", "name": "ml", "region": "us-east-2", "create": create}
    return environment(pool, cluster=cluster, storage=storage, teams=teams)


def problems(platform: dict[str, Any]) -> dict[str, str]:
    try:
        plan_platform(platform, "test")
    except BadInput as error:
        return {problem.path: str(problem) for problem in error.problems}
    return {}


EKS_FIELDS = [
    "create",
    "system",
    "pool",
    "team",
    "storage.disk",
    "storage.nfs",
    "storage.lustre",
    "storage.bucket",
]


@pytest.mark.parametrize("field", EKS_FIELDS)
def test_a_key_of_another_region_is_refused_in_every_field(field: str) -> None:
    [(place, text)] = problems(on_eks(field, ELSEWHERE)).items()
    assert place.endswith("kms_key")
    assert "a key in eu-west-1" in text
    assert problems(on_eks(field, KEY)) == {}


@pytest.mark.parametrize("field", EKS_FIELDS)
def test_a_key_of_another_partition_is_refused_in_every_field(field: str) -> None:
    [(place, text)] = problems(on_eks(field, GOV)).items()
    assert place.endswith("kms_key")
    assert "begins with arn:aws:" in text


@pytest.mark.parametrize("field", ["pool", "storage.disk", "storage.nfs"])
def test_a_key_of_google_is_refused_on_eks(field: str) -> None:
    [(place, text)] = problems(on_eks(field, GOOGLE)).items()
    assert place.endswith("kms_key")
    assert "the ARN of an AWS KMS key" in text


@pytest.mark.parametrize("field", ["create", "system", "pool", "disk", "nfs"])
def test_a_key_of_another_region_is_refused_on_gke(field: str) -> None:
    def platform(key: str) -> dict[str, Any]:
        create = {"create": {"kms_key": key}, "system": {"system": {"kms_key": key}}}.get(field, {})
        storage = {"data": {"type": field, "kms_key": key}} if field in ("disk", "nfs") else {}
        pool = {**L4, "disk": {"kms_key": key}} if field == "pool" else L4
        cluster = {"provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1"}
        return environment(pool, cluster={**cluster, "create": create}, storage=storage)

    assert problems(platform(GOOGLE)) == {}
    [(place, text)] = problems(platform(GOOGLE.replace("us-central1", "europe-west1"))).items()
    assert place.endswith("kms_key")
    assert "a key in us-central1" in text
    assert ("in location global or in a multi-region" in text) is (field not in ("create", "nfs"))
    anywhere = problems(platform(GOOGLE.replace("us-central1", "global")))
    assert bool(anywhere) is (field in ("create", "nfs")), "disks accept global keys"


@pytest.mark.parametrize(
    ("region", "multi_region", "accepted"),
    [
        ("europe-west1", "europe", True),
        ("europe-west4", "eur4", True),
        ("us-central1", "nam4", True),
        ("us-central1", "us", True),
        ("asia-southeast1", "nam-eur-asia1", True),
        ("europe-west1", "us", False),
        ("europe-west1", "asia", False),
        ("us-central1", "eur5", False),
        ("us-central1", "us-east1", False),
    ],
)
def test_disks_take_keys_of_a_multi_region_around_their_region(
    region: str, multi_region: str, accepted: bool
) -> None:
    pool = {**L4, "disk": {"kms_key": GOOGLE.replace("us-central1", multi_region)}}
    cluster = {"provider": "gke", "name": "ml", "project": "my-project", "location": region}
    stack = environment({**pool, "zones": [f"{region}-b"]}, cluster={**cluster, "create": {}})
    assert list(problems(stack)) == ([] if accepted else ["pools[0].disk.kms_key"])


@pytest.mark.parametrize(
    ("place", "cluster"),
    [
        (
            "cluster.iam.permissions_boundary",
            {"iam": {"permissions_boundary": "arn:aws-us-gov:iam::aws:policy/b"}},
        ),
        ("cluster.iam.node_role", {"iam": {"node_role": "arn:aws:iam::999999999999:role/nodes"}}),
        ("cluster.assume_role", {"assume_role": "arn:aws:iam::999999999999:role/deployer"}),
    ],
)
def test_arns_of_another_partition_or_account_are_refused(place: str, cluster: dict[str, Any]) -> None:
    base = {"provider": "eks", "name": "ml", "region": "us-east-2", "account": "123456789012"}
    assert list(problems(environment(SERVE, cluster={**base, **cluster}))) == [place]


def cloud(plan: Any) -> Any:
    assert isinstance(plan, EnvironmentPlan)
    return plan.cluster.cloud


def test_rights_on_keys_are_prerequisites_on_eks() -> None:
    plan = cloud(plan_platform(on_eks("pool", KEY), "test"))
    assert isinstance(plan, EksClusterPlan)
    needed = eks_prerequisites(plan, ["aws:eks/cluster:Cluster"]).permissions
    assert f"kms:CreateGrant on {KEY} for the role AWSServiceRoleForAutoScaling" in needed
    karpenter = {**KARPENTER, "disk": {"kms_key": KEY}}
    plan = cloud(plan_platform({**on_eks("pool", KEY), "pools": [karpenter]}, "test"))
    needed = eks_prerequisites(plan, ["aws:eks/cluster:Cluster"]).permissions
    assert f"kms:CreateGrant on {KEY} for the role of Karpenter's controller" in needed
    plan = cloud(plan_platform(on_eks("storage.disk", KEY), "test"))
    assert f"kms:CreateGrant on {KEY}" in eks_prerequisites(plan, ["aws:eks/cluster:Cluster"]).permissions


def test_rights_on_the_key_of_an_alias_name_no_alias_as_a_resource() -> None:
    alias = "arn:aws:kms:us-east-2:123456789012:alias/disks"
    plan = cloud(plan_platform(on_eks("pool", alias), "test"))
    needed = eks_prerequisites(plan, ["aws:eks/cluster:Cluster"]).permissions
    assert f"kms:CreateGrant on the key of {alias} (in IAM policies " in needed
    assert "arn:aws:kms:us-east-2:123456789012:key/* with the condition kms:ResourceAliases alias/disks)" in needed


def test_rights_on_keys_and_their_api_are_prerequisites_on_gke() -> None:
    create = {"kms_key": GOOGLE, "system": {"kms_key": GOOGLE}}
    cluster = {
        "provider": "gke",
        "name": "ml",
        "project": "my-project",
        "location": "us-central1",
        "create": create,
    }
    storage = {"home": {"type": "nfs", "kms_key": GOOGLE}}
    plan = cloud(plan_platform(environment(L4, cluster={**cluster, "create": create}, storage=storage), "test"))
    assert isinstance(plan, GkeClusterPlan)
    assert plan.create is not None
    assert (plan.create.kms_key, plan.create.system_kms_key) == (GOOGLE, GOOGLE)
    needed = gke_prerequisites(plan, ["gcp:container/cluster:Cluster"])
    assert needed.apis is not None
    assert "cloudkms.googleapis.com" in needed.apis
    for agent in ("container-engine-robot", "compute-system", "cloud-filer"):
        assert f"service-PROJECT_NUMBER@{agent}.iam.gserviceaccount.com" in needed.permissions


DISKS = f"/subscriptions/{GUID}/resourceGroups/keys/providers/Microsoft.Compute/diskEncryptionSets/disks"


def on_aks(field: str, key: str, **create: Any) -> dict[str, Any]:
    """Return a platform on AKS with a disk encryption set in one of the fields that accept it."""
    cluster = {"provider": "aks", "name": "ml", "subscription": GUID, "resource_group": "ml", "region": "eastus2"}
    create = {"admins": [GUID], "api_access": ["203.0.113.0/24"], **create}
    create |= {"disk_encryption_set": key} if field == "create" else {}
    pool = {**L4, "machine_type": "Standard_NC4as_T4_v3"}
    storage = {"data": {"type": "disk", "kms_key": key}} if field == "disk" else {}
    return environment(pool, cluster={**cluster, "kubernetes": "1.35", "create": create}, storage=storage)


@pytest.mark.parametrize("field", ["create", "disk"])
def test_a_disk_encryption_set_of_another_subscription_is_refused(field: str) -> None:
    assert problems(on_aks(field, DISKS)) == {}
    [text] = problems(on_aks(field, DISKS.replace(GUID, "0" * 8 + GUID[8:]))).values()
    assert "in the cluster's subscription" in text


@pytest.mark.parametrize("key", [KEY, GOOGLE])
def test_a_key_of_another_cloud_is_refused_on_aks(key: str) -> None:
    [(place, text)] = problems(on_aks("disk", key)).items()
    assert place == "storage.data.kms_key"
    assert "az disk-encryption-set list" in text


@pytest.mark.parametrize("platform", [on_eks("pool", DISKS), on_eks("storage.disk", DISKS)])
def test_a_disk_encryption_set_is_refused_on_eks(platform: dict[str, Any]) -> None:
    [text] = problems(platform).values()
    assert "the ARN of an AWS KMS key" in text


def test_rights_on_keys_are_prerequisites_on_aks() -> None:
    vault = f"/subscriptions/{GUID}/resourceGroups/keys/providers/Microsoft.KeyVault/vaults/acme/keys/secrets"
    plan = cloud(plan_platform(on_aks("create", DISKS, kms_key=f"{vault}/versions/{'0' * 32}"), "test"))
    assert isinstance(plan, AksClusterPlan)
    needed = aks_prerequisites(plan, ["azure:containerservice/kubernetesCluster:KubernetesCluster"]).permissions
    assert f"Key Vault Crypto Service Encryption User on its key for the identity of {DISKS}" in needed
    assert f"Role Based Access Control Administrator on {DISKS}" in needed
    assert f"Role Based Access Control Administrator on {vault}" in needed
