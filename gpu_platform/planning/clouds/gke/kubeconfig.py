"""The kubeconfig of a GKE cluster."""

from __future__ import annotations

from gpu_platform.planning.clouds.kubeconfig import kubeconfig


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
    return kubeconfig(
        name,
        server,
        {
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
