"""Delays rights of members until API servers enforce the admission policies of their namespace."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from components._kubernetes_object import KubernetesObject
from gpu_platform.planning.teams.admission import POLICY_SECONDS

_POLICY_BINDINGS = tuple(
    f"admissionregistration.k8s.io/v1/{kind}"
    for kind in ("MutatingAdmissionPolicyBinding", "ValidatingAdmissionPolicyBinding")
)


def policies_in_effect(guards: Sequence[pulumi.Resource]) -> list[pulumi.Input[pulumi.Resource]]:
    """Return resources to depend on, after which API servers enforce the policies among `guards`.

    Only a new policy is waited for, by the time at which the API server created it. A preview waits for nothing.
    """
    bindings = [
        guard for guard in guards if isinstance(guard, KubernetesObject) and guard.resource in _POLICY_BINDINGS
    ]
    if not bindings or pulumi.runtime.is_dry_run():
        return list(guards)

    async def wait(created: Sequence[str | None]) -> pulumi.Resource:
        # pyrefly: ignore[partially-unknown-type] - pyrefly takes the types of a coroutine as unknown
        await asyncio.sleep(seconds_left(created, datetime.datetime.now(datetime.UTC)))
        return bindings[-1]

    created = pulumi.Output.all(*(binding.metadata.apply(_created) for binding in bindings))
    # pyrefly: ignore[partially-unknown-type] - pyrefly takes the types of a coroutine as unknown
    return [*guards, created.apply(wait)]


def _created(metadata: Mapping[str, Any] | None) -> str | None:
    return None if metadata is None else metadata.get("creationTimestamp")


def seconds_left(created: Sequence[str | None], now: datetime.datetime) -> float:
    """Return the seconds until API servers enforce policies created at these times; a time None counts as none."""
    times = [datetime.datetime.fromisoformat(one) for one in created if one is not None]
    if not times:
        return 0.0
    most = POLICY_SECONDS + 1  # times are whole seconds, rounded down
    # Clocks differ: a policy of the future is a new one, and is waited for no longer than any other.
    return min(max((max(times) - now).total_seconds() + most, 0.0), most)
