"""Limits of how many objects a team has, and of how large one may be: both bound what it keeps in etcd.

What is counted comes from the rights of members: a kind that they may create has a limit. A ResourceQuota counts
objects and knows no sizes; admission judges those (catalog/rules/objects.yaml).

Sources: Kubernetes docs, Resource Quotas, object count; kubernetes v1.36.3, pkg/controller, resourcequota
(new definitions after 30 s, all counts after 5 min), deployment and statefulset (history); read 2026-11-29.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from gpu_platform.catalog.template_kinds import TEMPLATE_KINDS, TRAIN_JOBS
from gpu_platform.planning.teams.access import ADDONS_BY_GROUP, ADMIN, COMPUTE_DOMAINS
from gpu_platform.stack.team import ObjectLimits

_FIELDS: Final[Mapping[str, str]] = {
    "pods": "pods",
    "services": "services",
    "configmaps": "config_maps",
    "secrets": "secrets",
    "persistentvolumeclaims": "claims",
    "jobs": "jobs",
    # A controller makes one for each pod that names a template.
    "resourceclaims": "pods",
}
"""Fields of `quota.objects` by resource; others have `other_kinds`."""
_OWN_KEYS: Final = ("pods", "services", "configmaps", "secrets", "persistentvolumeclaims")
# Controllers make them of what members write, and keep as many as it says.
_HISTORY: Final = ("replicasets", "controllerrevisions")
# The ten that a Deployment or StatefulSet keeps by default, the present one and the next.
_REVISIONS: Final = 12
_CREATED: Final = (
    *(
        (rule.group, resource)
        for rule in ADMIN
        if "create" in rule.verbs
        for resource in rule.resources
        if "/" not in resource
    ),
    ("apps", "controllerrevisions"),
)
_DOMAINS: Final = tuple((COMPUTE_DOMAINS.group, resource) for resource in COMPUTE_DOMAINS.resources)

LARGE: Final = ("configmaps", "secrets")
LARGE_KIB: Final = 512
"""Size of those: files and releases of Helm, within the API server's limit of 1 MiB."""
SEVERAL_TEMPLATES: Final = (
    *(
        kind.resource
        for kind in TEMPLATE_KINDS
        if len(kind.places) > 1 or any(place.items is not None for place in kind.places)
    ),
    TRAIN_JOBS[1],
)
SEVERAL_TEMPLATES_KIB: Final = 128
OTHERS_KIB: Final = 64
"""Size of an object of any other kind. `kubectl apply` writes what it applies into an annotation once more."""


def object_quota(limits: ObjectLimits, addons: Collection[str]) -> Mapping[str, str]:
    """Return limits by key of a ResourceQuota, but for the kinds of these add-ons of the stack file."""
    counts = {
        _key(group, resource): str(_limit(resource, limits))
        for group, resource in _CREATED
        if not _is_of(addons, group)
    }
    return {
        **counts,
        "services.loadbalancers": str(limits.load_balancers),
        "services.nodeports": str(limits.node_ports),
        "requests.storage": limits.storage,
    }


def addon_object_quota(
    limits: ObjectLimits, addons: Collection[str], *, compute_domains: bool
) -> Mapping[str, str]:
    """Return limits by key of a ResourceQuota of the kinds whose definitions the program may install.

    Where a quota is older than a definition, the API server refuses all objects of the kind until Kubernetes has
    counted them: 30 seconds to five and a half minutes. This quota therefore comes after the declared workloads.

    `compute_domains`: whether members may make ComputeDomains, whose definition the DRA driver has.
    """
    kinds = [(group, resource) for group, resource in _CREATED if _is_of(addons, group)]
    return {
        _key(group, resource): str(_limit(resource, limits))
        for group, resource in (*kinds, *(_DOMAINS if compute_domains else ()))
    }


def _is_of(addons: Collection[str], group: str) -> bool:
    return any(addon in addons for addon in ADDONS_BY_GROUP.get(group, ()))


def _key(group: str, resource: str) -> str:
    if resource in _OWN_KEYS:
        return resource
    return f"count/{resource}.{group}" if group else f"count/{resource}"


def _limit(resource: str, limits: ObjectLimits) -> int:
    if resource in _HISTORY:
        return limits.other_kinds * _REVISIONS
    count: int = getattr(limits, _FIELDS.get(resource, "other_kinds"))
    return count
