"""Resources for the volumes and the service account that a team's stack inherits from its environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from gpu_platform.catalog import load_catalog
from gpu_platform.planning.changes import classify
from gpu_platform.planning.changes.effects import Effect
from gpu_platform.planning.changes.impact import ObjectChange
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, plan_platform
from tests.support.eks_stacks import eks_environment
from tests.support.recorded import Recorded

TEAM = {"name": "speech", "quota": {"gpus": 1}, "priority": "training", "members": ["group:speech"]}
STACK = {"kind": "team", "environment": {"stack": "prod"}, "team": TEAM}
DATASETS = {"type": "bucket", "bucket": "acme-datasets", "prefix": "imagenet", "team_stacks": ["speech"]}
IDENTITY = {"buckets": [{"name": "acme-datasets", "prefix": "imagenet"}]}


def loaded(folder: Path, **environment: Any) -> LoadedStack:
    """Write the environment's stack file, and plan a team's stack in this environment."""
    config = {"config": {"gpu-platform:platform": eks_environment({"zones": ["us-east-2a"]}, **environment)}}
    (folder / "Pulumi.prod.yaml").write_text(yaml.safe_dump(config), "utf-8")
    plan = plan_platform(STACK, "speech", folder=folder)
    return LoadedStack("speech", folder / "Pulumi.speech.yaml", STACK, plan)


def recorded(stack: LoadedStack) -> Recorded:
    return Recorded(
        record_stack(stack, resolve_stack=lambda _: {"kubeconfig": "/some/kubeconfig", "operator": "v26.7.0"})
    )


def test_objects_stay_when_the_environment_changes_its_kubeconfig(tmp_path: Path) -> None:
    outputs = {"kubeconfig": "{}", "operator": "v26.7.0", "cluster_identity": "gke-made.us-central1.gke.goog"}
    found = Recorded(record_stack(loaded(tmp_path), resolve_stack=lambda _: outputs))
    (provider,) = [one for one in found.resources if one.type == "pulumi:providers:kubernetes"]
    assert provider.inputs["clusterIdentifier"] == outputs["cluster_identity"]


def test_a_team_stack_has_the_environments_volume_and_its_claim(tmp_path: Path) -> None:
    found = recorded(loaded(tmp_path, storage={"datasets": DATASETS}))
    volume = found.one("PersistentVolume", "speech-datasets").inputs["spec"]
    assert (volume["claimRef"]["namespace"], volume["claimRef"]["name"]) == ("speech", "datasets")
    assert volume["csi"]["volumeAttributes"]["bucketName"] == "acme-datasets"
    claim = found.one("PersistentVolumeClaim", "speech/datasets").inputs
    assert (claim["metadata"]["namespace"], claim["spec"]["volumeName"]) == ("speech", "speech-datasets")
    assert not [one for one in found.resources if one.type.startswith("aws:")]


def test_the_environment_creates_no_volume_or_claim_for_team_stacks(tmp_path: Path) -> None:
    platform = eks_environment({"zones": ["us-east-2a"]}, storage={"datasets": DATASETS})
    plan = plan_platform(platform, "prod")
    found = Recorded(record_stack(LoadedStack("prod", tmp_path / "Pulumi.prod.yaml", platform, plan)))
    assert not found.has("PersistentVolume")
    assert "acme-datasets" in found.one("RolePolicy", "ml-aws-mountpoint-s3-csi-driver").inputs["policy"]


def test_a_team_stack_has_the_identitys_service_account_but_no_cloud_roles(
    tmp_path: Path,
) -> None:
    found = recorded(loaded(tmp_path, team_identities={"speech": IDENTITY}))
    account = found.one("ServiceAccount", "speech/team").inputs
    assert account["metadata"] == {"name": "team", "namespace": "speech"}
    assert not [one for one in found.resources if one.type.startswith("aws:")]


def test_a_withdrawn_volume_ends_access_but_keeps_its_data(tmp_path: Path) -> None:
    outputs = recorded(loaded(tmp_path, storage={"datasets": DATASETS})).program.outputs
    objects = [
        ObjectChange(action="delete", kind=kind, namespace=namespace, name=name)
        for kind, namespace, name in (
            ("PersistentVolumeClaim", "speech", "datasets"),
            ("PersistentVolume", "", "speech-datasets"),
        )
    ]
    assert {one.effect for one in objects} == {Effect.DELETES_DATA}
    after = loaded(tmp_path).plan
    before = json.loads(json.dumps(dict(outputs)))
    [impact] = classify(before, after, load_catalog(), live=None, objects=objects)
    assert (impact.effect, impact.field) == (Effect.CUTS_ACCESS, "volumes")
    assert "nothing in it is deleted" in impact.because
