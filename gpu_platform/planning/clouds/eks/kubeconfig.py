"""The kubeconfig of an EKS cluster."""

from __future__ import annotations

from gpu_platform.planning.clouds.kubeconfig import kubeconfig


def eks_kubeconfig(
    name: str, region: str, endpoint: str, certificate_authority: str, role: str | None = None
) -> str:
    """Return the kubeconfig of an EKS cluster as JSON text. Its context is named `name`.

    `endpoint` (https://...) and `certificate_authority` (base64 PEM) are in the format that the EKS API returns.
    `role` is the ARN of the role that clients assume.
    """
    arguments = ["--region", region, "eks", "get-token", "--cluster-name", name, "--output", "json"]
    arguments += ["--role-arn", role] if role is not None else []
    return kubeconfig(
        name,
        {"server": endpoint, "certificate-authority-data": certificate_authority},
        {
            "command": "aws",
            "args": arguments,
            "interactiveMode": "Never",
            "provideClusterInfo": False,
            "installHint": "install the AWS CLI: https://docs.aws.amazon.com/cli/",
        },
    )
