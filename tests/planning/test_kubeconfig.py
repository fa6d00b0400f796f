"""Kubeconfigs for the clouds have the format that the clouds' clients write, and contain no credentials."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kubernetes.config.kube_config import KubeConfigLoader

from gpu_platform.planning.clouds.aks.kubeconfig import aks_kubeconfig
from gpu_platform.planning.clouds.eks.kubeconfig import eks_kubeconfig
from gpu_platform.planning.clouds.gke.kubeconfig import gke_kubeconfig

EKS = eks_kubeconfig("ml", "us-east-2", "https://ABC.gr7.us-east-2.eks.amazonaws.com", "Q0E=")
AKS = aks_kubeconfig("ml", "https://ml-abc.hcp.eastus2.azmk8s.io:443", "Q0E=")
GKE = gke_kubeconfig("ml", "10.0.0.2", "Q0E=")
GKE_BY_DNS = gke_kubeconfig("ml", "gke-abc.us-central1.gke.goog", None)


def user(text: str) -> dict[str, Any]:
    return json.loads(text)["users"][0]["user"]


@pytest.mark.parametrize("text", [AKS, EKS, GKE, GKE_BY_DNS])
def test_a_client_of_kubernetes_finds_the_context_that_is_called_as_the_cluster(text: str, tmp_path: Path) -> None:
    loader = KubeConfigLoader(json.loads(text), config_base_path=str(tmp_path))
    assert loader.current_context["name"] == "ml"
    assert loader.current_context["context"] == {"cluster": "ml", "user": "ml"}


@pytest.mark.parametrize("text", [AKS, EKS, GKE])
def test_a_client_trusts_the_certificate_authority_of_the_cluster(text: str) -> None:
    (cluster,) = json.loads(text)["clusters"]
    assert cluster["cluster"]["certificate-authority-data"] == "Q0E="


@pytest.mark.parametrize("text", [AKS, EKS, GKE, GKE_BY_DNS])
def test_credentials_come_from_a_command_and_nothing_else(text: str) -> None:
    assert list(user(text)) == ["exec"]
    assert "token" not in {key.lower() for key in user(text)["exec"]}


def test_eks_credentials_come_from_get_token_in_the_clusters_region() -> None:
    exec_ = user(EKS)["exec"]
    words = [exec_["command"], *exec_["args"]]
    assert words == [
        "aws",
        "--region",
        "us-east-2",
        "eks",
        "get-token",
        "--cluster-name",
        "ml",
        "--output",
        "json",
    ]


def test_gke_credentials_come_from_the_plugin_which_is_told_of_the_cluster() -> None:
    exec_ = user(GKE)["exec"]
    assert exec_["command"] == "gke-gcloud-auth-plugin"
    assert exec_["provideClusterInfo"] is True


def test_a_dns_endpoint_of_gke_needs_no_certificate_authority_of_its_own() -> None:
    assert json.loads(GKE)["clusters"][0]["cluster"] == {
        "server": "https://10.0.0.2",
        "certificate-authority-data": "Q0E=",
    }
    assert json.loads(GKE_BY_DNS)["clusters"][0]["cluster"] == {"server": "https://gke-abc.us-central1.gke.goog"}


def test_clients_assume_the_declared_role_or_impersonate_the_declared_account() -> None:
    role = "arn:aws:iam::210987654321:role/deployer"
    of_role = user(eks_kubeconfig("ml", "us-east-2", "https://ABC.eks.amazonaws.com", "Q0E=", role))["exec"]
    assert of_role["args"][-2:] == ["--role-arn", role]
    account = "deployer@my-project.iam.gserviceaccount.com"
    of_account = user(gke_kubeconfig("ml", "10.0.0.2", "Q0E=", account))["exec"]
    assert of_account["env"] == [{"name": "CLOUDSDK_AUTH_IMPERSONATE_SERVICE_ACCOUNT", "value": account}]


def test_kubelogin_gets_a_token_for_the_application_of_all_aks_clusters() -> None:
    command = user(AKS)["exec"]
    assert command["command"] == "kubelogin"
    assert command["args"][command["args"].index("--server-id") + 1] == "6dae42f8-4368-4678-94ff-3960e28e3630"
