"""Delays rights of members until API servers enforce the admission policies of their namespace."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as k8s

from gpu_platform.planning.teams.admission import POLICY_SECONDS

_POLICIES = (
    k8s.admissionregistration.v1.MutatingAdmissionPolicyBinding,
    k8s.admissionregistration.v1.ValidatingAdmissionPolicyBinding,
)


def policies_in_effect(guards: Sequence[pulumi.Resource]) -> list[pulumi.Input[pulumi.Resource]]:
    """Return resources to depend on, after which API servers enforce the policies among `guards`.

    Only a new policy is waited for, by the time at which the API server created it. A preview waits for nothing.
    """
    bindings = [one for one in guards if isinstance(one, _POLICIES)]
    if not bindings or pulumi.runtime.is_dry_run():
        return list(guards)

    async def wait(created: Sequence[str | None]) -> pulumi.Resource:
        # pyrefly: ignore[partially-unknown-type] - pyrefly takes the types of a coroutine as unknown
        await asyncio.sleep(seconds_left(created, datetime.datetime.now(datetime.UTC)))
        return bindings[-1]

    created = pulumi.Output.all(*(one.metadata.apply(_created) for one in bindings))
    # pyrefly: ignore[partially-unknown-type] - pyrefly takes the types of a coroutine as unknown
    return [*guards, created.apply(wait)]


def _created(metadata: k8s.meta.v1.outputs.ObjectMeta | None) -> str | None:
    return None if metadata is None else metadata.creation_timestamp


def seconds_left(created: Sequence[str | None], now: datetime.datetime) -> float:
    """Return the seconds until API servers enforce policies created at these times; a time None counts as none."""
    times = [datetime.datetime.fromisoformat(one) for one in created if one is not None]
    if not times:
        return 0.0
    most = POLICY_SECONDS + 1  # times are whole seconds, rounded down
    # Clocks differ: a policy of the future is a new one, and is waited for no longer than any other.
    return min(max((max(times) - now).total_seconds() + most, 0.0), most)
