"""The production checklist derives the answer to each point from a stack's plan and resources."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from extensions.reports.production import Point, Status, Subject, checklist
from gpu_platform.catalog import load_catalog
from gpu_platform.deploy.recorded.record import ResourceRecord
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.program import record_stack
from gpu_platform.stack import parse_platform
from gpu_platform.stack.environment import Environment
from gpu_platform.stack.loaded import LoadedStack, plan_platform
from tests.planning.conftest import environment, pool, team

_ZONE = ["us-east-2a"]
_IMAGE = "registry.example.com/app:1.0"
_CLUSTER = {
    "provider": "eks",
    "name": "prod",
    "region": "us-east-2",
    "account": "123456789012",
    "kubernetes": "1.36",
    "create": {
        "zones": ["us-east-2a", "us-east-2b"],
        "admins": ["arn:aws:iam::123456789012:role/platform-admin"],
        "api_access": ["203.0.113.0/24"],
    },
}
_READY: Mapping[str, Any] = {
    "cluster": _CLUSTER,
    "storage": {"shared": {"type": "nfs"}},
    "addons": {"prometheus": "install"},
    "changes": {"window": {"days": ["sat"], "start": "22:00", "duration": "4h"}},
    "budget": {"usd_per_month": 100_000},
}


def _teams(**service: Any) -> list[dict[str, Any]]:
    job = {
        "name": "pretrain",
        "pool": "train",
        "image": _IMAGE,
        "command": ["python"],
        "checkpoints": {"directory": "/kept", "storage_class": "shared", "size": "10Gi"},
    }
    one = {"name": "chat", "pool": "serve", "image": _IMAGE, "replicas": 2, **service}
    return [
        team(quota={"gpus": 2}, training_jobs=[job]),
        team("search", quota={"gpus": 8}, priority="inference", inference_services=[one]),
    ]


def _subject(*pools: dict[str, Any], **rest: Any) -> Subject:
    pools = pools or (
        pool(
            "train", "g5.xlarge", capacity={"type": "spot"}, count={"min": 0, "desired": 1, "max": 2}, zones=_ZONE
        ),
        pool("serve", "g6.12xlarge", workload="inference", count={"min": 1, "desired": 2, "max": 3}, zones=_ZONE),
    )
    platform = environment(*pools, **{**_READY, "teams": _teams(), **rest})
    spec, plan = parse_platform(platform, "test"), plan_platform(platform, "test")
    assert isinstance(spec, Environment)
    assert isinstance(plan, EnvironmentPlan)
    recorded = record_stack(LoadedStack("test", Path("Pulumi.test.yaml"), platform, plan))
    return Subject(
        argument="test",
        spec=spec,
        plan=plan,
        resources=recorded.resources,
        backend="https://api.pulumi.com",
        today=datetime.date(2026, 11, 25),
        catalog=load_catalog(),
    )


@pytest.fixture(scope="module")
def ready() -> Subject:
    """A stack that satisfies every point of the checklist, except for the point about the receiver of alerts."""
    return _subject()


def _point(subject: Subject, name: str) -> Point:
    return next(point for point in checklist(subject) if point.name == name)


def _changed(subject: Subject, type_: str, **inputs: Any) -> Subject:
    """Return a copy of a checked stack in which the resources of one type have other inputs."""

    def change(one: ResourceRecord) -> ResourceRecord:
        return replace(one, inputs={**one.inputs, **inputs}) if one.type == type_ else one

    return replace(subject, resources=[change(one) for one in subject.resources])


def test_all_points_but_the_receiver_of_alerts_can_be_seen_to_be_done(ready: Subject) -> None:
    left = {point.name: point.status for point in checklist(ready) if point.status is not Status.DONE}
    assert left == {"alerts": Status.UNKNOWN}


def test_every_point_has_evidence(ready: Subject) -> None:
    assert all(point.evidence for point in checklist(ready))


def test_spot_capacity_is_done_by_jobs_that_save(ready: Subject) -> None:
    assert (
        "pretrain on train saves to /kept, with a grace period of 2m"
        in _point(ready, "spot capacity with checkpoints").evidence
    )


def test_a_service_with_one_replica_is_interrupted_by_each_drain() -> None:
    found = _point(_subject(teams=_teams(replicas=1)), "disruption budgets")
    assert found.status is Status.NOT_DONE
    assert found.field == "teams[1].inference_services[0]"
    assert found.fix == "write replicas: 2 for chat"


@pytest.mark.parametrize(
    ("backend", "status", "words"),
    [
        ("", Status.NOT_DONE, "no Pulumi backend"),
        ("file:///home/me", Status.NOT_DONE, "only on this machine"),
        ("s3://acme-state", Status.UNKNOWN, "keeps old versions"),
        ("https://api.pulumi.com", Status.DONE, "keeps the history"),
    ],
)
def test_state_is_backed_up_by_its_backend(ready: Subject, backend: str, status: Status, words: str) -> None:
    found = _point(replace(ready, backend=backend), "backups of state")
    assert found.status is status
    assert words in " ".join(found.evidence)


def test_a_kubernetes_version_near_its_end_is_no_upgrade_path(ready: Subject) -> None:
    found = _point(replace(ready, today=datetime.date(2029, 1, 1)), "upgrade path")
    assert (found.status, found.field) == (Status.NOT_DONE, "cluster.kubernetes")


def test_what_is_not_encrypted_is_named(ready: Subject) -> None:
    plain = [{"deviceName": "/dev/xvda", "ebs": {"encrypted": "false"}}]
    found = _point(
        _changed(ready, "aws:ec2/launchTemplate:LaunchTemplate", blockDeviceMappings=plain), "encryption"
    )
    assert found.status is Status.NOT_DONE
    assert "volumes of serve are not encrypted" in found.evidence
    secrets = _point(_changed(ready, "aws:eks/cluster:Cluster", encryptionConfig=None), "encryption")
    assert secrets.status is Status.NOT_DONE


def test_policies_that_nothing_enforces_are_not_done(ready: Subject) -> None:
    found = _point(_changed(ready, "aws:eks/addon:Addon", configurationValues="{}"), "network policy")
    assert found.status is Status.NOT_DONE
    assert "the network plugin of the plan does not enforce NetworkPolicies" in found.evidence


def test_a_team_whose_pods_may_be_under_no_network_policy_is_named() -> None:
    open_to_all = [team(quota={"gpus": 2}, allow_bare_pods=True)]
    found = _point(_subject(teams=open_to_all), "network policy")
    assert (found.status, found.field) == (Status.NOT_DONE, "teams[0].allow_bare_pods")
    assert found.evidence[-1].startswith("vision admits pods without a controller")


def test_aks_encrypts_and_cilium_enforces_policies() -> None:
    guid = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
    cluster = {
        "provider": "aks",
        "name": "prod",
        "subscription": guid,
        "resource_group": "ml",
        "region": "eastus2",
    }
    created: dict[str, Any] = {
        **cluster,
        "kubernetes": "1.35",
        "create": {"admins": [guid], "api_access": ["203.0.113.0/24"]},
    }
    serve = pool("serve", "Standard_NC24ads_A100_v4", workload="inference")
    members = team(quota={"gpus": 1}, members=[f"group:{guid}"])

    subject = _subject(serve, cluster=created, teams=[members])
    encryption, network = _point(subject, "encryption"), _point(subject, "network policy")

    assert (encryption.status, network.status) == (Status.DONE, Status.DONE)
    assert "enforced by Cilium" in network.evidence

    keys = f"/subscriptions/{guid}/resourceGroups/keys/providers"
    with_keys = {
        **created["create"],
        "disk_encryption_set": f"{keys}/Microsoft.Compute/diskEncryptionSets/disks",
        "kms_key": f"{keys}/Microsoft.KeyVault/vaults/acme/keys/secrets/versions/{'0' * 32}",
    }
    own = _point(_subject(serve, cluster={**created, "create": with_keys}, teams=[members]), "encryption").evidence
    assert set(own) - set(encryption.evidence) == {
        "Secrets: encrypted with a key that you manage",
        "disks of nodes: encrypted with a key that you manage",
    }


def test_encryption_and_enforcement_are_questions_on_existing_clusters() -> None:
    existing = {"provider": "eks", "name": "prod", "region": "us-east-2", "kubernetes": "1.36"}
    storage = {"shared": {"type": "nfs", "file_system": "fs-0a1b2c3d4e5f60718"}}
    points = {point.name: point.status for point in checklist(_subject(cluster=existing, storage=storage))}
    assert points["network policy"] is Status.UNKNOWN
    assert points["encryption"] is Status.UNKNOWN


def test_the_budget_that_the_fix_names_holds_for_the_stack_as_it_is() -> None:
    fix = _point(_subject(budget=None), "cost budget").fix
    written = int(fix.rpartition("usd_per_month: ")[2].rstrip("}"))
    assert _point(_subject(budget={"usd_per_month": written}), "cost budget").status is Status.DONE


def test_a_rule_that_limits_the_cost_is_a_budget_too() -> None:
    ceiling = {"rules": {"cost-ceiling": {"maxUsdPerHour": 500}}}
    assert _point(_subject(budget=None, policy=ceiling), "cost budget").status is Status.DONE


def test_lacks_of_a_stack_file_are_named_with_their_places(ready: Subject) -> None:
    poor = _subject(
        monitoring={"enabled": False}, validation={"gate": False}, changes={}, teams=[team(members=["user:ana"])]
    )
    found = {point.name: point.field for point in checklist(poor) if point.status is Status.NOT_DONE}
    assert found == {
        "monitoring": "monitoring",
        "alerts": "monitoring",
        "upgrade path": "changes",
        "identities": "teams[0].members",
        "validated nodes": "validation.gate",
    }
    assert not set(found) & {point.name for point in checklist(ready) if point.status is Status.NOT_DONE}


def test_a_sandbox_needs_no_cloud() -> None:
    bare = _subject(pool(), cluster={"provider": "sandbox"}, storage={}, addons={}, teams=[], budget=None)
    points = {point.name: point.status for point in checklist(bare)}
    applicable = {name for name, status in points.items() if status is not Status.NOT_APPLICABLE}
    assert applicable == {"monitoring", "alerts", "upgrade path", "validated nodes"}
