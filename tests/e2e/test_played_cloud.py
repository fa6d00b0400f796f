"""Runs the program with the real Pulumi CLI and a simulated AWS account. Each change happens as its preview
states.

The tests run if `pulumi` and its Kubernetes provider are on PATH (CONTRIBUTING.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpu_platform.base.paths import sandbox_kubeconfig
from gpu_platform.live.client import KubernetesClient
from sandbox import control_plane
from tests.e2e.conftest import VALIDATION_TIMEOUT, Platform
from tests.e2e.played import STACK, deploy, kill_up, platform_of_the_cloud, run_pulumi
from tests.support.eventually import eventually
from tests.support.played_cloud.cloud import PlayedCloud, played_cloud
from tests.support.pulumi_cli import NEEDS_PULUMI

CLUSTER = "e2e-played"
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"

pytestmark = [
    pytest.mark.long,
    *NEEDS_PULUMI,
    pytest.mark.sandbox,
    pytest.mark.timeout(5400),  # takes 9 minutes for 17 runs of the CLI, or hours on a busy machine
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
    return platform_of_the_cloud(cloud, tmp_path)


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


def test_each_step_of_a_clusters_life_matches_its_preview(
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
    assert upgraded.happened.most_missing == {}, "each node's replacement is created before the node is removed"
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

    # The test runs `stop` and `start` itself, so the schedule names a day on which the test does not run.
    stack["pools"][1]["schedule"] = {
        "days": [another_day()],
        "start": "07:00",
        "stop": "20:00",
        "stops_work": True,
    }
    scheduled = deploy(platform, cloud, stack)
    assert "pools[1].schedule: pool serve has nodes" in scheduled.up.err
    assert scheduled.happened.created == scheduled.happened.removed == {}
    client = KubernetesClient(sandbox_kubeconfig(CLUSTER))
    client.create(notebook("serve"))
    eventually(lambda: running_on(client), [1])
    mark = len(cloud.account.events)
    cloud.run_scheduled("stop")
    assert cloud.since(mark).removed == {"serve": (1, 1)}
    eventually(lambda: running_on(client), [0])
    stack["pools"][0]["labels"] = {"example.com/tier": "a"}
    stack["pools"][1]["labels"] = {"example.com/tier": "b"}
    off = deploy(platform, cloud, stack, preview=False)
    assert off.happened.created == {}, "a stopped pool stays stopped if `up` changes other fields"
    assert running_on(client) == [0]
    mark = len(cloud.account.events)
    cloud.run_scheduled("start")
    assert cloud.since(mark).created == {"serve": (1, 1)}
    eventually(lambda: running_on(client), [1])

    del stack["pools"][1]
    removed = deploy(platform, cloud, stack)
    assert removed.pools == {"serve": "removed"}
    assert removed.happened.removed == {"serve": (1, 1)}

    stack["cluster"]["create"]["services_cidr"] = "10.200.0.0/16"
    moved = deploy(platform, cloud, stack)
    assert moved.pools == {"train": "replaced"}
    assert moved.happened.created == moved.happened.removed == {None: (2, 0), "train": (1, 4)}

    mark = len(cloud.account.events)
    command = ("destroy", str(platform.write(stack)), "--engine", "pulumi", "--yes", "--format", "json")
    destroyed = platform.run(*command)
    assert destroyed.code == 0, destroyed.err
    assert cloud.since(mark).removed == {None: (2, 0), "train": (1, 4)}
    kept = {key.partition(" ")[0] for key in cloud.account.resources}
    assert kept == {"aws:cloudwatch/logGroup:LogGroup", "aws:kms/key:Key"}


def test_an_up_that_was_killed_while_it_created_nodes_names_them_and_is_continued(
    cloud: PlayedCloud, platform: Platform, stack: dict[str, Any]
) -> None:
    stack["cluster"]["protect"] = False
    del stack["pools"][1]
    file = str(platform.write(stack))
    kill_up(platform, cloud, file, NODE_GROUP, "train")
    (orphan,) = cloud.node_groups("train")

    locked = platform.up(stack)
    assert locked.code == 3
    run_pulumi(platform, locked.err.partition("left its lock, run ")[2])
    mark = len(cloud.account.events)
    for again in (platform.run("preview", file, "--engine", "pulumi"), platform.up(stack)):
        assert again.code == 3
        assert "aws:eks/nodeGroup:NodeGroup train" in again.err
        clear = again.err.partition("Delete the resources that exist, then run ")[2]
    assert cloud.since(mark).events == (), "nothing is created a second time"

    cloud.delete(NODE_GROUP, orphan)
    run_pulumi(platform, clear, "--config-file", file)  # the Pulumi command also writes to the stack file
    continued = platform.up(stack)
    assert continued.code == 0, (continued.err, continued.json.get("validation"))
    assert continued.json["validation"]["verdict"] == "pass"
    assert len(cloud.node_groups("train")) == 1
    assert cloud.since(mark).created == cloud.since(mark).removed == {"train": (2, 8)}
    assert platform.run("destroy", file, "--engine", "pulumi", "--yes").code == 0


def another_day() -> str:
    """Return the name of a weekday that is not yesterday, today or tomorrow in any time zone."""
    return f"{datetime.now(UTC) + timedelta(days=3):%a}".lower()


def notebook(pool: str) -> dict[str, Any]:
    """Return a Deployment with one pod that requests a GPU from a pool."""
    container = {"name": "main", "image": "jupyter", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    spec = {
        "nodeSelector": {"gpu-platform.dev/pool": pool},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    }
    labels = {"app": "notebook"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "notebook", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def running_on(client: KubernetesClient) -> list[int]:
    """Return a number for each pod of the notebook: 1 if the pod has a node, and 0 while it waits."""
    pods = client.objects("v1", "Pod", namespace="default", label_selector="app=notebook")
    return [int("nodeName" in pod["spec"]) for pod in pods]
