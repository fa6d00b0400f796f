"""Rules about hosts and annotations of routes."""

from __future__ import annotations

from typing import Any

import pytest
from policy_records import UNKNOWN, Record, kubernetes, not_checked, only, violations

HOST = "route-host"
ANNOTATION = "route-annotation"
OWN = ["vision.example.com", "*.vision.example.com"]


def ingress(**spec: Any) -> Record:
    return kubernetes("networking.k8s.io/v1:Ingress", "serve", spec, "vision")


def route(*hostnames: Any, kind: str = "HTTPRoute") -> Record:
    spec = {"hostnames": list(hostnames)} if hostnames else {}
    return kubernetes(f"gateway.networking.k8s.io/v1:{kind}", "serve", spec, "vision")


def service(annotations: Any, namespace: str = "vision") -> Record:
    found = kubernetes("core/v1:Service", "serve", {}, namespace)
    found["inputs"]["metadata"]["annotations"] = annotations
    return found


@pytest.mark.parametrize(
    "host", ["search.example.com", "evil-vision.example.com", "*.example.com", "", "example.com"]
)
def test_a_host_that_is_not_the_teams_is_found(host: str):
    found = only(violations(HOST, ingress(rules=[{"host": OWN[0]}, {"host": host}]), hosts=OWN))
    assert found.problem.path == "spec.rules[1]"


@pytest.mark.parametrize("host", ["vision.example.com", "a.vision.example.com", "*.vision.example.com"])
def test_a_host_of_the_team_passes(host: str):
    assert violations(HOST, ingress(rules=[{"host": host}], tls=[{"hosts": [host]}]), hosts=OWN) == []
    assert violations(HOST, route(host), route(host, kind="GRPCRoute"), hosts=OWN) == []


def test_hosts_of_certificates_default_backends_and_routes_without_a_host_are_found():
    wanted = ingress(rules=[{"host": OWN[0]}], tls=[{"hosts": ["search.example.com"]}])
    assert only(violations(HOST, wanted, hosts=OWN)).problem.path == "spec.tls[0].hosts[0]"
    backend = ingress(rules=[{"host": OWN[0]}], defaultBackend={"service": {"name": "a"}})
    assert only(violations(HOST, backend, hosts=OWN)).problem.path == "spec.defaultBackend"
    assert only(violations(HOST, route(), hosts=OWN)).problem.found == "a route for all hosts"
    assert violations(HOST, route(), backend, hosts=["*"]) == []


def test_a_host_that_is_not_known_is_not_checked():
    assert "hostnames[0]" in not_checked(HOST, route(UNKNOWN), hosts=OWN)


def test_undeclared_annotations_of_controllers_are_found():
    group, harmless = "alb.ingress.kubernetes.io/group.name", "alb.ingress.kubernetes.io/target-type"
    assert group in only(violations(ANNOTATION, service({group: "a", harmless: "ip"}))).problem.found
    assert violations(ANNOTATION, service({group: "a"}), annotations=[group]) == []
    assert violations(ANNOTATION, service({"example.com/owner": "vision"})) == []
    assert violations(ANNOTATION, service({group: "a"}, "kube-system")) == []
