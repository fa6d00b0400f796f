"""How a GKE cluster is planned, and which clusters are refused."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.clouds.api_access import PRIVATE_RANGES
from gpu_platform.planning.clouds.gke.existing_cluster import (
    ExistingGke,
    doubtful_networks,
    existing_kubeconfig,
    require_fit,
)
from gpu_platform.planning.clouds.gke.plan import (
    CreateGkePlan,
    ExistingVpcPlan,
    GkeClusterPlan,
    GkePoolPlan,
)
from gpu_platform.planning.clouds.gke.versions import highest, order
from gpu_platform.planning.clouds.leftovers import LEFTOVERS
from gpu_platform.planning.clouds.section import DaemonSetPlan, NicDevices
from gpu_platform.planning.kubernetes_versions import minor
from gpu_platform.stack.loaded import plan_platform
from tests.planning.conftest import environment, pool, team
from tests.support.sold import sold

ZONE = "us-central1-a"
OLD_NODES = {"image": {"release": "1.33.5-gke.2392000"}}
"""A node version that still supports GPUDirect-TCPX on A3 High. Newer versions do not support it."""
RACK = {
    "capacity": {"type": "reservation", "reservation": "rack", "zone": ZONE},
    "placement": {"type": "compact"},
}
"""A4X is sold only through reservations, and its nodes have a workload policy."""


def cluster(create: dict[str, Any] | None = None, **rest: Any) -> dict[str, Any]:
    made = {"provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1", **rest}
    return made if create is None else {**made, "create": create}


def on(machine_type: str, name: str = "train", **rest: Any) -> dict[str, Any]:
    own = {"a3-highgpu-8g": OLD_NODES, "a4x-highgpu-4g": RACK}.get(machine_type, {})
    return sold(pool(name, machine_type, **{"zones": [ZONE], "placement": {"type": "none"}, **own, **rest}))


def plan(*pools: dict[str, Any], **rest: Any) -> EnvironmentPlan:
    made = plan_platform(environment(*pools, **{"cluster": cluster({}), **rest}), "test")
    assert made.kind == "environment"
    return made


def cloud(*pools: dict[str, Any], **rest: Any) -> GkeClusterPlan:
    made = plan(*pools, **rest).cluster.cloud
    assert isinstance(made, GkeClusterPlan)
    return made


def created(*pools: dict[str, Any], **rest: Any) -> CreateGkePlan:
    made = cloud(*pools, cluster=cluster(rest)).create
    assert made is not None
    return made


def refused(*pools: dict[str, Any], **rest: Any) -> dict[str, str]:
    """Return the message of each problem by its place in the file."""
    with pytest.raises(BadInput) as caught:
        plan(*pools, **rest)
    return {problem.path: str(problem) for problem in caught.value.problems}


def installer(made: GkeClusterPlan, name: str) -> DaemonSetPlan:
    return next(one for one in made.installers if one.name == name)


def pools_of(daemon_set: DaemonSetPlan) -> list[str]:
    affinity = daemon_set.pod_spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = affinity["nodeSelectorTerms"]
    return next(each["values"] for each in term["matchExpressions"] if each["key"] == "gpu-platform.dev/pool")


def test_labels_of_google_and_the_program_are_refused() -> None:
    found = refused(
        on("g2-standard-48"), cluster=cluster({}, labels={"goog-team": "a", "stack": "b", "team": "c"})
    )
    assert set(found) == {"cluster.labels.goog-team", "cluster.labels.stack"}


# -- location and names -----------------------------------------------------------------------------------


def test_a_new_cluster_in_a_zone_is_refused_and_its_region_named() -> None:
    problem = refused(on("g2-standard-48"), cluster=cluster({}, location=ZONE))["cluster.location"]
    assert "write location: us-central1" in problem


def test_an_existing_cluster_of_one_zone_is_accepted_with_its_region() -> None:
    made = cloud(on("g2-standard-48"), cluster=cluster(location=ZONE))
    assert (made.location, made.region) == (ZONE, "us-central1")


@pytest.mark.parametrize("name", ["1ml", "m" * 41])
def test_a_name_that_gke_refuses_is_refused(name: str) -> None:
    assert "cluster.name" in refused(on("g2-standard-48"), cluster=cluster({}, name=name))


def test_the_id_of_the_node_account_fits_google_cloud_and_keeps_long_names_apart() -> None:
    names = [f"{'m' * 38}-{letter}" for letter in "ab"]
    accounts = {cloud(on("g2-standard-48"), cluster=cluster({}, name=name)).node_account for name in names}
    assert len(accounts) == 2
    assert all(6 <= len(account) <= 30 for account in accounts)
    assert cloud(on("g2-standard-48")).node_account == "ml-us-central1-nodes"


def test_equally_named_clusters_in_a_project_share_no_vpc_or_account() -> None:
    places = [
        cloud(on("a3-megagpu-8g", zones=[f"{region}-a"]), cluster=cluster({}, location=region, name=name))
        for region in ("us-central1", "us-east4", "northamerica-northeast1")
        for name in ("ml", "m" * 40)
    ]
    created = [place.create for place in places if place.create is not None]
    vpcs = [network.vpc for place in places for network in place.networks] + [one.network for one in created]
    assert len(created) == 6
    assert len(set(vpcs)) == len(vpcs) == 6 * 8 + 6
    assert len({place.node_account for place in places}) == 6
    # The firewall rule's name is the longest name that is derived from the VPC's name.
    assert all(len(f"{vpc}-internal") <= 63 for vpc in vpcs)
    assert all(len(place.node_account) <= 30 for place in places)


@pytest.mark.parametrize("create", [{}, None])
def test_an_existing_account_of_the_nodes_gets_no_role_of_the_program(create: dict[str, Any] | None) -> None:
    email = "gke-nodes@my-project.iam.gserviceaccount.com"
    made = cloud(on("g2-standard-48"), cluster=cluster(create, node_service_account=email))
    assert (made.node_email, made.node_roles, made.logins) == (email, (), ())


def test_an_account_of_people_is_no_account_of_nodes() -> None:
    where = cluster({}, node_service_account="ada@example.com")
    assert refused(on("g2-standard-48"), cluster=where).keys() == {"cluster.node_service_account"}


# -- an existing VPC --------------------------------------------------------------------------------------

SHARED = {"project": "host-project", "name": "shared", "subnetwork": "gpu-nodes", "pods_range": "gpu-pods"}


def test_a_new_cluster_can_be_in_an_existing_vpc_of_another_project() -> None:
    vpc = created(on("g2-standard-48"), network=SHARED).existing_vpc
    assert vpc == ExistingVpcPlan(
        network="projects/host-project/global/networks/shared",
        subnetwork="projects/host-project/regions/us-central1/subnetworks/gpu-nodes",
        pods_range="gpu-pods",
        services_range="services",
    )


def test_ranges_of_a_vpc_that_is_not_created_are_refused() -> None:
    where = cluster({"network": SHARED, "pods_cidr": "10.32.0.0/12", "control_plane_cidr": "172.16.0.0/27"})
    problems = refused(on("g2-standard-48"), cluster=where)
    assert problems.keys() == {"cluster.create.pods_cidr", "cluster.create.control_plane_cidr"}
    assert "the existing subnetwork has its own" in problems["cluster.create.pods_cidr"]


def test_nodes_get_the_least_roles_that_they_work_with() -> None:
    assert set(cloud(on("g2-standard-48")).node_roles) == {
        "roles/container.defaultNodeServiceAccount",
        "roles/artifactregistry.reader",
    }


# -- address ranges ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("pods_cidr", "10.0.0.0/14"),
        ("services_cidr", "10.16.0.0/20"),
        ("control_plane_cidr", "10.1.0.0/28"),
    ],
)
def test_ranges_that_overlap_are_refused_at_the_later_field(field: str, value: str) -> None:
    problem = refused(on("g2-standard-48"), cluster=cluster({field: value}))[f"cluster.create.{field}"]
    assert "overlaps" in problem


def test_a_range_of_the_gpu_networks_is_refused_only_where_there_are_some() -> None:
    taken = cluster({"nodes_cidr": "192.168.0.0/20"})
    assert "the GPU networks" in refused(on("a3-megagpu-8g"), cluster=taken)["cluster.create.nodes_cidr"]
    assert plan(on("g2-standard-48"), cluster=taken)
    wide = cluster({"nodes_cidr": "192.168.0.0/16"})
    with pytest.raises(BadInput) as caught:
        plan(on("a3-megagpu-8g"), cluster=wide)
    told = [problem.path for problem in caught.value.problems]
    assert told.count("cluster.create.nodes_cidr") == 1, "all GPU networks together cause one problem"


def test_the_default_ranges_overlap_nothing_of_the_largest_gpu_networks() -> None:
    made = cloud(on("a3-ultragpu-8g", network={"via": "networks"}))
    assert made.create is not None
    ranges = [ipaddress.IPv4Network(network.cidr) for network in made.networks]
    ranges += [
        ipaddress.IPv4Network(cidr)
        for cidr in (
            made.create.nodes_cidr,
            made.create.pods_cidr,
            made.create.services_cidr,
            made.create.control_plane_cidr,
        )
    ]
    assert not [(a, b) for index, a in enumerate(ranges) for b in ranges[:index] if a.overlaps(b)]


def test_a_control_plane_range_of_another_size_is_refused() -> None:
    problems = refused(on("g2-standard-48"), cluster=cluster({"control_plane_cidr": "172.16.0.0/27"}))
    assert "write 172.16.0.0/28" in problems["cluster.create.control_plane_cidr"]


@pytest.mark.parametrize(
    ("create", "place", "fix"),
    [
        ({"control_plane_cidr": "8.8.8.0/28"}, "control_plane_cidr", "172.16.0.0/28"),
        ({"services_cidr": "10.1.0.0/28"}, "services_cidr", "10.1.0.0/20"),
        ({"system": {"min": 1, "max": 1}}, "system.max", "write max: 3"),
    ],
)
def test_ranges_and_system_nodes_that_gke_cannot_have_are_refused(
    create: dict[str, Any], place: str, fix: str
) -> None:
    problems = refused(on("g2-standard-48"), cluster=cluster(create))
    assert list(problems) == [f"cluster.create.{place}"]
    assert fix in problems[f"cluster.create.{place}"]


@pytest.mark.parametrize(("field", "value"), [("nodes_cidr", "10.0.0.0/28"), ("pods_cidr", "10.16.0.0/20")])
def test_a_range_without_room_for_every_node_is_refused(field: str, value: str) -> None:
    """A /28 has 12 addresses for nodes, and a /20 has 16 ranges of /24 for pods. During an upgrade, the cluster
    has 16 + 1 pool nodes and 3 + 1 system nodes, so it needs 21 addresses and 21 ranges.
    """
    many = on("g2-standard-48", count={"desired": 16})
    assert "enough for 21" in refused(many, cluster=cluster({field: value}))[f"cluster.create.{field}"]
    few = on("g2-standard-48", count={"desired": 4})
    assert plan(few, cluster=cluster({field: value}))


@pytest.mark.parametrize(
    ("upgrade", "nodes"), [({"strategy": "blue-green"}, 10 + 10), ({"max_surge": 10}, 10 + 10), ({}, 10 + 1)]
)
def test_ranges_have_room_for_nodes_while_they_are_rolled(upgrade: dict[str, Any], nodes: int) -> None:
    rolled = on("g2-standard-48", workload="inference", count={"desired": 10}, upgrade=upgrade)
    found = refused(rolled, cluster=cluster({"pods_cidr": "10.16.0.0/21"}))["cluster.create.pods_cidr"]
    assert f"enough for {nodes + 3 + 1} nodes" in found


# -- access to the API server -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("access", "public"),
    [
        ([], False),
        (["10.8.0.0/16", "100.64.0.0/24"], False),
        (["203.0.113.0/24"], True),
        (["10.8.0.0/16", "8.8.8.0/24"], True),
        (["0.0.0.0/0"], True),
    ],
)
def test_api_server_is_public_only_for_clients_with_public_addresses(access: list[str], public: bool) -> None:
    anywhere = access == ["0.0.0.0/0"]
    made = created(on("g2-standard-48"), api_access=access, api_from_anywhere=anywhere)
    assert made.public_endpoint is public
    assert list(made.api_access) == access


@pytest.mark.parametrize("access", [["0.0.0.0/0"], ["0.0.0.0/1", "128.0.0.0/1"]])
def test_an_api_server_for_much_of_the_internet_must_be_spelled_out(access: list[str]) -> None:
    found = refused(on("g2-standard-48"), cluster=cluster({"api_access": access}))
    assert "api_from_anywhere: true" in found["cluster.create.api_access"]


def test_a_closed_dns_endpoint_needs_networks_and_a_first_up_from_a_public_one() -> None:
    closed = refused(on("g2-standard-48"), cluster=cluster({"dns_access": False}))
    assert "set api_access" in closed["cluster.create.dns_access"]
    private = cloud(on("g2-standard-48"), cluster=cluster({"dns_access": False, "api_access": ["10.0.0.0/16"]}))
    assert private.first_up_problem is not None
    public = cloud(on("g2-standard-48"), cluster=cluster({"dns_access": False, "api_access": ["203.0.113.0/24"]}))
    assert public.first_up_problem is None


def test_private_ranges_are_those_of_rfc_1918_and_rfc_6598() -> None:
    assert {str(network) for network in PRIVATE_RANGES} == {
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "100.64.0.0/10",
    }


# -- upgrades ---------------------------------------------------------------------------------------------


def test_a3_and_newer_are_excluded_from_upgrades_by_default() -> None:
    made = plan(on("a3-megagpu-8g"))
    assert isinstance(made.cluster.cloud, GkeClusterPlan)
    assert made.cluster.cloud.create is not None
    (exclusion,) = made.cluster.cloud.create.exclusions
    assert exclusion.end is None
    assert exclusion.scope == "NO_MINOR_UPGRADES"
    assert exclusion.start == "2026-01-03T03:00:00Z"
    assert [each.why for each in made.decisions if each.what == "maintenance exclusion"]


def test_only_a3_and_newer_nodes_without_exclusion_keep_their_version() -> None:
    both = on("a3-megagpu-8g"), on("g2-standard-48", name="serve", workload="inference")

    def excluded(where: dict[str, Any]) -> list[bool]:
        clouds = [pool.cloud for pool in plan(*both, cluster=where).pools]
        return [each.upgrades_excluded for each in clouds if isinstance(each, GkePoolPlan)]

    freeze = {"name": "freeze", "start": "2026-12-01T00:00:00Z", "end": "2027-01-10T00:00:00Z"}
    assert excluded(cluster({})) == [True, False]
    assert excluded(cluster({"maintenance": {"exclusions": [freeze]}})) == [False, False]
    assert excluded(cluster(kubernetes="1.35")) == [False, False]


def test_older_machine_types_are_upgraded_as_the_channel_says() -> None:
    assert created(on("a2-highgpu-8g"), on("g2-standard-48", name="serve")).exclusions == ()


def test_declared_exclusions_are_the_only_ones_and_in_utc() -> None:
    written = {"name": "launch", "start": "2026-12-01T01:00:00+01:00", "end": "2027-01-10T00:00:00Z"}
    (exclusion,) = created(on("a3-megagpu-8g"), maintenance={"exclusions": [written]}).exclusions
    assert (exclusion.name, exclusion.start, exclusion.end) == (
        "launch",
        "2026-12-01T00:00:00Z",
        "2027-01-10T00:00:00Z",
    )
    assert exclusion.scope == "NO_MINOR_OR_NODE_UPGRADES"


@pytest.mark.parametrize(
    ("end", "create", "warned"),
    [("2027-03-01", {}, False), ("2029-06-01", {}, True), ("2029-06-01", {"release_channel": "extended"}, False)],
)
def test_an_exclusion_beyond_the_support_of_the_minor_version_is_warned_of(
    end: str, create: dict[str, str], warned: bool
) -> None:
    freeze = {"name": "freeze", "start": "2026-12-01T00:00:00Z", "end": f"{end}T00:00:00Z"}
    declared = cluster({**create, "maintenance": {"exclusions": [freeze]}}, kubernetes="1.35")
    found = [one.why for one in plan(on("g2-standard-48"), cluster=declared).decisions if "freeze" in one.what]
    assert ["write end: 2027-04-11T00:00:00Z" in why for why in found] == [True] * warned


def test_the_maintenance_window_ends_its_hours_after_its_start() -> None:
    made = created(on("g2-standard-48"), maintenance={"start": "2026-02-01T22:00:00Z", "hours": 8})
    assert (made.maintenance_start, made.maintenance_end) == ("2026-02-01T22:00:00Z", "2026-02-02T06:00:00Z")


@pytest.mark.parametrize(
    ("start", "recurrence", "first"),
    [
        ("2026-01-01T03:00:00Z", "FREQ=WEEKLY;BYDAY=SA", "2026-01-03T03:00:00Z"),  # 2026-01-01 is a Thursday
        ("2026-01-01T23:30:00-02:00", "FREQ=WEEKLY;BYDAY=MO,FR", "2026-01-02T01:30:00Z"),
        ("2026-01-01T03:00:00Z", "FREQ=DAILY", "2026-01-01T03:00:00Z"),
    ],
)
def test_the_first_maintenance_window_is_on_a_day_of_the_recurrence(
    start: str, recurrence: str, first: str
) -> None:
    made = created(on("g2-standard-48"), maintenance={"start": start, "recurrence": recurrence})
    assert made.maintenance_start == first


def test_days_of_a_recurrence_that_are_none_of_the_week_are_refused() -> None:
    problems = refused(
        on("g2-standard-48"), cluster=cluster({"maintenance": {"recurrence": "FREQ=WEEKLY;BYDAY=FOO"}})
    )
    assert "MO, TU, WE" in problems["cluster.create.maintenance.recurrence"]


@pytest.mark.parametrize(
    ("recurrence", "hours", "allowed"),
    [
        ("FREQ=WEEKLY;BYDAY=SA", 4, True),
        ("FREQ=WEEKLY;BYDAY=SA,SU", 6, True),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=SA", 7, False),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=SA", 8, True),
        ("FREQ=WEEKLY;INTERVAL=4;BYDAY=SA,SU", 7, False),
        ("FREQ=DAILY", 4, True),
        ("FREQ=DAILY;INTERVAL=8", 4, False),
        ("FREQ=WEEKLY;BYDAY=SA;BYMONTH=1", 4, True),  # the check does not evaluate rules with BYMONTH
    ],
)
def test_windows_with_too_few_hours_in_92_days_are_refused(recurrence: str, hours: int, allowed: bool) -> None:
    window = {"maintenance": {"recurrence": recurrence, "hours": hours}}
    if allowed:
        assert plan(on("g2-standard-48"), cluster=cluster(window))
    else:
        problems = refused(on("g2-standard-48"), cluster=cluster(window))
        assert "48 hours" in problems["cluster.create.maintenance.recurrence"]


def exclusion(name: str, start: str, end: str, scope: str = "no-upgrades") -> dict[str, str]:
    return {"name": name, "start": f"2026-{start}T00:00:00Z", "end": f"2026-{end}T00:00:00Z", "scope": scope}


@pytest.mark.parametrize(
    ("exclusions", "place", "words"),
    [
        ([exclusion("a", "02-01", "02-01")], "[0].end", "a time after"),
        ([exclusion("a", "02-01", "03-04")], "[0].end", "at most 30 days"),
        (
            [exclusion("a", "02-01", "02-02"), exclusion("a", "03-01", "03-02")],
            "[1].name",
            "unique names",
        ),
        ([exclusion(each, "02-01", "02-02") for each in "abcd"], "", "at most 3 at a time"),
    ],
)
def test_exclusions_that_gke_refuses_are_refused(exclusions: list[Any], place: str, words: str) -> None:
    problems = refused(on("g2-standard-48"), cluster=cluster({"maintenance": {"exclusions": exclusions}}))
    assert words in problems[f"cluster.create.maintenance.exclusions{place}"]


def test_an_exclusion_of_all_upgrades_has_the_scope_of_the_api() -> None:
    found = created(on("g2-standard-48"), maintenance={"exclusions": [exclusion("a", "02-01", "02-02")]})
    assert [one.scope for one in found.exclusions] == ["NO_UPGRADES"]


def test_a_long_exclusion_of_node_upgrades_alone_is_allowed() -> None:
    long = exclusion("a", "02-01", "11-01", "no-minor-or-node-upgrades")
    assert created(on("g2-standard-48"), maintenance={"exclusions": [long]}).exclusions


# -- versions ---------------------------------------------------------------------------------------------


def test_versions_are_ordered_by_numbers_not_by_text() -> None:
    assert order("1.34.10-gke.1") > order("1.34.9-gke.2000000") > order("1.34") > order("1.9.9-gke.9")
    assert highest(["1.33.4-gke.1036000", None, "1.34.1-gke.1829001", "1.34.1-gke.999"]) == "1.34.1-gke.1829001"
    assert highest([None]) is None
    assert minor("1.34.1-gke.1829001") == 34
    with pytest.raises(ValueError, match="latest"):
        order("latest")


def test_a_kubernetes_version_that_a_machine_type_is_too_new_for_is_refused() -> None:
    old = cluster({}, kubernetes="1.32")
    problems = refused(
        on("a4x-highgpu-4g"), cluster=old, operator={"release": "v26.3.3", "compute_domains": False}
    )
    assert "1.33.4-gke.1036000" in problems["cluster.kubernetes"]


def test_the_minimum_version_is_the_highest_that_some_pool_needs() -> None:
    profile = on("a3-ultragpu-8g")
    networks = on("a3-ultragpu-8g", network={"via": "networks"})
    assert cloud(profile).minimum_version == "1.34.1-gke.1829001"
    assert cloud(on("g2-standard-48", workload="inference")).minimum_version is None
    assert cloud(networks).minimum_version == "1.32.3-gke.1785000", "the Topology Manager's policy"
    assert cloud(on("g4-standard-48", workload="inference")).minimum_version == "1.34.0-gke.1662000"


@pytest.mark.parametrize(("queued", "version"), [(False, "1.33.0-gke.1712000"), (True, "1.32.2-gke.1652000")])
def test_flex_start_without_a_queue_needs_a_newer_version(queued: bool, version: str) -> None:
    flexible = on(
        "a2-highgpu-8g",
        "batch",
        workload="inference",
        capacity={"type": "flex-start", "queued": queued},
        count={"desired": 0, "max": 4},
    )
    assert cloud(flexible).minimum_version == version


# -- GPU networks -----------------------------------------------------------------------------------------


def test_a_cluster_has_gpu_networks_for_the_largest_need_of_its_pools() -> None:
    high, mega = on("a3-highgpu-8g", "high"), on("a3-megagpu-8g", "mega")
    assert len(cloud(high).networks) == 4
    assert len(cloud(high, mega).networks) == 8
    assert cloud(on("a3-megagpu-8g", workload="inference")).networks == ()
    assert cloud(on("a3-ultragpu-8g", network={"via": "profile"})).networks == ()


def test_gpu_networks_are_in_the_declared_range_on_new_and_existing_clusters() -> None:
    for create in ({}, None):
        networks = cloud(on("a3-megagpu-8g"), cluster=cluster(create, gpu_networks_cidr="10.200.0.0/17")).networks
        assert [network.cidr for network in networks][::7] == ["10.200.0.0/20", "10.200.112.0/20"]


def test_a_range_with_too_few_subnets_for_the_gpu_networks_is_refused_with_the_size() -> None:
    small = cluster({}, gpu_networks_cidr="10.200.0.0/18")
    assert "use a /17 or larger" in refused(on("a3-megagpu-8g"), cluster=small)["cluster.gpu_networks_cidr"]
    tiny = cluster({}, gpu_networks_cidr="10.200.0.0/24")
    assert "has 0 ranges" in refused(on("a3-megagpu-8g"), cluster=tiny)["cluster.gpu_networks_cidr"]
    assert plan(on("g2-standard-48"), cluster=tiny)


@pytest.mark.parametrize(
    ("machine", "mtu"),
    [("a3-megagpu-8g", 8244), ("a3-highgpu-8g", 8244), ("a3-ultragpu-8g", 8896), ("g2-standard-48", 8896)],
)
def test_the_vpc_of_a_new_cluster_has_jumbo_frames(machine: str, mtu: int) -> None:
    assert created(on(machine)).mtu == mtu


def test_each_tcpx_network_is_a_vpc_of_its_own() -> None:
    networks = cloud(on("a3-megagpu-8g")).networks
    assert len({network.vpc for network in networks}) == 8
    assert len({network.cidr for network in networks}) == 8
    assert [network.kubernetes_network for network in networks] == [f"vpc{index}" for index in range(1, 9)]


def test_rdma_networks_are_one_profile_vpc_and_one_vpc_for_gvnic() -> None:
    gvnic, *rdma = cloud(on("a3-ultragpu-8g", network={"via": "networks"})).networks
    assert (gvnic.device_mode, gvnic.network_profile) == ("NetDevice", None)
    assert len(rdma) == 8
    assert {(each.vpc, each.device_mode, each.network_profile) for each in rdma} == {
        ("ml-us-central1-rdma", "RDMA", f"{ZONE}-vpc-roce")
    }
    assert len({each.subnet for each in rdma}) == len({each.cidr for each in rdma}) == 8


def test_rdma_networks_beside_tcpx_networks_are_refused() -> None:
    ultra = on("a3-ultragpu-8g", "ultra", network={"via": "networks"})
    assert "both kinds name their first network" in refused(ultra, on("a3-megagpu-8g", "mega"))["cluster"]


@pytest.mark.parametrize("network", [{}, {"via": "profile"}])
def test_gkes_dra_networks_are_refused_with_networks_of_type_device(network: dict[str, str]) -> None:
    ultra = on("a3-ultragpu-8g", "ultra", network=network)
    problem = refused(ultra, on("a3-megagpu-8g", "mega"))["cluster"]
    assert "GPU networks for pool mega together with the network profile for pool ultra" in problem
    assert "give pool mega network: {rdma: false}" in problem
    assert plan(on("a3-ultragpu-8g", "ultra"), on("a3-megagpu-8g", "mega", network={"rdma": False}))


def test_pods_claim_the_rdma_nics_of_a_pool_with_the_network_profile_and_no_others() -> None:
    def claimed(**pool: Any) -> Any:
        (planned,) = plan(on(**{"machine_type": "a3-ultragpu-8g", **pool})).pools
        return planned.cloud_nodes.nic_devices

    assert claimed() == NicDevices(device_class="mrdma.google.com", per_node=8, driver=None)
    assert claimed(machine_type="a4x-highgpu-4g").per_node == 4
    assert claimed(network={"via": "networks"}) is None
    assert claimed(network={"rdma": False}) is None
    assert claimed(machine_type="a3-megagpu-8g") is None


@pytest.mark.parametrize("machine", ["a3-highgpu-8g", "a3-megagpu-8g", "a3-ultragpu-8g"])
def test_gpu_networks_are_refused_in_a_shared_vpc(machine: str) -> None:
    nodes = on(machine, "train", network={"via": "networks"})
    problem = refused(nodes, cluster=cluster({"network": SHARED}))["cluster.create.network.project"]
    assert "GKE requires all network interfaces of a node to be in one project" in problem
    assert plan(nodes, cluster=cluster({"network": {**SHARED, "project": "my-project"}}))
    assert plan(on(machine, "train", network={"rdma": False}), cluster=cluster({"network": SHARED}))


@pytest.mark.parametrize(("network", "warned"), [({}, True), ({"rdma": False}, False)])
def test_a_network_profile_in_a_shared_vpc_is_a_warning(network: dict[str, Any], warned: bool) -> None:
    nodes = on("a3-ultragpu-8g", network=network)
    made = plan(nodes, cluster=cluster({"network": SHARED}))
    found_in_check = [one for one in made.decisions if one.what == "warning: GPU NICs of pool train"]
    in_own_project = plan(nodes, cluster=cluster({"network": {**SHARED, "project": "my-project"}}))
    assert bool(found_in_check) == warned
    assert not [one for one in in_own_project.decisions if one.what.startswith("warning: GPU NICs")]
    existing = cloud(nodes, cluster=cluster(kubernetes="1.35"))
    assert bool(doubtful_networks(existing, found(network_project="host-project"))) == warned
    assert doubtful_networks(existing, found()) == ()


def test_nodes_without_gpu_networks_fit_a_cluster_in_a_shared_vpc() -> None:
    require_fit(cloud(on("g2-standard-48"), cluster=cluster()), found(network_project="host-project"))


@pytest.mark.parametrize("zones", [["us-central1-b"], ["us-central1-a", "us-central1-b"]])
def test_rdma_networks_in_several_zones_are_refused(zones: list[str]) -> None:
    pools = [
        on("a3-ultragpu-8g", name, zones=where, count={"desired": 2}, network={"via": "networks"})
        for name, where in (("here", [ZONE]), ("there", zones))
    ]
    assert "one zone for all of these pools" in refused(*pools)["cluster"]


def test_rdma_networks_are_in_the_zone_of_a_cluster_of_one_zone() -> None:
    ultra = on("a3-ultragpu-8g", zones=None, network={"via": "networks"})
    profiles = {network.network_profile for network in cloud(ultra, cluster=cluster(location=ZONE)).networks}
    assert profiles == {None, f"{ZONE}-vpc-roce"}
    assert "no declared zones" in refused(ultra)["cluster"]


@pytest.mark.parametrize("machine", ["a3-highgpu-1g", "a3-megagpu-8g", "a3-ultragpu-8g", "a4-highgpu-8g"])
def test_a3_and_newer_always_enable_multi_networking(machine: str) -> None:
    assert cloud(on(machine, workload="inference")).multi_networking
    assert not cloud(on("a2-ultragpu-8g")).multi_networking


# -- preparation of nodes ---------------------------------------------------------------------------------


def test_driver_installer_runs_only_with_the_operators_device_plugin() -> None:
    made = cloud(
        on("g2-standard-48", "ours"),
        on("g2-standard-48", "gkes", device_plugin="provider"),
    )
    assert pools_of(installer(made, "gpu-driver-installer")) == ["ours"]
    assert cloud(on("g2-standard-48", device_plugin="provider")).installers == ()
    assert cloud(on("g2-standard-48", image={"family": "ubuntu"})).installers == (), (
        "Ubuntu nodes have driver containers"
    )


def test_gpus_that_need_a_newer_branch_have_the_newest_driver() -> None:
    made = cloud(
        on("g2-standard-48", "old"),
        on("a3-ultragpu-8g", "same", network={"rdma": False}),  # any default driver supports H200
        on("a4-highgpu-8g", "new", network={"rdma": False}),
    )
    assert pools_of(installer(made, "gpu-driver-installer")) == ["old", "same"]
    latest = installer(made, "gpu-driver-installer-latest")
    assert pools_of(latest) == ["new"]
    assert "--version=latest" in latest.pod_spec["initContainers"][0]["args"][0]


def test_the_installer_gets_the_declared_driver_for_every_gpu() -> None:
    nodes = on("g2-standard-48", "old"), on("a4-highgpu-8g", "new", network={"rdma": False})
    made = plan(*nodes, operator={"driver": {"version": "580.126.20"}})
    assert isinstance(made.cluster.cloud, GkeClusterPlan)
    [only] = [one for one in made.cluster.cloud.installers if one.name.startswith("gpu-driver-installer")]
    assert pools_of(only) == ["new", "old"]
    assert "--version=580.126.20\n" in only.pod_spec["initContainers"][0]["args"][0]
    [decision] = [one for one in made.decisions if (one.subject, one.what) == ("operator", "driver")]
    assert decision.chosen == "580.126.20, installed by the platform's installer"


@pytest.mark.parametrize("part", ["580", "580.126"])
def test_a_part_of_a_version_is_no_driver_that_the_installer_can_get(part: str) -> None:
    problem = refused(on("g2-standard-48"), operator={"driver": {"version": part}})["operator.driver.version"]
    assert "a full version for pools with Container-Optimized OS" in problem


def test_gke_chooses_the_driver_for_its_own_device_plugin() -> None:
    of_gke = on("g2-standard-48", device_plugin="provider")
    assert "gke chooses" in refused(of_gke, operator={"driver": {"version": "580"}})["operator.driver.version"]


@pytest.mark.parametrize(
    ("machine", "names"),
    [
        ("a3-highgpu-8g", {"gpudirect-tcpx-installer", "gpu-device-injector"}),
        ("a3-megagpu-8g", {"gpudirect-tcpxo-installer", "gpu-device-injector"}),
        ("a3-ultragpu-8g", {"gpudirect-rdma-installer"}),
        ("a4-highgpu-8g", {"gpudirect-rdma-installer"}),
        ("a4x-highgpu-4g", {"gpudirect-rdma-installer-arm64"}),
        ("a2-highgpu-8g", set()),
    ],
)
def test_each_fabric_has_its_own_plugin_installer(machine: str, names: set[str]) -> None:
    made = cloud(on(machine, device_plugin="provider"))
    assert {one.name for one in made.installers} == names
    without = cloud(on(machine, device_plugin="provider", network={"rdma": False}))
    assert without.installers == ()


def test_every_image_of_an_installer_is_pinned_and_comes_from_the_catalogue() -> None:
    clusters = [("a3-highgpu-8g", "a3-megagpu-8g", "g2-standard-48"), ("a3-ultragpu-8g", "a4x-highgpu-4g")]
    made = [
        one
        for machines in clusters
        for one in cloud(*(on(machine, machine.partition("-8g")[0]) for machine in machines)).installers
    ]
    assert len({one.name for one in made}) >= 6
    known = {image.reference for image in load_catalog().images.values()}
    for one in made:
        for container in (*one.pod_spec.get("initContainers", ()), *one.pod_spec["containers"]):
            assert container["name"]
            assert container["image"] in known
            assert not container["image"].endswith(":latest")


def test_only_steps_that_touch_the_host_are_privileged() -> None:
    made = cloud(on("a3-megagpu-8g"))
    assert made.installers
    for one in made.installers:
        steady = one.pod_spec["containers"][0]
        assert steady["securityContext"].get("privileged", False) == (one.name == "gpu-device-injector")


# -- kubelet ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machine", "logs", "fix"),
    [
        (
            "n2-standard-16",
            {"container_log_max_size": "500Mi"},
            "container_log_max_size: 409Mi, or write disk: {size_gb: 245}",
        ),
        ("n2-standard-16", {"container_log_max_size": "200Mi"}, None),
        (
            "n2-standard-16",
            {"container_log_max_size": "210Mi", "container_log_max_files": 10},
            "container_log_max_size: 204Mi",
        ),
        ("n2-standard-16", {"container_log_max_files": 10}, None),
        ("a3-highgpu-8g", {"container_log_max_size": "500Mi", "container_log_max_files": 10}, None),
    ],
)
def test_container_logs_are_limited_to_the_share_that_gke_allows(
    machine: str, logs: dict[str, Any], fix: str | None
) -> None:
    nodes = on(
        machine, workload="general" if machine.startswith("n2") else "training", bootstrap={"kubelet": logs}
    )
    if fix is None:
        assert plan(nodes, on("g2-standard-48", "serve"))
    else:
        problem = refused(nodes, on("g2-standard-48", "serve"))[
            "pools[0].bootstrap.kubelet.container_log_max_size"
        ]
        assert fix in problem


def test_the_disk_that_is_named_for_the_logs_of_containers_is_large_enough() -> None:
    logs = {"bootstrap": {"kubelet": {"container_log_max_size": "500Mi"}}}
    assert plan(on("g2-standard-12", **logs, disk={"size_gb": 245}))
    assert refused(on("g2-standard-12", **logs, disk={"size_gb": 244}))


# -- metrics, protection, labels --------------------------------------------------------------------------


def test_gkes_own_gpu_metrics_are_on_only_where_gke_runs_the_device_plugin() -> None:
    assert "DCGM" not in created(on("g2-standard-48")).metrics
    assert "DCGM" in created(on("g2-standard-48", device_plugin="provider")).metrics


def test_only_a_production_cluster_that_the_program_makes_is_protected() -> None:
    assert cloud(on("g2-standard-48")).protect
    assert not cloud(on("g2-standard-48"), cluster=cluster({}, production=False)).protect
    assert not cloud(on("g2-standard-48"), cluster=cluster()).protect
    assert "the existing cluster" in cloud(on("g2-standard-48"), cluster=cluster()).retained[0]
    assert LEFTOVERS in cloud(on("g2-standard-48")).retained
    assert LEFTOVERS not in cloud(on("g2-standard-48"), cluster=cluster()).retained


def test_the_stacks_name_is_a_label_that_google_cloud_takes() -> None:
    made = plan_platform(environment(on("g2-standard-48"), cluster=cluster({})), "My.Stack")
    assert isinstance(made.cluster.cloud, GkeClusterPlan)
    assert made.cluster.cloud.resource_labels["stack"] == "my-stack"


# -- the live cluster -------------------------------------------------------------------------------------


def found(**rest: Any) -> ExistingGke:
    facts: dict[str, Any] = {
        "version": "1.35.2-gke.1269001",
        "autopilot": False,
        "datapath": "ADVANCED_DATAPATH",
        "calico": False,
        "multi_networking": True,
        "fqdn_policies": False,
        "workload_pool": "my-project.svc.id.goog",
        "security_group": None,
        "dns_endpoint": "gke-abc.us-central1.gke.goog",
        "endpoint": "34.1.2.3",
        "certificate_authority": "Q0E=",
        "network_project": "my-project",
        "ranges": {"pods": "10.4.0.0/14", "services": "34.118.224.0/20"},
        **rest,
    }
    return ExistingGke(**facts)


def test_the_control_plane_in_an_existing_vpc_is_apart_from_the_gpu_networks() -> None:
    own = {name: value for name, value in SHARED.items() if name != "project"}
    taken = cluster({"network": own, "control_plane_cidr": "192.168.0.0/28"})
    assert "the GPU networks" in refused(on("a3-megagpu-8g"), cluster=taken)["cluster.create.control_plane_cidr"]


def test_ranges_of_a_cluster_are_free_where_no_pool_joins_gpu_networks() -> None:
    without = cloud(on("a3-ultragpu-8g"), cluster=cluster(kubernetes="1.35"))
    require_fit(without, found(ranges={"pods": "192.168.0.0/16"}))


def test_a_cluster_that_has_all_fits() -> None:
    require_fit(cloud(on("a3-megagpu-8g"), cluster=cluster(kubernetes="1.35")), found())


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"version": "1.34.1-gke.1829000"}, "1.34.1-gke.1829001 or newer"),
        ({"autopilot": True}, "Autopilot"),
        ({"datapath": "LEGACY_DATAPATH"}, "dataplane v2"),
        ({"datapath": ""}, "dataplane v2"),
        ({"multi_networking": False}, "multi-networking"),
        ({"network_project": "host-project"}, "all network interfaces of a node to be in one project"),
        ({"workload_pool": None}, "workload identity"),
        ({"version": "1.34.9-gke.1"}, "'1.35' on GKE 1.34.9-gke.1"),
        ({"ranges": {"pods": "192.168.64.0/18"}}, "192.168.64.0/18 for pods, which overlaps 192.168.64.0/20"),
        ({"ranges": {"services": "192.168.16.0/24"}}, "which overlaps 192.168.16.0/20 of the GPU networks"),
    ],
)
def test_a_cluster_that_lacks_something_is_refused_with_it(facts: dict[str, Any], words: str) -> None:
    machine = "a3-ultragpu-8g" if "1829001" in words else "a3-megagpu-8g"
    needy = cloud(on(machine), cluster=cluster(kubernetes="1.35"))
    with pytest.raises(BadInput, match="GKE cluster ml") as caught:
        require_fit(needy, found(**facts))
    assert words in str(caught.value)


def test_egress_by_host_name_requires_policies_that_support_it() -> None:
    named = cloud(on("g2-standard-48"), cluster=cluster(fqdn_policies=True))
    require_fit(named, found(fqdn_policies=True))
    with pytest.raises(BadInput, match="--enable-fqdn-network-policy") as caught:
        require_fit(named, found())
    assert [problem.path for problem in caught.value.problems] == ["cluster.fqdn_policies"]


def test_node_pools_that_expose_credentials_are_refused_with_identities() -> None:
    exposed = found(exposed_pools=("old", "older"))
    require_fit(cloud(on("g2-standard-48"), cluster=cluster()), exposed)
    identity = {"buckets": [{"name": "acme-datasets"}]}
    identified = with_rest(team_identities={"vision": identity, "speech": identity})
    require_fit(identified, found())
    with pytest.raises(BadInput, match="old, older") as caught:
        require_fit(identified, exposed)
    [problem] = caught.value.problems
    assert "the server gives the pods of team vision and team speech their own identity" in problem.allowed
    assert problem.fix.startswith("gcloud container node-pools update old --cluster ml")


def test_teams_are_refused_on_a_cluster_that_enforces_no_network_policies() -> None:
    """GKE enforces network policies only with Dataplane V2 or the Calico add-on. An existing cluster may have
    neither.
    """
    teams = with_rest(teams=[team(quota={"gpus": 1}, members=["user:a@example.com"])])
    open_to_all = found(datapath="LEGACY_DATAPATH")
    require_fit(cloud(on("g2-standard-48"), cluster=cluster()), open_to_all)
    require_fit(teams, found(datapath="LEGACY_DATAPATH", calico=True))
    for of_teams in (teams, with_rest(team_identities={"vision": {"buckets": [{"name": "acme-datasets"}]}})):
        with pytest.raises(BadInput, match="no enforcement of network policies, with 1 team") as caught:
            require_fit(of_teams, open_to_all)
        assert "--enable-network-policy" in caught.value.problems[0].fix


def test_node_pools_that_expose_credentials_are_refused_with_buckets() -> None:
    """The sidecar that mounts a bucket can reach the metadata server, and so can the team's other containers."""
    data = {"type": "bucket", "bucket": "acme-data", "purpose": "datasets"}
    members = ["user:a@example.com"]
    mounting = with_rest(storage={"data": data}, teams=[team("vision", quota={"gpus": 1}, members=members)])
    require_fit(mounting, found())
    with pytest.raises(BadInput, match="the server gives the pods of team vision their own identity"):
        require_fit(mounting, found(exposed_pools=("old",)))


def with_rest(**rest: Any) -> GkeClusterPlan:
    plan = plan_platform(environment(on("g2-standard-48"), cluster=cluster(), **rest), "test").cluster.cloud
    assert isinstance(plan, GkeClusterPlan)
    return plan


def test_everything_that_is_missing_is_reported_at_once() -> None:
    with pytest.raises(BadInput) as caught:
        require_fit(
            cloud(on("a3-megagpu-8g"), cluster=cluster()),
            found(datapath="", multi_networking=False, workload_pool=None, autopilot=True),
        )
    assert len(caught.value.problems) == 4


@pytest.mark.parametrize("machine", ["g2-standard-48", "a3-highgpu-8g"])
def test_pools_that_use_no_gpu_nics_ask_nothing_of_the_network(machine: str) -> None:
    serving = cloud(on(machine, workload="inference"), cluster=cluster())
    require_fit(serving, found(datapath="", multi_networking=False))


def test_a_cluster_is_reached_by_its_dns_endpoint_if_it_is_open() -> None:
    by_name = existing_kubeconfig("ml", found())
    assert "https://gke-abc.us-central1.gke.goog" in by_name
    assert "certificate-authority-data" not in by_name
    by_address = existing_kubeconfig("ml", found(dns_endpoint=None))
    assert "https://34.1.2.3" in by_address
    assert "Q0E=" in by_address
