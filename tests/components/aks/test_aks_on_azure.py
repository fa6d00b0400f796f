"""A deployment on a simulated Azure with known outputs: the kubeconfig, and the checks of an existing cluster."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pytest

from components.aks import build
from gpu_platform.planning.clouds.aks.plan import AksClusterPlan
from gpu_platform.stack.loaded import plan_platform
from tests.components.aks.aks_recorded import (
    CREATED,
    EXISTING,
    ID,
    RESERVATIONS,
    RESERVED,
    TEAM,
    of_azure,
    platform_of,
    recorded,
)
from tests.components.aks.known_azure import ACCESS, ISSUER, KnownAzure, deploy

AGENT_POOL = "azure:containerservice/kubernetesClusterNodePool:KubernetesClusterNodePool::train"


def deployed(cluster: dict[str, Any], *pools: dict[str, Any], **found: Any) -> tuple[KnownAzure, dict[str, Any]]:
    """Deploy the cluster and its pools. Return the simulated cloud and the kubeconfig."""
    plan = plan_platform(platform_of(*pools, cluster=cluster, teams=[TEAM]), "test")
    assert plan.kind == "environment"
    cloud = plan.cluster.cloud
    assert isinstance(cloud, AksClusterPlan)

    def program() -> pulumi.Output[str]:
        made, create_pools = build(cloud, plan.pools, pulumi.ResourceOptions())
        create_pools(pulumi.ResourceOptions())
        return made.kubeconfig

    azure, kubeconfig = deploy(program, found)
    return azure, json.loads(kubeconfig)


@pytest.mark.parametrize("cluster", [CREATED, EXISTING])
def test_the_kubeconfig_contains_no_credentials(cluster: dict[str, Any]) -> None:
    _, kubeconfig = deployed(cluster)
    (server,) = kubeconfig["clusters"]
    (user,) = kubeconfig["users"]
    assert server["cluster"] == {
        "server": ACCESS[0]["host"],
        "certificate-authority-data": ACCESS[0]["clusterCaCertificate"],
    }
    assert user["user"].keys() == {"exec"}
    assert user["user"]["exec"]["command"] == "kubelogin"


def test_objects_stay_in_a_new_cluster_while_its_issuer_stays() -> None:
    azure, _ = deployed(CREATED)
    assert azure.made["pulumi:providers:kubernetes::ml"]["clusterIdentifier"] == ISSUER


def test_pools_of_an_existing_cluster_join_the_subnet_of_its_first_pool() -> None:
    azure, _ = deployed(EXISTING)
    assert azure.made[AGENT_POOL]["vnetSubnetId"] == "subnet-of-the-first-pool"
    azure, _ = deployed(EXISTING, agentPoolProfiles=[{"vnetSubnetId": ""}])
    assert azure.made[AGENT_POOL].get("vnetSubnetId") is None


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"location": "westeurope"}, "write region: westeurope"),
        ({"currentKubernetesVersion": "1.28.3"}, "GPU Operator"),
        ({"currentKubernetesVersion": "1.34.2"}, "the minor version of the cluster, or an older one"),
        ({"azureActiveDirectoryRoleBasedAccessControls": []}, f"--subscription {ID} .* --enable-aad"),
        ({"networkProfiles": [{"networkPolicy": ""}]}, "no enforcement of network policies, with 1 team"),
        ({"networkProfiles": [{"networkPolicy": "none"}]}, "no enforcement of network policies, with 1 team"),
    ],
)
def test_an_existing_cluster_that_does_not_fit_is_refused(found: dict[str, Any], words: str) -> None:
    with pytest.raises(pulumi.RunError, match=words):
        deployed(EXISTING, **found)


def test_reservations_need_a_cluster_with_an_identity_that_can_have_roles() -> None:
    with pytest.raises(pulumi.RunError, match="a cluster with a system-assigned identity"):
        deployed(EXISTING, RESERVED, identities=[{"type": "SystemAssigned"}])
    azure, _ = deployed(EXISTING, RESERVED)
    assert azure.made[AGENT_POOL]["capacityReservationGroupId"] == RESERVATIONS


@pytest.mark.parametrize("cluster", [CREATED, EXISTING])
def test_previews_and_deploys_register_the_same_azure_resources(cluster: dict[str, Any]) -> None:
    azure, _ = deployed(cluster)
    preview = recorded(cluster=cluster, teams=[TEAM])
    known = {key for key in azure.made if key.startswith("azure:")}
    assert {f"{one.type}::{one.name}" for one in of_azure(preview)} == known
