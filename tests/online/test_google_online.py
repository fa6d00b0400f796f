"""All requests to Google Cloud for one stack, sent to a simulated project on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from google.auth import impersonated_credentials

from gpu_platform.catalog import load_catalog
from gpu_platform.online import OnlineFinding, cloud_of
from gpu_platform.online.google.api import new_session
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from tests.planning.conftest import team
from tests.support.google_project import CLUSTER, MACHINE_TYPES, REGION, RESERVATION, GoogleProject, google_project

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
EXISTING: dict[str, Any] = {"provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1"}
CREATED: dict[str, Any] = {**EXISTING, "create": {}}
RESERVED: dict[str, Any] = {
    "name": "train",
    "machine_type": "a3-megagpu-8g",
    "count": {"desired": 4},
    "capacity": {"type": "reservation", "reservation": "h100-mega", "zone": "us-central1-a"},
    "placement": {"type": "compact", "group": "h100-mega-compact"},
    "workload": "training",
}
SERVE: dict[str, Any] = {
    "name": "serve",
    "machine_type": "g2-standard-48",
    "count": {"desired": 2},
    "zones": ["us-central1-a"],
    "workload": "inference",
}


@pytest.fixture
def project() -> Iterator[GoogleProject]:
    with google_project() as project:
        yield project


def plan_of(*pools: dict[str, Any], cluster: dict[str, Any] = CREATED, **rest: Any) -> EnvironmentPlan:
    platform = {"kind": "environment", "cluster": cluster, "pools": list(pools), **rest}
    plan = plan_platform(platform, "test")
    assert plan.kind == "environment"
    return plan


def ask(plan: EnvironmentPlan) -> list[OnlineFinding]:
    cloud = cloud_of(plan, load_catalog(), NOW)
    assert cloud is not None
    return [finding for lookup in cloud.lookups() for finding in lookup.findings()]


def by_title(findings: list[OnlineFinding], part: str) -> OnlineFinding:
    (found,) = [finding for finding in findings if part in finding.looked_at]
    return found


def test_nothing_is_found_in_a_project_that_is_ready(project: GoogleProject) -> None:
    findings = ask(plan_of(RESERVED, SERVE))

    assert {finding.severity for finding in findings} == {"fine"}, findings
    assert len(findings) == 8


def test_a_bucket_is_looked_for_near_the_cluster(project: GoogleProject) -> None:
    project.answers["storage/v1/b/acme-near"] = {"name": "acme-near", "location": "US-CENTRAL1"}
    project.answers["storage/v1/b/acme-far"] = {"name": "acme-far", "location": "EUROPE-WEST4"}
    team = {
        "name": "vision",
        "quota": {"gpus": 1},
        "priority": "training",
        "members": ["group:vision@example.com"],
        "identity": {"buckets": [{"name": "acme-gone"}, {"name": "acme-other"}]},
    }
    storage = {name: {"type": "bucket", "bucket": f"acme-{name}"} for name in ("near", "far", "gone")}
    plan = plan_platform(
        {"kind": "environment", "cluster": CREATED, "pools": [SERVE], "teams": [team], "storage": storage}, "test"
    )
    assert plan.kind == "environment"

    findings = ask(plan)

    names = ("near", "far", "gone", "other")
    severities = {name: by_title(findings, f"bucket acme-{name}").severity for name in names}
    assert severities == {"near": "fine", "far": "warns", "gone": "stops", "other": "stops"}


def test_an_api_that_is_not_enabled_stops_up(project: GoogleProject) -> None:
    project.status["/clusters/"] = (403, "SERVICE_DISABLED")

    finding = by_title(ask(plan_of(SERVE)), "new cluster ml")

    assert finding.severity == "stops"
    assert finding.fix == "gcloud services enable --project my-project container.googleapis.com"


def test_a_quota_counts_the_use_of_others(project: GoogleProject) -> None:
    project.answers[REGION] = {"quotas": [{"metric": "NVIDIA_L4_GPUS", "limit": 16, "usage": 9}]}

    finding = by_title(ask(plan_of(SERVE)), "NVIDIA_L4_GPUS")

    assert (finding.severity, finding.why) == ("stops", "1 GPU is missing for the desired nodes")


def test_quota_use_by_the_stacks_own_nodes_is_not_counted_as_foreign(
    project: GoogleProject,
) -> None:
    project.answers[REGION] = {"quotas": [{"metric": "NVIDIA_L4_GPUS", "limit": 8, "usage": 8}]}
    own = {"name": "serve", "config": {"resourceLabels": {"gpu-platform-pool": "serve"}}}
    project.add_cluster(nodePools=[own])

    finding = by_title(ask(plan_of(SERVE, cluster=EXISTING)), "NVIDIA_L4_GPUS")

    assert finding.severity == "warns"
    assert "8 with the stack's own nodes" in finding.found


def test_the_quota_of_a_gpu_family_is_read_by_its_dimension(project: GoogleProject) -> None:
    big = {
        **SERVE,
        "machine_type": "a3-highgpu-8g",
        "workload": "training",
        "placement": {"type": "none"},
        "network": {"rdma": False},
    }

    enough = by_title(ask(plan_of(big)), "GPUS_PER_GPU_FAMILY")
    too_many = by_title(ask(plan_of({**big, "count": {"desired": 3}})), "GPUS_PER_GPU_FAMILY")

    assert (enough.severity, too_many.severity) == ("warns", "stops")
    assert "usage unknown" in enough.found


def test_a_zone_without_the_machine_type_stops_up(project: GoogleProject) -> None:
    project.answers[MACHINE_TYPES] = {
        "items": {"zones/us-central1-c": {"machineTypes": [{"name": "g2-standard-48"}]}}
    }

    finding = by_title(ask(plan_of(SERVE)), "zones of pool serve")

    assert (finding.severity, finding.fix) == ("stops", "write zones: [us-central1-c]")


def test_unset_zones_are_compared_with_zones_that_offer_the_machine_type(project: GoogleProject) -> None:
    """Without `zones`, GKE creates a pool's nodes in all zones of the cluster, so `up` stops if one zone lacks the
    machine type.
    """
    zones = {f"zones/us-central1-{letter}": {"machineTypes": [{"name": "g2-standard-48"}]} for letter in "abc"}
    project.answers[MACHINE_TYPES] = {"items": zones}
    anywhere = {key: value for key, value in SERVE.items() if key != "zones"} | {"count": {"desired": 0, "max": 2}}
    known = by_title(ask(plan_of(anywhere)), "zones of pool serve")
    assert known.severity == "fine"
    del zones["zones/us-central1-b"]
    assert by_title(ask(plan_of(anywhere)), "zones of pool serve").severity == "stops"


@pytest.mark.parametrize(
    ("changed", "severity", "why"),
    [
        ({"status": "CREATING"}, "stops", "its status is CREATING"),
        ({"specificReservationRequired": False}, "stops", "any machine may use it"),
        ({"resourcePolicies": {"policy": "x/other"}}, "stops", "its placement policy is 'other'"),
        ({"deleteAtTime": "2026-11-23T13:00:00.000-00:00"}, "warns", "within 24 hours"),
        ({"deleteAtTime": "2026-11-23T04:00:00.000-07:00"}, "stops", "it has ended"),
        (
            {"specificReservation": {"count": "2", "instanceProperties": {"machineType": "a3-megagpu-8g"}}},
            "stops",
            "the reservation 2",
        ),
        (
            {"specificReservation": {"count": "4", "instanceProperties": {"machineType": "a3-highgpu-8g"}}},
            "stops",
            "the pool has machine type a3-megagpu-8g",
        ),
    ],
)
def test_what_of_a_reservation_does_not_fit(
    project: GoogleProject, changed: dict[str, Any], severity: str, why: str
) -> None:
    project.answers[RESERVATION] |= changed

    finding = by_title(ask(plan_of(RESERVED)), "h100-mega")

    assert finding.severity == severity
    assert why in finding.why


def test_a_reservation_that_is_not_there_stops_up(project: GoogleProject) -> None:
    del project.answers[RESERVATION]

    assert by_title(ask(plan_of(RESERVED)), "h100-mega").severity == "stops"


def test_an_existing_cluster_that_fits_is_fine(project: GoogleProject) -> None:
    project.add_cluster()

    findings = ask(plan_of(SERVE, cluster=EXISTING))

    assert {finding.severity for finding in findings} == {"fine"}, findings
    assert by_title(findings, "subnet default").found == "10.128.0.0/20"


def test_networks_that_reach_an_api_server_without_dns_endpoint_are_named(project: GoogleProject) -> None:
    blocks = [{"cidrBlock": "10.9.0.0/16"}]
    project.add_cluster(
        controlPlaneEndpointsConfig={},
        masterAuthorizedNetworksConfig={"enabled": True, "cidrBlocks": blocks},
    )
    finding = by_title(ask(plan_of(SERVE, cluster=EXISTING)), "networks that reach the API server")
    assert (finding.severity, finding.found) == ("warns", "at 198.51.100.7 10.9.0.0/16")
    assert "--enable-dns-access" in finding.fix


def test_an_existing_cluster_is_refused_for_what_up_would_refuse(project: GoogleProject) -> None:
    project.add_cluster(autopilot={"enabled": True}, workloadIdentityConfig={})

    findings = [each for each in ask(plan_of(SERVE, cluster=EXISTING)) if each.severity == "stops"]

    assert [each.found for each in findings] == [
        "cluster: an Autopilot cluster",
        "cluster: no workload identity pool",
    ]


def test_a_node_pool_of_others_with_the_same_name_stops_up(project: GoogleProject) -> None:
    project.add_cluster(nodePools=[{"name": "serve"}])

    assert by_title(ask(plan_of(SERVE, cluster=EXISTING)), "node pool serve").severity == "stops"


def test_a_cluster_name_that_is_taken_stops_the_creation(project: GoogleProject) -> None:
    project.add_cluster()
    others = by_title(ask(plan_of(SERVE)), "new cluster")
    project.add_cluster(resourceLabels={"managed-by": "gpu-platform", "stack": "test"})
    own = by_title(ask(plan_of(SERVE)), "new cluster")

    assert (others.severity, own.severity) == ("stops", "fine")


def test_a_missing_permission_is_named_and_the_rest_is_looked_at(project: GoogleProject) -> None:
    project.status["/clusters/"] = (403, "IAM_PERMISSION_DENIED")

    findings = ask(plan_of(RESERVED))

    assert [each.why for each in findings if each.severity == "unknown"] == [
        "the credentials lack container.clusters.get"
    ]
    assert len(findings) > 4


def test_an_endpoint_that_does_not_answer_is_unknown(
    project: GoogleProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER", "http://127.0.0.1:9/")

    finding = by_title(ask(plan_of(SERVE)), "new cluster ml")

    assert finding.severity == "unknown"
    assert "container did not answer" in finding.why


def test_without_credentials_every_line_is_unknown(
    project: GoogleProject, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.delenv("GOOGLE_OAUTH_ACCESS_TOKEN")
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")

    findings = ask(plan_of(SERVE))

    assert {each.severity for each in findings} == {"unknown"}
    assert project.asked == []


def test_the_cluster_is_requested_once(project: GoogleProject) -> None:
    project.add_cluster()

    ask(plan_of(SERVE, cluster=EXISTING))

    assert project.asked.count(CLUSTER) == 1


@pytest.mark.parametrize(
    ("calico", "severity"), [({"provider": "CALICO", "enabled": True}, "fine"), ({}, "stops")]
)
def test_a_cluster_of_teams_enforces_network_policies(
    project: GoogleProject, calico: dict[str, Any], severity: str
) -> None:
    project.add_cluster(networkConfig={"datapathProvider": "LEGACY_DATAPATH"}, networkPolicy=calico)
    of_team = team(quota={"gpus": 1}, members=["user:a@example.com"])
    assert (
        by_title(ask(plan_of(SERVE, cluster=EXISTING, teams=[of_team])), "existing cluster").severity == severity
    )


SHARED = {"project": "host-project", "name": "shared", "subnetwork": "nodes"}
SHARED_SUBNET = "compute/v1/projects/host-project/regions/us-central1/subnetworks/nodes"
RANGES = [
    {"rangeName": "pods", "ipCidrRange": "10.16.0.0/16"},
    {"rangeName": "services", "ipCidrRange": "10.8.0.0/20"},
]
MEGA = {**SERVE, "machine_type": "a3-megagpu-8g", "workload": "training", "capacity": {"type": "spot"}}


@pytest.mark.parametrize(
    ("subnet", "why"),
    [
        ({"ipCidrRange": "10.0.0.0/20", "secondaryIpRanges": RANGES}, None),
        ({"ipCidrRange": "10.0.0.0/20", "secondaryIpRanges": RANGES[:1]}, "no secondary range services"),
        ({"ipCidrRange": "10.0.0.0/29", "secondaryIpRanges": RANGES}, "room for 4 nodes"),
        ({}, "cannot be created"),
    ],
)
def test_the_subnet_of_a_new_cluster_is_compared_with_its_ranges(
    project: GoogleProject, subnet: dict[str, Any], why: str | None
) -> None:
    if subnet:
        project.answers[SHARED_SUBNET] = subnet
    pool = {**MEGA, "network": {"rdma": False}}
    finding = by_title(ask(plan_of(pool, cluster={**EXISTING, "create": {"network": SHARED}})), "subnet nodes")
    assert finding.severity == ("fine" if why is None else "stops")
    assert (why or "") in finding.why


def test_a_new_subnet_that_overlaps_gpu_networks_stops_up(project: GoogleProject) -> None:
    subnet = {"ipCidrRange": "192.168.16.0/20", "secondaryIpRanges": RANGES}
    project.answers[SHARED_SUBNET.replace("host-project", "my-project")] = subnet
    own = {"name": "ours", "subnetwork": "nodes"}
    finding = by_title(ask(plan_of(MEGA, cluster={**EXISTING, "create": {"network": own}})), "subnet nodes")
    assert (finding.severity, "overlaps 192.168.16.0/20 of the GPU" in finding.why) == ("stops", True)


def test_existing_nodes_in_gpu_network_ranges_stop_up(project: GoogleProject) -> None:
    """Nodes have an interface in each GPU network. If ranges overlap, other traffic would go to a GPU network."""
    project.add_cluster()
    project.answers[f"{REGION}/subnetworks/default"] = {"ipCidrRange": "192.168.0.0/20"}
    assert by_title(ask(plan_of(MEGA, cluster=EXISTING)), "subnet default").severity == "stops"


def test_an_existing_clusters_subnet_is_looked_up_in_the_host_project(
    project: GoogleProject,
) -> None:
    in_vpc = {
        "network": "projects/host-project/global/networks/shared",
        "subnetwork": SHARED_SUBNET.removeprefix("compute/v1/"),
        "datapathProvider": "ADVANCED_DATAPATH",
        "enableMultiNetworking": True,
    }
    project.add_cluster(network="shared", subnetwork="nodes", networkConfig=in_vpc)
    project.answers["compute/v1/projects/host-project/global/networks/shared"] = {"name": "shared"}
    project.answers[SHARED_SUBNET] = {"ipCidrRange": "192.168.16.0/20"}
    findings = ask(plan_of(MEGA, cluster=EXISTING))
    assert by_title(findings, "network shared").severity == "fine"
    finding = by_title(findings, "subnet nodes")
    assert (finding.severity, "overlaps 192.168.16.0/20 of the GPU" in finding.why) == ("stops", True)
    refused = by_title(findings, "existing cluster")
    assert (refused.severity, "nodes in a Shared VPC of host-project" in refused.found) == ("stops", True)


def test_google_is_queried_as_the_account_that_up_impersonates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "of-the-user")
    account = "deployer@my-project.iam.gserviceaccount.com"
    assert new_session(account).credentials.service_account_email == account
    assert not isinstance(new_session().credentials, impersonated_credentials.Credentials)
