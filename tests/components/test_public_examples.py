"""The programs in examples/ are rendered in this process, or compared with the schema of their plugin."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from pulumi.provider.experimental.util import camel_case

from components.public._arguments import INPUTS
from components.public._models import fields_of
from components.public.provider import GpuPlatformProvider
from gpu_platform.base.paths import PROJECT_ROOT
from gpu_platform.deploy.recorded.properties import UNKNOWN
from gpu_platform.deploy.recorded.record import record_program
from tests.components.conftest import Recorded

EXAMPLES = PROJECT_ROOT / "examples"
PAGE = (PROJECT_ROOT / "docs" / "components.md").read_text("utf-8")


def block(language: str) -> str:
    """Return the code block in this language from docs/components.md."""
    return "".join(re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL))


@pytest.fixture(scope="module")
def schema() -> Any:
    return json.loads(GpuPlatformProvider("0.1.0").schema or "")


def project(folder: Path) -> Any:
    return yaml.safe_load((folder / "Pulumi.yaml").read_text("utf-8"))


def rendered(name: str, **config: str) -> Recorded:
    """Return the resources that a Python example registers."""
    folder = EXAMPLES / name
    named = project(folder)["name"]
    values = {f"{named}:{key}": value for key, value in config.items()}
    return Recorded(record_program(folder / "__main__.py", project=named, stack="dev", config=values))


def test_the_python_example_on_eks_uses_looked_up_resources() -> None:
    subnet = "subnet-0a1b2c3d4e5f60718"
    program = rendered("python-eks", cluster="ml", region="us-east-2", zone="us-east-2a", subnet=subnet)
    assert {one.name for one in program.of("GpuNodePool")} == {"train", "serve"}
    assert [one.inputs["subnetIds"] for one in program.of("NodeGroup")] == [[subnet], [subnet]]
    assert all(one.inputs["nodeRoleArn"] == UNKNOWN for one in program.of("NodeGroup"))
    assert {one.name for one in program.of("Release")} == {"gpu-operator", "aws-efa-k8s-device-plugin"}
    proof = {one.urn for one in program.of("DaemonSet")}
    assert proof <= set(program.one("Namespace", "vision").dependencies)
    assert program.program.outputs["resources"] == {"nvidia.com/gpu": 8}


def test_the_python_example_on_aks_uses_looked_up_resources() -> None:
    subscription, team = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9", "1b2c3d4e-5f60-7182-93a4-b5c6d7e8f90a"
    program = rendered(
        "python-aks", subscription=subscription, group="ml", cluster="ml", region="eastus2", team=team
    )
    pools = program.of("KubernetesClusterNodePool")
    assert {one.inputs["vmSize"] for one in pools} == {"Standard_ND96isr_H100_v5", "Standard_NC16as_T4_v3"}
    assert {one.inputs["kubernetesClusterId"] for one in pools} == {UNKNOWN}
    assert {one.inputs["vnetSubnetId"] for one in pools} == {UNKNOWN}
    assert [one.name for one in program.of("azure")] == ["azure"]
    assert program.one("DaemonSet", "infiniband-locked-memory")
    proof = {one.urn for one in program.of("DaemonSet") if "GpuValidation" in one.urn}
    assert proof
    assert proof <= set(program.one("Namespace", "vision").dependencies)


def test_python_on_an_existing_cluster_labels_its_nodes() -> None:
    program = rendered("python-existing", nodes='["dgx-01", "dgx-02"]', kubeconfig="/my/kubeconfig")
    assert [one.name for one in program.of("NodePatch")] == ["dgx-01", "dgx-02"]
    assert program.one("kubernetes", "dev").inputs["kubeconfig"] == "/my/kubeconfig"
    assert program.program.outputs["namespaces"] == ["research"]


def test_the_pool_and_the_quota_of_python_on_an_existing_cluster_follow_the_nodes() -> None:
    program = rendered("python-existing", nodes='["a", "b", "c"]')
    assert [one.name for one in program.of("NodePatch")] == ["a", "b", "c"]
    assert program.one("ResourceQuota", "research/quota").inputs["spec"]["hard"]["requests.nvidia.com/gpu"] == "24"


def misfits(schema: Any, properties: Mapping[str, Any], values: Mapping[str, Any], place: str) -> Iterator[str]:
    """Yield each place where the values violate the schema: unknown names, wrong types and missing keys."""
    for name, value in values.items():
        if name not in properties:
            yield f"{place}.{name}"
        else:
            yield from _misfits_at(schema, properties[name], value, f"{place}.{name}")


def _misfits_at(schema: Any, declared: Any, value: Any, place: str) -> Iterator[str]:
    reference = declared.get("$ref", "")
    if str(value).startswith("${"):
        if declared.get("plain"):
            yield f"{place} is an Output"
    elif reference.startswith("#/types/"):
        kind = schema["types"][reference.removeprefix("#/types/")]
        yield from misfits(schema, kind["properties"], value, place)
        yield from (f"{place}.{name} is missing" for name in kind.get("required", ()) if name not in value)
    elif "items" in declared:
        for index, each in enumerate(value):
            yield from _misfits_at(schema, declared["items"], each, f"{place}[{index}]")
    elif "additionalProperties" in declared:
        for key, each in value.items():
            yield from _misfits_at(schema, declared["additionalProperties"], each, f"{place}.{key}")
    elif not reference:
        kinds: dict[str, Any] = {"string": str, "number": int | float, "integer": int, "boolean": bool}
        if not isinstance(value, kinds[declared["type"]]) or (declared["type"] == "number" and value is True):
            yield place


def configured(value: Any, config: Mapping[str, Any]) -> Any:
    """Return properties with a plain value for each configuration key, as the CLI passes them to a plugin."""
    if isinstance(value, dict):
        return {key: configured(each, config) for key, each in value.items()}
    if isinstance(value, list):
        return [configured(each, config) for each in value]
    named = re.fullmatch(r"\$\{(\w+)}", str(value))
    if named is None:
        return value
    return {"string": "text", "array": ["text"]}[config[named[1]]["type"]]


def test_the_yaml_example_agrees_with_the_schema(schema: Any) -> None:
    example = project(EXAMPLES / "yaml")
    assert (EXAMPLES / "yaml" / example["packages"]["gpu-platform"]).resolve() == PROJECT_ROOT / "plugin"
    for name, resource in example["resources"].items():
        package, component = resource["type"].split(":")
        declared = schema["resources"][f"{package}:index:{component}"]
        properties = configured(resource["properties"], example["config"])
        assert list(misfits(schema, declared["inputProperties"], properties, name)) == []
        assert set(declared["requiredInputs"]) <= properties.keys()
    outputs = re.findall(r"\$\{platform\.(\w+)}", str(example["outputs"]))
    assert set(outputs) <= schema["resources"]["gpu-platform:index:GpuPlatform"]["properties"].keys()


def test_the_python_program_of_the_page_registers_its_pool_operator_and_team(tmp_path: Path) -> None:
    program = tmp_path / "__main__.py"
    program.write_text(block("python"), "utf-8")
    made = Recorded(record_program(program, project="mine", stack="dev", config={}))
    assert [one.name for one in made.of("NodePatch")] == ["dgx-01", "dgx-02"]
    assert {one.name for one in made.of("Namespace")} == {"gpu-operator", "vision"}


def test_the_yaml_program_of_the_page_agrees_with_the_schema(schema: Any) -> None:
    page = yaml.safe_load(block("yaml"))
    properties = configured(page["resources"]["platform"]["properties"], page["config"])
    declared = schema["resources"]["gpu-platform:index:GpuPlatform"]["inputProperties"]
    assert list(misfits(schema, declared, properties, "platform")) == []


def test_the_page_installs_the_plugin_before_the_first_preview() -> None:
    section = PAGE.split("## YAML, TypeScript and other languages")[1]
    assert "`pulumi install` in the program's folder installs the plugin" in section, (
        "a preview without the plugin ends with `error resolving type of resource`"
    )


def test_the_page_configures_what_the_example_requires() -> None:
    commands = PAGE.split("## Run the examples")[1].split("\n## ")[0]
    given = set(re.findall(r"pulumi config set (?:--path ')?(\w+)", commands))
    assert given == {"nodes", "kubeconfig"} == project(EXAMPLES / "yaml")["config"].keys()


def test_the_page_names_every_argument_and_output(schema: Any) -> None:
    words = set(
        re.findall(
            r"[a-zA-Z_]+", " ".join(re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)))
        )
    )
    # The page refers to these keys only as "All keys of a stack file's ...".
    # The generated reference lists the keys of pools, teams and validation.
    of_models = {camel_case(key) for name in ("Pool", "Team", "ValidationSettings") for key in fields_of(name)}
    for resource in schema["resources"].values():
        for name in (*(resource["inputProperties"].keys() - of_models), *resource["properties"]):
            assert re.sub(r"([A-Z])", lambda found: f"_{found[0].lower()}", name) in words, name
    for name in schema["types"]["gpu-platform:index:GpuCluster"]["properties"]:
        assert re.sub(r"([A-Z])", lambda found: f"_{found[0].lower()}", name) in words, name


def test_the_page_lists_every_argument_that_may_be_an_output() -> None:
    table = PAGE.split("## What may be an Output")[1].split("## Arguments")[0]
    for place in INPUTS:
        name = place.split(".")[-1].removesuffix("[*]") if "gpu_networks" not in place else "gpu_networks"
        name = "subnets" if name == "*" else name
        assert name in table, place


def test_a_mistake_in_a_yaml_program_is_seen_by_that_check(schema: Any) -> None:
    declared = schema["resources"]["gpu-platform:index:GpuNodePool"]["inputProperties"]
    values = {"machine_type": "x", "count": {"min": 1}, "localNvme": "yes", "workload": "${other.output}"}
    assert list(misfits(schema, declared, values, "pool")) == [
        "pool.machine_type",
        "pool.count.desired is missing",
        "pool.localNvme",
        "pool.workload is an Output",
    ]


def test_the_typescript_example_uses_components_arguments_and_outputs_of_the_schema(schema: Any) -> None:
    program = (EXAMPLES / "typescript" / "index.ts").read_text("utf-8")
    components = set(re.findall(r"new gpu\.(\w+)", program))
    assert components == {"GpuNodePool", "GpuOperator", "GpuValidation", "GpuTeam"}
    known = {"dependsOn", *(name for kind in schema["types"].values() for name in kind["properties"])}
    for component in components:
        known |= schema["resources"][f"gpu-platform:index:{component}"]["inputProperties"].keys()
    used = set(re.findall(r"^\s+(\w+):", program, re.MULTILINE)) | set(re.findall(r"[{,] (\w+):", program))
    assert used - known == set()
    assert "nodePoolName" in schema["resources"]["gpu-platform:index:GpuNodePool"]["properties"]
