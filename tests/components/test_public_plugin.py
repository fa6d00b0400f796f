"""The schema of the Pulumi plugin, and the components that it constructs for programs in other languages."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from typing import Any

import pytest
import yaml
from pulumi.provider.experimental.util import camel_case

from components.public import stack_file_types
from components.public._arguments import INPUTS, PLATFORM_INPUTS
from components.public._models import MODELS, fields_of
from gpu_platform.base.paths import PROJECT_ROOT
from gpu_platform.deploy.recorded.properties import UNKNOWN
from tests.components.plugin_host import Plugin, Refused, output, running_plugin

POOL = {"machineType": "p4de.24xlarge", "count": {"desired": 2.0}, "workload": "training"}
SANDBOX = {"provider": "sandbox"}


@pytest.fixture(scope="module")
def plugin() -> Generator[Plugin]:
    with running_plugin() as running:
        yield running


@pytest.fixture(scope="module")
def schema(plugin: Plugin) -> Any:
    return json.loads(plugin.schema())


def test_the_schema_has_the_five_components(schema: Any) -> None:
    assert set(schema["resources"]) == {
        f"gpu-platform:index:{name}"
        for name in ("GpuNodePool", "GpuOperator", "GpuPlatform", "GpuTeam", "GpuValidation")
    }
    pool = schema["resources"]["gpu-platform:index:GpuNodePool"]
    assert pool["requiredInputs"] == ["cluster", "count", "machineType", "workload"]
    assert pool["inputProperties"]["count"]["$ref"] == "#/types/gpu-platform:index:Count"
    assert pool["properties"]["resources"]["additionalProperties"]["type"] == "integer"


def test_every_input_of_a_component_is_described(schema: Any) -> None:
    for token, resource in schema["resources"].items():
        for name, declared in resource["inputProperties"].items():
            assert declared.get("description"), f"{token}.{name}"


@pytest.mark.parametrize("name", MODELS)
def test_a_typed_dictionary_has_the_keys_of_the_stack_files_models(name: str) -> None:
    declared = set(getattr(stack_file_types, name).__annotations__)
    assert declared == fields_of(name).keys()


@pytest.mark.parametrize("name", MODELS)
def test_a_key_is_required_where_every_model_requires_it(name: str) -> None:
    required = [
        frozenset(field.alias or name for name, field in model.model_fields.items() if field.is_required())
        for model in MODELS[name]
    ]
    tag = {"Capacity": "type", "Sharing": "mode"}.get(name)  # the schema requires the tag of a union
    keys = getattr(stack_file_types, name).__required_keys__
    assert keys == frozenset.intersection(*required) | ({tag} if tag else set())


def test_the_parts_of_a_cluster_have_the_keys_of_each_provider() -> None:
    keys = set(stack_file_types.ClusterParts.__annotations__)
    fields = [one.model_fields["parts"] for one in MODELS["PlatformCluster"] if "parts" in one.model_fields]
    for field in fields:
        assert isinstance(field.annotation, type)
        assert field.annotation.model_fields.keys() <= keys


def test_every_section_of_an_environment_is_an_argument_of_a_platform(schema: Any) -> None:
    from gpu_platform.stack import Environment

    declared = set(schema["resources"]["gpu-platform:index:GpuPlatform"]["inputProperties"])
    # The kind and the named sharing settings are not arguments.
    # Fields that only the policy pack, `up` or `destroy` reads are not arguments either.
    left_out = {"kind", "policy", "sharing", "protect"}
    assert declared == {camel_case(name) for name in Environment.model_fields if name not in left_out}


def inputs_of(schema: Any, properties: Mapping[str, Any], place: str = "") -> set[str]:
    """Return the paths of a component's inputs that may be Outputs, in the spelling of `INPUTS`."""
    found: set[str] = set()
    for name, declared in properties.items():
        found |= _inputs_at(schema, declared, f"{place}.{name}" if place else name)
    return found


def _inputs_at(schema: Any, declared: Any, place: str) -> set[str]:
    found = set() if declared.get("plain") else {place}
    if (reference := declared.get("$ref", "")).startswith("#/types/"):
        found |= inputs_of(schema, schema["types"][reference.removeprefix("#/types/")]["properties"], place)
    if "items" in declared:
        found |= _inputs_at(schema, declared["items"], f"{place}[*]")
    if "additionalProperties" in declared:
        found |= _inputs_at(schema, declared["additionalProperties"], f"{place}.*")
    return found


@pytest.mark.parametrize("component", ["GpuNodePool", "GpuOperator", "GpuPlatform", "GpuTeam", "GpuValidation"])
def test_the_schema_and_the_components_agree_on_what_may_be_an_output(schema: Any, component: str) -> None:
    allowed = PLATFORM_INPUTS if component == "GpuPlatform" else INPUTS
    in_camel_case = {".".join(camel_case(part) for part in place.split(".")) for place in allowed}
    declared = inputs_of(schema, schema["resources"][f"gpu-platform:index:{component}"]["inputProperties"])
    sections = {place.split(".")[0] for place in declared}
    reachable = {place for place in in_camel_case if place.split(".")[0] in sections}
    if component == "GpuPlatform":  # a platform accepts only these cluster fields as Outputs
        reachable -= {place for place in reachable if place.startswith("cluster.")}
        reachable |= {"cluster.kubeconfig", "cluster.subnets.*"}
    assert declared == reachable


def test_a_component_is_constructed_from_numbers_as_the_engine_sends_them(plugin: Plugin) -> None:
    program, outputs = plugin.construct("GpuNodePool", "train", {"cluster": SANDBOX, **POOL})
    assert sorted(node.name for node in program.of("Node")) == ["train-0", "train-1"]
    assert outputs["nodeNames"] == ["train-0", "train-1"]
    assert outputs["resources"]["nvidia.com/gpu"] == 8
    assert outputs["taints"][0]["key"] == "nvidia.com/gpu"


def test_names_of_a_program_are_translated_at_every_depth(plugin: Plugin) -> None:
    sharing = {"mode": "time-slicing", "replicas": 4, "failRequestsGreaterThanOne": False}
    pools = [{"name": "serve", **POOL, "sharing": sharing}]
    program, _ = plugin.construct("GpuOperator", "it", {"cluster": SANDBOX, "pools": pools})
    [config] = [one for one in program.of("ConfigMap") if "serve" in one.inputs["data"]]
    assert yaml.safe_load(config.inputs["data"]["serve"])["sharing"]["timeSlicing"] == {
        "failRequestsGreaterThanOne": False,
        "renameByDefault": True,
        "resources": [{"name": "nvidia.com/gpu", "replicas": 4}],
    }


def test_an_unknown_output_is_accepted_where_no_decision_depends_on_it(plugin: Plugin) -> None:
    cluster = {
        "provider": "eks",
        "name": "ml",
        "region": "us-east-2",
        "subnets": {"us-east-2a": output()},
        "clusterSecurityGroupId": output("sg-0a1b2c3d4e5f60718"),
        "nodeRoleArn": output(),
    }
    pool = {**POOL, "machineType": "g6.12xlarge", "workload": "inference", "zones": ["us-east-2a"]}
    program, _ = plugin.construct("GpuNodePool", "serve", {"cluster": cluster, **pool})
    [group] = program.of("NodeGroup")
    assert group.inputs["subnetIds"] == [UNKNOWN]
    assert group.inputs["nodeRoleArn"] == UNKNOWN
    assert group.inputs["clusterName"] == "ml"


@pytest.mark.parametrize(
    ("place", "inputs"),
    [
        ("machineType", {**POOL, "machineType": output()}),
        ("count", {**POOL, "count": output()}),
        ("count.desired", {**POOL, "count": {"desired": output("2")}}),
        ("operator", {**POOL, "operator": output()}),
        ("sharing.replicas.T4", {**POOL, "sharing": {"mode": "mps", "replicas": {"T4": output()}}}),
    ],
)
def test_an_output_that_decisions_depend_on_is_refused_by_name(
    plugin: Plugin, place: str, inputs: dict[str, Any]
) -> None:
    with pytest.raises(Refused) as error:
        plugin.construct("GpuNodePool", "train", {"cluster": SANDBOX, **inputs})
    assert error.value.message == "GpuNodePool train: 1 problem"
    assert list(error.value.reasons) == [place]
    assert error.value.reasons[place].startswith("found an Output; allowed: a plain value")


def test_wrong_arguments_are_reported_by_property_in_one_answer_without_a_traceback(plugin: Plugin) -> None:
    pool = {**POOL, "machineType": "p4de.24xlargee", "workload": "trainin"}
    with pytest.raises(Refused) as error:
        plugin.construct("GpuNodePool", "train", {"cluster": SANDBOX, **pool})
    assert error.value.message == "GpuNodePool train: 2 problems"
    assert set(error.value.reasons) == {"machineType", "workload"}
    assert "did you mean 'training'?" in error.value.reasons["workload"]
    assert "Traceback" not in str(error.value)
    assert ".py" not in str(error.value)


def test_a_missing_argument_is_reported_by_name(plugin: Plugin) -> None:
    with pytest.raises(Refused) as error:
        plugin.construct("GpuNodePool", "train", {"cluster": SANDBOX})
    assert set(error.value.reasons) <= {"machineType", "count", "workload"}
    assert error.value.reasons


def test_a_whole_platform_is_constructed_with_everything_below_it(plugin: Plugin) -> None:
    platform: Any = yaml.safe_load((PROJECT_ROOT / "examples" / "yaml" / "Pulumi.yaml").read_text("utf-8"))
    properties = platform["resources"]["platform"]["properties"]
    properties["cluster"]["kubeconfig"] = output()
    properties["pools"][0]["nodes"]["names"] = ["dgx-01", "dgx-02"]  # the configuration supplies these values
    program, outputs = plugin.construct("GpuPlatform", "platform", properties)
    assert {one.name for one in program.of("Namespace")} >= {"research", "gpu-operator"}
    assert all("gpu-platform:index:GpuPlatform" in one.urn for one in program.resources)
    assert list(outputs["namespaces"]) == ["research"]
    assert program.one("kubernetes", "dev").inputs["kubeconfig"] == UNKNOWN
