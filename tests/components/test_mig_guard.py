"""A plain `pulumi up` cannot change the MIG layout of live nodes: a hook refuses a change without a rollout."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pulumi
import pytest

from components import GpuNodePool, mig_guard
from components.mig_guard import DrainNeeded, refuse_relabelling
from gpu_platform.base import names
from gpu_platform.deploy.recorded.record import RecordedProgram, ResourceRecord
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import load_stack
from tests.components.public_programs import recorded as in_own_program

SEVENS, MIXED = {"1g.10gb": 7}, {"2g.20gb": 3, "1g.10gb": 1}
EKS: dict[str, Any] = {
    "provider": "eks",
    "name": "ml",
    "region": "us-east-2",
    "kubernetes": "1.34",
    "create": {"admins": ["arn:aws:iam::123456789012:role/a"]},
}
GKE: dict[str, Any] = {"provider": "gke", "name": "ml", "project": "ml-project", "location": "us-central1"}
CASES = {
    "eks": (EKS, {"machine_type": "p4de.24xlarge"}, "NodeGroup"),
    "gke": (
        GKE,
        {"machine_type": "a2-ultragpu-8g", "zones": ["us-central1-a"], "device_plugin": "operator"},
        "NodePool",
    ),
    "sandbox": ({"provider": "sandbox"}, {"machine_type": "p4de.24xlarge"}, "Node"),
    "existing": (
        {"provider": "existing", "name": "ours"},
        {"machine_type": "p4de.24xlarge", "nodes": {"names": ["a-0"]}},
        "NodePatch",
    ),
}


def recorded(provider: str, layout: dict[str, int], folder: Any, **pool: Any) -> RecordedProgram:
    cluster, more, _ = CASES[provider]
    document = {
        "kind": "environment",
        "cluster": cluster,
        "pools": [
            {
                "name": "lab",
                "count": {"desired": 1},
                "workload": "development",
                "sharing": {"mode": "mig", "layout": layout},
                **more,
                **pool,
            }
        ],
    }
    file = folder / "Pulumi.shop.yaml"
    file.write_text(json.dumps({"config": {"gpu-platform:platform": document}}), "utf-8")
    return record_stack(load_stack(str(file)))


def nodes_of(provider: str, program: RecordedProgram) -> ResourceRecord:
    """Return the resource that sets the labels of the pool's nodes."""
    kind = CASES[provider][2]
    return next(
        one
        for one in program.resources
        if one.custom and one.type.endswith(f":{kind}") and names.MIG_CONFIG_LABEL in json.dumps(one.inputs)
    )


def config_of(record: ResourceRecord) -> str:
    inputs = record.inputs
    labels = inputs.get("labels") or inputs.get("nodeConfig", inputs.get("metadata"))["labels"]
    return str(labels[names.MIG_CONFIG_LABEL])


def update(old: ResourceRecord, new: ResourceRecord) -> pulumi.ResourceHookArgs:
    return pulumi.ResourceHookArgs(new.urn, "id", new.name, new.type, dict(new.inputs), dict(old.inputs))


@pytest.fixture
def as_pulumi(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the program register hooks as if the Pulumi CLI ran it."""
    monkeypatch.setattr(mig_guard, "get_monitor", lambda: None)


@pytest.mark.parametrize("provider", CASES)
def test_a_changed_layout_is_refused_with_the_command_to_run(
    provider: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(names.ROLLED_VARIABLE, raising=False)
    monkeypatch.setattr(pulumi, "get_project", lambda: "gpu-platform")
    old = nodes_of(provider, recorded(provider, SEVENS, tmp_path))
    new = nodes_of(provider, recorded(provider, MIXED, tmp_path))
    with pytest.raises(DrainNeeded) as refusal:
        refuse_relabelling("lab", update(old, new))
    text = str(refusal.value)
    assert f"pool lab: its MIG layout changes from {config_of(old)} to {config_of(new)}" in text
    assert "Run `gpu-platform up" in text


@pytest.mark.parametrize("provider", CASES)
def test_updates_after_a_rollout_or_without_a_layout_change_pass(
    provider: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = nodes_of(provider, recorded(provider, SEVENS, tmp_path))
    new = nodes_of(provider, recorded(provider, MIXED, tmp_path))
    monkeypatch.setenv(names.ROLLED_VARIABLE, json.dumps({"lab": config_of(new)}))
    refuse_relabelling("lab", update(old, new))
    monkeypatch.delenv(names.ROLLED_VARIABLE)
    refuse_relabelling("lab", update(new, new))


@pytest.mark.parametrize("rolled", [{"lab": "lab-0123456789"}, {"other": "new"}, [], "all", None])
def test_only_the_pool_and_config_that_were_rolled_may_pass(rolled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def inputs(config: str) -> Mapping[str, Any]:
        return {"labels": {names.MIG_CONFIG_LABEL: config}}

    monkeypatch.setenv(names.ROLLED_VARIABLE, json.dumps(rolled) if rolled is not None else "{")
    args = pulumi.ResourceHookArgs("urn", "id", "lab", "aws:eks/nodeGroup:NodeGroup", inputs("new"), inputs("old"))
    with pytest.raises(DrainNeeded):
        refuse_relabelling("lab", args)


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        ({}, {names.MIG_CONFIG_LABEL: names.MIG_ALL_DISABLED}, False),
        ({}, {names.MIG_CONFIG_LABEL: "lab-1"}, True),
        ({names.MIG_CONFIG_LABEL: "lab-1"}, {}, False),
        ({names.MIG_CONFIG_LABEL: "lab-1"}, {names.MIG_CONFIG_LABEL: names.MIG_ALL_DISABLED}, True),
    ],
)
def test_a_node_without_the_label_counts_as_one_with_mig_disabled(
    old: dict[str, str], new: dict[str, str], refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(names.ROLLED_VARIABLE, raising=False)
    args = pulumi.ResourceHookArgs("urn", "id", "lab", "type", {"labels": new}, {"labels": old})
    if not refused:
        refuse_relabelling("lab", args)
        return
    with pytest.raises(DrainNeeded):
        refuse_relabelling("lab", args)


@pytest.mark.usefixtures("as_pulumi")
@pytest.mark.parametrize("provider", CASES)
def test_under_pulumi_the_labelled_resource_has_the_hook(provider: str, tmp_path: Any) -> None:
    assert len(nodes_of(provider, recorded(provider, SEVENS, tmp_path)).before_update) == 1


@pytest.mark.usefixtures("as_pulumi")
def test_nodes_that_the_cloud_replaces_for_new_labels_need_no_hook(tmp_path: Any) -> None:
    image = {"family": "al2023", "ami": "ami-0123456789abcdef0", "driver": "580.173.02"}
    program = recorded("eks", SEVENS, tmp_path, image=image)
    assert not any(one.before_update for one in program.resources)


def test_the_in_process_monitor_gets_no_hook(tmp_path: Any) -> None:
    assert nodes_of("eks", recorded("eks", SEVENS, tmp_path)).before_update == ()


OWN_POOL: dict[str, Any] = {
    "cluster": {"provider": "sandbox"},
    "machine_type": "p4de.24xlarge",
    "count": {"desired": 1},
    "workload": "development",
    "sharing": {"mode": "mig", "layout": SEVENS},
}


def nodes_of_own_program(**arguments: Any) -> list[ResourceRecord]:
    """Return the nodes of a pool that is declared in a user's program."""
    # pyrefly: ignore[bad-unpacking]
    return in_own_program(lambda: GpuNodePool("lab", {**OWN_POOL, **arguments})).of("Node")


@pytest.mark.usefixtures("as_pulumi")
def test_a_users_program_has_the_hook_only_for_pools_with_mig() -> None:
    assert [len(one.before_update) for one in nodes_of_own_program()] == [1]
    without_mig = {"machine_type": "g4dn.xlarge", "sharing": {"mode": "none"}}
    assert [one.before_update for one in nodes_of_own_program(**without_mig)] == [()]


@pytest.mark.usefixtures("as_pulumi")
def test_components_that_the_plugin_constructs_have_no_hook() -> None:
    with mig_guard.without_hooks():
        assert [one.before_update for one in nodes_of_own_program()] == [()]
    assert [len(one.before_update) for one in nodes_of_own_program()] == [1]


def test_the_refusal_in_a_users_program_explains_the_manual_layout_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(names.ROLLED_VARIABLE, raising=False)
    monkeypatch.setattr(pulumi, "get_project", lambda: "mine")
    [old] = nodes_of_own_program()
    [new] = nodes_of_own_program(sharing={"mode": "mig", "layout": MIXED})
    with pytest.raises(DrainNeeded) as refusal:
        refuse_relabelling("lab", update(old, new))
    rolled = json.dumps({"lab": config_of(new)})
    assert f"Cordon and drain all nodes of the pool, run `GPU_PLATFORM_ROLLED='{rolled}' pulumi up`" in str(
        refusal.value
    )
    monkeypatch.setenv(names.ROLLED_VARIABLE, rolled)
    refuse_relabelling("lab", update(old, new))
