"""`up` waits for all objects in parallel, so a pool or team that is not ready does not delay the others."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.progress import Progress
from gpu_platform.deploy.embedded.apply import apply
from gpu_platform.deploy.embedded.wait import NotReady
from tests.deploy.conftest import Stack, config_map, limited, namespace, node, workload
from tests.deploy.test_lock import Said
from tests.support.eventually import DEADLINES_SECONDS

# A separate group, so that these tests run in parallel with the other tests of the folder.
pytestmark = [pytest.mark.long, pytest.mark.xdist_group("sandbox-engine-drift")]


def never(name: str, timeout: str, **item: Any) -> dict[str, Any]:
    """Return a node that never becomes ready, because the condition that the program waits for is never met."""
    declared = node(name)
    declared["manifest"]["metadata"]["annotations"]["pulumi.com/waitFor"] = "jsonpath={.status.colour}=red"
    return {**declared, "timeouts": {"create": timeout}, **item}


def up(stack: Stack, objects: list[dict[str, Any]], progress: Progress) -> None:
    apply(stack.client, stack.recorded(objects), progress)


def gate(pool: str) -> dict[str, Any]:
    return workload("DaemonSet", f"gate-{pool}", "engine-a", {"nodeSelector": {"pool": pool}})


def test_dependents_of_a_ready_pool_do_not_wait_for_other_pools(stack: Stack) -> None:
    waiting = never("engine-n1", "2s")
    objects = [
        namespace("engine-a"),
        waiting,
        node("engine-n2", {"pool": "b"}),
        {**gate("a"), "depends_on": ["Node-engine-n1"]},
        {**gate("b"), "depends_on": ["Node-engine-n2"]},
        {**config_map("after-b", "engine-a"), "depends_on": ["DaemonSet-gate-b"]},
        {**config_map("after-a", "engine-a"), "depends_on": ["DaemonSet-gate-a"]},
    ]

    def is_applied(name: str) -> bool:
        return stack.client.get("v1", "ConfigMap", name, "engine-a") is not None

    for seconds in DEADLINES_SECONDS:
        waiting |= limited(seconds)
        with pytest.raises(NotReady) as caught:
            up(stack, objects, Said())
        assert [unready.key.name for unready in caught.value.unready] == ["engine-n1"]
        if is_applied("after-b"):
            assert "2 of 7 objects were not applied: 2 in namespace engine-a" in str(caught.value)
            break

    assert is_applied("after-b")
    assert stack.client.get("apps/v1", "DaemonSet", "gate-a", "engine-a") is None
    assert stack.client.get("v1", "ConfigMap", "after-a", "engine-a") is None


def test_a_ready_gate_is_reported_and_the_failure_names_only_the_other(
    stack: Stack,
) -> None:
    said = Said()
    resources = {"limits": {"nvidia.com/never": "1"}}
    pod = {"containers": [{"name": "main", "image": "app:1", "resources": resources}]}
    broken = workload("DaemonSet", "gate-a", "engine-a", {**pod, "nodeSelector": {"pool": "a"}})
    ready = gate("b")
    objects = [
        namespace("engine-a"),
        node("engine-n1", {"pool": "a"}),
        node("engine-n2", {"pool": "b"}),
        broken,
        ready,
        {**config_map("proof", "engine-a"), "depends_on": ["DaemonSet-gate-a", "DaemonSet-gate-b"]},
    ]

    reported = "ready: DaemonSet.apps gate-b in namespace engine-a; 1 not ready yet"
    for seconds in DEADLINES_SECONDS:
        broken |= limited(seconds)
        with pytest.raises(NotReady) as caught:
            up(stack, objects, said)
        if reported in said.lines:
            assert [unready.key.name for unready in caught.value.unready] == ["gate-a"]
            assert "gate-b" not in str(caught.value)
            break
        stack.destroy()

    assert reported in said.lines


def test_objects_that_still_have_time_are_counted_and_not_named(stack: Stack) -> None:
    with pytest.raises(NotReady, match=r"\(1 more object is not ready yet\)") as caught:
        up(stack, [never("engine-n1", "2s"), never("engine-n2", "1h")], Said())

    assert [unready.key.name for unready in caught.value.unready] == ["engine-n1"]
