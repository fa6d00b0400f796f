"""Runs the program with the real Pulumi CLI and a simulated Azure subscription. Each change happens as its preview
states.

The tests run if `pulumi` and its Kubernetes provider are on PATH (CONTRIBUTING.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox import control_plane
from tests.e2e.conftest import VALIDATION_TIMEOUT, Platform
from tests.e2e.played import STACK, deploy, kill_up, platform_of_the_cloud, run_pulumi
from tests.support.played_cloud.account import SUBSCRIPTION
from tests.support.played_cloud.aks import autoscale
from tests.support.played_cloud.azure import AGENT_POOL
from tests.support.played_cloud.azure import CLUSTER as CLUSTERS
from tests.support.played_cloud.cloud import Happened, PlayedCloud, played_cloud
from tests.support.pulumi_cli import NEEDS_PULUMI

CLUSTER = "e2e-azure"
ADMINS = "1a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
MEMBERS = "2a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
STORAGE = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/data/providers/Microsoft.Storage/storageAccounts/mldata"
CONTAINER = f"{STORAGE}/blobServices/default/containers/datasets"
CREDENTIAL = "azure:armmsi/federatedIdentityCredential:FederatedIdentityCredential"

pytestmark = [
    pytest.mark.long,
    *NEEDS_PULUMI,
    pytest.mark.sandbox,
    pytest.mark.timeout(5400),  # takes 9 minutes for 20 runs of the CLI, or hours on a busy machine
    pytest.mark.xdist_group("e2e-played-azure"),
]


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[PlayedCloud]:
    folder = tmp_path / "cloud"
    folder.mkdir()
    with played_cloud(folder) as played:
        with played.changing() as account:
            account.put("azure:storage/container:Container", CONTAINER, {"name": "datasets"}, {})
        yield played
    control_plane.down(CLUSTER)


@pytest.fixture
def platform(cloud: PlayedCloud, tmp_path: Path) -> Platform:
    return platform_of_the_cloud(cloud, tmp_path)


@pytest.fixture
def stack() -> dict[str, Any]:
    return {
        "kind": "environment",
        "cluster": {
            "provider": "aks",
            "name": CLUSTER,
            "subscription": SUBSCRIPTION,
            "resource_group": "ml",
            "region": "eastus2",
            "kubernetes": "1.35",
            "create": {"admins": [ADMINS], "api_access": ["203.0.113.0/24"]},
        },
        "pools": [
            {
                "name": "train",
                "machine_type": "Standard_NC24ads_A100_v4",
                "count": {"desired": 2},
                "workload": "training",
                "zones": ["1"],
                "placement": {"type": "proximity"},
            },
            {
                "name": "serve",
                "machine_type": "Standard_NC4as_T4_v3",
                "count": {"min": 1, "desired": 1, "max": 3},
                "workload": "inference",
            },
        ],
        "teams": [
            {
                "name": "vision",
                "quota": {"gpus": 1, "cpu": 16, "memory": "100Gi"},
                "priority": "training",
                "members": [f"group:{MEMBERS}"],
                "identity": {"buckets": [{"name": "datasets", "storage_account": STORAGE}]},
            }
        ],
        "validation": {"timeout": VALIDATION_TIMEOUT},
    }


def order(happened: Happened) -> list[str]:
    """Return the changed parts of the cluster, each at its first node or control plane event: the control plane,
    the system nodes and the pools.
    """
    found = ("control plane" if one["what"] == "control plane" else one.get("pool") for one in happened.events)
    nodes = ("node created", "node removed", "control plane")
    events = [name or "system" for name, one in zip(found, happened.events, strict=True) if one["what"] in nodes]
    return list(dict.fromkeys(events))


def left(cloud: PlayedCloud) -> list[str]:
    """Return the IDs of all resources in the subscription."""
    return [key.partition(" ")[2] for key in cloud.account.resources]


def issuers(cloud: PlayedCloud, type_: str, name: str) -> list[str]:
    """Return the issuers of tokens that resources of a type name in an output."""
    return [resource["outputs"][name] for _, resource in cloud.account.of(type_)]


def destroy(platform: Platform) -> Any:
    return platform.run("destroy", str(platform.folder / f"Pulumi.{STACK}.yaml"), "--engine", "pulumi", "--yes")


def test_each_step_of_an_aks_clusters_life_matches_its_preview(
    cloud: PlayedCloud, platform: Platform, stack: dict[str, Any]
) -> None:
    created = deploy(platform, cloud, stack)
    assert created.pools == {}
    assert created.happened.created == {None: (3, 0), "train": (2, 2), "serve": (1, 1)}
    assert order(created.happened)[:2] == ["control plane", "system"]
    assert issuers(cloud, CREDENTIAL, "issuer") == issuers(cloud, CLUSTERS, "oidcIssuerUrl")

    again = deploy(platform, cloud, stack, preview=False)
    assert again.up.json["changes"]["changes"] == []
    assert again.happened.events == ()

    with cloud.changing() as account:
        autoscale(account, "serve", 2)
    stack["cluster"]["kubernetes"] = "1.36"
    upgraded = deploy(platform, cloud, stack)
    assert upgraded.pools == {"train": "rolled", "serve": "rolled"}
    assert upgraded.happened.created == {None: (3, 0), "train": (2, 2), "serve": (2, 2)}
    assert order(upgraded.happened)[:2] == ["control plane", "system"]
    # The pool in the proximity placement group is replaced without surge.
    assert upgraded.happened.most_missing == {"train": 1}

    refused = destroy(platform)
    assert refused.code == 2
    assert "cluster.protect" in refused.err
    mark = len(cloud.account.events)
    stack["pools"][0]["disk"] = {"size_gb": 300}
    protected = platform.up(stack)
    assert protected.code == 2
    assert "cluster.protect" in protected.err
    assert cloud.since(mark).events == ()
    del stack["pools"][0]["disk"]

    stack["cluster"]["protect"] = False
    unprotected = deploy(platform, cloud, stack, preview=False)
    assert unprotected.pools == {}
    assert unprotected.happened.created == unprotected.happened.removed == {}

    stack["pools"][0] |= {"count": {"desired": 3}, "labels": {"example.com/tier": "gold"}}
    stack["pools"][1]["labels"] = {"example.com/tier": "gold"}
    grown = deploy(platform, cloud, stack)
    assert grown.pools == {}
    assert grown.happened.created == {"train": (1, 1)}
    assert grown.happened.removed == {}, "new labels replace no node and keep the autoscaler's number of nodes"

    stack["pools"][0] |= {"count": {"desired": 1}}
    shrunk = deploy(platform, cloud, stack)
    assert shrunk.pools == {"train": "shrunk"}
    assert shrunk.happened.removed == {"train": (2, 2)}

    stack["pools"][0] |= {"disk": {"size_gb": 300}, "placement": {"type": "none"}}
    replaced = deploy(platform, cloud, stack)
    assert replaced.pools == {"train": "replaced"}
    assert replaced.happened.created == replaced.happened.removed == {"train": (1, 1)}

    del stack["pools"][1]
    removed = deploy(platform, cloud, stack)
    assert removed.pools == {"serve": "removed"}
    assert removed.happened.removed == {"serve": (2, 2)}

    stack["cluster"]["create"]["pods_cidr"] = "10.200.0.0/16"
    moved = deploy(platform, cloud, stack)
    assert moved.pools == {"train": "replaced"}
    assert moved.happened.created == moved.happened.removed == {None: (3, 0), "train": (1, 1)}
    assert issuers(cloud, CREDENTIAL, "issuer") == issuers(cloud, CLUSTERS, "oidcIssuerUrl")

    mark = len(cloud.account.events)
    destroyed = destroy(platform)
    assert destroyed.code == 0, destroyed.err
    assert cloud.since(mark).removed == {None: (3, 0), "train": (1, 1)}
    assert left(cloud) == [CONTAINER]


def test_an_up_that_was_killed_while_it_created_an_agent_pool_is_continued(
    cloud: PlayedCloud, platform: Platform, stack: dict[str, Any]
) -> None:
    stack["cluster"]["protect"] = False
    del stack["pools"][1]
    file = str(platform.write(stack))
    kill_up(platform, cloud, file, AGENT_POOL, "train")
    (orphan,) = cloud.node_groups("train")

    locked = platform.up(stack)
    assert locked.code == 3
    run_pulumi(platform, locked.err.partition("left its lock, run ")[2])
    mark = len(cloud.account.events)
    again = platform.up(stack)
    assert again.code == 3
    assert f"{AGENT_POOL} train" in again.err
    assert cloud.since(mark).events == ()

    cloud.delete(AGENT_POOL, orphan)
    run_pulumi(
        platform, again.err.partition("Delete the resources that exist, then run ")[2], "--config-file", file
    )
    continued = platform.up(stack)
    assert continued.code == 0, (continued.err, continued.json.get("validation"))
    assert cloud.since(mark).created == cloud.since(mark).removed == {"train": (2, 2)}

    stack["cluster"]["kubernetes"] = "1.36"
    file = str(platform.write(stack))
    mark = len(cloud.account.events)
    kill_up(platform, cloud, file, AGENT_POOL, "train")
    locked = platform.up(stack)
    assert locked.code == 3
    run_pulumi(platform, locked.err.partition("If it was killed, run ")[2])
    upgraded = platform.up(stack)
    assert upgraded.code == 0, (upgraded.err, upgraded.json.get("validation"))
    assert cloud.since(mark).created == {None: (3, 0), "train": (2, 2)}, "no node is upgraded a second time"
    assert destroy(platform).code == 0
    assert left(cloud) == [CONTAINER]


def test_an_agent_pool_that_failed_or_was_deleted_by_others_is_created_again(
    cloud: PlayedCloud, platform: Platform, stack: dict[str, Any]
) -> None:
    mark = len(cloud.account.events)
    with cloud.failing(AGENT_POOL, "serve"):
        failed = platform.up(stack)
    assert failed.code == 1
    assert "AllocationFailed" in failed.err
    repeated = platform.up(stack)
    assert repeated.code == 0, (repeated.err, repeated.json.get("validation"))
    # The failure stops the first `up`, which may have created the other pool before.
    assert cloud.since(mark).created == {None: (3, 0), "train": (2, 2), "serve": (1, 1)}
    assert len(cloud.node_groups("serve")) == 1

    (deleted,) = cloud.node_groups("train")
    cloud.delete(AGENT_POOL, deleted)
    mark = len(cloud.account.events)
    repaired = platform.up(stack)
    assert repaired.code == 0, (repaired.err, repaired.json.get("validation"))
    assert cloud.since(mark).created == {"train": (2, 2)}
