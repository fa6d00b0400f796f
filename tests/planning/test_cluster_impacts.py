"""Impact of changed settings, such as gateways, replicas and access, and the resources that `destroy` keeps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from gpu_platform.catalog import load_catalog
from gpu_platform.planning.changes import (
    classify,
    cluster_facts,
    pool_changes,
    pool_facts,
    resizes_system_nodes,
    retained_resources,
    software_facts,
)
from gpu_platform.planning.changes.effects import Effect
from gpu_platform.planning.changes.impact import Impact, ObjectChange
from gpu_platform.planning.changes.live_types import LiveState
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from tests.planning.conftest import environment, pool
from tests.support.eks_stacks import ADMIN, CREATED, EXISTING, plan_eks

OTHER = "arn:aws:iam::123456789012:user/other"
ANYWHERE = {"machine_type": "g6.12xlarge", "workload": "inference"}
KARPENTER = {
    "name": "develop",
    "machine_type": "g6.4xlarge",
    "workload": "development",
    "provisioner": "karpenter",
    "count": {"desired": 0, "max": 2},
}


def plan_of(create: dict[str, Any] | None = None, **cluster: Any) -> EnvironmentPlan:
    settings = {**CREATED, "create": {**CREATED["create"], **(create or {})}, **cluster}
    return plan_eks({"zones": ["us-east-2b"]}, KARPENTER, cluster=settings)


def outputs_of(plan: EnvironmentPlan) -> dict[str, Any]:
    """Return the stack output `cluster` as it is read from the state of a deployment."""
    return json.loads(json.dumps({"cluster": cluster_facts(plan)}), parse_int=float)


def impacts(before: EnvironmentPlan, after: EnvironmentPlan) -> list[Impact]:
    found = classify(outputs_of(before), after, load_catalog(), live=None)
    return [impact for impact in found if impact.subject == "cluster"]


def rows(before: EnvironmentPlan, after: EnvironmentPlan) -> dict[str, tuple[str, Effect]]:
    return {impact.old: (impact.new, impact.effect) for impact in impacts(before, after)}


def test_production_false_announces_lost_gateways_replicas_and_retention() -> None:
    found = rows(plan_of(), plan_of(production=False))
    assert found.pop("NAT gateways: us-east-2a, us-east-2b") == (
        "NAT gateways: us-east-2a",
        Effect.REMOVES_CAPACITY,
    )
    assert found.pop("Karpenter replicas: 2") == ("Karpenter replicas: 1", Effect.REMOVES_CAPACITY)
    ((kept, (_, effect)),) = found.items()
    assert kept.startswith("kept by `destroy`: log group /aws/eks/ml/cluster, KMS key")
    assert effect is Effect.IN_PLACE


def test_a_lost_gateway_is_announced_with_the_zone_whose_address_goes() -> None:
    (gateways,) = [one for one in impacts(plan_of(), plan_of(production=False)) if "NAT" in one.old]
    assert gateways.because.startswith("the NAT gateway of us-east-2b and its public address are deleted")
    assert gateways.field == "cluster.production or create.nat"


def test_up_refuses_to_lose_the_zone_of_a_pool_that_moves() -> None:
    before, after = (plan_eks({"zones": [zone]}, cluster=CREATED) for zone in ("us-east-2c", "us-east-2a"))
    (found,) = [one for one in impacts(before, after) if one.refusal is not None]
    assert found.refusal is not None
    assert found.field == "cluster.create.zones"
    assert "the subnet of us-east-2c must stay" in found.refusal.allowed


@pytest.mark.parametrize(("declared", "moved_to"), [([], "b"), ([], "d"), (["us-east-2b"], "b")])
def test_the_fix_for_a_lost_zone_loses_no_other_one(declared: list[str], moved_to: str) -> None:
    def plan(letter: str, zones: list[str]) -> EnvironmentPlan:
        create = {**CREATED["create"], **({"zones": zones} if zones else {})}
        return plan_eks({"zones": [f"us-east-2{letter}"]}, cluster={**CREATED, "create": create})

    before = plan("c", declared)
    (found,) = [one for one in impacts(before, plan(moved_to, declared)) if one.refusal is not None]
    assert found.refusal is not None
    named = found.refusal.fix.removeprefix("name ").removesuffix(" in cluster.create.zones").split(", ")
    assert not any(one.refusal for one in impacts(before, plan(moved_to, named)))


def test_zones_that_a_vpc_gets_and_those_of_another_vpc_are_not_refused() -> None:
    moved = {**CREATED, "create": {**CREATED["create"], "cidr": "10.8.0.0/16"}}
    before = plan_eks({"zones": ["us-east-2a"]}, {"name": "b", "zones": ["us-east-2b"]}, cluster=CREATED)
    for other in (
        plan_eks(*({"name": f"pool-{one}", "zones": [f"us-east-2{one}"]} for one in "abc"), cluster=CREATED),
        plan_eks({"zones": ["eu-west-1a"]}, cluster={**CREATED, "region": "eu-west-1"}),
        plan_eks({"zones": ["us-east-2c"]}, cluster={**CREATED, "name": "ml2"}),
        plan_eks({"zones": ["us-east-2c"]}, cluster=moved),
    ):
        assert not any(one.refusal for one in impacts(before, other))


@pytest.mark.parametrize("create", [True, False], ids=["own VPC", "existing cluster"])
@pytest.mark.parametrize(
    "edit", [{"us-east-2c": "subnet-2a1b2c3d4e5f60718"}, {"us-east-2a": "subnet-9a1b2c3d4e5f60718"}]
)
def test_pools_without_zones_stay_in_their_subnets_which_preview_says(create: bool, edit: dict[str, str]) -> None:
    def plan(subnets: dict[str, str]) -> EnvironmentPlan:
        network = {"vpc": "vpc-0a1b2c3d4e5f60718", "subnets": subnets}
        own = {**CREATED, "create": {**CREATED["create"], "network": network}}
        return plan_eks(ANYWHERE, cluster=own if create else {**EXISTING, "subnets": subnets})

    (found,) = impacts(plan(EXISTING["subnets"]), plan({**EXISTING["subnets"], **edit}))
    assert found.effect is Effect.IN_PLACE
    assert found.refusal is None
    assert found.because.startswith(
        "existing managed pools without zones" + (" and the system nodes" if create else "")
    )


def test_a_new_subnet_interrupts_access_to_created_file_systems() -> None:
    def plan(subnets: dict[str, str], **storage: Any) -> EnvironmentPlan:
        network = {"vpc": "vpc-0a1b2c3d4e5f60718", "subnets": subnets}
        own = {**CREATED, "create": {**CREATED["create"], "network": network}}
        return plan_eks(ANYWHERE, cluster=own, storage=storage)

    nfs, other = {"type": "nfs"}, {**EXISTING["subnets"], "us-east-2a": "subnet-9a1b2c3d4e5f60718"}
    found = impacts(plan(EXISTING["subnets"], home=nfs), plan(other, home=nfs))
    (row,) = [one for one in found if one.effect is Effect.CUTS_ACCESS]
    assert "the mount target in subnet-0a1b2c3d4e5f60718 is deleted, then" in row.because
    assert "access to files of home hangs" in row.because
    assert row.old == "mount target of file systems in us-east-2a: subnet-0a1b2c3d4e5f60718"
    without = impacts(plan(EXISTING["subnets"]), plan(other))
    assert all(one.effect is Effect.IN_PLACE for one in without)


def test_preview_reports_that_a_removed_zone_loses_its_mount_target() -> None:
    def plan(zones: str) -> EnvironmentPlan:
        subnets = {f"us-east-2{zone}": f"subnet-{index}a1b2c3d4e5f60718" for index, zone in enumerate(zones)}
        network = {"vpc": "vpc-0a1b2c3d4e5f60718", "subnets": subnets}
        own = {**CREATED, "create": {**CREATED["create"], "network": network}}
        return plan_eks(ANYWHERE, cluster=own, storage={"home": {"type": "nfs"}})

    (row,) = [one for one in impacts(plan("abc"), plan("ab")) if one.effect is Effect.CUTS_ACCESS]
    assert row.because.startswith("the mount target in us-east-2c is deleted without a replacement")
    assert row.refusal is None, "the nodes in that zone may be gone already"
    assert not [one for one in impacts(plan("ab"), plan("abc")) if one.effect is Effect.CUTS_ACCESS]


@pytest.mark.parametrize("name", ["ml", "ml2"])
def test_a_cluster_of_another_name_has_new_nodes_and_mount_targets(name: str) -> None:
    def plan(name: str, subnet: str) -> EnvironmentPlan:
        subnets = {**EXISTING["subnets"], "us-east-2a": subnet}
        network = {"vpc": "vpc-0a1b2c3d4e5f60718", "subnets": subnets}
        own = {**CREATED, "name": name, "create": {**CREATED["create"], "network": network}}
        return plan_eks(ANYWHERE, cluster=own, storage={"home": {"type": "nfs"}})

    found = impacts(plan("ml", "subnet-0a1b2c3d4e5f60718"), plan(name, "subnet-9a1b2c3d4e5f60718"))
    of_subnets = [one for one in found if one.field == "cluster.create.network.subnets"]
    assert len(of_subnets) == (2 if name == "ml" else 0)


def test_preview_reports_that_an_added_zone_moves_no_pool() -> None:
    zones = ["us-east-2a", "us-east-2b", "us-east-2c"]
    more = {**CREATED, "create": {**CREATED["create"], "zones": zones, "nat": "one"}}
    fewer = {**CREATED, "create": {**CREATED["create"], "zones": zones[:2], "nat": "one"}}
    (found,) = impacts(plan_eks(ANYWHERE, cluster=fewer), plan_eks(ANYWHERE, cluster=more))
    assert "stay in the subnets where they were created" in found.because


def test_protect_false_announces_nothing() -> None:
    assert impacts(plan_of(), plan_of(protect=False)) == []


def test_what_is_gained_is_in_place() -> None:
    found = impacts(plan_of(production=False), plan_of(production=True))
    assert {one.effect for one in found} == {Effect.IN_PLACE}
    assert len(found) == 3


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        (
            {"api_access": ["203.0.113.0/24"]},
            {"api_access": ["198.51.100.0/24"]},
            "203.0.113.0/24 no longer reaches",
        ),
        ({"admins": [ADMIN, OTHER]}, {"admins": [ADMIN]}, f"{OTHER} is no longer cluster-admin"),
    ],
)
def test_who_loses_access_to_the_cluster_is_announced(
    before: dict[str, Any], after: dict[str, Any], lost: str
) -> None:
    (found,) = impacts(plan_of(before), plan_of(after))
    assert found.effect is Effect.CUTS_ACCESS
    assert found.because.startswith(lost)


@pytest.mark.parametrize(
    ("edit", "lost"),
    [
        ({"dns_access": False}, "the DNS endpoint is closed"),
        (
            {"authenticator_groups": None},
            "the cluster no longer recognises the groups in gke-sec",
        ),
        ({"api_access": ["198.51.100.0/24"]}, "203.0.113.0/24 no longer reaches"),
    ],
)
def test_every_way_into_a_gke_cluster_that_closes_is_announced(edit: dict[str, Any], lost: str) -> None:
    (found,) = impacts(plan_on_gke(), plan_on_gke(**edit))
    assert found.effect is Effect.CUTS_ACCESS
    assert found.because.startswith(lost)


def test_another_release_channel_of_gke_is_announced() -> None:
    (found,) = impacts(plan_on_gke(), plan_on_gke(release_channel="rapid"))
    assert (found.effect, found.old) == (Effect.IN_PLACE, "release channel: regular")


def test_multi_networking_of_a_running_gke_cluster_is_announced() -> None:
    def with_pool(machine: str) -> EnvironmentPlan:
        pools = [{**pool("l4", "g2-standard-48", workload="inference"), "zones": ["us-central1-a"]}]
        spot = {"zones": ["us-central1-a"], "capacity": {"type": "spot"}, "workload": "inference"}
        pools += [{**pool("more", machine), **spot}]
        return plan_on_gke(pools)

    (found,) = impacts(with_pool("g2-standard-48"), with_pool("a3-megagpu-8g"))
    assert (found.effect, found.new) == (Effect.IN_PLACE, "multi-networking: on")
    assert "running cluster" in found.because


def plan_on_gke(pools: Sequence[dict[str, Any]] = (), **create: Any) -> EnvironmentPlan:
    ways = {"api_access": ["203.0.113.0/24"], "authenticator_groups": "gke-security-groups@example.com"}
    created = {key: value for key, value in {**ways, **create}.items() if value is not None}
    cluster: dict[str, Any] = {"provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1"}
    cluster |= {
        key: created.pop(key) for key in ("node_service_account", "fqdn_policies", "kubernetes") if key in created
    }
    l4 = pool(machine_type="g2-standard-48", workload="inference", zones=["us-central1-a"])
    plan = plan_platform(environment(*(pools or (l4,)), cluster={**cluster, "create": created}), "test")
    assert isinstance(plan, EnvironmentPlan)
    return plan


@pytest.mark.parametrize(
    ("before", "after", "effect", "why"),
    [
        ({"desired": 4}, {"desired": 3}, Effect.REMOVES_CAPACITY, "1 of the nodes for add-ons"),
        ({}, {"desired": 3}, Effect.IN_PLACE, ""),
        ({}, {"max": 6}, Effect.IN_PLACE, "EKS sets the number of system nodes to desired"),
        ({}, {"machine_types": ["m7i.2xlarge"]}, Effect.ROLLS_NODES, "a node group keeps its instance types"),
        (
            {"machine_types": ["m7i.large"]},
            {"machine_types": ["m7i.large", "m6i.large"]},
            Effect.ROLLS_NODES,
            "a node group keeps its instance types",
        ),
        ({}, {"disk_gb": 100}, Effect.ROLLS_NODES, "EKS replaces the system nodes one by one"),
        ({}, {"release": "1.34.8-20260818"}, Effect.ROLLS_NODES, "EKS replaces the system nodes one by one"),
        (
            {"release": "1.34.8-20260720"},
            {"release": "1.34.8-20260818"},
            Effect.ROLLS_NODES,
            "EKS replaces the system nodes one by one",
        ),
        ({"release": "1.34.8-20260818"}, {}, Effect.IN_PLACE, "no node is replaced now"),
    ],
)
def test_what_a_change_of_the_system_nodes_does_is_announced(
    before: dict[str, Any], after: dict[str, Any], effect: Effect, why: str
) -> None:
    (found,) = impacts(plan_of({"system": before}), plan_of({"system": after}))
    assert found.effect is effect
    assert found.because.startswith(why)
    assert found.changes_nodes is (effect is Effect.ROLLS_NODES), "what the maintenance window limits"


def test_only_an_edit_of_their_numbers_resizes_the_system_nodes() -> None:
    before = outputs_of(plan_of())["cluster"]
    assert not resizes_system_nodes(before, plan_of())
    assert not resizes_system_nodes(before, plan_of({"system": {"disk_gb": 100}}, production=False))
    assert not resizes_system_nodes({}, plan_of({"system": {"desired": 3}})), "of an older release"
    for edit in ({"desired": 3}, {"max": 5}, {"min": 3, "desired": 3}):
        assert resizes_system_nodes(before, plan_of({"system": edit}))


def test_a_controller_that_is_handed_over_is_announced_as_uninstalled() -> None:
    before = plan_eks({"zones": ["us-east-2b"]}, KARPENTER, cluster=EXISTING)
    after = plan_eks({"zones": ["us-east-2b"]}, KARPENTER, cluster={**EXISTING, "parts": {"karpenter": "present"}})
    (found,) = impacts(before, after)
    assert found.effect is Effect.REMOVES_CAPACITY
    assert found.because.startswith("Karpenter is uninstalled; if Karpenter is uninstalled, its CRDs are deleted")


def test_a_login_that_goes_is_announced_with_its_groups() -> None:
    login = {"principal": OTHER, "groups": ["vision", "speech"]}
    (found,) = impacts(plan_of(logins=[login]), plan_of(logins=[{**login, "groups": ["vision"]}]))
    assert found.effect is Effect.CUTS_ACCESS
    assert found.because == f"these logins no longer work with the listed groups: {OTHER} as vision, speech"


def test_users_with_a_changed_login_name_lose_their_permissions() -> None:
    login = {"principal": OTHER, "groups": ["vision"], "username": "ada"}
    oidc = {"issuer": "https://id.acme.com", "client_id": "k8s", "username_claim": "email"}
    [renamed] = impacts(plan_of(logins=[login]), plan_of(logins=[{**login, "username": "grace"}]))
    [claim] = impacts(plan_of(oidc=oidc), plan_of(oidc={**oidc, "username_claim": "sub"}))
    assert (renamed.effect, claim.effect) == (Effect.CUTS_ACCESS, Effect.CUTS_ACCESS)
    assert "ada, vision" in renamed.because
    assert "users by claim email" in claim.because


def with_storage(**storage: Any) -> EnvironmentPlan:
    return plan_eks({"zones": ["us-east-2b"]}, KARPENTER, cluster=CREATED, storage=storage)


def test_a_class_that_is_removed_takes_the_right_to_use_its_key() -> None:
    key = "arn:aws:kms:us-east-2:123456789012:key/11111111-2222-3333-4444-555555555555"
    work = {"type": "disk", "kms_key": key}
    (found,) = impacts(with_storage(work=work), with_storage())
    assert (found.effect, found.field) == (Effect.CUTS_ACCESS, "storage")
    assert f"{key}, so that disks encrypted with it can no longer be attached" in found.because
    assert impacts(with_storage(work=work, more=work), with_storage(more=work)) == []


def test_only_a_removed_class_of_file_systems_cuts_access() -> None:
    work, home, fast = {"type": "disk"}, {"type": "nfs"}, {"type": "lustre"}
    before = with_storage(work=work, home=home, fast=fast)
    (found,) = impacts(before, with_storage(work=work, fast=fast))
    assert (found.effect, found.field) == (Effect.CUTS_ACCESS, "storage")
    assert found.because.startswith("files in volumes of home, home (new file system")
    assert impacts(before, with_storage(home=home, fast=fast)) == []
    (gained,) = impacts(with_storage(home=home), with_storage(home=home, fast=fast))
    assert gained.effect is Effect.IN_PLACE


def test_a_new_key_or_file_system_cuts_off_existing_volumes() -> None:
    key = "arn:aws:kms:us-east-2:123456789012:key/0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
    home, owned = {"type": "nfs"}, {"type": "nfs", "file_system": "fs-0a1b2c3d"}
    for other in ({**home, "kms_key": key}, owned):
        (found,) = impacts(with_storage(home=home), with_storage(home=other))
        assert found.effect is Effect.CUTS_ACCESS
        assert found.because.startswith("files in volumes of home (new file system, default key) can no longer")
    (back,) = impacts(with_storage(home=owned), with_storage(home=home))
    assert back.effect is Effect.IN_PLACE, "the owner's file system remains reachable"


def test_a_new_key_for_secrets_is_refused_with_the_current_key() -> None:
    key = "arn:aws:kms:us-east-2:123456789012:key/0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
    (found,) = impacts(plan_of({"kms_key": key}), plan_of({"kms_key": key[:-1] + "8"}))
    assert found.refusal is not None
    assert (found.refusal.path, found.refusal.fix) == ("cluster.create.kms_key", f"write kms_key: {key}")
    refused = [one.refusal for one in impacts(plan_of(), plan_of({"kms_key": key})) if one.refusal is not None]
    assert [one.fix for one in refused] == ["remove kms_key"]


def test_another_role_of_the_nodes_is_announced_for_the_system_nodes_too() -> None:
    role = {"node_role": "arn:aws:iam::123456789012:role/gpu"}
    (found,) = impacts(plan_of(), plan_of(iam=role))
    assert (found.effect, found.changes_nodes) == (Effect.ROLLS_NODES, True)
    (on_gke,) = impacts(plan_on_gke(), plan_on_gke(node_service_account="a@b.iam.gserviceaccount.com"))
    assert on_gke.effect is Effect.ROLLS_NODES


def test_policies_with_host_names_stay_in_a_gke_cluster_that_no_longer_needs_them() -> None:
    (found,) = impacts(plan_on_gke(fqdn_policies=True), plan_on_gke())
    assert found.effect is Effect.IN_PLACE
    assert found.because.startswith("the cluster keeps these policies")


def test_a_bucket_that_a_team_loses_cuts_access_and_deletes_nothing() -> None:
    bucket = {"type": "bucket", "bucket": "acme-datasets"}
    teams = [
        {"name": name, "quota": {"gpus": 1}, "priority": "training", "members": [f"group:{name}"]}
        for name in ("vision", "speech")
    ]

    def with_bucket(**storage: Any) -> EnvironmentPlan:
        return plan_eks({"zones": ["us-east-2b"]}, cluster=CREATED, storage=storage, teams=teams)

    before = with_bucket(datasets=bucket)
    (found,) = impacts(before, with_bucket(datasets={**bucket, "teams": ["vision"]}))
    assert found.effect is Effect.CUTS_ACCESS
    assert found.because == (
        "pods can no longer mount speech/datasets: s3://acme-datasets/, read-only; nothing in it is deleted"
    )
    (gone,) = impacts(before, with_bucket())
    assert "vision/datasets" in gone.because
    deleted = [
        ObjectChange(action="delete", kind="PersistentVolume", namespace="", name="speech-datasets"),
        ObjectChange(action="delete", kind="PersistentVolumeClaim", namespace="speech", name="datasets"),
        ObjectChange(action="delete", kind="PersistentVolumeClaim", namespace="speech", name="theirs"),
    ]
    rows = classify(outputs_of(before), with_bucket(), load_catalog(), live=None, objects=deleted)
    assert [one.subject for one in rows if one.effect is Effect.DELETES_DATA] == [
        "PersistentVolumeClaim speech/theirs"
    ]


def test_another_company_tag_rolls_the_nodes_of_managed_and_karpenter_pools() -> None:
    before, after = plan_of(tags={"cost-center": "ml"}), plan_of(tags={"cost-center": "ml-2"})
    outputs = json.loads(json.dumps({**outputs_of(before), "pools": pool_facts(before)}))
    rolled = pool_changes(outputs["pools"], after, load_catalog())
    found = {one.subject: one for one in classify(outputs, after, load_catalog(), live=None, pools=rolled)}
    assert {"pool train", "pool develop"} <= set(found)
    for subject in ("pool train", "pool develop"):
        assert found[subject].effect is Effect.ROLLS_NODES, subject
        assert found[subject].changes_nodes
        assert "cost-center=ml-2" in found[subject].new


def test_older_releases_and_other_kinds_of_cluster_are_not_compared() -> None:
    assert classify({"pools": {}}, plan_of(production=False), load_catalog(), live=None) == ()
    existing = plan_eks({"zones": ["us-east-2b"]}, KARPENTER, cluster=EXISTING)
    assert impacts(existing, plan_of()) == []


def test_what_destroy_keeps_is_what_the_last_deployment_set() -> None:
    # pyrefly: ignore[missing-attribute]
    assert retained_resources(outputs_of(plan_of()), plan_of(production=False)) == plan_of().cluster.cloud.retained
    trial = plan_of(production=False)
    assert trial.cluster.cloud is not None
    assert retained_resources(outputs_of(trial), plan_of()) == trial.cluster.cloud.retained
    # pyrefly: ignore[missing-attribute]
    assert retained_resources({}, plan_of()) == plan_of().cluster.cloud.retained


# -- the Kubernetes version -------------------------------------------------------------------------------


def version_change(before: str, after: str, running: str | None = None, **cluster: Any) -> Impact:
    outputs = json.loads(json.dumps({"software": software_facts(plan_of(kubernetes=before))}))
    live = LiveState(kubernetes=running) if running is not None else None
    after_plan = plan_of(kubernetes=after, **cluster)
    found = classify(outputs, after_plan, load_catalog(), live=live)
    return next(one for one in found if one.field == "kubernetes")


@pytest.mark.parametrize(
    ("before", "after", "running", "why"),
    [
        ("1.34", "1.35", None, ""),
        ("1.35", "1.34", None, "1.35 or newer"),
        ("1.35", "1.34", "v1.35.2-eks-4f4795d", "1.35 or newer"),
        ("1.35", "1.34", "v1.34.6-eks-4f4795d", ""),
        ("1.34", "1.36", None, "one minor version at a time"),
        ("1.34", "1.36", "v1.35.2-eks-4f4795d", ""),
    ],
)
def test_a_control_plane_is_changed_only_to_the_next_version_of_the_one_that_runs(
    before: str, after: str, running: str | None, why: str
) -> None:
    found = version_change(before, after, running)
    assert (found.refusal is not None) is bool(why)
    assert why in str(found.refusal)
    assert ("so `up` refuses" in found.because) is bool(why)


def test_a_downgrade_is_refused_with_the_way_that_eks_has() -> None:
    refusal = version_change("1.35", "1.34").refusal
    assert refusal is not None
    assert refusal.path == "cluster.kubernetes"
    assert 'write kubernetes: "1.35"' in refusal.fix
    assert "rollback-cluster.html" in refusal.fix


def test_a_removed_identity_of_a_team_stack_cuts_access() -> None:
    def plan(**identities: Any) -> EnvironmentPlan:
        return plan_eks({"zones": ["us-east-2b"]}, cluster=EXISTING, team_identities=identities)

    speech = {"buckets": [{"name": "acme-speech", "access": "write"}]}
    [impact] = impacts(plan(speech=speech), plan())
    assert (impact.effect, impact.field) == (Effect.CUTS_ACCESS, "team_identities")
    assert "speech: write s3://acme-speech/" in impact.because
    assert impacts(plan(), plan(speech=speech))[0].effect is not Effect.CUTS_ACCESS


def test_new_subnets_of_pods_are_used_by_each_node_once_it_is_replaced() -> None:
    def plan(**create: Any) -> EnvironmentPlan:
        settings = {**CREATED, "create": {**CREATED["create"], **create}}
        return plan_eks({"network": {"layout": "efa-primary"}, "zones": ["us-east-2b"]}, cluster=settings)

    [impact] = impacts(plan(), plan(pods_cidr="100.64.0.0/16"))
    assert impact.effect is Effect.IN_PLACE
    assert "100.64.0.0/19 in us-east-2a" in impact.new
    assert "running nodes keep the addresses of their pods" in impact.because
    [back] = impacts(plan(pods_cidr="100.64.0.0/16"), plan())
    assert "AWS does not delete a subnet while pods have addresses in it" in back.because


@pytest.mark.parametrize("edit", [{"kubernetes": "1.35"}, {"tags": {"owner": "ml"}}])
def test_what_rolls_the_system_nodes_of_eks_with_the_pools_is_announced(edit: dict[str, Any]) -> None:
    (found,) = [one for one in impacts(plan_of(), plan_of(**edit)) if "system nodes" in one.old]
    assert found.effect is Effect.ROLLS_NODES
    assert found.changes_nodes
    assert "EKS replaces the system nodes one by one" in found.because


def test_tags_that_go_roll_the_system_nodes_too() -> None:
    (found,) = impacts(plan_of(tags={"owner": "ml"}), plan_of())
    assert (found.effect, found.old) == (Effect.ROLLS_NODES, "tags of the system nodes: owner=ml")


@pytest.mark.parametrize("release", ["1.35.2-20260818", None])
def test_a_pinned_image_of_the_system_nodes_has_one_row_at_an_upgrade(release: str | None) -> None:
    def pinned(minor: str, release: str | None) -> EnvironmentPlan:
        return plan_of({"system": {"release": release}} if release else {}, kubernetes=minor)

    found = impacts(pinned("1.34", "1.34.9-20260818"), pinned("1.35", release))
    (rolled,) = [one for one in found if one.field.startswith(("cluster.create.system", "cluster.kubernetes"))]
    assert rolled.effect is Effect.ROLLS_NODES
    assert rolled.old == "Kubernetes version of the system nodes: 1.34"


def test_an_upgrade_of_gke_says_that_the_system_nodes_follow_later() -> None:
    (found,) = impacts(plan_on_gke(kubernetes="1.35"), plan_on_gke(kubernetes="1.36"))
    assert found.effect is Effect.IN_PLACE
    assert "GKE replaces the system nodes later" in found.because
