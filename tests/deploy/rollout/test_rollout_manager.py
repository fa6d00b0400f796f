"""A node gets its new MIG config only from a MIG manager that has read this config."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

from gpu_platform.base import names
from gpu_platform.deploy.rollout.node import NodeRoll
from gpu_platform.deploy.rollout.plan import NodeChange
from gpu_platform.live.client import KubernetesClient
from gpu_platform.planning.sharing.section import MigRollPlan
from tests.deploy.rollout.live_objects import OLD_CONFIG, node

NEW_CONFIG = "lab-9876543210"
CONFIGS_CHANGED = "2026-11-26T10:00:00Z"
RULES = MigRollPlan(drains=True, max_unavailable=1, drain_timeout_seconds=900)
CHANGE = NodeChange(
    node="lab-0",
    pool="lab",
    old=OLD_CONFIG,
    new=NEW_CONFIG,
    labels={names.MIG_CONFIG_LABEL: NEW_CONFIG},
    allocatable={},
    drains=True,
)


def manager(created: str, *, ready: bool) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {"metadata": {"name": "manager", "creationTimestamp": created}, "status": {"conditions": conditions}}


class Cluster:
    """A fake cluster with one node, MIG manager pods and no user pods. It records what is applied to the node."""

    def __init__(self, *managers: dict[str, Any]) -> None:
        self.managers = list(managers)
        self.applied: list[dict[str, str]] = []

    def get(self, *_: str) -> dict[str, Any]:
        return node("lab-0")

    def objects(self, *_: str, label_selector: str = "", **__: str) -> Iterator[dict[str, Any]]:
        return iter(self.managers if names.MIG_MANAGER_APP in label_selector else ())

    def delete(self, live: dict[str, Any]) -> None:
        # The pod is still listed until it has terminated.
        # Lists that were returned earlier do not change.
        leaving = {**live, "metadata": {**live["metadata"], "deletionTimestamp": "2026-11-26T10:01:00Z"}}
        self.managers = [leaving if one is live else one for one in self.managers]

    def apply(self, manifest: dict[str, Any], **_: str) -> None:
        self.applied.append(manifest["metadata"]["labels"])

    @property
    def configs(self) -> list[str]:
        return [labels[names.MIG_CONFIG_LABEL] for labels in self.applied if names.MIG_CONFIG_LABEL in labels]


def test_a_config_is_requested_only_from_a_manager_that_has_read_it() -> None:
    cluster = Cluster(manager("2026-11-26T09:00:00Z", ready=True))
    roll = NodeRoll(cast("KubernetesClient", cluster), CHANGE, RULES, "prod", CONFIGS_CHANGED)

    for _ in range(6):
        roll.step()
    assert cluster.configs == [], "the old manager has stopped, and no new one is running"

    cluster.managers = [manager("2026-11-26T10:01:02Z", ready=False)]
    roll.step()
    assert cluster.configs == []

    cluster.managers = [manager("2026-11-26T10:01:02Z", ready=True)]
    roll.step()
    assert cluster.configs == [NEW_CONFIG]


class Stuck(Cluster):
    """A fake cluster whose node has the desired config. The node's MIG manager has stopped without a result."""

    def get(self, *_: str) -> dict[str, Any]:
        return node("lab-0", NEW_CONFIG, state="pending", unschedulable=True)


def test_a_stuck_mig_manager_is_restarted_once_with_the_same_config() -> None:
    cluster = Stuck(manager("2026-11-26T10:00:01Z", ready=True))
    change = replace(CHANGE, begun=True, failed=True, stuck=True)
    roll = NodeRoll(cast("KubernetesClient", cluster), change, RULES, "prod", CONFIGS_CHANGED)
    for _ in range(6):
        roll.step()
    assert cluster.configs == []
    assert "deletionTimestamp" in cluster.managers[0]["metadata"]

    cluster.managers = [manager("2026-11-26T10:02:00Z", ready=True)]
    roll.step()
    assert cluster.configs == [f"{NEW_CONFIG}-again"], "the new value of the label makes the manager act again"
    assert "deletionTimestamp" not in cluster.managers[0]["metadata"]


def test_a_manager_that_is_younger_than_its_configs_is_not_restarted() -> None:
    cluster = Cluster(manager("2026-11-26T10:00:01Z", ready=True))
    roll = NodeRoll(cast("KubernetesClient", cluster), CHANGE, RULES, "prod", CONFIGS_CHANGED)

    for _ in range(6):
        roll.step()

    assert "deletionTimestamp" not in cluster.managers[0]["metadata"]
    assert cluster.configs == [NEW_CONFIG]
