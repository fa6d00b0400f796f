"""All requests to Azure for one stack, answered by a simulated subscription in this process."""

from __future__ import annotations

import base64
import json
import os
import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import requests

from gpu_platform.catalog import load_catalog
from gpu_platform.online import NotLookedAt, OnlineFinding, cloud_of
from gpu_platform.online.azure.api import AzureApi
from gpu_platform.online.azure.client import ACTIONS, AzureClient
from gpu_platform.online.azure.lookups import AzureCloud
from gpu_platform.planning.clouds.aks.prerequisites import PROVIDERS
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
GUID = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
ROOT = f"/subscriptions/{GUID}"
GROUP = f"{ROOT}/resourceGroups/group"
CLUSTER = f"{GROUP}/providers/Microsoft.ContainerService/managedClusters/ml"
SUBNET = f"{ROOT}/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/hub/subnets/gpu-nodes"
USAGES = f"{ROOT}/providers/Microsoft.Compute/locations/eastus2/usages"
SKUS = f"{ROOT}/providers/Microsoft.Compute/skus"
RESERVATIONS = f"{ROOT}/resourceGroups/capacity/providers/Microsoft.Compute/capacityReservationGroups/gpus"
EXISTING: dict[str, Any] = {
    "provider": "aks",
    "name": "ml",
    "subscription": GUID,
    "resource_group": "group",
    "region": "eastus2",
    "kubernetes": "1.35",
}
CREATE: dict[str, Any] = {"admins": [GUID], "api_access": ["203.0.113.0/24"]}
CREATED: dict[str, Any] = {**EXISTING, "create": CREATE}
SERVE: dict[str, Any] = {
    "name": "serve",
    "machine_type": "Standard_NC24ads_A100_v4",
    "count": {"desired": 2},
    "zones": ["1"],
    "workload": "inference",
}


class Answer:
    def __init__(self, status: int, document: Any) -> None:
        self.status_code = status
        self._document = document

    def json(self) -> Any:
        return self._document


class Azure:
    """A fake session of `requests`. `answers` maps paths to documents, and `status` maps paths to statuses."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.status: dict[str, tuple[int, str]] = {}
        self.answers: dict[str, Any] = {
            ROOT: {"state": "Enabled"},
            USAGES: {
                "value": [
                    usage("StandardNCADSA100v4Family", 200, 24),
                    usage("standardDDSv5Family", 100, 0),
                ],
                "nextLink": f"https://management.azure.com{USAGES}/more",
            },
            f"{USAGES}/more": {"value": [usage("cores", 500, 24), usage("lowPriorityCores", 0, 0)]},
            SKUS: {
                "value": [
                    sku("Standard_NC24ads_A100_v4", "1", "2"),
                    sku("Standard_D4ds_v5", "1", "2", "3"),
                    {**sku("Standard_NC24ads_A100_v4"), "resourceType": "disks"},
                ]
            },
            **{f"{ROOT}/providers/{name}": {"registrationState": "Registered"} for name in PROVIDERS},
        }

    def request(self, method: str, url: str, params: Mapping[str, str], timeout: Any) -> Answer:
        del timeout
        path = url.removeprefix("https://management.azure.com")
        assert "api-version" in params or path.endswith("/more")
        self.asked.append((method, path))
        for part, (status, code) in self.status.items():
            if part in path:
                return Answer(status, {"error": {"code": code, "message": code}})
        if path not in self.answers:
            return Answer(404, {"error": {"code": "NotFound", "message": "not found"}})
        return Answer(200, self.answers[path])

    def add_cluster(self, tags: Mapping[str, str] | None = None, **properties: Any) -> None:
        found = {
            "provisioningState": "Succeeded",
            "kubernetesVersion": "1.35",
            "currentKubernetesVersion": "1.35.2",
            "networkProfile": {"networkPolicy": "cilium"},
            "aadProfile": {"managed": True},
            "agentPoolProfiles": [{"name": "system", "vnetSubnetID": SUBNET}],
            "oidcIssuerProfile": {"enabled": True, "issuerURL": "https://eastus2.oic.prod-aks.azure.com/t/c/"},
            "securityProfile": {"workloadIdentity": {"enabled": True}},
            **properties,
        }
        self.answers[CLUSTER] = {"location": "eastus2", "tags": dict(tags or {}), "properties": found}


def usage(name: str, limit: int, used: int) -> dict[str, Any]:
    return {"limit": limit, "currentValue": used, "name": {"value": name, "localizedValue": name}}


def sku(name: str, *zones: str, **restriction: Any) -> dict[str, Any]:
    return {
        "name": name,
        "resourceType": "virtualMachines",
        "locations": ["EastUS2"],
        "locationInfo": [{"location": "EastUS2", "zones": list(zones)}],
        "restrictions": [restriction] if restriction else [],
    }


@pytest.fixture
def azure() -> Azure:
    return Azure()


def plan_of(*pools: dict[str, Any], cluster: dict[str, Any] = CREATED, **rest: Any) -> EnvironmentPlan:
    platform = {"kind": "environment", "cluster": cluster, "pools": list(pools or (SERVE,)), **rest}
    plan = plan_platform(platform, "test")
    assert plan.kind == "environment"
    return plan


def cloud(azure: Azure, plan: EnvironmentPlan) -> AzureCloud:
    return AzureCloud(plan, load_catalog(), NOW, AzureClient(GUID, AzureApi(GUID, azure)))


def ask(azure: Azure, plan: EnvironmentPlan) -> list[OnlineFinding]:
    return [finding for lookup in cloud(azure, plan).lookups() for finding in lookup.findings()]


def by_title(findings: list[OnlineFinding], part: str) -> OnlineFinding:
    (found,) = [finding for finding in findings if part in finding.looked_at]
    return found


def test_nothing_is_found_in_a_subscription_that_is_ready(azure: Azure) -> None:
    findings = ask(azure, plan_of())

    assert {finding.severity for finding in findings} == {"fine"}, findings
    assert len(findings) == 9
    assert {method for method, _ in azure.asked} == {"GET"}
    assert len([path for _, path in azure.asked if path == SKUS]) == 1


def test_azure_is_a_cloud_of_doctor_online() -> None:
    assert isinstance(cloud_of(plan_of(), load_catalog(), NOW), AzureCloud)


def test_quotas_count_what_others_use_and_the_system_nodes(azure: Azure) -> None:
    azure.answers[USAGES]["value"] = [
        usage("standardncadsa100v4family", 71, 24),
        usage("standardDDSv5Family", 15, 0),
    ]

    findings = ask(azure, plan_of())

    serve, system = by_title(findings, "StandardNCADSA100v4Family"), by_title(findings, "standardDDSv5Family")
    assert (serve.severity, serve.why) == ("stops", "1 vCPU is missing for the desired nodes")
    assert (system.severity, system.why) == (
        "warns",
        "the desired nodes fit, but 1 vCPU is missing for the maximum",
    )
    assert "by system nodes" in system.found


def test_the_use_of_own_nodes_is_not_counted_as_that_of_others(azure: Azure) -> None:
    azure.answers[USAGES]["value"][0] = usage("StandardNCADSA100v4Family", 72, 72)
    azure.add_cluster(agentPoolProfiles=[{"name": "serve", "tags": {"gpu-platform-pool": "serve"}}])

    finding = by_title(ask(azure, plan_of(cluster=EXISTING)), "StandardNCADSA100v4Family")

    assert finding.severity == "warns"
    assert "72 with the stack's own nodes" in finding.found


def test_spot_nodes_need_the_quota_of_spot_nodes(azure: Azure) -> None:
    finding = by_title(ask(azure, plan_of({**SERVE, "capacity": {"type": "spot"}})), "lowPriorityCores")

    assert (finding.severity, finding.why) == ("stops", "48 vCPU are missing for the desired nodes")


@pytest.mark.parametrize(
    ("skus", "why", "fix"),
    [
        ([], "Azure refuses", "choose another region or machine type"),
        (
            [sku(SERVE["machine_type"], "1", type="Location", reasonCode="NotAvailableForSubscription")],
            "Azure refuses",
            "request access to the size",
        ),
        ([sku(SERVE["machine_type"], "2", "3")], "in zone 1", 'write pools[0].zones: ["2", "3"]'),
        (
            [sku(SERVE["machine_type"], "1", "2", type="Zone", restrictionInfo={"zones": ["1"]})],
            "in zone 1",
            'write pools[0].zones: ["2"]',
        ),
    ],
    ids=["no-size", "no-right", "no-zone", "no-right-in-zone"],
)
def test_a_size_that_the_subscription_may_not_use_stops_up(
    azure: Azure, skus: list[dict[str, Any]], why: str, fix: str
) -> None:
    azure.answers[SKUS]["value"] = [*skus, sku("Standard_D4ds_v5", "1", "2", "3")]

    finding = by_title(ask(azure, plan_of()), "of pool serve")

    assert finding.severity == "stops"
    assert why in finding.why
    assert finding.fix.startswith(fix)


def test_a_resource_group_of_others_stops_up(azure: Azure) -> None:
    azure.answers[GROUP] = {"location": "eastus2", "tags": {}}
    taken = by_title(ask(azure, plan_of()), "resource group")
    azure.answers[GROUP]["tags"] = {"managed-by": "gpu-platform", "stack": "test"}
    own = by_title(ask(azure, plan_of()), "resource group")

    assert (taken.severity, own.severity) == ("stops", "fine")
    assert taken.fix.startswith("write resource_group: existing")


def test_an_existing_resource_group_must_exist(azure: Azure) -> None:
    cluster = {**EXISTING, "create": {**CREATE, "resource_group": "existing"}}
    gone = by_title(ask(azure, plan_of(cluster=cluster)), "resource group")
    azure.answers[GROUP] = {"location": "westus3"}
    there = by_title(ask(azure, plan_of(cluster=cluster)), "resource group")

    assert (gone.severity, there.severity) == ("stops", "fine")
    assert there.found == "in westus3"


def test_a_cluster_name_that_is_taken_stops_the_creation(azure: Azure) -> None:
    azure.add_cluster()
    taken = by_title(ask(azure, plan_of()), "name of the new cluster")
    azure.add_cluster(tags={"managed-by": "gpu-platform", "stack": "test"})
    own = by_title(ask(azure, plan_of()), "name of the new cluster")

    assert (taken.severity, own.found) == ("stops", "this stack has created it already")


def test_an_existing_cluster_that_fits_is_fine_and_its_networks_are_named(azure: Azure) -> None:
    azure.add_cluster(apiServerAccessProfile={"authorizedIPRanges": ["198.51.100.0/24"]})
    findings = ask(azure, plan_of(cluster=EXISTING))

    assert by_title(findings, "existing cluster ml").found == "AKS 1.35.2, Succeeded, network policies by cilium"
    assert by_title(findings, "reach the API server").found == "198.51.100.0/24"


@pytest.mark.parametrize(
    ("properties", "found"),
    [
        ({"aadProfile": None}, "a cluster without Entra ID"),
        ({"currentKubernetesVersion": "1.34.9"}, "'1.35' on AKS 1.34.9"),
        ({"networkProfile": {"networkPolicy": "none"}}, "no enforcement of network policies"),
        ({"provisioningState": "Updating"}, "AKS 1.35.2, Updating"),
        ({"oidcIssuerProfile": None}, "no OIDC issuer, with an identity of vision"),
        ({"securityProfile": None}, "no Workload ID, with an identity of vision"),
    ],
    ids=["entra", "version", "policies", "busy", "issuer", "webhook"],
)
def test_an_existing_cluster_is_refused_for_what_up_would_refuse(
    azure: Azure, properties: dict[str, Any], found: str
) -> None:
    azure.add_cluster(**properties)
    identity = f"{GROUP}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/vision"
    team = {
        "name": "vision",
        "quota": {"gpus": 1},
        "priority": "training",
        "members": [f"group:{GUID}"],
        "identity": {"managed_identity": identity},
    }

    finding = by_title(ask(azure, plan_of(cluster=EXISTING, teams=[team])), "existing cluster ml")

    assert finding.severity == "stops"
    assert found in finding.found


def test_a_missing_cluster_and_a_private_one_are_named(azure: Azure) -> None:
    gone = by_title(ask(azure, plan_of(cluster=EXISTING)), "existing cluster ml")
    azure.add_cluster(apiServerAccessProfile={"enablePrivateCluster": True})
    private = by_title(ask(azure, plan_of(cluster=EXISTING)), "reach the API server")

    assert (gone.severity, private.severity) == ("stops", "warns")


def test_an_agent_pool_of_others_with_the_same_name_stops_up(azure: Azure) -> None:
    azure.add_cluster(agentPoolProfiles=[{"name": "serve", "tags": None}])

    assert by_title(ask(azure, plan_of(cluster=EXISTING)), "agent pool serve").severity == "stops"


@pytest.mark.parametrize(
    ("properties", "severity", "why"),
    [
        ({"addressPrefix": "10.0.0.0/24", "natGateway": {"id": "x"}}, "fine", ""),
        ({"addressPrefixes": ["10.0.0.0/28", "10.1.0.0/24"], "natGateway": {"id": "x"}}, "fine", ""),
        ({"addressPrefix": "10.0.0.0/29", "natGateway": {"id": "x"}}, "stops", "up to 7 nodes"),
        ({"addressPrefix": "10.0.0.0/24"}, "stops", "no NAT gateway"),
        (None, "stops", "cannot be created"),
    ],
    ids=["fits", "several-ranges", "small", "no-nat", "gone"],
)
def test_an_existing_subnet_has_room_and_the_declared_way_out(
    azure: Azure, properties: dict[str, Any] | None, severity: str, why: str
) -> None:
    if properties is not None:
        azure.answers[SUBNET] = {"properties": properties}
    network = {"subnet": SUBNET, "outbound": "nat-gateway"}

    finding = by_title(
        ask(azure, plan_of(cluster={**EXISTING, "create": {**CREATE, "network": network}})), "subnet"
    )

    assert finding.severity == severity
    assert why in finding.why


@pytest.mark.parametrize(
    ("region", "severity", "found"),
    [
        ("eastus2", "fine", "in eastus2"),
        ("westeurope", "stops", "in westeurope"),
        (None, "stops", "no such disk encryption set"),
    ],
)
def test_a_disk_encryption_set_must_be_in_the_clusters_region(
    azure: Azure, region: str | None, severity: str, found: str
) -> None:
    path = f"{ROOT}/resourceGroups/keys/providers/Microsoft.Compute/diskEncryptionSets/disks"
    if region is not None:
        azure.answers[path] = {"location": region}
    cluster = {**EXISTING, "create": {**CREATE, "disk_encryption_set": path}}

    finding = by_title(ask(azure, plan_of(cluster=cluster)), "disk encryption set disks")

    assert (finding.severity, finding.found) == (severity, found)


def reservation(nodes: int, **changes: Any) -> dict[str, Any]:
    size = {"name": "Standard_NC24ads_A100_v4", "capacity": nodes}
    return {"location": "EastUS2", "sku": size, "zones": ["1"], **changes}


@pytest.mark.parametrize(
    ("reservations", "severity", "words"),
    [
        ([reservation(2)], "fine", "2 nodes of Standard_NC24ads_A100_v4"),
        ([reservation(1)], "warns", "1 node of Standard_NC24ads_A100_v4"),
        ([reservation(2, zones=["3"])], "stops", "Standard_NC24ads_A100_v4 in eastus2 zone 3"),
        ([reservation(2, zones=None)], "stops", "zone any"),
        ([reservation(2, location="westeurope")], "stops", "in westeurope"),
        ([reservation(2, sku={"name": "Standard_NC4as_T4_v3", "capacity": 4})], "stops", "NC4as_T4_v3"),
        ([], "stops", "a group without reservations"),
        (None, "stops", "no such capacity reservation group"),
    ],
    ids=["fits", "small", "other-zone", "no-zone", "other-region", "other-size", "empty", "gone"],
)
def test_a_reservation_group_has_the_nodes_of_its_pool(
    azure: Azure, reservations: list[Any] | None, severity: str, words: str
) -> None:
    if reservations is not None:
        azure.answers[f"{RESERVATIONS}/capacityReservations"] = {"value": reservations}
    capacity = {"type": "reservation", "reservation": RESERVATIONS, "zone": "1"}

    finding = by_title(ask(azure, plan_of({**SERVE, "capacity": capacity})), "reservation of pool serve")

    assert (finding.severity, words in finding.found) == (severity, True)


def test_resource_providers_that_are_not_registered_are_named(azure: Azure) -> None:
    azure.answers[f"{ROOT}/providers/Microsoft.Compute"] = {"registrationState": "NotRegistered"}

    finding = by_title(ask(azure, plan_of()), "resource providers")

    assert finding.severity == "stops"
    assert finding.fix == f"az provider register --subscription {GUID} --namespace Microsoft.Compute"


@pytest.mark.parametrize(
    ("answer", "severity"),
    [
        ({"properties": {"state": "Registered"}}, "fine"),
        ({"properties": {"state": "Registering"}}, "stops"),
        (None, "stops"),
    ],
)
def test_infiniband_needs_the_feature_of_the_subscription(
    azure: Azure, answer: dict[str, Any] | None, severity: str
) -> None:
    feature = "Microsoft.ContainerService/features/AKSInfinibandSupport"
    if answer is not None:
        azure.answers[f"{ROOT}/providers/Microsoft.Features/providers/{feature}"] = answer
    train = {**SERVE, "machine_type": "Standard_ND96isr_H100_v5", "zones": ["1"], "workload": "training"}
    finding = by_title(ask(azure, plan_of(train)), "feature AKSInfinibandSupport")
    assert finding.severity == severity
    assert ("az feature register" in finding.fix) == (severity == "stops")


def test_the_feature_is_not_asked_about_without_infiniband(azure: Azure) -> None:
    ask(azure, plan_of())
    assert not any("Microsoft.Features" in path for _, path in azure.asked)


def test_a_missing_permission_is_named_and_the_rest_is_looked_at(azure: Azure) -> None:
    azure.status["/usages"] = (403, "AuthorizationFailed")

    findings = ask(azure, plan_of())

    quota = by_title(findings, "standardDDSv5Family")
    assert (quota.severity, quota.why) == ("unknown", f"the credentials lack {ACTIONS['usages']}")
    assert by_title(findings, "of pool serve").severity == "fine"


def test_the_kubeconfig_of_an_existing_cluster_has_no_token(azure: Azure) -> None:
    one = {"server": "https://ml.example:443", "certificate-authority-data": "Y2E="}
    text = json.dumps({"clusters": [{"name": "ml", "cluster": one}], "users": [{"user": {"token": "secret"}}]})
    azure.answers[f"{CLUSTER}/listClusterUserCredential"] = {
        "kubeconfigs": [{"name": "clusterUser", "value": base64.b64encode(text.encode()).decode()}]
    }

    found = cloud(azure, plan_of(cluster=EXISTING)).kubeconfig()

    assert found is not None
    assert "https://ml.example:443" in found
    assert "kubelogin" in found
    assert "secret" not in found
    assert cloud(Azure(), plan_of(cluster=EXISTING)).kubeconfig() is None


def test_an_azure_that_does_not_answer_is_asked_once(azure: Azure, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(method: str, url: str, **_: Any) -> Answer:
        azure.asked.append((method, url))
        raise requests.ConnectionError("unreachable")

    monkeypatch.setattr(azure, "request", fail)

    assert {finding.severity for finding in ask(azure, plan_of())} == {"unknown"}
    assert len(azure.asked) == 1


def _azure_cli(folder: Path, script: str) -> None:
    program = folder / "az"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize(
    ("script", "why"),
    [(None, "the Azure CLI is not installed"), ("exit 1", "the Azure CLI gets no token")],
    ids=["no-cli", "no-login"],
)
def test_without_a_login_every_line_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, why: str
) -> None:
    if script is not None:
        _azure_cli(tmp_path, script)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in [name for name in os.environ if name.startswith("ARM_")]:
        monkeypatch.delenv(name)
    plan = plan_of()
    found = [
        finding for lookup in AzureCloud(plan, load_catalog(), NOW).lookups() for finding in lookup.findings()
    ]

    assert {finding.severity for finding in found} == {"unknown"}
    assert {finding.why for finding in found} == {why}


def test_the_login_of_the_azure_cli_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _azure_cli(tmp_path, f'[ "$4" = {GUID} ] && echo \'{{"accessToken": "of-the-cli"}}\'')
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("ARM_CLIENT_ID", raising=False)
    sent: list[Any] = []

    def request(session: requests.Session, method: str, url: str, **_: Any) -> Answer:
        sent.append((method, url, session.headers["Authorization"]))
        return Answer(200, {"state": "Enabled"})

    monkeypatch.setattr(requests.Session, "request", request)

    assert AzureClient(GUID).subscription_state() == "Enabled"
    assert sent == [("GET", f"https://management.azure.com{ROOT}", "Bearer of-the-cli")]


@pytest.mark.parametrize(
    ("variable", "field"), [("ARM_CLIENT_SECRET", "client_secret"), ("ARM_OIDC_TOKEN", "client_assertion")]
)
def test_a_service_principal_of_the_provider_is_used(
    monkeypatch: pytest.MonkeyPatch, variable: str, field: str
) -> None:
    for name, value in {"ARM_CLIENT_ID": "me", "ARM_TENANT_ID": "here", variable: "hidden"}.items():
        monkeypatch.setenv(name, value)
    posted: list[Any] = []

    def post(_: requests.Session, url: str, data: Mapping[str, str], **__: Any) -> Answer:
        posted.append((url, data))
        return Answer(401, {"error": "invalid_client"})

    monkeypatch.setattr(requests.Session, "post", post)

    with pytest.raises(NotLookedAt, match="service principal me gets no token"):
        AzureClient(GUID).subscription_state()
    ((url, data),) = posted
    assert url == "https://login.microsoftonline.com/here/oauth2/v2.0/token"
    assert data[field] == "hidden"
