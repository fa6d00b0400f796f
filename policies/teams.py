"""Rules about the namespaces of teams. These namespaces have a label with the name of the team."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpu_platform.base import names
from policies._gpu_operator import allocates_by_claims
from policies._inputs import NotVisible, Value
from policies._offers import units_per_node
from policies._pools import pools
from policies._rule import Breach, Rule, Settings, Severity
from policies._stack import ObjectSubject, Stack

_QUOTA_PREFIX = "requests."


@dataclass(frozen=True, slots=True, eq=False)
class Namespace(ObjectSubject):
    """One namespace."""

    @property
    def team(self) -> Value:
        """Label with the team's name. Raises NotVisible."""
        return self.resource.inputs.get("metadata", "labels", names.TEAM_LABEL)


def namespaces(stack: Stack) -> tuple[Namespace, ...]:
    """Return every namespace, including namespaces without a team."""
    return tuple(Namespace(resource) for resource in stack.of_kind("core/Namespace"))


class QuotaSettings(Settings):
    """GPU resources that a team's quota must limit, besides the resources of the pools in the stack."""

    resources: tuple[str, ...] = ()
    """GPU resources of pools in another stack, such as `nvidia.com/gpu` or `nvidia.com/mig-1g.10gb`."""


def _no_quota(stack: Stack, namespace: Namespace, settings: QuotaSettings) -> Iterator[Breach]:
    if not namespace.team.present:
        return
    pools_offer = stack.view(_pools_offer)
    offered = dict.fromkeys((*settings.resources, *pools_offer.resources))
    limited, limited_in_part = _limited(stack, namespace)
    missing = [resource for resource in offered if resource not in limited]
    if not offered and not any(_is_limit_of_gpus(resource) for resource in limited):
        missing = [names.GPU_RESOURCE]
    if missing:
        in_part = [resource for resource in missing if resource in limited_in_part]
        yield Breach(
            at=namespace.team,
            found=f"no ResourceQuota for {', '.join(missing)} in namespace {namespace.name!r}"
            + (f" ({', '.join(in_part)} only within a quota's scopes)" if in_part else ""),
            allowed="a ResourceQuota without scopes that limits every GPU resource of the pools, with 0 for a "
            "resource that the team may not use",
            fix="add to spec.hard: " + ", ".join(f'"{names.quota_key(resource)}": "0"' for resource in missing),
        )
    if pools_offer.gap is not None:
        raise pools_offer.gap
    if not pools_offer.has_pools and not settings.resources:
        raise namespace.team.not_visible(
            "the pools are not in this stack: list their resources in this rule's `resources`"
        )


@dataclass(frozen=True, slots=True)
class _Offer:
    """The GPU resources of all pools. `gap` is the first value that is not visible, or None if all are visible.

    `has_pools` is true if the stack has any pools, with or without GPUs.
    """

    resources: tuple[str, ...]
    has_pools: bool
    gap: NotVisible | None


def _pools_offer(stack: Stack) -> _Offer:
    """Return the GPU resources that the pools offer to every namespace."""
    gaps: list[NotVisible] = []
    offered: dict[str, None] = {}
    by_claims = allocates_by_claims(stack)
    has_pools = False
    for pool in stack.view(pools):
        has_pools = True
        try:
            if pool.has_gpus:
                offered |= dict.fromkeys(_device_classes(stack) if by_claims else units_per_node(stack, pool))
        except NotVisible as gap:
            gaps.append(gap)
    return _Offer(tuple(offered), has_pools, gaps[0] if gaps else None)


def _device_classes(stack: Stack) -> set[str]:
    """Return the device classes that claims can name: the classes of NVIDIA's DRA driver and the classes in the
    stack.
    """
    own = {resource.object_name for resource in stack.of_kind("resource.k8s.io/DeviceClass")}
    return {names.GPU_DEVICE_CLASS, names.MIG_DEVICE_CLASS, *own}


def _is_limit_of_gpus(resource: str) -> bool:
    return names.is_gpu_resource(resource) or resource == names.GPU_DEVICE_CLASS


def _limited(stack: Stack, namespace: Namespace) -> tuple[set[str], set[str]]:
    """Return the resources that the namespace's quotas limit for every pod, and the resources that they limit only
    within scopes.
    """
    for_all: set[str] = set()
    in_part: set[str] = set()
    name = namespace.resource.inputs.get("metadata", "name").text() or namespace.name
    for quota in stack.in_namespace("core/ResourceQuota", name):
        spec = quota.inputs.get("spec")
        scoped = bool(spec.get("scopes").items()) or spec.get("scopeSelector").present
        hard = {
            key.removeprefix(_QUOTA_PREFIX).removesuffix(names.DEVICE_QUOTA_SUFFIX)
            for key, _ in spec.get("hard").entries()
            if key.startswith(_QUOTA_PREFIX) or key.endswith(names.DEVICE_QUOTA_SUFFIX)
        }
        (in_part if scoped else for_all).update(hard)
    return for_all, in_part


gpu_namespace_quota = Rule(
    id="gpu-namespace-quota",
    severity=Severity.HIGH,
    description="A team's namespace has a quota for every GPU resource. A resource without a quota is unlimited.",
    subjects=lambda stack: stack.view(namespaces),
    check=_no_quota,
    settings=QuotaSettings,
)

RULES = (gpu_namespace_quota,)
