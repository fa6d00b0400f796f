"""Write kubeconfigs for cloud clusters. The kubeconfigs contain no credentials.

Clients run the cloud's credential command, which uses the credentials of the client's user.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

EXEC_API = "client.authentication.k8s.io/v1beta1"
_AKS_SERVER = "6dae42f8-4368-4678-94ff-3960e28e3630"
"""Application that all AKS clusters share, in every tenant. Source: azure.github.io/kubelogin, read 2026-11-30."""


def eks_kubeconfig(
    name: str, region: str, endpoint: str, certificate_authority: str, role: str | None = None
) -> str:
    """Return the kubeconfig of an EKS cluster as JSON text. Its context is named `name`.

    `endpoint` (https://...) and `certificate_authority` (base64 PEM) are in the format that the EKS API returns.
    `role` is the ARN of the role that clients assume.
    """
    arguments = ["--region", region, "eks", "get-token", "--cluster-name", name, "--output", "json"]
    arguments += ["--role-arn", role] if role is not None else []
    return _kubeconfig(
        name,
        {"server": endpoint, "certificate-authority-data": certificate_authority},
        {
            "apiVersion": EXEC_API,
            "command": "aws",
            "args": arguments,
            "interactiveMode": "Never",
            "provideClusterInfo": False,
            "installHint": "install the AWS CLI: https://docs.aws.amazon.com/cli/",
        },
    )


def gke_kubeconfig(
    name: str, endpoint: str, certificate_authority: str | None, impersonated: str | None = None
) -> str:
    """Return the kubeconfig of a GKE cluster as JSON text. Its context is named `name`.

    `endpoint` is a host name or an address. `certificate_authority` is base64 PEM, or None for the DNS endpoint,
    which has a publicly trusted certificate. `impersonated` is the e-mail address of the service account that
    clients impersonate.
    """
    server = {"server": f"https://{endpoint}"}
    if certificate_authority is not None:
        server["certificate-authority-data"] = certificate_authority
    return _kubeconfig(
        name,
        server,
        {
            "apiVersion": EXEC_API,
            "command": "gke-gcloud-auth-plugin",
            # The plugin uses gcloud's token, and gcloud reads its properties from CLOUDSDK variables.
            "env": [{"name": "CLOUDSDK_AUTH_IMPERSONATE_SERVICE_ACCOUNT", "value": impersonated}]
            if impersonated is not None
            else None,
            "interactiveMode": "Never",
            "provideClusterInfo": True,
            "installHint": "install it: gcloud components install gke-gcloud-auth-plugin",
        },
    )


def aks_kubeconfig(name: str, endpoint: str, certificate_authority: str) -> str:
    """Return the kubeconfig of an AKS cluster as JSON text. Its context is named `name`.

    `endpoint` (https://...) and `certificate_authority` (base64 PEM) are in the format that the AKS API returns.
    kubelogin uses the token of the Azure CLI.
    """
    return _kubeconfig(
        name,
        {"server": endpoint, "certificate-authority-data": certificate_authority},
        {
            "apiVersion": EXEC_API,
            "command": "kubelogin",
            "args": ["get-token", "--login", "azurecli", "--server-id", _AKS_SERVER],
            "interactiveMode": "Never",
            "provideClusterInfo": False,
            "installHint": "install kubelogin: az aks install-cli",
        },
    )


def _kubeconfig(name: str, cluster: Mapping[str, str], credentials: Mapping[str, Any]) -> str:
    command = {key: value for key, value in credentials.items() if value is not None}
    # JSON is valid YAML, so every Kubernetes client can read it.
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": dict(cluster)}],
            "users": [{"name": name, "user": {"exec": command}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        },
        indent=2,
    )
