"""Check that an AKS cluster meets the requirements of its pools. The facts are looked up at deployment."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from gpu_platform.base.errors import BadInput
from gpu_platform.base.quantity import counted
from gpu_platform.planning.clouds.aks.identities import ENABLE
from gpu_platform.planning.clouds.aks.names import update_command
from gpu_platform.planning.clouds.aks.plan import AksClusterPlan
from gpu_platform.planning.kubernetes_versions import minor, operator_fix
from gpu_platform.planning.problems import Problems


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingAks:
    """Facts about an existing cluster, looked up from AKS."""

    region: str
    version: str
    """Version of the control plane, such as 1.35.1."""
    network_policy: str
    """Engine of network policies that AKS reports: cilium, calico, azure, none or empty."""
    has_entra_id: bool
    """Whether clients log in with Entra ID."""
    has_own_identity: bool
    """Whether the cluster has a user-assigned identity, which can have roles before the cluster exists."""
    subnet: str
    """Resource ID of the subnet of the first pool, or empty if AKS created the network."""
    issuer: str
    """URL of the OIDC issuer of service account tokens, or empty if it is not enabled."""
    workload_identity: bool | None
    """Whether AKS runs the webhook of Workload ID, or None in `up`, because the provider does not read it."""

    @property
    def enforces_policies(self) -> bool:
        """Whether network policies have an effect. AKS reports `none` for clusters without an engine."""
        return self.network_policy not in ("", "none")


def require_fit(plan: AksClusterPlan, found: ExistingAks) -> None:
    """Raise one BadInput that lists every reason why a cluster cannot run the planned pools."""
    problems = Problems("cluster")
    update = partial(update_command, plan.subscription, plan.resource_group, plan.name)
    if found.region != plan.region:
        problems.at("region").add(
            f"{plan.region!r}, and the cluster is in {found.region}",
            "the region of the cluster, because prices and quotas depend on it",
            f"write region: {found.region}",
        )
    check_version(plan, found.version, problems)
    if plan.kubernetes is not None and minor(found.version) < minor(plan.kubernetes):
        problems.at("kubernetes").add(
            f"{plan.kubernetes!r} on AKS {found.version}",
            "the minor version of the cluster, or an older one",
            "correct the version, or upgrade the cluster",
        )
    if not found.has_entra_id:
        problems.add(
            "a cluster without Entra ID",
            "Entra ID, because the kubeconfig contains no credentials of local accounts",
            update("--enable-aad --aad-admin-group-object-ids GROUP"),
        )
    if plan.teams and not found.enforces_policies:
        problems.add(
            f"no enforcement of network policies, with {counted(len(plan.teams), 'team')}",
            "a network policy engine; otherwise pods of different teams can reach each other and any address",
            update("--network-dataplane cilium")
            + "; this reimages all nodes, and a cluster with kubenet first needs --network-plugin azure "
            "--network-plugin-mode overlay",
        )
    if plan.identities and (not found.issuer or found.workload_identity is False):
        missing = "Workload ID" if found.issuer else "OIDC issuer"
        problems.add(
            f"no {missing}, with an identity of {', '.join(plan.identities)}",
            "a cluster with the OIDC issuer and Workload ID, through which pods use the identity of their team",
            update(ENABLE),
        )
    if plan.reservation_groups and not found.has_own_identity:
        problems.add(
            "a cluster with a system-assigned identity, and pools with reservations",
            "a user-assigned identity with the role Contributor on each capacity reservation group",
            update("--enable-managed-identity --assign-identity IDENTITY"),
        )
    if problems.found:
        raise BadInput(f"AKS cluster {plan.name}", problems.found)


def check_version(plan: AksClusterPlan, version: str, problems: Problems) -> None:
    """Record a problem if the operator does not support the version of the cluster."""
    lowest, newest = plan.operator_kubernetes
    if not minor(lowest) <= minor(version) <= minor(newest):
        problems.add(
            f"AKS {version}",
            f"{lowest} to {newest}, the range that GPU Operator {plan.operator} supports",
            operator_fix(f"1.{minor(version)}", plan.operator_kubernetes),
        )
