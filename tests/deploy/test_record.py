"""The embedded engine records the same requests that a program would send to the Pulumi engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pulumi
import pytest

from gpu_platform.base.errors import ExitCode, Finding
from gpu_platform.deploy.recorded.properties import UNKNOWN
from gpu_platform.deploy.recorded.record import ProgramError, RecordedProgram, ResourceRecord
from tests.deploy.conftest import PROGRAMS, Record


def by_name(recorded: RecordedProgram, name: str) -> ResourceRecord:
    return next(resource for resource in recorded.resources if resource.name == name)


def test_resources_come_in_registration_order_under_the_stack(record: Record) -> None:
    recorded = record("small")

    found = [(resource.type, resource.name) for resource in recorded.resources]
    assert found[:3] == [
        ("pulumi:pulumi:Stack", "gpu-platform-test"),
        ("pulumi:providers:kubernetes", "cluster"),
        ("gpu-platform:index:Team", "vision"),
    ]
    # The Deployment depends on no parent and no output, so it may be registered before the other resources.
    below = [one for one in found[3:] if one != ("kubernetes:apps/v1:Deployment", "web")]
    assert len(found) == 3 + 1 + len(below)
    assert below == [
        ("kubernetes:core/v1:Namespace", "vision"),
        ("kubernetes:core/v1:ConfigMap", "vision-settings"),
        ("kubernetes:core/v1:Secret", "token"),
    ]


def test_urns_name_the_whole_chain_of_parent_types_without_the_stack(record: Record) -> None:
    recorded = record("small")

    assert by_name(recorded, "vision-settings").urn == (
        "urn:pulumi:test::gpu-platform::gpu-platform:index:Team$kubernetes:core/v1:ConfigMap::vision-settings"
    )
    assert by_name(recorded, "token").urn == ("urn:pulumi:test::gpu-platform::kubernetes:core/v1:Secret::token")


def test_inputs_are_plain_json_with_whole_numbers_as_ints(record: Record) -> None:
    deployment = by_name(record("small"), "web")

    assert deployment.inputs["spec"]["replicas"] == 3
    assert isinstance(deployment.inputs["spec"]["replicas"], int)
    assert json.loads(json.dumps(deployment.to_json()))["inputs"] == deployment.inputs


def test_a_resource_has_its_inputs_as_outputs(record: Record) -> None:
    settings = by_name(record("small"), "vision-settings")

    assert settings.outputs == settings.inputs
    assert settings.outputs["data"]


def test_numbers_with_a_fraction_stay_floats(record: Record) -> None:
    assert record("small").outputs["share"] == 0.5


def test_parents_and_dependencies_are_urns_of_registered_resources(record: Record) -> None:
    recorded = record("small")
    settings = by_name(recorded, "vision-settings")
    namespace = next(item for item in recorded.resources if item.type == "kubernetes:core/v1:Namespace")

    assert settings.dependencies == (namespace.urn,)
    assert settings.property_dependencies == {"metadata": (namespace.urn,)}
    assert settings.parent == next(r.urn for r in recorded.resources if r.type == "gpu-platform:index:Team")


def test_depending_on_a_component_means_depending_on_its_children(record: Record) -> None:
    recorded = record("small")
    children = {r.urn for r in recorded.resources if "Team$kubernetes" in r.urn}

    assert set(by_name(recorded, "token").dependencies) == children


def test_the_explicit_provider_is_recorded_with_its_id(record: Record) -> None:
    recorded = record("small")
    provider = by_name(recorded, "cluster")

    assert provider.id
    assert by_name(recorded, "vision-settings").provider == f"{provider.urn}::{provider.id}"


def test_protection_and_timeouts_are_recorded(record: Record) -> None:
    recorded = record("small")

    assert by_name(recorded, "vision-settings").protect
    assert by_name(recorded, "token").timeouts == {"create": "3m"}


def test_options_for_replacement_and_deletion_are_recorded(record: Record) -> None:
    recorded = record("cloud")
    cluster, facts = by_name(recorded, "ml"), by_name(recorded, "facts")

    assert (cluster.delete_before_replace, cluster.retain_on_delete) == (True, True)
    assert (cluster.replace_on_changes, cluster.ignore_changes) == (("version",), ("tags",))
    assert (facts.delete_before_replace, facts.retain_on_delete) == (False, False)
    assert (facts.replace_on_changes, facts.ignore_changes) == ((), ())


def test_secrets_are_redacted_except_in_provider_inputs(record: Record) -> None:
    recorded = record("small")
    secret = by_name(recorded, "token")

    assert secret.inputs["stringData"] == "[secret]"
    assert secret.true_inputs["stringData"] == {"value": "hunter2"}
    assert recorded.outputs["token"] == "[secret]"
    assert recorded.secret_outputs == {"token"}
    assert "hunter2" not in repr(recorded)


def test_stack_outputs_are_the_programs_exports(record: Record) -> None:
    assert dict(record("small").outputs) == {"team": "vision", "share": 0.5, "token": "[secret]"}


def test_kubernetes_ids_are_namespace_and_name(record: Record) -> None:
    recorded = record("small")

    assert by_name(recorded, "vision-settings").id == "vision/settings"
    assert next(r.id for r in recorded.resources if r.type == "kubernetes:core/v1:Namespace") == "vision"


def test_cloud_outputs_ids_and_functions_are_unknown_in_a_preview(record: Record) -> None:
    recorded = record("cloud", preview=True)

    data = by_name(recorded, "facts").inputs["data"]
    assert data == {"endpoint": UNKNOWN, "group": UNKNOWN, "zone": UNKNOWN}
    assert by_name(recorded, "ml").id == ""
    assert recorded.outputs["id"] == UNKNOWN


def test_fields_that_a_cloud_adds_are_unknown_in_a_preview(record: Record) -> None:
    recorded = record("cloud", preview=True)

    assert by_name(recorded, "ml").inputs["network"] == {"cidr": "10.0.0.0/16"}
    assert by_name(recorded, "facts").inputs["data"]["group"] == UNKNOWN


def test_a_provider_function_outside_a_preview_names_the_pulumi_cli(record: Record) -> None:
    with pytest.raises(ProgramError, match=r"getAvailabilityZones.*Pulumi CLI"):
        record("cloud", preview=False)


def test_a_stack_reference_gets_the_outputs_that_the_caller_knows(record: Record) -> None:
    asked: list[str] = []

    def resolve(name: str) -> dict[str, int]:
        asked.append(name)
        return {"gpus": 16}

    recorded = record("reads_environment", preview=False, resolve_stack=resolve)

    assert by_name(recorded, "share").inputs["data"] == {"gpus": "16"}
    assert asked == ["organization/gpu-platform/local"]


def test_a_stack_reference_without_outputs_is_unknown_in_a_preview(record: Record) -> None:
    assert by_name(record("reads_environment"), "share").inputs["data"] == {"gpus": UNKNOWN}


def test_a_stack_reference_without_outputs_stops_a_deployment_with_the_fix(record: Record) -> None:
    with pytest.raises(ProgramError, match="gpu-platform up local"):
        record("reads_environment", preview=False, resolve_stack=lambda _name: None)


def test_an_error_inside_an_apply_comes_out_as_it_was_raised(record: Record) -> None:
    with pytest.raises(Finding, match="namespace team is refused"):
        record("late_failure")


def test_an_error_comes_out_while_another_output_is_pending(record: Record) -> None:
    with pytest.raises(Finding, match="one output has failed"):
        record("pending_output")


def test_a_run_error_is_a_clean_error_with_exit_code_two(record: Record) -> None:
    with pytest.raises(ProgramError, match=r"pools\[0\]\.count") as caught:
        record("stops")
    assert caught.value.exit_code is ExitCode.BAD_INPUT


def test_two_resources_with_one_urn_are_an_error_as_in_pulumi(record: Record) -> None:
    with pytest.raises(ProgramError, match="two resources have the type kubernetes:core/v1:Namespace"):
        record("twins")


def test_transforms_are_refused_instead_of_ignored(record: Record) -> None:
    with pytest.raises(ProgramError, match="transform"):
        record("transforms")


def test_a_run_leaves_neither_settings_nor_paths_behind_even_when_it_fails(record: Record) -> None:
    path, project, main = list(sys.path), pulumi.get_project(), sys.modules["__main__"]

    record("small")
    with pytest.raises(Finding):
        record("late_failure")
    second = record("small", {"team": "speech", "replicas": 2})

    assert (sys.path, pulumi.get_project(), sys.modules["__main__"]) == (path, project, main)
    assert pulumi.runtime.get_config("gpu-platform:platform") is None
    assert second.outputs["team"] == "speech"
    assert len(second.resources) == 7


def test_two_processes_with_different_hash_seeds_record_equal_texts() -> None:
    script = (
        "import json,sys,pathlib;from gpu_platform.deploy.recorded.record import record_program as r;"
        "p=r(pathlib.Path(sys.argv[1]),project='p',stack='s',config={'gpu-platform:platform':"
        "'{\"team\":\"a\",\"replicas\":1}','gpu-platform:token':'t'});"
        "print(json.dumps([x.to_json() for x in p.resources]))"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", script, PROGRAMS / "small.py"],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1


@pytest.mark.parametrize("module", ["gpu_platform.deploy.recorded.record", "gpu_platform.planning", "components"])
def test_recording_and_planning_do_not_import_the_kubernetes_client(module: str) -> None:
    script = f"import sys, {module}; sys.exit('kubernetes' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_a_run_leaves_the_depth_of_tracebacks_as_it_was(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    record("small")
    assert not hasattr(sys, "tracebacklimit")
    monkeypatch.setattr(sys, "tracebacklimit", 3, raising=False)
    record("small")
    assert sys.tracebacklimit == 3
