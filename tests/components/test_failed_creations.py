"""Cloud resources whose creation failed are deleted before they are created again."""

from __future__ import annotations

import json

import pytest

from gpu_platform.base.names import FAILED_VARIABLE
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import load_stack

NODE_POOL = "gcp:container/nodePool:NodePool"
AGENT_POOL = "azure:containerservice/kubernetesClusterNodePool:KubernetesClusterNodePool"


def deleted_first() -> set[str]:
    resources = record_stack(load_stack("gke-training")).resources
    return {one.name for one in resources if one.type == NODE_POOL and one.delete_before_replace}


def test_only_resources_that_failed_are_deleted_first(monkeypatch: pytest.MonkeyPatch) -> None:
    before = deleted_first()
    pools = {one.name for one in record_stack(load_stack("gke-training")).resources if one.type == NODE_POOL}
    (system,) = (name for name in pools if name.endswith("-system"))
    monkeypatch.setenv(FAILED_VARIABLE, json.dumps([f"{NODE_POOL}::{system}"]))
    assert deleted_first() == {*before, system}


def test_resources_that_failed_are_not_protected_from_their_replacement(monkeypatch: pytest.MonkeyPatch) -> None:
    def protected() -> set[str]:
        resources = record_stack(load_stack("aks-training")).resources
        return {one.name for one in resources if one.type == AGENT_POOL and one.protect}

    before = protected()
    assert "train" in before
    monkeypatch.setenv(FAILED_VARIABLE, json.dumps([f"{AGENT_POOL}::train"]))
    assert protected() == before - {"train"}
