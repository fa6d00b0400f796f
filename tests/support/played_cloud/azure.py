"""Azure in the simulated account: resource groups, networks and roles, with what Azure refuses.

Sources: internal/services/resource, network and authorization of terraform-provider-azurerm; Azure docs, "Add,
change, or delete a virtual network subnet" and "Assign Azure roles"; read 2026-11-30.
The codes of errors are from public reports and have not been compared with a model of Azure's API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.support.played_cloud.account import Account, Refused

Properties = Mapping[str, Any]
GROUP: Final = "azure:core/resourceGroup:ResourceGroup"
SUBNET: Final = "azure:network/subnet:Subnet"
IDENTITY: Final = "azure:authorization/userAssignedIdentity:UserAssignedIdentity"
ASSIGNMENT: Final = "azure:authorization/assignment:Assignment"
CLUSTER: Final = "azure:containerservice/kubernetesCluster:KubernetesCluster"
AGENT_POOL: Final = "azure:containerservice/kubernetesClusterNodePool:KubernetesClusterNodePool"
NOUNS: Final = {AGENT_POOL: "Agent Pool", CLUSTER: "Kubernetes Cluster"}
"""Names of kinds in the provider's errors."""


class ResourceGroups:
    """Simulated resource groups. The provider refuses to delete a group that still contains resources
    (`prevent_deletion_if_contains_resources`, which is true by default).
    """

    def unknown(self, inputs: Properties) -> dict[str, Any]:
        return {}

    def create(self, account: Account, own_id: str, inputs: Properties, outputs: dict[str, Any]) -> None:
        return

    def update(
        self, account: Account, own_id: str, old: Properties, new: Properties, outputs: dict[str, Any]
    ) -> None:
        return

    def delete(self, account: Account, own_id: str, resource: Properties) -> None:
        keys = (key.partition(" ") for key in account.resources)
        inside = [one for type_, _, one in keys if one.startswith(f"{own_id}/") and type_ != ASSIGNMENT]
        if inside:
            raise Refused(f"deleting {own_id}: the Resource Group still contains Resources: {', '.join(inside)}")


class Subnets:
    """Simulated subnets, whose address range is fixed while nodes have addresses in it."""

    def unknown(self, inputs: Properties) -> dict[str, Any]:
        return {}

    def create(self, account: Account, own_id: str, inputs: Properties, outputs: dict[str, Any]) -> None:
        return

    def update(
        self, account: Account, own_id: str, old: Properties, new: Properties, outputs: dict[str, Any]
    ) -> None:
        if old["addressPrefixes"] != new["addressPrefixes"]:
            try:
                account.refuse_deletion_in_use(SUBNET, own_id)
            except Refused as used:
                raise Refused(f"InUsePrefixCannotBeDeleted: the prefix of {own_id} is in use ({used})") from None

    def delete(self, account: Account, own_id: str, resource: Properties) -> None:
        return


class Assignments:
    """Simulated role assignments. Each role is assigned to a principal only once for a scope."""

    def unknown(self, inputs: Properties) -> dict[str, Any]:
        return {}

    def create(self, account: Account, own_id: str, inputs: Properties, outputs: dict[str, Any]) -> None:
        if has_role(account, inputs["scope"], inputs["roleDefinitionName"], inputs["principalId"]):
            raise Refused(f"RoleAssignmentExists: The role assignment already exists: {own_id}")

    def update(
        self, account: Account, own_id: str, old: Properties, new: Properties, outputs: dict[str, Any]
    ) -> None:
        return

    def delete(self, account: Account, own_id: str, resource: Properties) -> None:
        return


def has_role(account: Account, scope: str, role: str, principal: str) -> bool:
    """Return whether a principal has a role for exactly this scope."""
    known = (one["inputs"] for _, one in account.of(ASSIGNMENT))
    found = ((one["scope"], one["roleDefinitionName"], one["principalId"]) for one in known)
    return (scope, role, principal) in found
