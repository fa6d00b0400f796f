"""Rules about external addresses of Services, and device claims."""

from __future__ import annotations

from typing import Any

import pytest
from policy_records import UNKNOWN, Record, kubernetes, node, not_checked, only, violations

ADDRESS = "service-external-address"
CLAIM = "gpu-claim-requests"


def service(addresses: Any, namespace: str = "vision") -> Record:
    return kubernetes("core/v1:Service", "serve", {"externalIPs": addresses}, namespace)


def test_external_addresses_of_a_service_are_found():
    found = only(violations(ADDRESS, service(["10.0.0.1", "10.0.0.2"])))
    assert (found.problem.path, found.problem.found) == ("spec.externalIPs", "externalIPs 10.0.0.1, 10.0.0.2")


def test_a_service_without_addresses_of_its_own_passes():
    assert violations(ADDRESS, service([]), service(None)) == []


def test_services_of_the_platforms_own_namespaces_are_left_out_and_can_be_changed():
    own = service(["10.0.0.1"], "kube-system")
    assert violations(ADDRESS, own) == []
    assert only(violations(ADDRESS, own, systemNamespaces=[]))


def test_addresses_that_are_not_known_are_not_checked():
    assert "externalIPs" in not_checked(ADDRESS, service(UNKNOWN))


def claim(*requests: Record, namespace: str = "vision") -> Record:
    spec = {"devices": {"requests": list(requests)}}
    return kubernetes("resource.k8s.io/v1:ResourceClaim", "gpus", spec, namespace)


def template(*requests: Record) -> Record:
    spec = {"spec": {"devices": {"requests": list(requests)}}}
    return kubernetes("resource.k8s.io/v1:ResourceClaimTemplate", "gpus", spec)


def exactly(count: int = 1, device_class: str = "gpu.nvidia.com", **fields: Any) -> Record:
    return {"name": "gpus", "exactly": {"deviceClassName": device_class, "count": count, **fields}}


@pytest.mark.parametrize("make", [claim, template])
def test_a_claim_of_devices_of_others_is_found(make: Any):
    found = only(violations(CLAIM, make(exactly(), exactly(adminAccess=True))))
    assert found.problem.path.endswith("devices.requests[1].exactly.adminAccess")
    assert violations(CLAIM, make(exactly(adminAccess=False))) == []


@pytest.mark.parametrize("make", [claim, template])
def test_a_claim_that_tolerates_tainted_devices_is_found(make: Any):
    found = only(violations(CLAIM, make(exactly(tolerations=[{"operator": "Exists"}]))))
    assert found.problem.path.endswith("devices.requests[0].exactly.tolerations")
    one = {"name": "a", "deviceClassName": "gpu.nvidia.com", "tolerations": [{"operator": "Exists"}]}
    assert only(violations(CLAIM, make({"name": "gpus", "firstAvailable": [one]})))
    assert violations(CLAIM, make(exactly(tolerations=[]))) == []


@pytest.mark.parametrize("make", [claim, template])
def test_a_claim_of_the_daemon_of_compute_domains_is_found(make: Any):
    found = only(violations(CLAIM, make(exactly(1, "compute-domain-daemon.nvidia.com"))))
    assert found.problem.path.endswith("devices.requests[0].exactly.deviceClassName")
    one = {"name": "a", "deviceClassName": "compute-domain-daemon.nvidia.com"}
    assert only(violations(CLAIM, make({"name": "domain", "firstAvailable": [one]})))


def test_a_claim_of_more_gpus_than_a_node_has_is_found():
    assert violations(CLAIM, node(), claim(exactly(8))) == []
    assert only(violations(CLAIM, node(), claim(exactly(9)))).problem.allowed.startswith("at most 8")
    assert violations(CLAIM, node(), claim(exactly(9, "nics.example.com"))) == []


def test_each_alternative_of_a_request_is_evaluated():
    some = [{"name": "a", **exactly(8)["exactly"]}, {"name": "b", **exactly(9)["exactly"]}]
    found = only(violations(CLAIM, node(), claim({"name": "gpus", "firstAvailable": some})))
    assert found.problem.path == "spec.devices.requests[0].firstAvailable[1].count"


def test_the_fields_of_the_older_version_are_read_too():
    flat = {"name": "gpus", **exactly(9, adminAccess=True)["exactly"]}
    assert len(violations(CLAIM, node(), claim(flat))) == 2


def test_without_a_pool_in_sight_the_largest_machine_counts():
    assert violations(CLAIM, claim(exactly(8))) == []
    assert only(violations(CLAIM, claim(exactly(1000))))


@pytest.mark.parametrize("make", [claim, template])
def test_a_claim_of_no_device_is_found(make: Any):
    assert only(violations(CLAIM, make())).problem.found == "a claim without requests"


def test_claims_of_the_platforms_own_namespaces_are_left_out():
    assert violations(CLAIM, claim(exactly(adminAccess=True), namespace="gpu-operator")) == []


def test_a_claim_that_is_not_known_is_not_checked():
    assert "requests" in not_checked(CLAIM, claim(exactly(count=UNKNOWN)))  # pyrefly: ignore[bad-argument-type]


def test_a_service_by_an_external_name_is_found_wherever_it_leads():
    named = kubernetes(
        "core/v1:Service", "db", {"type": "ExternalName", "externalName": "db.example.com"}, "vision"
    )
    found = only(violations("service-external-name", named))
    assert (found.problem.path, found.problem.found) == ("spec.type", "type ExternalName")
    own = kubernetes("core/v1:Service", "db", {"type": "ExternalName"}, "kube-system")
    assert violations("service-external-name", own, service([])) == []
    unknown = kubernetes("core/v1:Service", "db", {"type": UNKNOWN}, "vision")
    assert "spec.type" in not_checked("service-external-name", unknown)
