"""Custom kinds that a ResourceQuota does not count yet.

Until the ResourceQuota counts a kind, the API server refuses objects of this kind.
"""

from __future__ import annotations

from gpu_platform.live.client import KubernetesClient

_COUNT = "count/"


def counted(client: KubernetesClient, namespace: str) -> set[str]:
    """Return the resources that the quotas of a namespace count, as `resource.group`."""
    quotas = client.objects("v1", "ResourceQuota", namespace=namespace)
    return {key.removeprefix(_COUNT) for quota in quotas for key in quota["status"].get("used", {})}


def uncounted(client: KubernetesClient, namespace: str) -> set[str]:
    """Return the installed custom kinds that the quotas of a namespace limit but do not count yet."""
    quotas = client.objects("v1", "ResourceQuota", namespace=namespace)
    limited = {key.removeprefix(_COUNT) for quota in quotas for key in quota["spec"]["hard"]}
    definitions = client.objects("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    return limited.intersection(one["metadata"]["name"] for one in definitions) - counted(client, namespace)
