"""Managed identities of teams as the program registers them: roles, credentials, annotations and labels."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from components.aks import build, create_identities
from gpu_platform.deploy.recorded.properties import UNKNOWN
from gpu_platform.deploy.recorded.record import ProgramError
from gpu_platform.planning.clouds.aks.identities import AksIdentities
from gpu_platform.planning.clouds.aks.plan import AksClusterPlan
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, plan_platform
from tests.components.aks.aks_recorded import (
    ACCOUNT,
    CREATED,
    EXISTING,
    IDENTITY,
    TEAM,
    of_azure,
    platform_of,
    recorded,
)
from tests.components.aks.azure_schema import unknown_inputs
from tests.components.aks.known_azure import CLIENT, ISSUER, KnownAzure, deploy
from tests.support.recorded import Recorded

READS = {"name": "datasets", "storage_account": ACCOUNT, "prefix": "imagenet"}
WRITES = {"name": "checkpoints", "storage_account": ACCOUNT, "access": "write"}
WORKLOAD = {"name": "train", "pool": "train", "gpus": 1, "image": "registry.example.com/train:1"}
ANNOTATION = "azure.workload.identity/client-id"
LABEL = "azure.workload.identity/use"
CREDENTIAL = "azure:armmsi/federatedIdentityCredential:FederatedIdentityCredential::ml-team-vision"


def team(**identity: Any) -> dict[str, Any]:
    return {**TEAM, "quota": {"gpus": 1}, "identity": identity, "workloads": [WORKLOAD]}


@pytest.mark.parametrize("cluster", [CREATED, EXISTING])
@pytest.mark.parametrize("identity", [{"buckets": [READS, WRITES]}, {"managed_identity": IDENTITY}])
def test_every_argument_is_one_of_the_providers(cluster: dict[str, Any], identity: dict[str, Any]) -> None:
    records = of_azure(recorded(cluster=cluster, teams=[team(**identity)]))
    made = [one for one in records if "AksTeamIdentities" in one.parent]
    assert made
    assert [problem for one in made for problem in unknown_inputs(one)] == []


def test_one_service_account_of_the_cluster_uses_the_identity() -> None:
    azure = deployed(CREATED, team(buckets=[READS]))[0]
    assert azure.made[CREDENTIAL] == {
        "name": "ml-team-vision",
        "userAssignedIdentityId": "ml-team-vision-id",
        "issuer": ISSUER,
        "subject": "system:serviceaccount:vision:team",
        "audience": "api://AzureADTokenExchange",
    }


def test_roles_are_of_the_new_identity_and_conditions_have_a_version() -> None:
    recording = recorded(teams=[team(buckets=[READS, WRITES])])
    roles = {
        one.inputs["scope"]: one.inputs
        for one in recording.of("Assignment")
        if "blobServices" in one.inputs["scope"]
    }
    containers = f"{ACCOUNT}/blobServices/default/containers"
    reads, writes = roles[f"{containers}/datasets"], roles[f"{containers}/checkpoints"]
    assert reads["roleDefinitionName"] == "Storage Blob Data Reader"
    assert (reads["principalType"], reads["conditionVersion"]) == ("ServicePrincipal", "2.0")
    assert writes["roleDefinitionName"] == "Storage Blob Data Contributor"
    assert "condition" not in writes


def test_pods_start_after_the_roles_and_the_credential_with_the_label() -> None:
    recording = recorded(teams=[team(buckets=[READS])])
    made = {one.urn for kind in ("Assignment", "FederatedIdentityCredential") for one in recording.of(kind)}
    of_team = {one for one in made if "AksTeamIdentities" in one}
    assert len(of_team) == 2
    assert of_team <= set(recording.one("Namespace", "vision").dependencies)
    pods = recording.one("Deployment", "vision/train").inputs["spec"]["template"]
    assert pods["metadata"]["labels"][LABEL] == "true"
    assert pods["spec"]["serviceAccountName"] == "team"
    account = recording.one("ServiceAccount", "vision/team").inputs
    assert account["metadata"]["annotations"] == {ANNOTATION: UNKNOWN}


def test_pods_of_teams_without_identity_have_no_label() -> None:
    recording = recorded(teams=[{**TEAM, "quota": {"gpus": 1}, "workloads": [WORKLOAD]}])
    pods = recording.one("Deployment", "vision/train").inputs["spec"]["template"]
    assert LABEL not in pods["metadata"]["labels"]


def test_an_existing_identity_gets_only_a_credential() -> None:
    recording = recorded(teams=[team(managed_identity=IDENTITY)])
    made = [one.type.rpartition(":")[2] for one in of_azure(recording) if "AksTeamIdentities" in one.parent]
    assert made == ["FederatedIdentityCredential"]


@pytest.mark.parametrize("identity", [{"buckets": [READS]}, {"managed_identity": IDENTITY}])
def test_the_environment_passes_the_client_id_on(identity: dict[str, Any]) -> None:
    assert deployed(CREATED, team(**identity))[1] == {ANNOTATION: CLIENT}


def test_no_network_policy_opens_the_metadata_server_of_nodes() -> None:
    recording = recorded(teams=[{**team(buckets=[READS]), "egress": ["internet", {"cidr": "10.0.0.0/8"}]}])
    metadata = ipaddress.ip_address("169.254.169.254")
    blocks = [
        target["ipBlock"]
        for policy in recording.of("NetworkPolicy")
        for rule in policy.inputs["spec"].get("egress") or ()
        for target in rule.get("to") or ()
        if "ipBlock" in target
    ]
    assert blocks
    assert [
        block
        for block in blocks
        if metadata in ipaddress.ip_network(block["cidr"])
        and not any(metadata in ipaddress.ip_network(one) for one in block.get("except") or ())
    ] == []


def own_stack(folder: Path) -> LoadedStack:
    """Write an environment with the identity of a team that has its own stack. Return the team's stack."""
    environment = platform_of(team_identities={"vision": {"buckets": [READS]}})
    config = {"config": {"gpu-platform:platform": environment}}
    (folder / "Pulumi.prod.yaml").write_text(yaml.safe_dump(config), "utf-8")
    stack = {"kind": "team", "environment": {"stack": "prod"}, "team": {**TEAM, "workloads": []}}
    return LoadedStack(
        "vision", folder / "Pulumi.vision.yaml", stack, plan_platform(stack, "vision", folder=folder)
    )


def test_a_team_stack_annotates_its_service_account_with_the_environments_client_id(tmp_path: Path) -> None:
    outputs = {
        "kubeconfig": "{}",
        "operator": "v26.7.0",
        "service_account_annotations": {"vision": {ANNOTATION: CLIENT}},
    }
    found = Recorded(record_stack(own_stack(tmp_path), resolve_stack=lambda _: outputs))
    account = found.one("ServiceAccount", "vision/team").inputs
    assert account["metadata"]["annotations"] == {ANNOTATION: CLIENT}


def test_a_team_stack_waits_for_the_environment_to_create_its_identity(tmp_path: Path) -> None:
    outputs = {"kubeconfig": "{}", "operator": "v26.7.0"}
    with pytest.raises(ProgramError, match="run `gpu-platform up prod` first"):
        record_stack(own_stack(tmp_path), resolve_stack=lambda _: outputs)


@pytest.mark.parametrize(
    ("found", "words"),
    [({"oidcIssuerEnabled": False, "oidcIssuerUrl": ""}, "--enable-oidc-issuer --enable-workload-identity")],
)
def test_an_existing_cluster_without_an_issuer_is_refused_only_with_an_identity(
    found: dict[str, Any], words: str
) -> None:
    with pytest.raises(pulumi.RunError, match=words):
        deployed(EXISTING, team(buckets=[READS]), **found)
    deployed(EXISTING, TEAM, **found)


def deployed(cluster: dict[str, Any], *teams: dict[str, Any], **found: Any) -> tuple[KnownAzure, dict[str, str]]:
    """Deploy the cluster and the identities. Return the simulated cloud and the annotations of team vision."""
    plan = plan_platform(platform_of(cluster=cluster, teams=list(teams)), "test")
    assert plan.kind == "environment"
    cloud, identities = plan.cluster.cloud, plan.identities
    assert isinstance(cloud, AksClusterPlan)

    def program() -> pulumi.Output[dict[str, str]]:
        made, _ = build(cloud, plan.pools, pulumi.ResourceOptions())
        if not isinstance(identities, AksIdentities):
            return made.kubeconfig.apply(lambda _: {})
        outputs = create_identities(made, cloud, identities, pulumi.ResourceOptions())
        return pulumi.Output.all(**outputs["vision"].annotations)

    return deploy(program, found)
