"""`render` writes the plan, the resources, a Pulumi state and one manifest per object. It removes only files
that earlier renders wrote.
"""

from __future__ import annotations

import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.base.errors import BadInput
from gpu_platform.deploy.recorded import render as render_module
from gpu_platform.deploy.recorded.render import write_render
from tests.deploy.conftest import Record


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def state_resources(folder: Path) -> list[dict[str, Any]]:
    return json.loads((folder / "state.json").read_text())["deployment"]["resources"]


def test_a_render_has_resources_plan_state_and_one_manifest_per_object(record: Record, tmp_path: Path) -> None:
    assert write_render(tmp_path / "out", record("small"), {"pools": []}) == 4

    assert tree(tmp_path / "out") == {
        ".gpu-platform-render.json",
        "plan.json",
        "resources.json",
        "state.json",
        "manifests/_cluster/namespace-vision.yaml",
        "manifests/default/deployment-web.yaml",
        "manifests/default/secret-token.yaml",
        "manifests/vision/configmap-settings.yaml",
    }
    assert json.loads((tmp_path / "out/plan.json").read_text()) == {"pools": []}


def test_resources_json_is_the_list_of_records_in_registration_order(record: Record, tmp_path: Path) -> None:
    recorded = record("small")
    write_render(tmp_path, recorded, {})

    assert json.loads((tmp_path / "resources.json").read_text()) == [
        resource.to_json() for resource in recorded.resources
    ]


def test_a_manifest_reads_from_api_version_to_the_rest(record: Record, tmp_path: Path) -> None:
    write_render(tmp_path, record("small"), {})

    assert (tmp_path / "manifests/vision/configmap-settings.yaml").read_text() == (
        "apiVersion: v1\nkind: ConfigMap\n"
        "metadata:\n  name: settings\n  namespace: vision\n"
        "data:\n  replicas: '4'\n"
    )


def test_texts_of_several_lines_are_written_as_blocks_and_read_back_equal(record: Record, tmp_path: Path) -> None:
    recorded = record("texts")
    write_render(tmp_path, recorded, {})

    text = (tmp_path / "manifests/default/configmap-texts.yaml").read_text()
    assert "config.yaml: |\n    version: v1\n" in text
    data = next(item for item in recorded.resources if item.name == "texts").inputs["data"]
    assert yaml.safe_load(text)["data"] == data


def test_objects_of_one_kind_name_in_two_groups_get_two_files(record: Record, tmp_path: Path) -> None:
    write_render(tmp_path, record("texts"), {})

    assert {"manifests/default/queue-a.yaml", "manifests/default/queue.two.example.com-second-queue.yaml"} <= tree(
        tmp_path
    )


def test_no_secret_is_written_to_any_file(record: Record, tmp_path: Path) -> None:
    write_render(tmp_path, record("small"), {})

    assert all(b"hunter2" not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_manifests_that_are_no_longer_declared_are_removed_and_nothing_else(
    record: Record, tmp_path: Path
) -> None:
    write_render(tmp_path, record("small"), {})
    (tmp_path / "manifests/mine.yaml").write_text("kept: true\n")
    (tmp_path / "notes.txt").write_text("kept\n")

    write_render(tmp_path, record("small", {"team": "speech", "replicas": 4}), {})

    files = tree(tmp_path)
    assert {"manifests/mine.yaml", "notes.txt", "manifests/speech/configmap-settings.yaml"} <= files
    assert not any("vision" in file for file in files)
    assert not (tmp_path / "manifests/vision").exists()


def test_an_index_that_names_files_outside_its_manifests_removes_none_of_them(
    record: Record, tmp_path: Path
) -> None:
    write_render(tmp_path / "out", record("small"), {})
    victim = tmp_path / "victim.yaml"
    victim.write_text("kept: true\n")
    paths = ["manifests/../../victim.yaml", "../victim.yaml", str(victim), "plan.json"]
    (tmp_path / "out/.gpu-platform-render.json").write_text(json.dumps({"manifests": paths}))

    write_render(tmp_path / "out", record("small"), {})

    assert victim.exists()


def test_a_render_that_stopped_in_the_middle_is_cleaned_by_the_next(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = os.replace

    def fail_at_the_last_manifest(source: Path, target: Path) -> None:
        if target.name == "configmap-settings.yaml":
            raise KeyboardInterrupt
        replace(source, target)

    write_render(tmp_path, record("small"), {})
    with monkeypatch.context() as patch:
        patch.setattr(render_module.os, "replace", fail_at_the_last_manifest)
        with pytest.raises(KeyboardInterrupt):
            write_render(tmp_path, record("small", {"team": "speech", "replicas": 4}), {})
    write_render(tmp_path, record("small", {"team": "search", "replicas": 4}), {})

    assert not any("vision" in file or "speech" in file for file in tree(tmp_path))


@pytest.mark.parametrize("found", ["a folder with other files", "a file"])
def test_an_output_that_is_not_a_render_is_refused_and_not_changed(
    record: Record, tmp_path: Path, found: str
) -> None:
    out = tmp_path / "out"
    if found == "a file":
        out.write_text("mine\n")
    else:
        (out / "sub").mkdir(parents=True)
        (out / "sub/mine.txt").write_text("mine\n")

    with pytest.raises(BadInput, match=found):
        write_render(out, record("small"), {})
    assert tree(tmp_path) in ({"out"}, {"out/sub/mine.txt"})


def test_an_output_that_cannot_be_written_is_bad_input(record: Record, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(BadInput, match="--out"):
        write_render(tmp_path / "file" / "out", record("small"), {})


def test_the_state_is_a_deployment_of_version_three_with_the_stack_first(record: Record, tmp_path: Path) -> None:
    write_render(tmp_path, record("small"), {})

    state = json.loads((tmp_path / "state.json").read_text())
    assert state["version"] == 3
    stack = state["deployment"]["resources"][0]
    assert (stack["type"], stack["custom"], "parent" in stack) == ("pulumi:pulumi:Stack", False, False)
    assert stack["outputs"]["team"] == "vision"


def test_everything_that_a_state_refers_to_stands_before_it(record: Record, tmp_path: Path) -> None:
    write_render(tmp_path / "cloud", record("cloud"), {})
    write_render(tmp_path / "small", record("small"), {})

    for resources in (state_resources(tmp_path / "cloud"), state_resources(tmp_path / "small")):
        urns: set[str] = set()
        references: set[str] = set()
        assert resources
        for resource in resources:
            assert {resource["parent"]} <= urns if "parent" in resource else True
            assert set(resource.get("dependencies", ())) <= urns
            is_provider = resource["type"].startswith("pulumi:providers:")
            if resource["custom"] and not is_provider:
                assert resource["provider"] in references
            urns.add(resource["urn"])
            references.add(f"{resource['urn']}::{resource.get('id')}")


def test_a_default_provider_stands_in_where_the_program_names_none(record: Record, tmp_path: Path) -> None:
    write_render(tmp_path, record("cloud"), {})

    providers = [item for item in state_resources(tmp_path) if item["type"].startswith("pulumi:providers:")]
    release = version("pulumi_kubernetes")
    assert [item["urn"].partition("::pulumi:")[2] for item in providers] == [
        "providers:aws::default",
        f"providers:kubernetes::default_{release.replace('.', '_')}",
    ]
    assert providers[1]["inputs"] == providers[1]["outputs"] == {"version": release}


def test_the_state_records_retained_and_replacement_fields(record: Record, tmp_path: Path) -> None:
    write_render(tmp_path, record("cloud"), {})

    resources = {item["urn"].rsplit("::", 1)[-1]: item for item in state_resources(tmp_path)}
    assert resources["ml"]["retainOnDelete"] is True
    assert resources["ml"]["replaceOnChanges"] == ["version"]
    assert resources["ml"]["ignoreChanges"] == ["tags"]
    assert not {"retainOnDelete", "replaceOnChanges", "ignoreChanges"} & resources["facts"].keys()


def test_two_renders_of_one_program_are_equal_byte_for_byte(record: Record, tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_render(tmp_path / name, record("small"), {})

    assert tree(tmp_path / "one") == tree(tmp_path / "two")
    for file in tree(tmp_path / "one"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_a_file_that_a_render_would_write_again_is_not_changed(record: Record, tmp_path: Path) -> None:
    recorded = record("small")
    write_render(tmp_path, recorded, {"pools": []})
    resources, plan = (tmp_path / name for name in ("resources.json", "plan.json"))
    before = resources.stat(), plan.stat()
    write_render(tmp_path, recorded, {"pools": ["train"]})

    assert (resources.stat().st_ino, resources.stat().st_mtime_ns) == (before[0].st_ino, before[0].st_mtime_ns)
    assert json.loads(plan.read_text()) == {"pools": ["train"]}
