"""The Azure provider for the subscription of a cluster."""

from __future__ import annotations

import pulumi
import pulumi_azure as azure

from gpu_platform.planning.clouds.aks.plan import AksClusterPlan

# The owner of the subscription registers resource providers, so that `up` needs no permission to do so.
_REGISTRATIONS = "none"


def azure_provider(name: str, plan: AksClusterPlan, opts: pulumi.ResourceOptions | None = None) -> azure.Provider:
    """Return a new provider with the credentials of the environment."""
    return azure.Provider(
        name,
        subscription_id=plan.subscription,
        resource_provider_registrations=_REGISTRATIONS,
        opts=opts,
    )
