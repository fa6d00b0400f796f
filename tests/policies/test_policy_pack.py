"""The pack as the Pulumi CLI runs it: in a process that starts in the pack's folder and serves the analyzer
protocol.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from google.protobuf import json_format, struct_pb2
from policy_records import (
    TODAY,
    UNKNOWN,
    Record,
    cluster_policy,
    container,
    deployment,
    device_plugin_config_map,
    eks_node_group,
    launch_template,
    node,
    pod_spec,
    shared,
)
from pulumi.runtime import proto
from pulumi.runtime.proto import analyzer_pb2_grpc

import policies
from gpu_platform.stack import find_stack_file, read_stack_file
from policies import analyze, rules

BROKEN: list[Record] = [
    node("train-0"),
    node("train-1", taints=()),
    launch_template(instanceType="p5.48xlarge"),
    eks_node_group(instanceTypes=[], amiType="CUSTOM", labels={}, taints=[]),
    cluster_policy(),
    device_plugin_config_map(train=shared(replicas=10)),
    deployment(pod_spec(container({"nvidia.com/gpu": 2}, {"nvidia.com/gpu": 1}))),
]


class Pack:
    """A running policy pack."""

    def __init__(self, port: int) -> None:
        self._stub: Any = analyzer_pb2_grpc.AnalyzerStub(grpc.insecure_channel(f"127.0.0.1:{port}"))

    def info(self) -> Any:
        return self._stub.GetAnalyzerInfo(struct_pb2.Struct())

    def configure(self, level: int, **settings: dict[str, Any]) -> None:
        request: Any = proto.ConfigureAnalyzerRequest()
        for rule in rules():
            request.policyConfig[rule.id].enforcementLevel = level
            request.policyConfig[rule.id].properties.update(settings.get(rule.id.replace("-", "_"), {}))
        self._stub.Configure(request)

    def remedied(self, record: Record, *names: str, **settings: Any) -> tuple[Record | None, str]:
        """Return the remediated inputs, or None if nothing changed. Also return the reason if a remediation could
        not be applied.
        """
        configured: Any = proto.ConfigureAnalyzerRequest()
        for name in names:
            configured.policyConfig[name].enforcementLevel = proto.REMEDIATE
            configured.policyConfig[name].properties.update(settings)
        self._stub.Configure(configured)
        request: Any = proto.AnalyzeRequest(type=record["type"], urn=record["urn"], name=record["name"])
        request.properties.update(record["inputs"])
        found = self._stub.Remediate(request).remediations
        changed = [one for one in found if not one.diagnostic]
        inputs = json_format.MessageToDict(changed[-1].properties) if changed else None
        return inputs, "".join(one.diagnostic for one in found)

    def analyze(self, records: list[Record]) -> list[Any]:
        request = proto.AnalyzeStackRequest()
        for record in records:
            properties = struct_pb2.Struct()
            properties.update(record["inputs"])
            request.resources.add(
                type=record["type"],
                urn=record["urn"],
                name=record["name"],
                properties=properties,
                dependencies=record["dependencies"],
            )
        return list(self._stub.AnalyzeStack(request).diagnostics)


@contextmanager
def running(**environment: str) -> Generator[Pack]:
    folder = Path(policies.__file__).parent
    process = subprocess.Popen(
        [sys.executable, "-u", str(folder)],
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield Pack(int(process.stdout.readline()))
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def pack() -> Iterator[Pack]:
    with running() as pack:
        yield pack


@pytest.fixture(autouse=True)
def mandatory(pack: Pack) -> None:
    pack.configure(proto.MANDATORY)


def test_the_pack_offers_every_rule_with_its_severity_level_and_schema(pack: Pack):
    offered = {policy.name: policy for policy in pack.info().policies}
    remedies = ["gpu-requests-equal-limits-remedy", "priority-globaldefault-remedy", "keda-null-scaledown-remedy"]
    assert list(offered) == [*(rule.id for rule in rules()), *remedies]
    assert {offered[name].enforcementLevel for name in remedies} == {proto.DISABLED}
    assert offered["gpu-node-taint"].severity == proto.POLICY_SEVERITY_CRITICAL
    assert offered["gpu-node-taint"].enforcementLevel == proto.MANDATORY
    assert offered["topology-for-multi-gpu"].severity == proto.POLICY_SEVERITY_MEDIUM
    assert offered["topology-for-multi-gpu"].enforcementLevel == proto.ADVISORY
    assert offered["sharing-replicas-bounded"].configSchema.properties["maxMpsReplicas"]["maximum"] == 48


def test_the_pack_finds_what_the_rules_find_in_process(pack: Pack):
    found = {(one.policyName, one.urn, one.message.partition("\n")[2]) for one in pack.analyze(BROKEN)}
    expected = {(one.rule, one.resource, str(one)) for one in analyze(BROKEN, {}, TODAY)}
    assert found == expected
    assert len(found) >= 6


def test_a_violation_names_the_resource_by_its_whole_name(pack: Pack):
    untainted = node("train::gpu-0", taints=())
    [found] = [one for one in pack.analyze([untainted]) if one.policyName == "gpu-node-taint"]
    assert found.message.partition("\n")[2].startswith("train::gpu-0: spec.taints: ")


def test_the_packs_settings_reach_the_rules(pack: Pack):
    exemption = {"resource": "train", "reason": "GPU-112", "owner": "vision", "until": "9999-12-31"}
    pack.configure(proto.ADVISORY, sharing_replicas_bounded={"exempt": [exemption]}, sharing_rename={"exempt": []})
    found = pack.analyze(BROKEN)
    assert "sharing-replicas-bounded" not in {one.policyName for one in found}
    assert {one.enforcementLevel for one in found} == {proto.ADVISORY}


def test_a_mistake_in_the_packs_settings_is_an_error_that_names_it(pack: Pack):
    pack.configure(proto.ADVISORY, sharing_replicas_bounded={"maxMpsReplica": 9})
    with pytest.raises(grpc.RpcError, match="did you mean 'maxMpsReplicas'"):
        pack.analyze(BROKEN)


def test_unknown_values_at_preview_are_advisory_messages(pack: Pack):
    hidden = node(
        "serve-0", workload="inference", labels={"nvidia.com/device-plugin.config": None}, taints=UNKNOWN
    )
    found = pack.analyze([hidden])
    assert [(one.policyName, one.enforcementLevel) for one in found] == [("gpu-node-taint", proto.ADVISORY)]
    assert "not checked: serve: serve-0: spec.taints: not known yet" in found[0].message


def test_the_settings_of_the_stack_file_are_the_packs_own() -> None:
    file = read_stack_file(find_stack_file("dev"))
    rule = {
        "enforcementLevel": "disabled",
        "exempt": [{"resource": "a", "reason": "b", "owner": "c", "until": "9999-12-31"}],
    }
    platform = {
        **cast("dict[str, Any]", file.platform),
        "policy": {"level": "advisory", "rules": {"sharing-rename": rule}},
    }
    config = {"gpu-platform:platform": json.dumps(platform), "gpu-platform:other": "1"}
    with running(PULUMI_CONFIG=json.dumps(config), PULUMI_STACK="dev") as pack:
        initial = pack.info().initialConfig
    assert initial["all"].enforcementLevel == proto.ADVISORY
    assert initial["sharing-rename"].enforcementLevel == proto.DISABLED
    assert [dict(one) for one in initial["sharing-rename"].properties["exempt"]] == rule["exempt"]


def test_a_stack_file_that_the_program_refuses_leaves_the_packs_own_levels() -> None:
    config = {"gpu-platform:platform": json.dumps({"kind": "environment", "policy": {"level": "advisory"}})}
    with running(PULUMI_CONFIG=json.dumps(config), PULUMI_STACK="dev") as pack:
        assert dict(pack.info().initialConfig) == {}


REQUESTS = "gpu-requests-equal-limits-remedy"
SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "value": "s3cret"}


def test_a_remedy_writes_the_only_fix_and_leaves_all_else_as_it_is(pack: Pack):
    wanted = deployment(pod_spec(container(None, {"nvidia.com/gpu": 1, "cpu": "1"}), nodeName=UNKNOWN))
    wanted["inputs"]["metadata"]["annotations"] = {"note": SECRET}
    changed, why = pack.remedied(wanted, REQUESTS)
    assert changed is not None, why
    [main] = changed["spec"]["template"]["spec"].pop("containers")
    assert main["resources"]["limits"] == {"nvidia.com/gpu": 1}
    assert changed["spec"]["template"]["spec"]["nodeName"] == UNKNOWN
    assert changed["metadata"]["annotations"]["note"] == SECRET
    assert analyze([{**wanted, "inputs": changed}], {"all": "disabled", REQUESTS[:-7]: "mandatory"}, TODAY) == []


def test_two_numbers_that_differ_have_no_remedy(pack: Pack):
    wanted = deployment(pod_spec(container({"nvidia.com/gpu": 2}, {"nvidia.com/gpu": 1})))
    assert pack.remedied(wanted, REQUESTS) == (None, "")


def test_a_remedy_is_not_applied_to_exempt_objects(pack: Pack):
    inputs = {"metadata": {"name": "high"}, "value": 1000, "globalDefault": True}
    high = {"type": "kubernetes:scheduling.k8s.io/v1:PriorityClass", "urn": "urn:high", "name": "high"}
    wanted: Record = {**high, "inputs": inputs}
    changed, _ = pack.remedied(wanted, "priority-globaldefault-remedy")
    assert changed is not None
    assert changed["globalDefault"] is False
    assert pack.remedied(wanted, REQUESTS) == (None, "")
    exemption = {"resource": "high", "reason": "GPU-112", "owner": "vision", "until": "9999-12-31"}
    assert pack.remedied(wanted, "priority-globaldefault-remedy", exempt=[exemption]) == (None, "")


def test_a_remedy_of_a_trigger_reports_unknown_values(pack: Pack):
    trigger: Record = {"type": "prometheus", "metadata": {"query": "DCGM_FI_DEV_GPU_UTIL"}}
    scaled = {"type": "kubernetes:keda.sh/v1alpha1:ScaledObject", "urn": "urn:s", "name": "s"}
    wanted: Record = {**scaled, "inputs": {"spec": {"triggers": [{"type": "cpu"}, trigger]}}}
    changed, _ = pack.remedied(wanted, "keda-null-scaledown-remedy")
    assert changed is not None
    assert changed["spec"]["triggers"][1]["metadata"]["ignoreNullValues"] == "false"
    trigger["metadata"]["query"] = UNKNOWN
    changed, why = pack.remedied(wanted, "keda-null-scaledown-remedy")
    assert changed is None
    assert "spec.triggers[1].metadata.query: not known yet" in why
