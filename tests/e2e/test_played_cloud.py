"""The program on the real Pulumi CLI against a played AWS account: what a preview states is what then happens.

They run where `pulumi` and its Kubernetes provider are on PATH (CONTRIBUTING.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from sandbox import control_plane
from tests.e2e.conftest import VALIDATION_TIMEOUT, Platform
from tests.support.command_line import Ran
from tests.support.played_cloud.cloud import Happened, PlayedCloud, played_cloud
from tests.support.pulumi_cli import NEEDS_PULUMI, environment

CLUSTER = "e2e-played"
STACK = "shop"

pytestmark = [
    *NEEDS_PULUMI,
    pytest.mark.sandbox,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("e2e-played-cloud"),
]


@pytest.fixture
def cloud(tmp_path: Any) -> Iterator[PlayedCloud]:
    folder = tmp_path / "cloud"
    folder.mkdir()
    with played_cloud(folder) as played:
        yield played
    control_plane.down(CLUSTER)


@pytest.fixture
def platform(cloud: PlayedCloud, tmp_path: Any) -> Platform:
    env = {**environment(tmp_path / "backend"), **cloud.env}
    unused: Any = None  # the cluster exists only after the first `up`
    return Platform(unused, unused, tmp_path, {}, engine="pulumi", env=env)


@pytest.fixture
def stack() -> dict[str, Any]:
    return {
        "kind": "environment",
        "cluster": {
            "provider": "eks",
            "name": CLUSTER,
            "region": "us-east-2",
            "account": "123456789012",
            "kubernetes": "1.35",
            "create": {
                "admins": ["arn:aws:iam::123456789012:role/platform-admin"],
                "api_access": ["203.0.113.0/24"],
            },
        },
        "pools": [
            {
                "name": "train",
                "machine_type": "g6e.12xlarge",
                "count": {"desired": 2},
                "workload": "training",
                "zones": ["us-east-2a"],
                "network": {"rdma": False},
            },
            {
                "name": "serve",
                "machine_type": "g6.4xlarge",
                "count": {"desired": 1},
                "workload": "inference",
            },
        ],
        "teams": [
            {
                "name": "vision",
                "quota": {"gpus": 4, "cpu": 100, "memory": "200Gi"},
                "priority": "training",
                "members": ["group:vision"],
            }
        ],
        "validation": {"timeout": VALIDATION_TIMEOUT},
    }


@dataclass(frozen=True)
class Step:
    """One deployment: its statement before it changes anything, the result, and what happened in the cloud."""

    preview: dict[str, Any]
    up: Ran
    happened: Happened

    @property
    def pools(self) -> dict[str, str]:
        """Effect by pool, as the preview states it."""
        return {change["pool"]: change["effect"] for change in self.preview["pool_changes"]}


def deploy(platform: Platform, cloud: PlayedCloud, stack: dict[str, Any], *, preview: bool = True) -> Step:
    """Preview and deploy a stack; the nodes and GPUs of the preview must be those that the cloud took away.

    Without `preview` the statement is that of `up`, which it makes before it changes anything.
    """
    mark = len(cloud.account.events)
    statement: dict[str, Any] | None = None
    if preview:
        previewed = platform.run("preview", str(platform.write(stack)), "--engine", "pulumi", "--format", "json")
        assert previewed.code == 0, previewed.err
        assert cloud.since(mark).events == (), "a preview changes nothing"
        statement = previewed.json
    ran = platform.up(stack)
    assert ran.code == 0, ran.err
    assert ran.json["validation"]["verdict"] == "pass"
    if statement is None:
        statement = ran.json
    assert ran.json["changes"]["counts"] == statement["changes"]["counts"]
    happened = cloud.since(mark)
    stated = {
        row["subject"].removeprefix("pool "): (row["nodes"], row["gpus"])
        for row in statement["impact"]["changes"]
        if row["subject"].startswith("pool ") and row["changes_nodes"]
    }
    assert stated == {pool: lost for pool, lost in happened.removed.items() if pool is not None}
    return Step(statement, ran, happened)


def test_each_step_of_a_clusters_life_does_to_pools_and_gpus_what_its_preview_states(
    cloud: PlayedCloud, platform: Platform, stack: dict[str, Any]
) -> None:
    created = deploy(platform, cloud, stack)
    assert created.pools == {}
    assert created.happened.created == {None: (2, 0), "train": (2, 8), "serve": (1, 1)}

    again = deploy(platform, cloud, stack, preview=False)
    assert again.up.json["changes"]["changes"] == []
    assert again.happened.events == ()

    stack["cluster"]["kubernetes"] = "1.36"
    upgraded = deploy(platform, cloud, stack)
    assert upgraded.pools == {"train": "rolled", "serve": "rolled"}
    assert upgraded.happened.created == {None: (2, 0), "train": (2, 8), "serve": (1, 1)}
    assert upgraded.happened.most_missing == {}, "the replacement of each node comes first"
    versions = [event.get("version") for event in upgraded.happened.events if event["what"] == "control plane"]
    assert versions == ["1.36"]

    refused = platform.run("destroy", str(platform.folder / f"Pulumi.{STACK}.yaml"), "--engine", "pulumi", "--yes")
    assert refused.code == 2
    assert "cluster.protect" in refused.err

    stack["cluster"]["protect"] = False
    unprotected = deploy(platform, cloud, stack, preview=False)
    assert unprotected.pools == {}
    assert unprotected.happened.created == unprotected.happened.removed == {}

    stack["pools"][0]["count"] = {"desired": 3}
    stack["pools"][0]["disk"] = {"size_gb": 300}
    changed = deploy(platform, cloud, stack)
    assert changed.pools == {"train": "rolled"}
    assert changed.happened.created == {"train": (3, 12)}

    stack["pools"][0]["count"] = {"desired": 1}
    shrunk = deploy(platform, cloud, stack, preview=False)
    assert shrunk.pools == {"train": "shrunk"}
    assert shrunk.happened.removed == {"train": (2, 8)}

    del stack["pools"][1]
    removed = deploy(platform, cloud, stack)
    assert removed.pools == {"serve": "removed"}
    assert removed.happened.removed == {"serve": (1, 1)}

    mark = len(cloud.account.events)
    command = ("destroy", str(platform.write(stack)), "--engine", "pulumi", "--yes", "--format", "json")
    destroyed = platform.run(*command)
    assert destroyed.code == 0, destroyed.err
    assert cloud.since(mark).removed == {None: (2, 0), "train": (1, 4)}
    kept = {key.partition(" ")[0] for key in cloud.account.resources}
    assert kept == {"aws:cloudwatch/logGroup:LogGroup", "aws:kms/key:Key"}
