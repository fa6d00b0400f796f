"""Lookups that `doctor --online` makes for a stack on Azure, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final

from gpu_platform.catalog import Catalog
from gpu_platform.online.answers import Answers
from gpu_platform.online.azure.answers import Cluster
from gpu_platform.online.azure.client import AzureClient, Missing
from gpu_platform.online.azure.comparisons import (
    compare_cluster,
    compare_encryption_set,
    compare_feature,
    compare_group,
    compare_providers,
    compare_reservation,
    compare_size,
    compare_subnet,
)
from gpu_platform.online.finding import Lookup, NotLookedAt, OnlineFinding
from gpu_platform.online.quota import QuotaDemand, QuotaState, compare_quota, gpu_demands, unnamed_findings
from gpu_platform.planning.clouds.aks.infiniband import FEATURE
from gpu_platform.planning.clouds.aks.kubeconfig import aks_kubeconfig
from gpu_platform.planning.clouds.aks.plan import AksClusterPlan, AksPoolPlan, CreateAksPlan
from gpu_platform.planning.clouds.aks.prerequisites import PROVIDERS, REGIONAL_QUOTA
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools.section import PoolPlan

_CONSOLE: Final = "Azure portal, Quotas, Compute"


class AzureCloud:
    """All lookups of `doctor --online` in Azure for one stack."""

    def __init__(
        self, plan: EnvironmentPlan, catalog: Catalog, now: datetime, client: AzureClient | None = None
    ) -> None:
        assert isinstance(plan.cluster.cloud, AksClusterPlan)  # noqa: S101 - the registry chose by its kind
        del now  # no capacity of Azure has an end
        self._plan = plan
        self._cluster = plan.cluster.cloud
        self._catalog = catalog
        self._client = client or AzureClient(self._cluster.subscription)
        self._kept = Answers().kept

    def lookups(self) -> Sequence[Lookup]:
        """Return the lookups. No lookup depends on the result of another lookup."""
        return tuple(Lookup(title=title, look=look) for title, look in self._questions())

    def kubeconfig(self) -> str | None:
        """Return the kubeconfig of an existing cluster, or None if it does not exist. Raises NotLookedAt if
        credentials, a permission or a connection is missing.
        """
        try:
            server, authority = self._client.api_server(self._cluster.resource_group, self._cluster.name)
        except Missing:
            return None
        return aks_kubeconfig(self._cluster.name, server, authority)

    def _questions(self) -> Iterator[tuple[str, Callable[[], Iterable[OnlineFinding]]]]:
        plan, cluster, create = self._plan, self._cluster, self._cluster.create
        yield f"subscription {cluster.subscription}", self._subscription
        yield "resource providers", self._providers
        if any(pool.cloud_nodes.nic_resources for pool in plan.pools):
            yield f"feature {FEATURE}", self._feature
        if create is not None:
            yield f"resource group {cluster.resource_group}", partial(self._group, create)
        kind = "new" if create is not None else "existing"
        yield f"{kind} cluster {cluster.name}", self._named_cluster
        for demand in self._demands():
            yield f"quota {demand.name} in {demand.region}", partial(self._quota, demand)
        if unnamed := unnamed_findings(plan, self._catalog, _CONSOLE):
            yield "quotas without a known name", lambda: unnamed
        if create is not None:
            machine, zones = create.system_machine_type, create.system_zones
            field = "cluster.create.system.zones"
            yield f"{machine} of system nodes", partial(self._size, "system nodes", field, machine, zones)
        for pool in plan.pools:
            wanted = pool.cloud.zones if isinstance(pool.cloud, AksPoolPlan) else ()
            what, field = f"pool {pool.name}", f"{pool.path}.zones"
            yield f"{pool.machine_type} of {what}", partial(self._size, what, field, pool.machine_type, wanted)
            if isinstance(pool.cloud, AksPoolPlan) and pool.cloud.capacity_reservation_group is not None:
                group = pool.cloud.capacity_reservation_group
                yield f"reservation of {what}", partial(self._reservation, pool, pool.cloud, group)
        if create is not None and create.subnet is not None:
            yield "subnet of the cluster", partial(self._subnet, create, create.subnet)
        for path in cluster.encryption_sets:
            yield f"disk encryption set {path.rpartition('/')[2]}", partial(self._encryption_set, path)

    def _subscription(self) -> Iterator[OnlineFinding]:
        state = self._client.subscription_state()
        usable = state == "Enabled"
        yield OnlineFinding(
            looked_at=f"subscription {self._cluster.subscription}",
            severity="fine" if usable else "stops",
            found=state,
            why="" if usable else "Azure creates nothing in it",
            fix="" if usable else "choose another subscription, or let its owner enable it",
        )

    def _providers(self) -> Iterator[OnlineFinding]:
        unregistered = [name for name in PROVIDERS if not self._client.is_registered(name)]
        yield compare_providers(self._cluster.subscription, unregistered)

    def _feature(self) -> Iterator[OnlineFinding]:
        try:
            state = self._client.feature_state("Microsoft.ContainerService", FEATURE)
        except Missing:
            state = "NotRegistered"
        yield compare_feature(self._cluster.subscription, state)

    def _group(self, create: CreateAksPlan) -> Iterator[OnlineFinding]:
        try:
            found = self._client.group(self._cluster.resource_group)
        except Missing:
            found = None
        yield compare_group(self._cluster, create, found)

    def _named_cluster(self) -> Iterable[OnlineFinding]:
        return compare_cluster(self._plan, self._cluster, self._found_cluster())

    def _demands(self) -> Iterator[QuotaDemand]:
        """Yield the demand on each quota, with the system nodes, and then on the quota of the region."""
        create, region = self._cluster.create, self._cluster.region
        demands = {demand.name: demand for demand in gpu_demands(self._plan, self._catalog)}
        first = most = 0
        if create is not None:
            first = create.system_nodes[0] * create.system_vcpus
            most = create.most_system_nodes * create.system_vcpus
            if (name := create.system_cpu_quota) is not None:
                none = QuotaDemand(name=name, unit="vCPU", region=region, desired=0, most=0, wanted_by="")
                before = demands.get(name, none)
                demands[name] = replace(
                    before,
                    desired=before.desired + first,
                    most=before.most + most,
                    wanted_by=f"{before.wanted_by}, system nodes".removeprefix(", "),
                )
        yield from demands.values()
        regular = [
            pool.nodes.desired * self._catalog.machine_types[pool.machine_type].vcpu
            for pool in self._plan.pools
            if isinstance(pool.cloud, AksPoolPlan) and pool.cloud.counts_against_quota
        ]
        yield QuotaDemand(
            name=REGIONAL_QUOTA,
            unit="vCPU",
            region=region,
            desired=sum(regular) + first,
            most=self._cluster.vcpus + most,
            wanted_by="all nodes except spot and reserved nodes",
        )

    def _quota(self, demand: QuotaDemand) -> Iterator[OnlineFinding]:
        usages = self._kept("usages", lambda: self._client.usages(demand.region))
        found = usages.get(demand.name.partition(" (")[0].lower())
        if found is None:
            why = f"Azure names no quota {demand.name} in {demand.region}"
            raise NotLookedAt(why, f"check it yourself: {_CONSOLE}")
        state = QuotaState(limit=found.limit, used=found.used)
        if found.used and self._has_own_nodes():
            state = QuotaState(limit=found.limit, used=None, unknown=f"{found.used:g} with the stack's own nodes")
        yield compare_quota(demand, state, f"{_CONSOLE}, {demand.name}")

    def _size(self, what: str, field: str, machine_type: str, wanted: tuple[str, ...]) -> Iterator[OnlineFinding]:
        region = self._cluster.region
        sizes = self._kept("sizes", lambda: self._client.sizes(region))
        yield compare_size(what, field, machine_type, wanted, region, sizes.get(machine_type.lower()))

    def _reservation(self, pool: PoolPlan, cloud: AksPoolPlan, group: str) -> Iterator[OnlineFinding]:
        try:
            found = self._client.reservations(group)
        except Missing:
            found = None
        yield compare_reservation(pool, cloud, self._cluster.region, found)

    def _subnet(self, create: CreateAksPlan, path: str) -> Iterable[OnlineFinding]:
        try:
            found = self._client.subnet(path)
        except Missing:
            found = None
        return compare_subnet(self._plan, create, path, found)

    def _encryption_set(self, path: str) -> Iterable[OnlineFinding]:
        try:
            found = self._client.encryption_set_region(path)
        except Missing:
            found = None
        yield compare_encryption_set(self._cluster, path, found)

    def _has_own_nodes(self) -> bool:
        """Return whether nodes of the stack exist, or True if this is unknown."""
        try:
            found = self._found_cluster()
        except NotLookedAt:
            return True
        if found is None:
            return False
        own = {pool.name for pool in self._plan.pools}
        pools: Mapping[str, Mapping[str, str]] = found.agent_pools
        created = self._cluster.create is not None and self._cluster.tags.items() <= found.tags.items()
        return created or any(tags.get("gpu-platform-pool") in own for tags in pools.values())

    def _found_cluster(self) -> Cluster | None:
        def look() -> Cluster | None:
            try:
                return self._client.cluster(self._cluster.resource_group, self._cluster.name)
            except Missing:
                return None

        return self._kept("cluster", look)
