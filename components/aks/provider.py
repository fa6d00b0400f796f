"""The Azure provider for the subscription of a cluster."""

from __future__ import annotations

import pulumi
import pulumi_azure as azure

from gpu_platform.planning.clouds.aks.plan import AksClusterPlan

# The owner of the subscription registers resource providers, so that `up` needs no permission to do so.
_REGISTRATIONS = "none"
# Without this, the provider forgets a cluster or pool whose creation fails while it waits, for example because
# Azure has no capacity. Azure keeps such a resource, and every later `up` would fail because its name is taken.
# Source: features-block.html.markdown and sdk.SetIDCallback of terraform-provider-azurerm, read 2026-11-30.
_REMEMBERS_FAILED = True


def azure_provider(name: str, plan: AksClusterPlan, opts: pulumi.ResourceOptions | None = None) -> azure.Provider:
    """Return a new provider with the credentials of the environment."""
    return azure.Provider(
        name,
        subscription_id=plan.subscription,
        resource_provider_registrations=_REGISTRATIONS,
        features=azure.ProviderFeaturesArgs(persist_id_on_create_before_polling_for_completion=_REMEMBERS_FAILED),
        opts=opts,
    )
