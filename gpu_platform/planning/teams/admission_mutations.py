"""CEL expressions that set default values on pods in the API server.

They run after the other plugins: LimitRanger has set requests and limits, and the priority plugin has written
`priority: 0`. All plugins then run once more. This leads to the following decisions:

- A request that LimitRanger set counts as not set by the user. LimitRanger records such requests in an annotation.
  The value is compared too, because a copy of a live pod keeps the annotation.
- If a container's CPU request is above the default CPU limit, the limit is raised. It is not removed, because
  LimitRanger would add the default limit again in the second run.
- `priority` is removed when the class is set, because the second run computes it and refuses any other number.
- Tolerations are one atomic list, which only a JSON patch can extend.

Sources: kubernetes v1.36.3, pkg/kubeapiserver/options/plugins.go (order), plugin/pkg/admission/limitranger and
priority (admission.go); apiserver v0.36.3, pkg/admission/reinvocation.go and plugin/policy/mutating; read
2026-11-23.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gpu_platform.base.quantity import amount_of
from gpu_platform.planning.clouds.storage import VolumeSidecar
from gpu_platform.planning.teams.admission_defaults import DefaultToleration, PodDefaults, PoolShares

_LIMIT_RANGER: Final = "kubernetes.io/limit-ranger"
_LIMIT_RANGER_PREFIX: Final = "LimitRanger plugin set: "
# Conversion of a quantity to millicores or MiB.
_FACTORS: Final = {"cpu": "* 1000.0", "memory": "/ 1048576.0"}
_CLAIMS: Final = "(has(object.spec.resourceClaims) && size(object.spec.resourceClaims) > 0)"


def variables(
    defaults: PodDefaults, default_request: Mapping[str, str], default_limit: Mapping[str, str]
) -> Mapping[str, str]:
    """Return the variables that the mutations use. `default_request` and `default_limit` come from the
    LimitRange.
    """
    if not defaults.shares:
        return {}
    found = {
        "selector": "object.spec.?nodeSelector.orValue({})",
        "filled": f"object.metadata.?annotations[?'{_LIMIT_RANGER}'].hasValue() ? "
        f"object.metadata.annotations['{_LIMIT_RANGER}'].replace('{_LIMIT_RANGER_PREFIX}', '').split('; ') : []",
    }
    for index, resource in enumerate(_FACTORS):
        found |= _amounts(resource, index, defaults, default_request[resource], default_limit[resource])
    return found


def mutations(defaults: PodDefaults) -> tuple[str, ...]:
    """Return the mutations for a pod that requests GPUs. Each is a list of JSON patches."""
    found = [_add_toleration(one) for one in defaults.tolerations]
    found.append(
        "object.spec.?priorityClassName.orValue('') != '' ? [] : "
        "(has(object.spec.priority) ? [JSONPatch{op: 'remove', path: '/spec/priority'}] : []) + "
        f"[JSONPatch{{op: 'add', path: '/spec/priorityClassName', value: '{defaults.priority_class}'}}]"
    )
    if defaults.shares:
        # If a container requests more GPUs than a node has, its request would exceed the limit and is not set.
        # Another rule reports containers that request more GPUs than a node has.
        fits = f"variables.cpuRequests[i] > 0 && variables.cpuRequests[i] <= {defaults.cpu_limit_millicores}"
        patches = " + ".join(
            (
                _set("requests", "cpu", fits, "string(variables.cpuRequests[i]) + 'm'"),
                _set(
                    "limits",
                    "cpu",
                    "variables.cpuShares[i] > 0 && variables.cpuUnlimited[i]",
                    f"'{defaults.cpu_limit_millicores}m'",
                ),
                _set(
                    "requests",
                    "memory",
                    "variables.memoryRequests[i] > 0",
                    "string(variables.memoryRequests[i]) + 'Mi'",
                ),
                _set(
                    "limits",
                    "memory",
                    "variables.memoryShares[i] > 0 && variables.memoryUnlimited[i] && "
                    "(variables.memoryRequests[i] > 0 || !variables.memoryOpen[i])",
                    "variables.memoryRequests[i] > 0 ? string(variables.memoryRequests[i]) + 'Mi' : "
                    "string(one.resources.requests['memory'])",
                ),
            )
        )
        # Skip pods with pod-level resources, because the defaults of containers might exceed these resources.
        found.append(f"has(object.spec.resources) ? [] : {patches}")
    if defaults.read_only:
        found += [_mount_read_only(kind, defaults.read_only) for kind in ("containers", "initContainers")]
    return tuple(found)


def _mount_read_only(kind: str, paths: Sequence[str]) -> str:
    """Return a mutation that makes all mounts of the host paths read-only in all containers of one kind."""
    return (
        f"object.spec.?{kind}.orValue([]).transformList(i, one, one.?volumeMounts.orValue([]).transformList(j, "
        "mount, !mount.?readOnly.orValue(false) && object.spec.?volumes.orValue([]).exists(volume, "
        f"volume.name == mount.name && volume.?hostPath.?path.orValue('') in {_texts(paths)}), "
        f"JSONPatch{{op: 'add', path: '/spec/{kind}/' + string(i) + '/volumeMounts/' + string(j) + '/readOnly', "
        "value: true})).flatten()"
    )


def _add_toleration(toleration: DefaultToleration) -> str:
    wanted = [_requests(toleration.resources)] if toleration.resources else []
    wanted += [_CLAIMS] if toleration.claims else []
    tolerated = (
        "has(object.spec.tolerations) && object.spec.tolerations.exists(one, "
        f"one.?effect.orValue('') in ['', '{toleration.effect}'] && (one.?key.orValue('') == '' || "
        f"(one.key == '{toleration.taint}' && (one.?operator.orValue('') == 'Exists' || "
        f"one.?value.orValue('') == '{toleration.value}'))))"
    )
    added = f"{{'key': '{toleration.taint}', 'operator': 'Exists', 'effect': '{toleration.effect}'}}"
    return (
        f"!({' || '.join(wanted) or 'false'}) || ({tolerated}) ? [] : has(object.spec.tolerations) ? "
        f"[JSONPatch{{op: 'add', path: '/spec/tolerations/-', value: {added}}}] : "
        f"[JSONPatch{{op: 'add', path: '/spec/tolerations', value: [{added}]}}]"
    )


def _requests(resources: Sequence[str]) -> str:
    """Return a CEL condition that is true if a container requests one of the resources."""
    return " || ".join(
        f"(has(object.spec.{kind}) && object.spec.{kind}.exists(one, {_texts(resources)}.exists(name, "
        "one.?resources.?limits[?name].hasValue() && "
        "quantity(string(one.resources.limits[name])).isGreaterThan(quantity('0')))))"
        for kind in ("containers", "initContainers")
    )


def _amounts(
    resource: str, index: int, defaults: PodDefaults, default_request: str, default_limit: str
) -> Mapping[str, str]:
    """Return the CEL variables for CPU (millicores) or memory (MiB). Lists have one entry for each container.

    `Shares` is the default share for the container's GPUs, or 0 without GPUs. `Open` indicates whether the
    container sets no request, and `Unlimited` whether it sets no limit. `Taken` is the sum of the requests that
    the pod's containers set themselves. `Requests` is the default request, or 0 to leave the container unchanged.
    """
    offered = "[" + ", ".join(_offered(one, index) for one in defaults.shares) + "]"
    factor = _FACTORS[resource]
    amount = (
        f"one.?resources.?requests[?'{resource}'].hasValue() ? "
        f"int(quantity(string(one.resources.requests['{resource}'])).asApproximateFloat() {factor}) : 0"
    )
    shares_of = f"variables.{resource}Shares"
    is_open = _not_named("requests", resource, default_request)
    is_unlimited = _not_named("limits", resource, default_limit)
    return {
        f"{resource}Offered": offered,
        f"{resource}Shares": "object.spec.containers.map(one, one.?resources.?limits.orValue({}).map(name, "
        f"variables.{resource}Offered.exists(pool, name in pool) ? "
        f"variables.{resource}Offered.filter(pool, name in pool).map(pool, pool[name]).min() * "
        "quantity(string(one.resources.limits[name])).asInteger() : 0).sum())",
        f"{resource}Open": f"object.spec.containers.map(one, {is_open})",
        f"{resource}Unlimited": f"object.spec.containers.map(one, {is_unlimited})",
        # A sidecar is an init container that always restarts, so it runs together with the main containers.
        f"{resource}Taken": "object.spec.containers.transformList(i, one, "
        f"{shares_of}[i] == 0 || !variables.{resource}Open[i], {amount}).sum() + "
        "object.spec.?initContainers.orValue([]).filter(one, one.?restartPolicy.orValue('') == 'Always')"
        f".map(one, {amount}).sum(){_added_later(resource, defaults.sidecar)}",
        f"{resource}Divided": f"{shares_of}.transformList(i, share, variables.{resource}Open[i], share).sum()",
        f"{resource}Requests": f"{shares_of}.transformList(i, share, "
        f"share > 0 && variables.{resource}Open[i] ? "
        f"({shares_of}.sum() - variables.{resource}Taken) * share / variables.{resource}Divided : 0)",
    }


def _added_later(resource: str, sidecar: VolumeSidecar | None) -> str:
    """Return the resource requests of a sidecar that the cloud adds later, as a term of a CEL sum.

    The term is 0 if the sidecar is already in the pod, because it is then counted as one of the pod's containers.
    """
    if sidecar is None:
        return ""
    amount = int(amount_of(resource, getattr(sidecar, resource)) / (1 if resource == "cpu" else 2**20))
    annotated = " && ".join(
        f"object.metadata.?annotations[?'{key}'].orValue('') == '{value}'"
        for key, value in sidecar.annotations.items()
    )
    absent = f"!object.spec.?initContainers.orValue([]).exists(one, one.name == '{sidecar.name}')"
    return f" + ({annotated} && {absent} ? {amount} : 0)"


def _offered(shares: PoolShares, index: int) -> str:
    """Return a CEL map with a pool's default amounts by resource. It is empty if the pod selects nodes of another
    pool.
    """
    units = "{" + ", ".join(f"'{name}': {share[index]}" for name, share in sorted(shares.units.items())) + "}"
    elsewhere = " || ".join(
        f"('{key}' in variables.selector && variables.selector['{key}'] != '{value}')"
        for key, value in sorted(shares.node_selector.items())
    )
    return f"({elsewhere}) ? {{}} : {units}" if elsewhere else units


def _not_named(kind: str, resource: str, default: str) -> str:
    """Return a CEL condition that is true if container `one` sets no request or limit, or only has LimitRanger's
    default.
    """
    note = f" {kind.removesuffix('s')} for container "
    return (
        f"!one.?resources.?{kind}[?'{resource}'].hasValue() || "
        f"(variables.filled.exists(note, note.endsWith('{note}' + one.name) && "
        f"'{resource}' in note.split('{note}')[0].split(', ')) && "
        f"quantity(string(one.resources.{kind}['{resource}'])).compareTo(quantity('{default}')) == 0)"
    )


def _set(kind: str, resource: str, condition: str, value: str) -> str:
    return (
        f"object.spec.containers.transformList(i, one, {condition}, JSONPatch{{op: 'add', "
        f"path: '/spec/containers/' + string(i) + '/resources/{kind}/{resource}', value: {value}}})"
    )


def _texts(values: Sequence[str]) -> str:
    return "[" + ", ".join(f"'{value}'" for value in values) + "]"
