"""Rules about scaling by KEDA: missing metrics, and the servers that KEDA queries for a team.

In the namespaces of teams, the API server enforces the last two rules, with the same ids.

Sources: KEDA docs, Prometheus scaler (ignoreNullValues), read 2026-11-23; catalog/scaling_triggers.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpu_platform.catalog.scaling_triggers import (
    ADDRESSES,
    AUTHENTICATION,
    FOREIGN_AUTHENTICATION,
    HARMLESS_TRIGGERS,
    PROMETHEUS,
)
from policies._rule import Breach, Remedy, Rule, Settings, Severity
from policies._stack import ObjectSubject, Stack
from policies.isolation import SystemSettings

_GPU_METRICS = ("DCGM_", "nvidia", "gpu")


@dataclass(frozen=True, slots=True, eq=False)
class ScaledObject(ObjectSubject):
    """One ScaledObject or ScaledJob of KEDA."""


def scaled_objects(stack: Stack) -> tuple[ScaledObject, ...]:
    """Return every ScaledObject and ScaledJob."""
    return tuple(ScaledObject(one) for one in stack.of_kind("keda.sh/ScaledObject", "keda.sh/ScaledJob"))


def _scales_down_blindly(_: Stack, scaled: ScaledObject, __: Settings) -> Iterator[Breach]:
    for trigger in scaled.resource.inputs.get("spec", "triggers").items():
        if trigger.get("type").text() != "prometheus":
            continue
        metadata = trigger.get("metadata")
        query = metadata.get("query").text() or ""
        ignores = metadata.get("ignoreNullValues")
        if not any(part.casefold() in query.casefold() for part in _GPU_METRICS):
            continue
        if not ignores.present or ignores.truth() or ignores.text() == "true":
            yield Breach(
                at=ignores,
                found="ignoreNullValues "
                + ("true" if ignores.present else "true (the default)")
                + " on a GPU metric",
                allowed='"false", so that a missing metric is an error',
                fix='set ignoreNullValues: "false", and a fallback with the number of replicas to keep',
                remedy=Remedy(ignores, "false"),
            )


keda_null_scaledown = Rule(
    id="keda-null-scaledown",
    severity=Severity.HIGH,
    description="A missing GPU metric is an error, not zero. Otherwise an exporter outage would cause a "
    "scale-down.",
    subjects=lambda stack: stack.view(scaled_objects),
    check=_scales_down_blindly,
    settings=Settings,
    before_only="a violation harms only the team's own service, and the rule recognises GPU metrics only by name",
    remedy='`ignoreNullValues: "false"` in the trigger',
)


class TriggerSettings(SystemSettings):
    """Servers and trigger types that are allowed."""

    servers: tuple[str, ...] = (PROMETHEUS,)
    """Addresses that triggers of types `prometheus` and `metrics-api` may query, with all paths below them."""
    triggers: tuple[str, ...] = ()
    """Trigger types that may query any server."""


def _asks_elsewhere(_: Stack, scaled: ScaledObject, settings: TriggerSettings) -> Iterator[Breach]:
    if scaled.resource.seen_namespace() in settings.system_namespaces:
        return
    free = (*HARMLESS_TRIGGERS, *settings.triggers)
    for trigger in scaled.resource.inputs.get("spec", "triggers").items():
        kind = trigger.get("type")
        name = kind.text() or ""
        if name in free:
            continue
        address = trigger.get("metadata", ADDRESSES.get(name, "url"))
        server = (address.text() or "") if name in ADDRESSES else ""
        if any(server == one or server.startswith(one + "/") for one in settings.servers):
            continue
        yield Breach(
            at=address if server else kind,
            found=f"a trigger of type {name or '(none)'}" + (f" of {server}" if server else ""),
            allowed=f"{', '.join(free)}, or {' or '.join(ADDRESSES)} of {', '.join(settings.servers)}, because "
            "KEDA queries from its own namespace and bypasses the team's network policies",
            fix="use an allowed trigger, or add the server or the type to teams[].scaling of the stack file",
        )


keda_trigger_server = Rule(
    id="keda-trigger-server",
    severity=Severity.HIGH,
    description="A trigger queries only servers that the stack file allows. KEDA can reach servers that "
    "the team's pods cannot.",
    subjects=lambda stack: stack.view(scaled_objects),
    check=_asks_elsewhere,
    settings=TriggerSettings,
)


@dataclass(frozen=True, slots=True, eq=False)
class Authentication(ObjectSubject):
    """One TriggerAuthentication of KEDA, or an object with triggers that may name one."""


def authentications(stack: Stack) -> tuple[Authentication, ...]:
    """Return the objects that contain credentials of triggers or refer to them."""
    kinds = ("keda.sh/TriggerAuthentication", "keda.sh/ScaledObject", "keda.sh/ScaledJob")
    return tuple(Authentication(one) for one in stack.of_kind(*kinds))


def _foreign_identity(_: Stack, one: Authentication, settings: SystemSettings) -> Iterator[Breach]:
    if one.resource.seen_namespace() in settings.system_namespaces:
        return
    spec = one.resource.inputs.get("spec")
    allowed = f"credentials of the team: a TriggerAuthentication with {', '.join(AUTHENTICATION)}"
    if one.resource.kind == "keda.sh/TriggerAuthentication":
        for key, value in spec.entries():
            if key not in AUTHENTICATION:
                yield Breach(value, f"{key}, which uses KEDA's identity", allowed, "write secretTargetRef")
        return
    for trigger in spec.get("triggers").items():
        kind = trigger.get("authenticationRef", "kind")
        if kind.text() == FOREIGN_AUTHENTICATION:
            yield Breach(
                kind,
                f"{FOREIGN_AUTHENTICATION}, which is cluster-wide",
                allowed,
                "use an authentication of the team",
            )


keda_trigger_identity = Rule(
    id="keda-trigger-identity",
    severity=Severity.CRITICAL,
    description="A trigger uses credentials of its team. KEDA's credentials give access to the Secrets and "
    "cloud resources of all teams.",
    subjects=lambda stack: stack.view(authentications),
    check=_foreign_identity,
    settings=SystemSettings,
)

RULES = (keda_null_scaledown, keda_trigger_server, keda_trigger_identity)
