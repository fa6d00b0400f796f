"""Lookups that `doctor --online` makes for a stack on Google Cloud, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Final

from gpu_platform.catalog import Catalog
from gpu_platform.online.answers import Answers
from gpu_platform.online.finding import Lookup, NotLookedAt, OnlineFinding
from gpu_platform.online.google.answers import Cluster, Quota, Subnet
from gpu_platform.online.google.api import GoogleApi
from gpu_platform.online.google.client import Disabled, GoogleClient, Missing
from gpu_platform.online.google.comparisons import (
    compare_apis,
    compare_bucket,
    compare_cluster,
    compare_network,
    compare_offers,
    compare_reservation,
    compare_subnet,
)
from gpu_platform.online.quota import QuotaDemand, QuotaState, compare_quota, gpu_demands, unnamed_findings
from gpu_platform.planning.clouds.gke.existing_cluster import existing_kubeconfig
from gpu_platform.planning.clouds.gke.identities import GkeIdentities
from gpu_platform.planning.clouds.gke.plan import GkeClusterPlan, GkePoolPlan
from gpu_platform.planning.clouds.gke.storage import GkeStorage
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools.section import PoolPlan

_CONSOLE: Final = "IAM & Admin, Quotas"
_FAMILY: Final = "GPUS_PER_GPU_FAMILY, gpu_family "
# Every stack needs these APIs. `doctor STACK` lists further APIs that the resources of a stack need.
_APIS: Final = (
    "compute.googleapis.com",
    "container.googleapis.com",
    "iam.googleapis.com",
    "cloudresourcemanager.googleapis.com",
    "logging.googleapis.com",
    "monitoring.googleapis.com",
    "artifactregistry.googleapis.com",
)
_STREAMING_API: Final = "containerfilesystem.googleapis.com"


class GoogleCloud:
    """All lookups of `doctor --online` in Google Cloud for one stack."""

    def __init__(
        self, plan: EnvironmentPlan, catalog: Catalog, now: datetime, client: GoogleClient | None = None
    ) -> None:
        assert isinstance(plan.cluster.cloud, GkeClusterPlan)  # noqa: S101 - the registry chose by its kind
        self._plan = plan
        self._cluster = plan.cluster.cloud
        self._catalog = catalog
        self._now = now
        api = GoogleApi(impersonated=self._cluster.impersonate)
        self._client = client or GoogleClient(self._cluster.project, api)
        self._kept = Answers().kept

    def lookups(self) -> Sequence[Lookup]:
        """Return the lookups. No lookup depends on the result of another lookup."""
        return tuple(
            Lookup(title=title, look=partial(_with_enabled_api, self._cluster.project, title, look))
            for title, look in self._questions()
        )

    def kubeconfig(self) -> str | None:
        """Return the kubeconfig of an existing cluster, or None if it does not exist. Raises NotLookedAt if
        credentials, a permission or a connection is missing.
        """
        try:
            found = self._found_cluster()
        except Disabled as reason:
            raise NotLookedAt(str(reason), "see the result for the cluster") from reason
        if found is None:
            return None
        return existing_kubeconfig(self._cluster.name, found.facts, self._cluster.impersonate)

    def _questions(self) -> Iterator[tuple[str, Callable[[], Iterable[OnlineFinding]]]]:
        plan, cluster = self._plan, self._cluster
        yield f"project {cluster.project}", self._project
        yield "Google APIs", self._apis
        kind = "new" if cluster.create is not None else "existing"
        yield f"{kind} cluster {cluster.name}", self._named_cluster
        for demand in gpu_demands(plan, self._catalog):
            yield f"quota {demand.name} in {demand.region}", partial(self._quota, demand)
        unnamed = unnamed_findings(plan, self._catalog, _CONSOLE)
        if unnamed:
            yield "quotas without a known name", lambda: unnamed
        for pool in plan.pools:
            yield f"zones of pool {pool.name} that offer {pool.machine_type}", partial(self._offers, pool)
        for pool in plan.pools:
            if name := pool.capacity.get("reservation"):
                yield f"capacity of pool {pool.name}: {name}", partial(self._reservation, pool, str(name))
        for name in _buckets(plan):
            yield f"bucket {name}", partial(self._bucket, name)
        if cluster.create is None:
            yield "network of the cluster", self._networks
        elif cluster.create.existing_vpc is not None:
            yield "subnet of the cluster", partial(self._subnet, cluster.create.existing_vpc.subnetwork)

    def _project(self) -> Iterator[OnlineFinding]:
        looked_at = f"project {self._cluster.project}"
        try:
            self._kept("project", self._client.project_quotas)
        except Missing:
            yield OnlineFinding(
                looked_at=looked_at,
                severity="stops",
                found="no such project",
                why="no resources can be created in the project",
                fix="correct cluster.project, or use credentials that can see it",
            )
            return
        yield OnlineFinding(looked_at=looked_at, severity="fine", found="reachable")

    def _bucket(self, name: str) -> Iterator[OnlineFinding]:
        try:
            location = self._client.bucket_location(name)
        except Missing:
            location = None
        yield compare_bucket(name, self._cluster.region, location)

    def _apis(self) -> Iterator[OnlineFinding]:
        streams = any(isinstance(one.cloud, GkePoolPlan) and one.cloud.image_streaming for one in self._plan.pools)
        wanted = (*_APIS, _STREAMING_API) if streams else _APIS
        yield compare_apis(self._cluster.project, self._client.disabled_apis(wanted))

    def _named_cluster(self) -> Iterable[OnlineFinding]:
        return compare_cluster(self._plan, self._cluster, self._found_cluster())

    def _quota(self, demand: QuotaDemand) -> Iterator[OnlineFinding]:
        region = self._cluster.region
        check = f"check it yourself: {_CONSOLE}"
        try:
            if demand.name.startswith(_FAMILY):
                quota: Quota | None = self._client.family_quota(region, demand.name.removeprefix(_FAMILY))
            elif demand.region == region:
                quota = self._kept("region", lambda: self._client.region_quotas(region)).get(demand.name)
            else:
                quota = self._kept("project", self._client.project_quotas).get(demand.name)
        except Missing:
            quota = None
        if quota is None:
            raise NotLookedAt(f"Google Cloud has no quota {demand.name} for {demand.region}", check)
        state = QuotaState(
            limit=quota.limit, used=quota.used, unknown="the Cloud Quotas API returns only the value"
        )
        if quota.used and self._has_own_pools():
            why = f"{quota.used:g} with the stack's own nodes"
            state = QuotaState(limit=quota.limit, used=None, unknown=why)
        yield compare_quota(demand, state, f"{_CONSOLE}, {demand.name}")

    def _offers(self, pool: PoolPlan) -> Iterator[OnlineFinding]:
        wanted = pool.cloud.node_locations if isinstance(pool.cloud, GkePoolPlan) else ()
        offered = self._client.zones_offering(pool.machine_type)
        yield compare_offers(pool, wanted, self._cluster.region, offered)

    def _reservation(self, pool: PoolPlan, name: str) -> Iterable[OnlineFinding]:
        project = pool.capacity.get("project") or self._cluster.project
        try:
            found = self._client.reservation(str(project), str(pool.capacity["zone"]), name)
        except Missing:
            found = None
        return compare_reservation(pool, name, found, self._now)

    def _networks(self) -> Iterator[OnlineFinding]:
        found = self._found_cluster()
        if found is None:
            raise NotLookedAt(f"there is no cluster {self._cluster.name}", "see the result for the cluster")
        name = found.network.rpartition("/")[2]
        yield compare_network("network", name, self._client.network_exists(found.network))
        yield from self._subnet(found.subnetwork)

    def _subnet(self, path: str) -> Iterator[OnlineFinding]:
        try:
            found: Subnet | None = self._client.subnet(path)
        except Missing:
            found = None
        name = path.rpartition("/")[2]
        if found is None and self._cluster.create is None:
            yield compare_network("subnet", name, exists=False)
        else:
            yield compare_subnet(self._plan, self._cluster, name, found)

    def _has_own_pools(self) -> bool:
        """Return whether node pools of the stack exist, or True if this is unknown."""
        try:
            found = self._found_cluster()
        except (NotLookedAt, Disabled):
            return True
        own = {pool.name for pool in self._plan.pools}
        pools = found.node_pools.values() if found is not None else ()
        return any(labels.get("gpu-platform-pool") in own for labels in pools)

    def _found_cluster(self) -> Cluster | None:
        def look() -> Cluster | None:
            try:
                return self._client.cluster(self._cluster.location, self._cluster.name)
            except Missing:
                return None

        return self._kept("cluster", look)


def _with_enabled_api(
    project: str, title: str, look: Callable[[], Iterable[OnlineFinding]]
) -> Iterator[OnlineFinding]:
    try:
        yield from look()
    except Disabled as reason:
        api = str(reason).partition(" ")[0]
        # `up` itself does not call the APIs serviceusage and cloudquotas.
        needed = api in _APIS
        if not needed:
            fix = f"gcloud services enable --project {project} {api}, or check this line yourself"
            raise NotLookedAt(str(reason), fix) from reason
        yield OnlineFinding(
            looked_at=title,
            severity="stops",
            found=str(reason),
            why="Google Cloud refuses every call to an API that is not enabled",
            fix=f"gcloud services enable --project {project} {api}",
        )


def _buckets(plan: EnvironmentPlan) -> Iterator[str]:
    """Yield each bucket that teams can access through its IAM policy, without duplicates."""
    storage, identities = plan.storage.cloud, plan.identities
    mounted = [one.bucket for one in storage.grants] if isinstance(storage, GkeStorage) else []
    used = [one.bucket for one in identities.buckets] if isinstance(identities, GkeIdentities) else []
    yield from dict.fromkeys([*mounted, *used])
