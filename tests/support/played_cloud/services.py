"""Handles requests to the account with common rules for all kinds, and with special effects for some services."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any, Final, Protocol

from tests.support.played_cloud.account import Account, Failed, Refused, Store
from tests.support.played_cloud.aks import AgentPools, AksClusters
from tests.support.played_cloud.azure import (
    AGENT_POOL,
    ASSIGNMENT,
    CLUSTER,
    GROUP,
    NOUNS,
    SUBNET,
    Assignments,
    ResourceGroups,
    Subnets,
)
from tests.support.played_cloud.ec2 import LaunchTemplates
from tests.support.played_cloud.eks import Addons, Clusters, NodeGroups
from tests.support.played_cloud.lookups import look_up

# An id of AWS, or a resource ID of Azure. A role assignment has the ID of its scope.
_ID: Final = re.compile(r"(?:vpc|subnet|igw|eipalloc|nat|rtb|sg|lt)-[0-9a-f]{17}|/subscriptions/\S+")
_HELD_SECONDS: Final = 0.1
# CreateOrUpdateCallbackThenPoll and PollingFailedError of go-azure-sdk (read 2026-11-30).
_ENDED: Final = "polling after CreateOrUpdate: polling failed: the Azure API returned the error AllocationFailed"

Properties = Mapping[str, Any]


class Service(Protocol):
    """How a cloud service reacts to requests for one kind of resource. Methods may change `outputs` in place."""

    def unknown(self, inputs: Properties) -> dict[str, Any]:
        """Return outputs that are unknown until the resource is created. `kinds.yaml` lists further unknown
        outputs.
        """
        ...

    def create(self, account: Account, own_id: str, inputs: Properties, outputs: dict[str, Any]) -> None: ...

    def update(
        self, account: Account, own_id: str, old: Properties, new: Properties, outputs: dict[str, Any]
    ) -> None: ...

    def delete(self, account: Account, own_id: str, resource: Properties) -> None: ...


_SERVICES: Final[Mapping[str, Service]] = {
    "aws:ec2/launchTemplate:LaunchTemplate": LaunchTemplates(),
    "aws:eks/addon:Addon": Addons(),
    "aws:eks/cluster:Cluster": Clusters(),
    "aws:eks/nodeGroup:NodeGroup": NodeGroups(),
    AGENT_POOL: AgentPools(),
    ASSIGNMENT: Assignments(),
    CLUSTER: AksClusters(),
    GROUP: ResourceGroups(),
    SUBNET: Subnets(),
}


class Services:
    """Creates, updates, deletes and reads resources of an account. Raises Refused if the cloud would refuse a
    request.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.remembers_failed = False
        """Whether the provider keeps a resource in the state if its creation failed."""

    def unknown(self, type_: str, inputs: Properties) -> dict[str, Any]:
        """Return outputs of a kind that are unknown until the resource is created. `kinds.yaml` lists further
        unknown outputs.
        """
        service = _SERVICES.get(type_)
        return service.unknown(inputs) if service is not None else {}

    def create(self, type_: str, inputs: Properties) -> tuple[str, dict[str, Any]]:
        """Create a resource, and return its id and outputs. Raises Failed if the creation is meant to fail."""
        with self._store.changing() as account:
            _refuse_missing(account, inputs)
            own_id = account.new_id(type_, inputs)
            if account.get(type_, own_id) is not None:
                raise Refused(f"a resource with the ID {own_id!r} already exists: {type_}")
            outputs = {**account.computed(type_, own_id, inputs), **inputs}
            if self._store.fails(type_, own_id):
                account.put(type_, own_id, inputs, outputs)
                account.record("creation failed", type=type_, id=own_id)
                reason = f"creating {NOUNS[type_]} ({own_id!r}): {_ENDED}"
                raise Failed(reason, own_id, inputs, outputs, self.remembers_failed)
            if (service := _SERVICES.get(type_)) is not None:
                service.create(account, own_id, inputs, outputs)
            account.put(type_, own_id, inputs, outputs)
            account.record("created", type=type_, id=own_id)
        self._hold(type_, own_id)
        return own_id, outputs

    def update(self, type_: str, own_id: str, old: Properties, new: Properties) -> dict[str, Any]:
        """Update a resource, and return its outputs."""
        with self._store.changing() as account:
            resource = account.get(type_, own_id)
            if resource is None:
                raise Refused(f"ResourceNotFoundException: no {type_} {own_id}")
            _refuse_missing(account, new)
            outputs = {name: value for name, value in resource["outputs"].items() if name not in old} | dict(new)
            if (service := _SERVICES.get(type_)) is not None:
                outputs = {**resource["outputs"], **outputs}
                service.update(account, own_id, resource["inputs"], new, outputs)
            account.put(type_, own_id, new, outputs)
            account.record("updated", type=type_, id=own_id)
        self._hold(type_, own_id)
        return outputs

    def delete(self, type_: str, own_id: str) -> None:
        """Delete a resource. Does nothing if the resource no longer exists."""
        with self._store.changing() as account:
            resource = account.get(type_, own_id)
            if resource is None:
                return
            account.refuse_deletion_in_use(type_, own_id)
            if (service := _SERVICES.get(type_)) is not None:
                service.delete(account, own_id, resource)
            account.remove(type_, own_id)
            account.record("deleted", type=type_, id=own_id)

    def read(self, type_: str, own_id: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return the inputs and outputs of a resource, or None if it does not exist."""
        resource = self._store.read().get(type_, own_id)
        return None if resource is None else (resource["inputs"], resource["outputs"])

    def _hold(self, type_: str, own_id: str) -> None:
        """Wait as long as the account holds the resource."""
        while self._store.holds(type_, own_id):
            time.sleep(_HELD_SECONDS)

    def look_up(self, token: str, arguments: Properties) -> dict[str, Any]:
        """Return the result of a provider function."""
        return look_up(self._store.read(), token, arguments)


def _refuse_missing(account: Account, inputs: Properties) -> None:
    """Raise Refused if the inputs contain an id or a resource group that the account does not have."""
    group = inputs.get("resourceGroupName")
    if group is not None and group not in {one["inputs"]["name"] for _, one in account.of(GROUP)}:
        raise Refused(f"ResourceGroupNotFound: Resource group '{group}' could not be found")
    existing = {key.partition(" ")[2] for key in account.resources}
    for own_id in _ids(inputs):
        if own_id not in existing:
            raise Refused(f"InvalidID.NotFound: The ID '{own_id}' does not exist")


def _ids(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [own_id for one in value.values() for own_id in _ids(one)]
    if isinstance(value, list):
        return [own_id for one in value for own_id in _ids(one)]
    return [value] if isinstance(value, str) and _ID.fullmatch(value) else []
