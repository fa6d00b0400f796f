"""Lookups that `doctor --online` makes for a stack on AWS, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial

from gpu_platform.catalog import Catalog, ServiceQuota
from gpu_platform.catalog.csi_drivers import EFS_DRIVER, FSX_DRIVER
from gpu_platform.online.answers import Answers
from gpu_platform.online.aws.answers import Cluster, Identity, InstanceType, Subnet
from gpu_platform.online.aws.api import AwsApi, Missing
from gpu_platform.online.aws.capacity import (
    compare_control_plane_zones,
    compare_offers,
    compare_reservation,
    reserved_capacity,
)
from gpu_platform.online.aws.client import AwsClient
from gpu_platform.online.aws.cluster import (
    API_PORT,
    compare_api_access,
    compare_existing_cluster,
    compare_key,
    compare_new_cluster,
    compare_own_network,
    compare_pod_subnets,
    compare_spot_role,
    compare_subnets,
    facts_of,
    is_deployed,
    keys_of,
)
from gpu_platform.online.aws.quotas import (
    ADDRESSES,
    STANDARD,
    VPCS,
    group_demands,
    network_demands,
    system_demand,
    together,
    used_by_others,
)
from gpu_platform.online.aws.storage import bucket_names, compare_bucket, compare_file_system, file_systems
from gpu_platform.online.finding import Lookup, NotLookedAt, OnlineFinding
from gpu_platform.online.quota import QuotaDemand, QuotaState, compare_quota, gpu_demands, unnamed_findings
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan, ExistingVpcPlan
from gpu_platform.planning.clouds.eks.existing_cluster import (
    AddonFacts,
    ExistingEksFacts,
    required_addons,
)
from gpu_platform.planning.clouds.eks.kubeconfig import eks_kubeconfig
from gpu_platform.planning.clouds.storage import VolumePlan
from gpu_platform.planning.clouds.windows import CapacityWindow
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools.section import PoolPlan

_CONSOLE = "Service Quotas (https://console.aws.amazon.com/servicequotas)"
_SPOT_ROLE = "AWSServiceRoleForEC2Spot"


class AwsCloud:
    """All lookups of `doctor --online` in AWS for one stack."""

    def __init__(
        self, plan: EnvironmentPlan, catalog: Catalog, now: datetime, client: AwsClient | None = None
    ) -> None:
        assert isinstance(plan.cluster.cloud, EksClusterPlan)  # noqa: S101 - the registry chose by its kind
        self._plan = plan
        self._cluster = plan.cluster.cloud
        self._catalog = catalog
        self._standard = catalog.service_quotas[STANDARD]
        self._now = now
        api = AwsApi(self._cluster.region, role=self._cluster.assume_role)
        self._client = client or AwsClient(self._cluster.region, api)
        self._kept = Answers().kept

    def lookups(self) -> Sequence[Lookup]:
        """Return the lookups. No lookup depends on the result of another lookup."""
        return tuple(self._lookups())

    def kubeconfig(self) -> str | None:
        """Return the kubeconfig of an existing cluster, or None if it does not exist. Raises NotLookedAt if
        credentials, a permission or a connection is missing.
        """
        found = self._found_cluster()
        if found is None:
            return None
        return eks_kubeconfig(
            found.name,
            self._cluster.region,
            found.endpoint,
            found.certificate_authority,
            self._cluster.assume_role,
        )

    def _lookups(self) -> Iterator[Lookup]:
        plan, cluster = self._plan, self._cluster
        yield Lookup(title="AWS account", look=self._account)
        kind = "new" if cluster.create is not None else "existing"
        yield Lookup(title=f"{kind} cluster {cluster.name}", look=self._named_cluster)
        for demand in gpu_demands(plan, self._catalog):
            if demand.name == STANDARD and cluster.create is not None:
                continue  # the lookup for system nodes checks this quota
            yield Lookup(title=f"quota {demand.name} in {demand.region}", look=partial(self._gpu_quota, demand))
        for demand in group_demands(plan, cluster, self._catalog):
            yield Lookup(title=f"quota {demand.name} in {demand.region}", look=partial(self._group_quota, demand))
        unnamed = unnamed_findings(plan, self._catalog, _CONSOLE)
        if unnamed:
            yield Lookup(title="quotas without a known name", look=lambda: unnamed)
        if cluster.create is not None:
            yield Lookup(title=f"quota {STANDARD} in {cluster.region}", look=self._system_quota)
            for demand in network_demands(cluster):
                yield Lookup(
                    title=f"quota {demand.name} in {demand.region}", look=partial(self._network_quota, demand)
                )
            if isinstance(cluster.create.vpc, ExistingVpcPlan):
                network = partial(self._own_network, cluster.create.vpc)
                yield Lookup(title=f"subnets of {cluster.create.vpc.vpc}", look=network)
            else:
                yield Lookup(title="zones of the new cluster", look=self._control_plane_zones)
        for pool in plan.pools:
            for name in (pool.machine_type, *pool.cloud_nodes.alternatives):
                yield Lookup(
                    title=f"zones of pool {pool.name} that offer {name}", look=partial(self._offers, pool, name)
                )
        for pool in plan.pools:
            for window in reserved_capacity(pool):
                yield Lookup(
                    title=f"capacity of pool {pool.name}: {window.reservation}",
                    look=partial(self._reservation, pool, window),
                )
        if cluster.create is None:
            yield Lookup(title="networks that reach the API server", look=self._api_access)
            yield Lookup(title="free addresses of the subnets", look=self._subnet_addresses)
        for key in keys_of(plan):
            yield Lookup(title=f"KMS key {key}", look=partial(self._key, key))
        for name, mounted in bucket_names(plan).items():
            yield Lookup(title=f"bucket {name}", look=partial(self._bucket, name, mounted=mounted))
        for driver, ask in (
            (EFS_DRIVER, self._client.efs_file_system),
            (FSX_DRIVER, self._client.fsx_mount_name),
        ):
            for volume in file_systems(plan, driver):
                found = volume.handle.partition(":")[0]
                yield Lookup(title=f"file system {found}", look=partial(self._file_system, volume, ask))
        if any(pool.capacity["type"] == "spot" for pool in plan.pools):
            yield Lookup(title=f"service-linked role {_SPOT_ROLE}", look=self._spot_role)

    # -- each lookup --

    def _account(self) -> Iterator[OnlineFinding]:
        yield compare_account(self._cluster.account, self._client.identity())

    def _gpu_quota(self, demand: QuotaDemand) -> Iterator[OnlineFinding]:
        quota = self._catalog.service_quotas.get(demand.name)
        if quota is None:
            raise NotLookedAt(
                "the catalogue does not contain the code of the quota", f"check it yourself: {_CONSOLE}"
            )
        yield self._compared(demand, quota, lambda: self._used(quota))

    def _system_quota(self) -> Iterator[OnlineFinding]:
        create = self._cluster.create
        assert create is not None  # noqa: S101 - asked only for new clusters
        of_pools = [one for one in gpu_demands(self._plan, self._catalog) if one.name == STANDARD]
        if is_deployed(self._plan, self._found_cluster()):
            for pools in of_pools:
                yield self._compared(pools, self._standard, lambda: self._used(self._standard))
            if not of_pools:
                yield _created_already(STANDARD, self._cluster.region)
            return
        first = create.system_pool.instance_types[0]
        try:
            vcpus = self._client.instance_types([first])[first].vcpus
        except Missing as error:
            raise NotLookedAt(
                f"{first} is not offered in {self._cluster.region}", "choose another region"
            ) from error
        demand = system_demand(self._plan, self._cluster, vcpus)
        if demand is not None:
            for pools in of_pools:
                demand = together(demand, pools)
            yield self._compared(demand, self._standard, lambda: self._used(self._standard))

    def _network_quota(self, demand: QuotaDemand) -> Iterator[OnlineFinding]:
        if is_deployed(self._plan, self._found_cluster()):
            yield _created_already(demand.name, demand.region)
            return
        counters: Mapping[str, Callable[[], int]] = {
            VPCS: self._client.count_vpcs,
            ADDRESSES: self._client.count_addresses,
        }
        yield self._compared(demand, self._catalog.service_quotas[demand.name], counters[demand.name])

    def _group_quota(self, demand: QuotaDemand) -> Iterator[OnlineFinding]:
        yield self._compared(demand, self._catalog.service_quotas[demand.name], lambda: 0)

    def _compared(self, demand: QuotaDemand, quota: ServiceQuota, use: Callable[[], int]) -> OnlineFinding:
        try:
            limit = self._client.quota(quota.service, quota.code)
        except Missing as error:
            raise NotLookedAt(
                f"Service Quotas has no quota {quota.code} in this region", f"check it yourself: {_CONSOLE}"
            ) from error
        try:
            state = QuotaState(limit=limit, used=use())
        except NotLookedAt as reason:
            state = QuotaState(limit=limit, used=None, unknown=reason.why)
        fix = f"Service Quotas, {quota.service}, {quota.code}"
        return compare_quota(demand, state, fix)

    def _used(self, quota: ServiceQuota) -> int:
        instances = self._client.instances(quota.patterns)
        reservations = () if quota.spot else self._kept("reservations", self._client.active_reservations)
        return used_by_others(quota, instances, reservations, self._plan, self._catalog)

    def _control_plane_zones(self) -> Iterable[OnlineFinding]:
        return compare_control_plane_zones(
            self._created_zones(), self._client.zones(), self._catalog.no_control_plane_zones
        )

    def _own_network(self, vpc: ExistingVpcPlan) -> Iterator[OnlineFinding]:
        subnets = self._client.subnets(vpc=vpc.vpc)
        yield from compare_own_network(vpc, subnets, self._client.zones(), self._catalog.no_control_plane_zones)
        types: Mapping[str, InstanceType]
        try:
            types = self._client.instance_types([pool.machine_type for pool in self._plan.pools])
        except Missing:
            types = {}
        facts = ExistingEksFacts(
            kubernetes=self._cluster.kubernetes or "",
            authentication_mode="API",
            vpc_cni=None,
            subnets={zone: (subnet,) for zone, subnet in vpc.subnets.items()},
            all_subnets=tuple(vpc.subnets.values()),
        )
        yield from compare_subnets(self._plan, facts, subnets, types)
        if vpc.pod_subnets:
            yield from compare_pod_subnets(self._plan, vpc, subnets, types)

    def _offers(self, pool: PoolPlan, machine_type: str) -> Iterator[OnlineFinding]:
        own = pool.cloud_nodes.zones
        wanted = own or self._created_zones()
        offered = self._client.zones_offering(machine_type)
        yield compare_offers(pool.name, machine_type, wanted, not own, offered)

    def _reservation(self, pool: PoolPlan, window: CapacityWindow) -> Iterable[OnlineFinding]:
        try:
            found = self._client.capacity_reservation(window.reservation)
        except Missing:
            found = None
        return compare_reservation(pool, window, found, self._now)

    def _named_cluster(self) -> Iterable[OnlineFinding]:
        found = self._found_cluster()
        if self._cluster.create is not None:
            exists = found is None and self._client.log_group_exists(self._cluster.create.log_group)
            return compare_new_cluster(self._plan, found, exists)
        if found is None:
            return compare_existing_cluster(self._cluster, None, None, {})
        addons = {addon: self._addon(addon) for addon in required_addons(self._cluster)}
        facts = facts_of(self._cluster, found, addons, self._subnets(found))
        return compare_existing_cluster(self._cluster, found, facts, addons)

    def _api_access(self) -> Iterator[OnlineFinding]:
        found = self._found_cluster()
        if found is None:
            raise NotLookedAt(f"there is no cluster {self._cluster.name}", "see the result for the cluster")
        yield compare_api_access(found, self._client.networks_admitted(found.security_group, API_PORT))

    def _subnet_addresses(self) -> Iterable[OnlineFinding]:
        found = self._found_cluster()
        if found is None:
            raise NotLookedAt(f"there is no cluster {self._cluster.name}", "see the result for the cluster")
        subnets = self._subnets(found)
        facts = facts_of(self._cluster, found, {}, subnets)
        types: Mapping[str, InstanceType]
        try:
            types = self._client.instance_types([pool.machine_type for pool in self._plan.pools])
        except Missing:
            types = {}
        return compare_subnets(self._plan, facts, subnets, types)

    def _key(self, key: str) -> Iterator[OnlineFinding]:
        try:
            state = self._client.key_state(key)
        except Missing:
            state = None
        yield compare_key(key, state)

    def _bucket(self, name: str, *, mounted: bool) -> Iterator[OnlineFinding]:
        try:
            region = self._client.bucket_region(name)
        except Missing:
            region = None
        yield compare_bucket(name, self._cluster.region, region, mounted=mounted)

    def _file_system(self, volume: VolumePlan, ask: Callable[[str], str]) -> Iterator[OnlineFinding]:
        try:
            found = ask(volume.handle.partition(":")[0])
        except Missing:
            found = None
        yield compare_file_system(volume, found)

    def _spot_role(self) -> Iterator[OnlineFinding]:
        yield compare_spot_role(self._plan, self._client.role_exists(_SPOT_ROLE))

    # -- answers that several lookups need --

    def _found_cluster(self) -> Cluster | None:
        def look() -> Cluster | None:
            try:
                return self._client.cluster(self._cluster.name)
            except Missing:
                return None

        return self._kept("cluster", look)

    def _subnets(self, found: Cluster) -> Sequence[Subnet]:
        return self._kept("subnets", lambda: self._client.subnets(vpc=found.vpc))

    def _addon(self, name: str) -> AddonFacts | None:
        try:
            return self._client.addon(self._cluster.name, name)
        except Missing:
            return None

    def _created_zones(self) -> tuple[str, ...]:
        create = self._cluster.create
        return create.vpc.zone_names if create is not None else ()


def compare_account(wanted: str | None, identity: Identity) -> OnlineFinding:
    """Return a finding about whether the credentials belong to the account in the stack file."""
    found = f"account {identity.account}, as {identity.arn}"
    if wanted is None or wanted == identity.account:
        return OnlineFinding(looked_at="AWS account", severity="fine", found=found)
    return OnlineFinding(
        looked_at="AWS account",
        severity="stops",
        found=found,
        why=f"the stack is for account {wanted} (cluster.account), and the provider refuses other accounts",
        fix="use credentials of that account (AWS_PROFILE), or correct cluster.account",
    )


def _created_already(name: str, region: str) -> OnlineFinding:
    return OnlineFinding(
        looked_at=f"quota {name} in {region}",
        severity="fine",
        found="the stack has already created the resources that count against the quota",
    )
