"""Rules about the servers that KEDA triggers may query, and the credentials for these queries."""

from __future__ import annotations

from typing import Any

import pytest
from policy_records import UNKNOWN, Record, kubernetes, not_checked, only, violations

from gpu_platform.catalog import load_catalog
from gpu_platform.catalog.scaling_triggers import PROMETHEUS
from gpu_platform.planning.addons.known import KNOWN

SERVER = "keda-trigger-server"
IDENTITY = "keda-trigger-identity"


def scaled(type_: Any, kind: str = "ScaledObject", namespace: str = "vision", **metadata: Any) -> Record:
    triggers = [{"type": "cpu", "metadata": {"value": "50"}}, {"type": type_, "metadata": metadata}]
    return kubernetes(f"keda.sh/v1alpha1:{kind}", "ranker", {"triggers": triggers}, namespace)


def authentication(**spec: Any) -> Record:
    return kubernetes("keda.sh/v1alpha1:TriggerAuthentication", "queue", spec, "vision")


def test_the_prometheus_that_triggers_may_ask_is_that_of_the_addon():
    assert f".{load_catalog().charts[KNOWN['prometheus'].chart].namespace}.svc:" in PROMETHEUS


@pytest.mark.parametrize("kind", ["ScaledObject", "ScaledJob"])
def test_a_trigger_that_asks_another_server_is_found_at_its_address(kind: str):
    found = only(violations(SERVER, scaled("metrics-api", kind, url="http://10.0.0.1/load")))
    assert found.problem.path == "spec.triggers[1].metadata.url"
    assert "http://10.0.0.1/load" in found.problem.found


@pytest.mark.parametrize(
    "address", [f"{PROMETHEUS}@10.0.0.1", f"{PROMETHEUS}1", "http://10.0.0.1/?a=" + PROMETHEUS, ""]
)
def test_an_address_that_only_resembles_the_right_one_is_found(address: str):
    assert only(violations(SERVER, scaled("prometheus", serverAddress=address)))


@pytest.mark.parametrize("address", [PROMETHEUS, f"{PROMETHEUS}/", f"{PROMETHEUS}/prometheus"])
def test_the_platforms_prometheus_may_be_asked(address: str):
    assert violations(SERVER, scaled("prometheus", serverAddress=address)) == []


def test_a_trigger_after_one_that_asks_an_allowed_server_is_checked():
    record = scaled("prometheus", serverAddress=PROMETHEUS)
    record["inputs"]["spec"]["triggers"].append({"type": "metrics-api", "metadata": {"url": "http://10.0.0.1"}})
    assert only(violations(SERVER, record)).problem.path == "spec.triggers[2].metadata.url"


def test_other_types_that_query_a_server_must_be_declared():
    sqs = scaled("aws-sqs-queue", awsEndpoint="http://10.0.0.1")
    assert only(violations(SERVER, sqs)).problem.path == "spec.triggers[1].type"
    assert violations(SERVER, sqs, triggers=["aws-sqs-queue"]) == []
    own = scaled("metrics-api", url="http://metrics.obs.svc/load")
    assert violations(SERVER, own, servers=["http://metrics.obs.svc"]) == []
    assert violations(SERVER, scaled("metrics-api", namespace="kube-system", url="http://a")) == []


def test_a_trigger_that_is_not_known_is_not_checked():
    assert "triggers[1].type" in not_checked(SERVER, scaled(UNKNOWN))
    assert "serverAddress" in not_checked(SERVER, scaled("prometheus", serverAddress=UNKNOWN))


@pytest.mark.parametrize(
    "key", ["podIdentity", "hashiCorpVault", "awsSecretManager", "gcpSecretManager", "boundServiceAccountToken"]
)
def test_credentials_of_keda_are_found(key: str):
    assert only(violations(IDENTITY, authentication(**{key: {"provider": "aws"}}))).problem.path == f"spec.{key}"


def test_credentials_of_the_team_pass_and_those_of_the_cluster_do_not():
    assert violations(IDENTITY, authentication(secretTargetRef=[], env=[], configMapTargetRef=[])) == []
    reference = {"name": "queue", "kind": "ClusterTriggerAuthentication"}
    spec: Record = {"triggers": [{"type": "cpu", "authenticationRef": reference}]}
    named = kubernetes("keda.sh/v1alpha1:ScaledObject", "ranker", spec, "vision")
    assert only(violations(IDENTITY, named)).problem.path == "spec.triggers[0].authenticationRef.kind"
    reference["kind"] = "TriggerAuthentication"
    assert violations(IDENTITY, named) == []
    assert "spec" in not_checked(IDENTITY, authentication(podIdentity=UNKNOWN) | {"inputs": {"spec": UNKNOWN}})
