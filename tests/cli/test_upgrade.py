"""The report, the exit codes and the JSON of `gpu-platform upgrade` without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.cli import upgrade
from gpu_platform.planning.changes.live_types import LiveState
from gpu_platform.planning.upgrades.report import RunningVersions
from tests.cli.conftest import Run
from tests.support.eks_stacks import CREATED

TODAY = ("--today", "2026-11-22")


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write a stack file for an existing cluster that cannot be reached. Return its path."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))

    def write(**cluster: Any) -> str:
        platform = {
            "kind": "environment",
            "cluster": {"provider": "existing", **cluster},
            "operator": {"release": "v26.3.1", "driver": {"owner": "operator"}},
            "pools": [
                {
                    "name": "train",
                    "machine_type": "p4d.24xlarge",
                    "count": {"desired": 2},
                    "workload": "training",
                    "nodes": {"names": ["a", "b"]},
                }
            ],
        }
        path = tmp_path / "Pulumi.dc.yaml"
        path.write_text(yaml.safe_dump({"config": {"gpu-platform:platform": platform}}))
        return str(path)

    return write


def test_a_version_past_its_support_is_a_finding(run: Run, stack: Any) -> None:
    ran = run("upgrade", stack(kubernetes="1.34"), *TODAY)
    assert ran.code == 1
    assert "standard support ended on 2026-10-27" in ran.out
    assert "The cluster was not read" in ran.out


def test_nothing_past_its_support_is_good(run: Run, stack: Any) -> None:
    assert run("upgrade", stack(kubernetes="1.35"), *TODAY).code == 0


def test_a_cluster_of_unknown_version_is_unknown(run: Run, stack: Any) -> None:
    assert run("upgrade", stack(), *TODAY).code == 3


def test_each_upgrade_step_is_a_planned_edit_with_its_disruptions(run: Run, stack: Any) -> None:
    document = run("upgrade", stack(kubernetes="1.35"), *TODAY, "--format", "json").json
    operator, kubernetes = document["steps"]
    assert operator["edits"] == {"operator.release": "v26.7.0"}
    by_subject = {impact["subject"]: impact for impact in operator["disturbs"]}
    # The driver version is the default of the operator's release, so both change together.
    assert by_subject["pool train"]["new"] == "595.91.07"
    assert (by_subject["pool train"]["nodes"], by_subject["pool train"]["gpus"]) == (2, 16)
    assert by_subject["pool train"]["pods"] is None
    assert kubernetes["edits"] == {"cluster.kubernetes": "1.36"}
    (replaced,) = [one for one in kubernetes["disturbs"] if one["subject"] == "pool train"]
    assert replaced["effect"] == "rolls-nodes"
    assert document["cluster_read"] is False


def test_the_stack_of_a_team_and_an_invalid_date_are_bad_input(run: Run, stack: Any) -> None:
    ran = run("upgrade", stack(kubernetes="1.35"), "--today", "tomorrow")
    assert (ran.code, "--today: found 'tomorrow'" in ran.err) == (2, True)
    assert run("upgrade", "speech").code == 2


def test_check_warns_and_does_not_fail(run: Run, stack: Any) -> None:
    ran = run("check", stack(kubernetes="1.33"), "--format", "json")
    assert ran.code == 0
    (warning,) = ran.json["warnings"]
    assert "standard support ended on 2026-06-28" in warning
    assert warning in ran.err


def test_an_upgrade_step_is_compared_with_the_previous_step(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = {
        "name": "train",
        "machine_type": "p4d.24xlarge",
        "count": {"desired": 2},
        "zones": ["us-east-2a"],
        "workload": "training",
    }
    platform = {"kind": "environment", "cluster": {**CREATED, "kubernetes": "1.34"}, "pools": [pool]}
    path = tmp_path / "Pulumi.ml.yaml"
    path.write_text(yaml.safe_dump({"config": {"gpu-platform:platform": platform}}))
    running = "v1.34.6-eks-4f4795d"
    monkeypatch.setattr(upgrade, "client_of", lambda _plan: None)
    monkeypatch.setattr(upgrade, "dead_ends", lambda _client, _plan: {})
    monkeypatch.setattr(upgrade, "read_live", lambda *_: LiveState(kubernetes=running))
    monkeypatch.setattr(upgrade, "read_running_versions", lambda *_: RunningVersions(kubernetes=running))

    steps = run("upgrade", str(path), *TODAY, "--format", "json").json["steps"]

    versions = [step["edits"]["cluster.kubernetes"] for step in steps if step["subject"] == "Kubernetes"]
    assert versions == ["1.35", "1.36"]
    assert [one for step in steps for one in step["disturbs"] if one["refused"]] == []


def test_an_eks_upgrade_disturbs_system_nodes_and_karpenter_pools(run: Run, stack: Any) -> None:
    path = Path(stack())
    document = yaml.safe_load(path.read_text())
    platform = document["config"]["gpu-platform:platform"]
    platform["cluster"] = {**CREATED, "kubernetes": "1.35"}
    del platform["operator"]
    (managed,) = platform["pools"]
    del managed["nodes"]
    managed["zones"] = ["us-east-2a"]
    elastic = {**managed, "name": "burst", "provisioner": "karpenter", "count": {"desired": 0, "max": 2}}
    platform["pools"] = [managed, elastic]
    path.write_text(yaml.safe_dump(document))
    (step,) = [
        one
        for one in run("upgrade", str(path), *TODAY, "--format", "json").json["steps"]
        if "cluster.kubernetes" in one["edits"]
    ]
    rolled = [one for one in step["disturbs"] if one["effect"] == "rolls-nodes"]
    assert sorted(one["subject"] for one in rolled) == ["cluster", "pool burst", "pool train"]
