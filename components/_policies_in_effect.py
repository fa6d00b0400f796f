"""Delays members' access and the start of workloads until API servers enforce the namespace's policies."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from components._kubernetes_object import KubernetesObject
from gpu_platform.planning.teams.pod_admission import POLICY_SECONDS

_POLICIES = tuple(
    f"admissionregistration.k8s.io/v1/{kind}AdmissionPolicy{part}"
    for kind in ("Mutating", "Validating")
    for part in ("", "Binding")
)


def policies_in_effect(guards: Sequence[pulumi.Resource]) -> list[pulumi.Input[pulumi.Resource]]:
    """Return resources to depend on. They become ready when API servers enforce the policies among `guards`.

    The wait applies only to new or changed policies, and starts at their last change. A preview does not wait.
    """
    policies = [guard for guard in guards if isinstance(guard, KubernetesObject) and guard.resource in _POLICIES]
    if not policies or pulumi.runtime.is_dry_run():
        return list(guards)

    async def wait(changed: Sequence[str | None]) -> pulumi.Resource:
        # pyrefly: ignore[partially-unknown-type] - pyrefly treats the types of a coroutine as unknown
        await asyncio.sleep(seconds_left(changed, datetime.datetime.now(datetime.UTC)))
        return policies[-1]

    changed = pulumi.Output.all(*(policy.metadata.apply(last_change) for policy in policies))
    # pyrefly: ignore[partially-unknown-type] - pyrefly treats the types of a coroutine as unknown
    return [*guards, changed.apply(wait)]


def last_change(metadata: Mapping[str, Any] | None) -> str | None:
    """Return the time of an object's creation or last change, in RFC 3339, or None if its metadata contains no
    time.
    """
    found = metadata or {}
    times = [found.get("creationTimestamp"), *(one.get("time") for one in found.get("managedFields") or ())]
    return max((time for time in times if time), default=None)


def seconds_left(changed: Sequence[str | None], now: datetime.datetime) -> float:
    """Return the seconds until API servers enforce policies that changed at these times. Times that are None are
    ignored.
    """
    times = [datetime.datetime.fromisoformat(one) for one in changed if one is not None]
    if not times:
        return 0.0
    most = POLICY_SECONDS + 1  # Kubernetes rounds times down to whole seconds
    # Clocks differ, so a time in the future is treated as now.
    return min(max((max(times) - now).total_seconds() + most, 0.0), most)
