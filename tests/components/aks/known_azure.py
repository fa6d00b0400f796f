"""Azure in a deployment, simulated by the SDK's mock monitor, with known outputs and test data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pulumi
from pulumi.runtime.mocks import MockCallArgs, MockResourceArgs, Mocks

from tests.components.known_cloud import deploy_on

ACCESS = [{"host": "https://ml-abc.hcp.eastus2.azmk8s.io:443", "clusterCaCertificate": "Y2E="}]
ISSUER = "https://eastus2.oic.prod-aks.azure.com/tenant/guid/"
CLIENT = "11111111-2222-3333-4444-555555555555"
FOUND: dict[str, Any] = {
    "id": "ml-id",
    "location": "eastus2",
    "currentKubernetesVersion": "1.35.1",
    "privateFqdn": "",
    "fqdn": "ml-abc.hcp.eastus2.azmk8s.io",
    "identities": [{"type": "UserAssigned"}],
    "networkProfiles": [{"networkPolicy": "cilium"}],
    "azureActiveDirectoryRoleBasedAccessControls": [{"azureRbacEnabled": False}],
    "agentPoolProfiles": [{"vnetSubnetId": "subnet-of-the-first-pool"}],
    "kubeConfigs": ACCESS,
    "oidcIssuerEnabled": True,
    "oidcIssuerUrl": ISSUER,
}


class KnownAzure(Mocks):
    """A simulated cloud that records the resources. A resource's outputs are its inputs and the values that Azure
    adds.
    """

    def __init__(self, found: Mapping[str, Any]) -> None:
        self._found = found
        self.made: dict[str, dict[str, Any]] = {}
        """Inputs of the resources, by type and name."""

    def new_resource(self, args: MockResourceArgs) -> tuple[str, dict[str, Any]]:
        self.made[f"{args.typ}::{args.name}"] = dict(args.inputs)
        outputs = {"name": args.name, **args.inputs}
        if args.typ == "azure:containerservice/kubernetesCluster:KubernetesCluster":
            outputs |= {"kubeConfigs": ACCESS, "oidcIssuerUrl": ISSUER}
        if args.typ == "azure:authorization/userAssignedIdentity:UserAssignedIdentity":
            outputs |= {"principalId": "principal", "clientId": CLIENT}
        return f"{args.name}-id", outputs

    def call(self, args: MockCallArgs) -> Any:
        if args.token == "azure:authorization/getUserAssignedIdentity:getUserAssignedIdentity":
            return {**args.args, "id": "identity-id", "clientId": CLIENT}
        assert args.token == "azure:containerservice/getKubernetesCluster:getKubernetesCluster"
        return {**self._found, "name": args.args["name"], "resourceGroupName": args.args["resourceGroupName"]}


def deploy(
    program: Callable[[], pulumi.Output[Any]], found: Mapping[str, Any] | None = None
) -> tuple[KnownAzure, Any]:
    """Run a program as `pulumi up` would. Return the simulated cloud and the value of the program's output.

    `found` contains the fields of the existing cluster that differ from `FOUND`. Raises every exception of the
    program, including those raised later in an apply.
    """
    azure = KnownAzure({**FOUND, **(found or {})})
    return azure, deploy_on(azure, program)
