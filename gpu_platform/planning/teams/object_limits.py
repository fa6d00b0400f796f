"""Limits on the number and size of a team's objects, which limit how much the team stores in etcd.

Every kind that members may create has a limit on the number of its objects. A ResourceQuota limits the number of
objects but not their size, so admission rules check sizes (catalog/rules/objects.yaml).

Sources: Kubernetes docs, Resource Quotas, object count; kubernetes v1.36.3, pkg/controller, resourcequota (new
definitions after 30 s, all counts after 5 min), deployment and statefulset (history); read 2026-11-29.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
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
    # A controller creates one claim for each pod that names a template.
    "resourceclaims": "pods",
}
"""Fields of `quota.objects` by resource. The limit for all other resources is `other_kinds`."""
_OWN_KEYS: Final = ("pods", "services", "configmaps", "secrets", "persistentvolumeclaims")
# Controllers create these kinds from members' objects.
# The history limit of an object determines how many old revisions its controller keeps.
_HISTORY: Final = ("replicasets", "controllerrevisions")
# A Deployment or StatefulSet keeps ten old revisions by default, as well as the current and the next revision.
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
"""Maximum size in KiB of objects in `LARGE`, such as Helm releases. The API server's limit is 1 MiB."""
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
"""Maximum size in KiB of objects that are neither in `LARGE` nor in `SEVERAL_TEMPLATES`. The size includes the
copy of the object that `kubectl apply` stores in an annotation.
"""


def object_quota(limits: ObjectLimits, addons: Collection[str], key_classes: Iterable[str]) -> Mapping[str, str]:
    """Return limits by ResourceQuota key, except for kinds that belong to the given add-ons. A team may create no
    claims of `key_classes`, whose keys its members could read.
    """
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
        **{f"{name}.storageclass.storage.k8s.io/persistentvolumeclaims": "0" for name in key_classes},
    }


def addon_object_quota(
    limits: ObjectLimits, addons: Collection[str], *, compute_domains: bool
) -> Mapping[str, str]:
    """Return limits by ResourceQuota key for the kinds whose CRDs the program may install.

    If a quota is older than a CRD, the API server rejects all objects of the kind until Kubernetes has counted
    them. Counting takes 30 seconds to five and a half minutes. This quota is therefore created after the declared
    workloads.

    `compute_domains` indicates whether members may create ComputeDomains. The DRA driver installs their CRD.
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
