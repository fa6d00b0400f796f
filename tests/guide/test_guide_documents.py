"""Text, JSON, HTML and manifests of `gpu-platform guide`, checked as a member or the API server would use them."""

from __future__ import annotations

import ast
import datetime
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml

import gpu_platform.guide
from gpu_platform.cli import main
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, load_stack, plan_platform
from policies import evaluate
from tests.planning.conftest import environment, pool, team
from tests.support.recorded import Recorded, record_shipped

KINDS = {"training", "inference", "notebook", "batch"}
SHIPPED = [
    (stack, team_plan.namespace)
    for stack in ("local", "dev", "eks-training", "gke-training", "speech")
    for team_plan in load_stack(stack).plan.teams
]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(["guide", *arguments])
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return int(stop.value.code or 0), printed.out, printed.err


# Host paths that Google's test pod for A3 Mega mounts, by stack and kind of workload.
# Pods that use a whole A3 Mega node may mount these paths.
OF_GPU_NICS = {
    ("gke-training", "training"): {
        "/home/kubernetes/bin/nvidia/lib64",
        "/dev/aperture_devices",
        "/sys",
        "/proc/sys",
    }
}


def objects(capsys: pytest.CaptureFixture[str], stack: str, name: str) -> dict[str, list[dict[str, Any]]]:
    code, out, _ = run(capsys, stack, name, "--format", "json")
    assert code == 0
    return json.loads(out)["manifests"]


def templates(manifests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one["spec"]["template"] for one in manifests if "template" in one.get("spec", {})]


@pytest.mark.parametrize(("stack", "name"), SHIPPED)
def test_manifests_of_shipped_stacks_meet_pod_security_restricted_but_for_gpu_nics(
    capsys: pytest.CaptureFixture[str], stack: str, name: str
) -> None:
    for kind, manifests in objects(capsys, stack, name).items():
        (template,) = templates(manifests)
        spec = template["spec"]
        assert not {"hostNetwork", "hostPID", "hostIPC", "nodeName"} & spec.keys(), kind
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        allowed = {"name", "configMap", "emptyDir", "persistentVolumeClaim"}
        beyond = [volume for volume in spec["volumes"] if not volume.keys() <= allowed]
        assert {volume["hostPath"]["path"] for volume in beyond} <= OF_GPU_NICS.get((stack, kind), set()), kind
        assert {one["name"] for one in spec.get("initContainers", ())} <= {"tcpxo-daemon"}
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


@pytest.mark.parametrize(("stack", "name"), SHIPPED)
def test_manifests_of_shipped_stacks_violate_no_rule_of_the_policy_pack(
    capsys: pytest.CaptureFixture[str], stack: str, name: str
) -> None:
    records: list[dict[str, Any]] = [one.to_json() for one in record_shipped(stack).resources]
    own = {one["urn"] for one in records}
    for kind, manifests in objects(capsys, stack, name).items():
        for manifest in manifests:
            version = manifest["apiVersion"]
            type_ = f"kubernetes:{version if '/' in version else f'core/{version}'}:{manifest['kind']}"
            urn = f"urn:pulumi:x::ml::{type_}::{kind}-{manifest['kind']}"
            records.append({"urn": urn, "type": type_, "name": kind, "inputs": manifest})
    report = evaluate(records, {}, datetime.date(2026, 11, 23))
    assert [str(one) for one in report.violations if one.resource not in own] == []


@pytest.mark.parametrize(("stack", "name"), SHIPPED)
def test_every_mounted_claim_and_config_map_exists(
    capsys: pytest.CaptureFixture[str], stack: str, name: str
) -> None:
    plan = load_stack(stack).plan
    volumes = plan.volumes if plan.kind == "team" else plan.storage.volumes
    given = {("PersistentVolumeClaim", one.name) for one in volumes if one.namespace == name}
    for manifests in objects(capsys, stack, name).values():
        made = given | {(one["kind"], one["metadata"]["name"]) for one in manifests}
        for volume in templates(manifests)[0]["spec"]["volumes"]:
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in made
            if "persistentVolumeClaim" in volume:
                assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in made


def test_the_programs_of_the_examples_are_valid_python_and_their_commands_name_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = objects(capsys, "local", "vision")
    for kind, script in (("training", "train.py"), ("inference", "serve.py"), ("batch", "batch.py")):
        (code,) = (one["data"][script] for one in found[kind] if one["kind"] == "ConfigMap")
        ast.parse(code)
        (template,) = templates(found[kind])
        assert f"/code/{script}" in template["spec"]["containers"][0]["command"]


def test_a_gang_meets_at_its_first_pod_by_the_name_of_a_headless_service(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = written(tmp_path, pool(count={"desired": 2}), teams=[team(quota={"gpus": 16})])
    found = {one["kind"]: one for one in objects(capsys, file, "vision")["training"]}
    job, service = found["Job"]["spec"], found["Service"]
    assert (job["completionMode"], job["parallelism"], job["completions"]) == ("Indexed", 2, 2)
    name = job["template"]["spec"]["subdomain"]
    assert service["metadata"]["name"] == name
    assert (service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]) == ("None", True)
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": found["Job"]["metadata"]["name"]}
    env = {one["name"]: one["value"] for one in job["template"]["spec"]["containers"][0]["env"]}
    assert env["PET_RDZV_ENDPOINT"] == f"training-0.{name}:29500"
    assert (env["PET_NNODES"], env["PET_NPROC_PER_NODE"]) == ("2", "8")


def test_a_queue_that_must_be_named_is_named_by_every_manifest(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = written(tmp_path, pool(), queueing={"without_queue": "refuse"}, teams=[team(quota={"gpus": 8})])
    for kind, manifests in objects(capsys, file, "vision").items():
        workload = next(one for one in manifests if "template" in one.get("spec", {}))
        labelled = templates([workload])[0] if kind == "inference" else workload
        assert labelled["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "vision", kind


def test_the_config_map_of_the_namespace_has_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    recorded = Recorded(record_shipped("local"))
    (data,) = (
        one.inputs["data"]
        for one in recorded.of("ConfigMap")
        if one.inputs["metadata"]["name"] == "gpu-platform-guide"
        and one.inputs["metadata"]["namespace"] == "search"
    )
    assert data["guide.md"] == run(capsys, "local", "search")[1]
    for kind in KINDS:
        printed = run(capsys, "local", "search", "--manifest", kind)[1]
        assert data[f"{kind}.yaml"] == printed
        assert list(yaml.safe_load_all(printed)) == objects(capsys, "local", "search")[kind]


def test_members_of_a_team_with_a_separate_stack_get_the_same_guide(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "speech", "speech")
    assert code == 0
    assert out.startswith("# Team speech on cluster ")
    assert objects(capsys, "speech", "speech").keys() == KINDS
    recorded = Recorded(record_shipped("speech"))
    names = [one.inputs["metadata"]["name"] for one in recorded.of("ConfigMap")]
    assert "gpu-platform-guide" in names


class Page(HTMLParser):
    """Collects the tags of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_the_html_page_has_the_manifests_and_loads_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "local", "vision", "--format", "html")
    page = Page(out)
    tags = [tag for tag, _ in page.tags]
    assert not {"script", "link", "img", "iframe"} & set(tags)
    assert not [attributes for _, attributes in page.tags if {"src", "href"} & attributes.keys()]
    assert "table" in tags
    for kind in KINDS:
        assert f"<h3>{kind}.yaml</h3>" in out


def test_scroll_areas_are_keyboard_accessible_and_the_page_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, page, _ = run(capsys, "local", "vision", "--format", "html")
    assert page.count("<table>") == page.count('<div class="scroll" tabindex="0"><table>') >= 2
    assert page.count("<pre") == page.count('<pre tabindex="0">') >= 2
    assert page.count("<main>") == page.count("</main>") == 1
    assert "@media print" in page
    assert ":focus-visible" in page


def test_names_of_members_are_text_on_the_html_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = written(tmp_path, pool(), teams=[team(members=["group:<img/src=x/onerror=alert(1)>"])])
    _, out, _ = run(capsys, file, "vision", "--format", "html")
    assert "img" not in [tag for tag, _ in Page(out).tags]
    assert "&lt;img" in out


@pytest.mark.parametrize(
    ("arguments", "place", "fix"),
    [
        (("local", "visoin"), "TEAM", "vision"),
        (("local", "speech"), "TEAM", "a team with a separate stack"),
        (("local", "vision", "--manifest", "trainig"), "--manifest", "training"),
    ],
)
def test_a_wrong_team_or_manifest_is_bad_input_that_names_the_right_ones(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], place: str, fix: str
) -> None:
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert not out
    assert place in err
    assert fix in err


def written(folder: Path, *pools: dict[str, Any], **rest: Any) -> str:
    file = folder / "Pulumi.test.yaml"
    file.write_text(yaml.safe_dump({"config": {"gpu-platform:platform": environment(*pools, **rest)}}), "utf-8")
    return str(file)


def test_scripts_are_part_of_the_package() -> None:
    folder = Path(gpu_platform.guide.__file__).parent / "scripts"
    assert {file.name for file in folder.glob("*.py")} == {"train.py", "serve.py", "batch.py"}


def test_a_platform_without_teams_has_no_guide() -> None:
    platform = environment(pool())
    loaded = LoadedStack("test", Path("/nowhere/Pulumi.test.yaml"), platform, plan_platform(platform, "test"))
    names = [one.inputs["metadata"].get("name") for one in Recorded(record_stack(loaded)).of("ConfigMap")]
    assert "gpu-platform-guide" not in names


def test_a_team_with_claims_learns_how_a_pod_claims_devices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "Pulumi.claims.yaml"
    quota = {"devices": {"gpu.nvidia.com": 4}, "cpu": 64, "memory": "512Gi"}
    stack = environment(
        pool(sharing={"mode": "dra"}),
        operator={"release": "v26.7.0"},
        teams=[team(quota=quota, claims=[{"name": "big", "memory": "40Gi"}])],
    )
    file.write_text(yaml.safe_dump({"config": {"gpu-platform:platform": stack}}), "utf-8")
    code, out, err = run(capsys, str(file), "vision")
    assert code == 0, err
    assert "- `big`: 1 of `gpu.nvidia.com`" in out
    assert "a claim for `gpu.nvidia.com`, at most 8 devices per pod" in out
    assert "resourceClaims: [{name: gpu, resourceClaimTemplateName: big}]" in out
    assert "requests the resource under `resources.limits`" not in out
