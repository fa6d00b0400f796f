"""How AKS gives teams a managed identity, and which settings are refused."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.planning.clouds.aks.identities import AksIdentities, ContainerRole, TeamManagedIdentity
from gpu_platform.planning.clouds.aks.names import team_identity_name
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from tests.components.aks.aks_recorded import ACCOUNT, CREATED, EXISTING, ID, IDENTITY, TEAM, platform_of

READS = {"name": "datasets", "storage_account": ACCOUNT, "prefix": "imagenet"}
WRITES = {"name": "checkpoints", "storage_account": ACCOUNT, "access": "write"}


def planned(
    *buckets: dict[str, Any], cluster: dict[str, Any] = CREATED, **identity: Any
) -> tuple[EnvironmentPlan, TeamManagedIdentity]:
    """Return the plan of a stack with one team, and the team's managed identity."""
    team = {**TEAM, "identity": {**identity, **({"buckets": list(buckets)} if buckets else {})}}
    plan = plan_platform(platform_of(cluster=cluster, teams=[team]), "test")
    assert plan.kind == "environment"
    assert isinstance(plan.identities, AksIdentities)
    (found,) = plan.identities.identities
    return plan, found


def refused(**identity: Any) -> dict[str, str]:
    team = {**TEAM, "identity": identity}
    with pytest.raises(BadInput) as caught:
        plan_platform(platform_of(teams=[team]), "test")
    return {problem.path.removeprefix("teams[0].identity."): str(problem) for problem in caught.value.problems}


def test_roles_cover_only_the_named_containers() -> None:
    plan, identity = planned({**READS, "prefix": None}, WRITES)
    containers = f"{ACCOUNT}/blobServices/default/containers"
    assert identity.roles == (
        ContainerRole(container=f"{containers}/datasets", role="Storage Blob Data Reader"),
        ContainerRole(container=f"{containers}/checkpoints", role="Storage Blob Data Contributor"),
    )
    assert plan.teams[0].service_account is not None
    assert plan.teams[0].service_account.rights == (
        "read https://acmeml.blob.core.windows.net/datasets/",
        "read https://acmeml.blob.core.windows.net/checkpoints/",
        "write https://acmeml.blob.core.windows.net/checkpoints/",
    )


def test_a_prefix_limits_reading_and_listing() -> None:
    _, identity = planned(READS)
    condition = identity.roles[0].condition
    blobs = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"
    assert condition == (
        f"((!(ActionMatches{{'{blobs}/read'}} AND NOT SubOperationMatches{{'Blob.List'}})) "
        f"OR (@Resource[{blobs}:path] StringStartsWith 'imagenet/')) AND "
        f"((!(ActionMatches{{'{blobs}/read'}} AND SubOperationMatches{{'Blob.List'}})) "
        f"OR (@Request[{blobs}:prefix] StringStartsWith 'imagenet/'))"
    )


def test_prefixes_of_one_container_share_a_role() -> None:
    _, identity = planned(READS, {**READS, "prefix": "coco"})
    (role,) = identity.roles
    assert role.prefixes == ("imagenet/", "coco/")
    assert role.condition is not None
    assert "'imagenet/' OR @Resource" in role.condition


def test_a_role_on_the_whole_container_has_no_condition() -> None:
    _, identity = planned(READS, {**READS, "prefix": None})
    (role,) = identity.roles
    assert role.condition is None


def test_pods_need_the_label_and_azure_chooses_the_client_id() -> None:
    plan, _ = planned(READS)
    account = plan.teams[0].service_account
    assert account is not None
    assert account.annotations == {"azure.workload.identity/client-id": None}
    assert account.pod_labels == {"azure.workload.identity/use": "true"}


def test_a_writing_team_is_warned_that_its_pods_can_delete_the_container() -> None:
    plan, _ = planned(WRITES)
    assert [one.chosen for one in plan.decisions if one.what == "warning: write"] == [
        "its pods can also delete whole containers: checkpoints"
    ]


def test_the_owner_of_an_existing_cluster_reads_what_to_enable() -> None:
    plan, _ = planned(READS, cluster=EXISTING)
    (command,) = [one.chosen for one in plan.decisions if one.what == "requirement of identities"]
    assert command.endswith("--name ml --enable-oidc-issuer --enable-workload-identity")


def test_an_existing_identity_keeps_its_roles() -> None:
    plan, identity = planned(managed_identity=IDENTITY)
    assert (identity.existing, identity.roles) == (IDENTITY, ())
    assert plan.teams[0].service_account is not None
    assert plan.teams[0].service_account.rights == (f"use {IDENTITY}",)


def test_writing_below_a_prefix_is_refused() -> None:
    found = refused(buckets=[{**WRITES, "prefix": "vision"}])
    assert "the right to delete the container" in found["buckets[0].access"]


def test_a_container_without_its_account_or_with_a_wrong_name_is_refused() -> None:
    found = refused(buckets=[{"name": "acme_data"}])
    assert "the resource ID of the storage account" in found["buckets[0].storage_account"]
    assert "single hyphens" in found["buckets[0].name"]


def test_containers_of_one_name_in_two_accounts_are_not_the_same() -> None:
    _, identity = planned(READS, {**READS, "storage_account": ACCOUNT.replace("acmeml", "others")})
    assert len(identity.roles) == 2


@pytest.mark.parametrize("name", ["ml-cluster", "ml-agentpool"])
def test_identities_of_the_cluster_itself_are_refused(name: str) -> None:
    own = IDENTITY.replace("vision", name)
    assert "the control plane or nodes use" in refused(managed_identity=own)["managed_identity"]


def test_an_identity_of_another_subscription_is_refused() -> None:
    other = IDENTITY.replace(ID, "11111111-2222-3333-4444-555555555555")
    assert "the cluster's subscription" in refused(managed_identity=other)["managed_identity"]


def test_an_identity_of_two_teams_is_refused() -> None:
    teams = [{**TEAM, "name": name, "identity": {"managed_identity": IDENTITY}} for name in ("vision", "speech")]
    with pytest.raises(BadInput, match="which team vision already uses"):
        plan_platform(platform_of(teams=teams), "test")


def test_long_names_stay_different_and_within_the_limit_of_azure() -> None:
    names = [team_identity_name("c" * 63, "t" * 62 + end) for end in "ab"]
    assert len(set(names)) == 2
    assert {len(name) for name in names} == {120}
