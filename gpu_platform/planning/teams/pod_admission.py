"""Admission rules that limit pods and pod templates of a team to the resources that it was granted.

They judge what quotas, Pod Security and RBAC do not see: GPUs taken by an environment variable or an annotation,
GPU nodes entered without a request for a GPU, and requests that no node can ever satisfy. The ids are those of the
policy pack where it has the same rule.

Sources: NVIDIA container toolkit docs, NVIDIA_VISIBLE_DEVICES and CDI annotations; GKE's NRI device injector
(container-engine-accelerators); Kubernetes docs, ValidatingAdmissionPolicy, CEL in Kubernetes; CVE-2020-8554
(external addresses of Services). Read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gpu_platform.base import names
from gpu_platform.catalog.pod_devices import (
    DEVICE_ANNOTATIONS,
    NO_DEVICES,
    RUNTIME_CLASS_PREFIX,
    SHARES_PER_CONTAINER,
    VISIBLE_DEVICES,
)
from gpu_platform.catalog.pod_limits import (
    DO_NOT_DISRUPT,
    INLINE_CSI_DRIVERS,
    LEAVING_TAINTS,
    LONGEST_GRACE_SECONDS,
    SAFE_TO_EVICT,
)
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.teams.admission_rule import POD, TEMPLATE, AdmissionSubject, PodRule, of_all, units_of
from gpu_platform.planning.teams.alignment_rule import AlignedPool, alignment_rules
from gpu_platform.planning.teams.cel import IS_GPU_RESOURCE, text, texts
from gpu_platform.planning.teams.pod_templates import templates_of
from gpu_platform.planning.teams.requesters import by_a_controller
from gpu_platform.planning.teams.train_jobs import CHANGES, PATCH, train_job_rules
from gpu_platform.planning.teams.train_jobs import VARIABLES as TRAIN_JOB_VARIABLES
from gpu_platform.planning.teams.volume_rules import (
    bare_pod_rule,
    nic_share_rules,
    node_keeping_rules,
    volume_rule,
)

POLICY_SECONDS: Final = 2.0
"""How long after its creation an API server may not act on a policy.

It reads admission policies once a second (apiserver v0.36.3, plugin/policy/generic/policy_source.go; read
2026-11-25). What members create before has not the defaults of their namespace, and is not checked.
"""
_WITH_RESOURCES: Final = ("containers", "initContainers")
_KINDS_OF_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLimits:
    """Limits of a team's pods that do not depend on the pools.

    `devices`: annotations that give a fabric's daemon its devices, and their values as regular expressions; other
    rules keep the names of daemons for them. `accounts`: user names of service accounts of other namespaces that
    are members. `drivers`: CSI drivers of inline volumes. `grace_seconds`: the longest time between SIGTERM and
    SIGKILL. `bare`: whether pods may have no controller. `aligned`: pools whose kubelets align pods, by name;
    `no_other_gpus`: all GPUs of the cluster are those of the pools.
    """

    devices: Mapping[str, str] = field(default_factory=dict[str, str])
    accounts: tuple[str, ...] = ()
    drivers: tuple[str, ...] = INLINE_CSI_DRIVERS
    grace_seconds: int = LONGEST_GRACE_SECONDS
    bare: bool = True
    aligned: Mapping[str, AlignedPool] = field(default_factory=dict[str, AlignedPool])
    no_other_gpus: bool = False


def pod_rules(pools: Sequence[PoolPlan], limits: PodLimits | None = None) -> tuple[PodRule, ...]:
    """Return the rules of pods of a team, given the pools of the environment."""
    limits = limits or PodLimits()
    found = _rules(POD, "request.operation != 'CREATE' || ", pools, limits)
    # First: whatever else is wrong, no other change of the pod helps.
    return found if limits.bare else (bare_pod_rule(by_a_controller(limits.accounts)), *found)


def template_rules(pools: Sequence[PoolPlan], limits: PodLimits | None = None) -> tuple[PodRule, ...]:
    """Return the same rules of the pod templates of other objects: their pods would be refused one by one."""
    of_templates = tuple(
        PodRule(
            id=rule.id,
            expression=f"variables.templates.all(each, {rule.expression})",
            message=rule.message,
            message_expression=f"'{rule.id}: ' + variables.templates.filter(each, !({rule.expression}))"
            f".map(each, string(each.at)).join(', ') + {text(f': {rule.message}')}",
        )
        for rule in (_finalizer_rule(TEMPLATE), *_rules(TEMPLATE, "", pools, limits or PodLimits()))
    )
    return (
        *of_templates,
        *train_job_rules((_finalizer_rule(PATCH), *_rules(PATCH, "", pools, limits or PodLimits()))),
    )


def _finalizer_rule(of: AdmissionSubject) -> PodRule:
    """Return the rule of finalizers in templates: controllers copy what no member may set."""
    return PodRule(
        id="object-finalizer",
        expression=f"{of.pod}.?metadata.?finalizers.orValue([]).size() == 0",
        message="pods get the finalizers of their template, which nobody would remove: remove metadata.finalizers "
        "of the template",
    )


def _rules(
    of: AdmissionSubject, scheduled: str, pools: Sequence[PoolPlan], limits: PodLimits
) -> tuple[PodRule, ...]:
    """Return the rules of a subject. `scheduled`: CEL with `||`, true if a pod may have its node already."""
    devices = limits.devices
    return (
        PodRule(
            id="gpu-visible-devices-bypass",
            expression=" && ".join(of_all(of, kind, _NO_VISIBLE_DEVICES) for kind in _KINDS_OF_CONTAINERS),
            message=f"{VISIBLE_DEVICES} may be void or none alone: remove it, and request GPUs under "
            "resources.limits",
        ),
        PodRule(
            id="gpu-device-annotation",
            expression=f"{of.pod}.?metadata.?annotations.orValue({{}}).all(key, "
            + " && ".join(f"!key.startsWith('{prefix}')" for prefix in DEVICE_ANNOTATIONS)
            + "".join(f" || ({_gives_a_daemon(of, key, value)})" for key, value in devices.items())
            + ")",
            message="annotations may not name devices ("
            + ", ".join(DEVICE_ANNOTATIONS)
            + ")"
            + (f" but {', '.join(devices)}, with the devices of the daemon as published" if devices else "")
            + ": remove them, and request GPUs under resources.limits",
        ),
        PodRule(
            id="gpu-runtime-class",
            expression=f"!has({of.spec}.runtimeClassName) || {of.asks} || "
            f"!{of.spec}.runtimeClassName.startsWith('{RUNTIME_CLASS_PREFIX}')",
            message="the runtime class of NVIDIA is for pods that request a GPU: remove runtimeClassName",
        ),
        PodRule(
            id="gpu-wildcard-toleration",
            expression=f"{of.asks} || !has({of.spec}.tolerations) || {of.spec}.tolerations.all(one, "
            + " && ".join(_tolerates_none(effect, keys) for effect, keys in _gpu_taints(pools).items())
            + ")",
            message="pods without GPUs may not tolerate taints of GPU nodes, nor all taints: remove the "
            "toleration, or request a GPU",
        ),
        *_no_unproven_nodes(of, pools),
        PodRule(
            id="gpu-wildcard-toleration",
            expression=f"!has({of.spec}.tolerations) || {of.spec}.tolerations.all(one, "
            f"{_tolerates_none('NoSchedule', LEAVING_TAINTS)})",
            message=f"pods may not tolerate {', '.join(LEAVING_TAINTS)}, nor all taints: they come back to a node "
            "that is drained; remove the toleration, or name the taints that the pod tolerates",
        ),
        PodRule(
            id="gpu-node-name",
            expression=f"{scheduled}!has({of.spec}.nodeName) || {of.spec}.nodeName == ''",
            message="the scheduler chooses nodes: remove nodeName, and use a node selector",
        ),
        PodRule(
            id="gpu-shared-request-one",
            expression=" && ".join(of_all(of, kind, _one_share(pools)) for kind in _WITH_RESOURCES),
            message=f"a container may request {SHARES_PER_CONTAINER} share of a GPU: more give no more compute; "
            "request whole GPUs of a pool that is not shared",
        ),
        PodRule(
            id="gpu-max-per-container",
            expression=" && ".join(
                (
                    *(
                        of_all(of, kind, _within(_most_per_node(pools), _judged(pools)))
                        for kind in _WITH_RESOURCES
                    ),
                    # Containers run at once, and init containers one after the other.
                    *(_sum_within(of, name, most) for name, most in sorted(_most_per_node(pools).items()) if most),
                )
            ),
            message=_too_much(pools),
        ),
        *alignment_rules(of, pools, limits.aligned, alone=limits.no_other_gpus),
        *nic_share_rules(of, pools),
        volume_rule(of, limits.drivers),
        *node_keeping_rules(of, by_a_controller(limits.accounts), limits.grace_seconds),
    )


def claim_rules(pools: Sequence[PoolPlan]) -> tuple[PodRule, ...]:
    """Return the rules of a team's claims of devices, given the pools of the environment."""
    most = max((pool.gpus_per_node for pool in pools), default=0)
    return (
        PodRule(
            id="gpu-claim-requests",
            expression="variables.requests.size() > 0",
            message="pods with a claim of no device would run on GPU nodes: write a request, or remove the claim",
        ),
        PodRule(
            id="gpu-claim-requests",
            expression="variables.requests.all(one, "
            "(!has(one.exactly) || (!one.exactly.?adminAccess.orValue(false) && "
            f"{_claims('one.exactly', most)})) && "
            f"one.?firstAvailable.orValue([]).all(other, {_claims('other', most)}))",
            message="a claim takes free devices, as many as a node has: remove adminAccess, and request at most "
            f"{most} of {names.GPU_DEVICE_CLASS}",
        ),
    )


def _claims(request: str, most: int) -> str:
    """Return that a request of a claim is for no more GPUs than a node has."""
    return f"({request}.deviceClassName != '{names.GPU_DEVICE_CLASS}' || {request}.?count.orValue(1) <= {most})"


SERVICE_RULES: Final = (
    PodRule(
        id="service-external-address",
        expression="!has(object.spec.externalIPs) || size(object.spec.externalIPs) == 0",
        message="externalIPs of a Service take traffic for any address: remove them",
    ),
    PodRule(
        id="service-external-name",
        expression="!has(object.spec.type) || object.spec.type != 'ExternalName'",
        message="type ExternalName makes an ingress controller ask any host for the team: let pods use the host's "
        "own name, or write a selector",
    ),
)


def container_asks_for_gpus(container: str) -> str:
    """Return that a container requests GPUs, as CEL."""
    return (
        f"has({container}.resources) && has({container}.resources.limits) && "
        f"{container}.resources.limits.exists(name, {IS_GPU_RESOURCE} && "
        f"quantity(string({container}.resources.limits[name])).isGreaterThan(quantity('0')))"
    )


def asks_for_gpus(spec: str) -> str:
    """Return that a pod spec requests GPUs or claims devices, as CEL."""
    return f"(has({spec}.resourceClaims) && size({spec}.resourceClaims) > 0) || " + " || ".join(
        f"(has({spec}.{kind}) && {spec}.{kind}.exists(one, {container_asks_for_gpus('one')}))"
        for kind in _WITH_RESOURCES
    )


ASKS_FOR_GPUS: Final = asks_for_gpus("object.spec")
"""That a pod requests GPUs or claims devices, as CEL."""
VARIABLES: Final[Mapping[str, str]] = {"asksForGpus": ASKS_FOR_GPUS}
"""Variables that expressions of pods use, as CEL."""
SPEC_CHANGES: Final = "request.operation == 'CREATE' || object.spec != oldObject.spec"
"""That a request changes what runs, as CEL: what is older than a rule stays, and its finalizers can go."""
POD_CHANGES: Final = (
    f"{SPEC_CHANGES} || object.metadata.?annotations.orValue({{}}).exists(key, ("
    + " || ".join(f"key.startsWith('{prefix}')" for prefix in DEVICE_ANNOTATIONS)
    + f" || key in {texts((SAFE_TO_EVICT, *DO_NOT_DISRUPT))}) && "
    "oldObject.metadata.?annotations[?key].orValue('') != object.metadata.annotations[key])"
)
"""That a request changes what a pod runs, its devices by annotation, or how it keeps its node, as CEL."""
TEMPLATE_CHANGES: Final = (
    f"request.operation == 'CREATE' || {templates_of('object')} != {templates_of('oldObject')} || {CHANGES}"
)
"""That a request changes pod templates, as CEL: what is older than a rule can be scaled, stopped and deleted."""
TEMPLATE_VARIABLES: Final[Mapping[str, str]] = {
    "found": templates_of("object"),
    "templates": "variables.found.map(each, {'at': each.at, 'template': each.template, 'deadline': each.deadline, "
    f"'asks': dyn({asks_for_gpus('each.template.spec')})}})",
    **TRAIN_JOB_VARIABLES,
}
"""Variables that expressions of pod templates use, as CEL: each with its place, and whether it asks for GPUs."""
CLAIM_VARIABLES: Final[Mapping[str, str]] = {
    # A template has the spec of its claims in its own.
    "devices": "dyn(object.spec).?spec.?devices.orValue(dyn(object.spec).?devices.orValue({}))",
    # The API server shows a field without a value as null.
    "found": "variables.devices.?requests.orValue(dyn([]))",
    "requests": "variables.found == null ? [] : variables.found",
}
"""Variables that expressions of claims, and of templates of claims, use, as CEL."""

_NO_DEVICES: Final = ", ".join(f"'{value}'" for value in NO_DEVICES)
_NO_VISIBLE_DEVICES: Final = (
    f"!has(one.env) || one.env.all(variable, variable.name != '{VISIBLE_DEVICES}' || "
    # An empty value is left out of the object that the API server checks.
    f"(!has(variable.valueFrom) && (!has(variable.value) || variable.value in [{_NO_DEVICES}])))"
)


def _gives_a_daemon(of: AdmissionSubject, annotation: str, devices: str) -> str:
    """Return that the annotation `key` gives the published devices to the container of that name."""
    return f"key == {text(annotation)} && {of.pod}.metadata.annotations[key].matches({text(devices)})"


def _judged(pools: Sequence[PoolPlan]) -> str:
    """Return CEL that is true if the resource `name` is one of GPUs or, on nodes of a cloud, of NICs."""
    # What NICs the nodes of an existing cluster have is not known.
    nics = f"({IS_GPU_RESOURCE} || name == '{names.EFA_RESOURCE}')"
    return nics if all(pool.cloud for pool in pools) else IS_GPU_RESOURCE


def _within(most: Mapping[str, int], judged: str) -> str:
    """Return that the resources of `one` that `judged` names are offered by a node, in that number."""
    offered = "{" + ", ".join(f"'{name}': {count}" for name, count in sorted(most.items())) + "}"
    return (
        "!has(one.resources) || !has(one.resources.limits) || one.resources.limits.all(name, "
        f"!{judged} || "
        "quantity(string(one.resources.limits[name])).asInteger() == 0 || "
        f"(name in {offered} && quantity(string(one.resources.limits[name])).asInteger() <= {offered}[name]))"
    )


def _sum_within(of: AdmissionSubject, name: str, most: int) -> str:
    """Return that the containers of a pod have no more than `most` of a resource in sum."""
    return f"{of.spec}.containers.map(one, {units_of(name)}).sum() <= {most}"


def _one_share(pools: Sequence[PoolPlan]) -> str:
    """Return that `one` requests at most one share of each shared resource."""
    units = "quantity(string(one.resources.limits[name])).asInteger()"
    whole, shared = _most_whole_and_shared(pools)
    only_shared = [name for name in shared if name not in whole]
    clauses = [
        f"!({IS_GPU_RESOURCE} && name.endsWith('{names.SHARED_SUFFIX}')) && "
        f"!(name in {_texts(only_shared)}) || {units} <= {SHARES_PER_CONTAINER}",
        *(
            f"name != '{name}' || {units} <= {whole[name]} || {units} > {most}"
            for name, most in shared.items()
            if most > whole.get(name, most)
        ),
    ]
    judged = clauses[0] if len(clauses) == 1 else " && ".join(f"({one})" for one in clauses)
    return f"!has(one.resources) || !has(one.resources.limits) || one.resources.limits.all(name, {judged})"


def _most_whole_and_shared(pools: Sequence[PoolPlan]) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Return the most units on a node by resource, of pools that do not share it and of pools that do.

    Without the names of shares, which have a suffix.
    """
    found: tuple[dict[str, int], dict[str, int]] = ({}, {})
    for pool in pools:
        for offer in pool.resources:
            if not offer.name.endswith(names.SHARED_SUFFIX):
                most = found[pool.sharing.shares(offer.name)]
                most[offer.name] = max(most.get(offer.name, 0), offer.per_node)
    return {name: found[0][name] for name in sorted(found[0])}, {name: found[1][name] for name in sorted(found[1])}


def _most_per_node(pools: Sequence[PoolPlan]) -> Mapping[str, int]:
    """Return the most units of each resource of GPUs and NICs that a node offers."""
    most: dict[str, int] = {names.GPU_RESOURCE: 0}
    for pool in pools:
        for offer in pool.resources:
            if names.is_gpu_resource(offer.name):
                most[offer.name] = max(most.get(offer.name, 0), offer.per_node)
        for name, count in pool.cloud_nodes.nic_resources.items():
            most[name] = max(most.get(name, 0), count)
    return most


def _too_much(pools: Sequence[PoolPlan]) -> str:
    """Return the message for a pod that requests more than a node has, or what none has."""
    most = ", ".join(f"{name} {count}" for name, count in sorted(_most_per_node(pools).items()) if count)
    if not most:
        return (
            "no node has GPUs as a resource: claim devices by resourceClaims, with a ResourceClaimTemplate of the "
            "namespace"
        )
    return f"no node can have what the pod requests; request what one has, at most per node: {most}"


def _tolerates_none(effect: str, keys: Sequence[str]) -> str:
    """Return that the toleration `one` covers no taint of these keys. Without an effect it covers every effect."""
    return (
        f"((has(one.effect) && !(one.effect in ['', '{effect}'])) || "
        f"(has(one.key) && one.key != '' && !(one.key in {_texts(keys)})))"
    )


def _no_unproven_nodes(of: AdmissionSubject, pools: Sequence[PoolPlan]) -> tuple[PodRule, ...]:
    """Return the rule that keeps pods off nodes that validation holds back, where a pool has such nodes."""
    keys: dict[str, set[str]] = {}
    for pool in pools:
        for taint in (*pool.startup_taints, *pool.failed_taints):
            keys.setdefault(taint.effect, set()).add(taint.key)
    return tuple(
        PodRule(
            id="gpu-unproven-node",
            expression=f"!has({of.spec}.tolerations) || {of.spec}.tolerations.all(one, "
            f"{_tolerates_none(effect, sorted(found))})",
            message=f"pods may not tolerate {' or '.join(sorted(found))}, nor all taints: no pod starts on a node "
            "that has not passed validation; remove the toleration, or name the taints that the pod tolerates",
        )
        for effect, found in sorted(keys.items())
    )


def _gpu_taints(pools: Sequence[PoolPlan]) -> Mapping[str, Sequence[str]]:
    """Return the keys of the taints that keep pods without GPUs off GPU nodes, by effect."""
    keys: dict[str, set[str]] = {"NoSchedule": {names.GPU_TAINT_KEY}}
    for pool in pools:
        for taint in pool.taints if pool.resources else ():
            if taint.effect != "PreferNoSchedule":
                keys.setdefault(taint.effect, set()).add(taint.key)
    return {effect: sorted(found) for effect, found in sorted(keys.items())}


def _texts(values: Sequence[str]) -> str:
    return "[" + ", ".join(f"'{value}'" for value in values) + "]"
