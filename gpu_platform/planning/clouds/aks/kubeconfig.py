"""The kubeconfig of an AKS cluster."""

from __future__ import annotations

from gpu_platform.planning.clouds.kubeconfig import kubeconfig

_AKS_SERVER = "6dae42f8-4368-4678-94ff-3960e28e3630"
"""Application that all AKS clusters share, in every tenant. Source: azure.github.io/kubelogin, read 2026-11-30."""


def aks_kubeconfig(name: str, endpoint: str, certificate_authority: str) -> str:
    """Return the kubeconfig of an AKS cluster as JSON text. Its context is named `name`.

    `endpoint` (https://...) and `certificate_authority` (base64 PEM) are in the format that the AKS API returns.
    kubelogin uses the token of the Azure CLI.
    """
    return kubeconfig(
        name,
        {"server": endpoint, "certificate-authority-data": certificate_authority},
        {
            "command": "kubelogin",
            "args": ["get-token", "--login", "azurecli", "--server-id", _AKS_SERVER],
            "interactiveMode": "Never",
            "provideClusterInfo": False,
            "installHint": "install kubelogin: az aks install-cli",
        },
    )
