"""What the embedded engine creates, changes, prunes, replaces and waits for on a real API server."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput, ExitCode, Finding
from gpu_platform.deploy.changes import Action, Changes
from gpu_platform.deploy.embedded.apply import apply
from gpu_platform.deploy.embedded.applyset import ApplySet, stack_outputs
from gpu_platform.deploy.embedded.wait import NotReady
from gpu_platform.live.client import KubernetesClient, Refused
from gpu_platform.live.objects import ObjectKey
from sandbox.control_plane import Status
from tests.deploy.conftest import Objects, Record, Stack, config_map, limited, namespace, node, workload
from tests.support.eventually import DEADLINES_SECONDS, eventually
from tests.support.terminating import finalized_at_once

PARTS: Objects = [
    namespace("engine-a"),
    config_map("one", "engine-a"),
    config_map("two", "engine-a"),
    config_map("three", "default"),
]


def actions(changes: Changes) -> dict[str, str]:
    return {change.key.name: change.action.value for change in changes.changes}


def exists(client: KubernetesClient, kind: str, name: str, place: str = "") -> bool:
    return client.get("apps/v1" if kind in ("Deployment", "DaemonSet") else "v1", kind, name, place) is not None


def test_the_first_apply_creates_everything_and_the_second_changes_nothing(stack: Stack) -> None:
    first = stack.up(PARTS)
    before = {name: stack.client.get("v1", "ConfigMap", name, "engine-a") for name in ("one", "two")}
    second = stack.up(PARTS)

    assert set(actions(first).values()) == {"create"}
    assert second.is_empty
    assert {name: stack.client.get("v1", "ConfigMap", name, "engine-a") for name in ("one", "two")} == before


def test_objects_unchanged_in_the_runs_preview_are_not_applied(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack.up(PARTS)
    previewed = stack.preview(PARTS)
    sent = written(stack.client, monkeypatch)

    changes = apply(stack.client, stack.recorded(PARTS), previewed=previewed)

    assert actions(changes) == dict.fromkeys(actions(previewed), "unchanged")
    assert not [manifest for manifest in sent if manifest["metadata"]["name"] in actions(previewed)]
    assert stack.preview(PARTS).is_empty, "the run recorded the same states as the run before"


def test_what_only_a_dry_run_saw_unchanged_is_not_applied_again(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack.up(PARTS)
    with pytest.raises(Refused):  # a failed run leaves no recorded states
        stack.up([*PARTS, config_map("Not a name", "engine-a")])
    previewed = stack.preview(PARTS)
    sent = written(stack.client, monkeypatch)

    apply(stack.client, stack.recorded(PARTS), previewed=previewed)

    assert not [manifest for manifest in sent if manifest["metadata"]["name"] in actions(previewed)]


def test_objects_unchanged_since_the_last_run_need_no_dry_run(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack.up([*PARTS, config_map("four", "engine-a")])
    stack.client.merge(config_map("two", "engine-a", {"a": "by hand"})["manifest"])
    sent = written(stack.client, monkeypatch)

    changes = stack.preview([*PARTS, config_map("four", "engine-a", {"a": "2"})])

    assert {name for name, action in actions(changes).items() if action == "update"} == {"two", "four"}
    tried = [manifest["metadata"]["name"] for manifest in sent]
    assert {"two", "four"} <= set(tried), "the object that somebody changed, and the object with a new declaration"
    assert "one" not in tried


def test_a_run_that_ends_early_leaves_no_states_to_the_next_one(stack: Stack) -> None:
    stack.up(PARTS)
    members = ApplySet(stack.client, stack.name)
    assert object_named("one", members.read_parent().states)
    with pytest.raises(Refused):
        stack.up([*PARTS, config_map("Not a name", "engine-a")])
    assert not members.read_parent().states


def test_no_digest_of_an_object_with_secrets_is_kept(stack: Stack) -> None:
    metadata = {"name": "password", "namespace": "default"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"a": "1234"}}
    stack.up([{"manifest": secret}, config_map("one", "default")])
    states = ApplySet(stack.client, stack.name).read_parent().states
    assert object_named("one", states)
    assert not object_named("password", states)


def object_named(name: str, states: Mapping[ObjectKey, str]) -> bool:
    return any(key.name == name for key in states)


def test_what_somebody_changed_after_the_preview_is_applied(stack: Stack) -> None:
    stack.up(PARTS)
    previewed = stack.preview(PARTS)
    stack.client.merge(config_map("two", "engine-a", {"a": "by hand"})["manifest"])

    changes = apply(stack.client, stack.recorded(PARTS), previewed=previewed)

    assert {name for name, action in actions(changes).items() if action == "update"} == {"two"}
    assert _live(stack, "two", "engine-a")["data"] == {"a": "1"}


def test_objects_that_differ_from_the_preview_are_applied(stack: Stack) -> None:
    stack.up(PARTS)
    previewed = stack.preview(PARTS)
    changed = [*PARTS[:2], config_map("two", "engine-a", {"a": "2"}), PARTS[3]]

    changes = apply(stack.client, stack.recorded(changed), previewed=previewed)

    assert {name for name, action in actions(changes).items() if action == "update"} == {"two"}


def written(client: KubernetesClient, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that records every manifest that the client applies from now on."""
    sent: list[Any] = []
    through = client.apply

    def apply_and_tell(manifest: Any, **options: Any) -> dict[str, Any]:
        sent.append(manifest)
        return through(manifest, **options)

    monkeypatch.setattr(client, "apply", apply_and_tell)
    return sent


def test_a_changed_field_is_an_update_that_names_the_field(stack: Stack) -> None:
    stack.up([config_map("one", "default", {"replicas": "4", "same": "x"})])

    changes = stack.up([config_map("one", "default", {"replicas": "2", "same": "x"})])

    assert [str(field) for field in changes.changes[0].fields] == ['data.replicas: "4" → "2"']
    assert _live(stack, "one")["data"] == {"replicas": "2", "same": "x"}


def test_a_field_that_is_no_longer_declared_is_taken_away(stack: Stack) -> None:
    stack.up([config_map("one", "default", {"a": "1", "b": "2"})])

    changes = stack.up([config_map("one", "default", {"a": "1"})])

    assert [str(field) for field in changes.changes[0].fields] == ['data.b: "2" → (not set)']
    assert _live(stack, "one")["data"] == {"a": "1"}


def test_what_controllers_write_is_no_change_and_stays(stack: Stack) -> None:
    stack.up([config_map("one", "default", {"a": "1"})])
    stack.client.merge(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "one", "namespace": "default", "labels": {"written-by": "a-controller"}},
        }
    )

    assert stack.up([config_map("one", "default", {"a": "1"})]).is_empty
    assert _live(stack, "one")["metadata"]["labels"]["written-by"] == "a-controller"


def test_a_declared_field_that_somebody_changed_is_restored(stack: Stack) -> None:
    stack.up([config_map("one", "default", {"a": "1"})])
    stack.client.merge(config_map("one", "default", {"a": "2"})["manifest"])

    changes = stack.up([config_map("one", "default", {"a": "1"})])

    assert [str(field) for field in changes.changes[0].fields] == ['data.a: "2" → "1"']


def test_removing_one_object_deletes_it_and_no_other_of_any_stack(
    stack: Stack, stacks: Callable[[str], Stack]
) -> None:
    other = stacks("engine-other")
    other.up([config_map("theirs", "default"), namespace("engine-theirs"), config_map("one", "engine-theirs")])
    stack.client.create(config_map("nobodys", "default")["manifest"])
    stack.up(PARTS)

    changes = stack.up([part for part in PARTS if part["manifest"]["metadata"]["name"] != "one"])
    stack.client.delete(_live(stack, "nobodys"))

    assert {name for name, action in actions(changes).items() if action == "delete"} == {"one"}
    assert not exists(stack.client, "ConfigMap", "one", "engine-a")
    assert exists(stack.client, "ConfigMap", "two", "engine-a")
    assert other.up(
        [config_map("theirs", "default"), namespace("engine-theirs"), config_map("one", "engine-theirs")]
    ).is_empty


def _live(stack: Stack, name: str, place: str = "default") -> dict[str, Any]:
    live = stack.client.get("v1", "ConfigMap", name, place)
    assert live is not None
    return live


def test_removing_the_last_object_of_a_kind_deletes_it(stack: Stack) -> None:
    stack.up([config_map("one", "default"), node("engine-n1")])

    changes = stack.up([config_map("one", "default")])

    assert actions(changes) == {"one": "unchanged", "engine-n1": "delete"}
    assert not exists(stack.client, "Node", "engine-n1")


def test_an_object_of_another_stack_is_not_taken_over(stack: Stack, stacks: Callable[[str], Stack]) -> None:
    stacks("engine-other").up([config_map("one", "default")])

    with pytest.raises(Finding, match="ConfigMap one in namespace default already exists and belongs to another"):
        stack.up([config_map("one", "default")])


def test_an_object_that_nobody_manages_is_not_taken_over(stack: Stack) -> None:
    with pytest.raises(Finding, match=r"kube-root-ca.crt .*already exists and is not managed by this engine"):
        stack.up([config_map("kube-root-ca.crt", "default")])


def test_an_immutable_field_replaces_the_object_and_says_why(stack: Stack) -> None:
    stack.up([config_map("fixed", "default", {"a": "1"}, immutable=True)])
    before = _live(stack, "fixed")["metadata"]

    changes = stack.up([config_map("fixed", "default", {"a": "2"}, immutable=True)])

    (change,) = changes.changes
    assert (change.action, "immutable" in change.reason) == (Action.REPLACE, True)
    assert [str(field) for field in change.fields] == ['data.a: "1" → "2"']
    assert _live(stack, "fixed")["metadata"]["uid"] != before["uid"]


def test_a_workload_whose_selector_changes_is_replaced_with_its_pods(stack: Stack) -> None:
    first, second = workload("Deployment", "web", "default"), workload("Deployment", "web", "default")
    second["manifest"]["spec"]["selector"]["matchLabels"] = {"app": "web", "tier": "2"}
    second["manifest"]["spec"]["template"]["metadata"]["labels"] = {"app": "web", "tier": "2"}
    stack.up([node("engine-n1"), first])

    changes = stack.up([node("engine-n1"), second])

    assert actions(changes) == {"engine-n1": "unchanged", "web": "replace"}
    pods = list(stack.client.objects("v1", "Pod", namespace="default", label_selector="app=web"))
    assert [pod["metadata"]["labels"].get("tier") for pod in pods] == ["2"]


def test_an_invalid_object_is_refused_instead_of_replaced(stack: Stack) -> None:
    good, bad = workload("Deployment", "web", "default"), workload("Deployment", "web", "default")
    bad["manifest"]["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
    stack.up([node("engine-n1"), good])

    with pytest.raises(Refused, match=r"Deployment.apps web in namespace default: .*template.metadata.labels"):
        stack.up([node("engine-n1"), bad])
    assert exists(stack.client, "Deployment", "web", "default")


def test_a_field_that_the_api_does_not_know_is_refused_by_its_path(stack: Stack) -> None:
    wrong = workload("Deployment", "web", "default", replicass=3)

    with pytest.raises(Refused, match=r"Deployment.apps web in namespace default: .*\.spec\.replicass") as caught:
        stack.up([wrong])
    assert caught.value.exit_code is ExitCode.FINDING


def test_objects_applied_before_a_refusal_stay_and_the_next_run_continues(stack: Stack) -> None:
    wrong = config_map("two", "default", {"a": "1"}, nonsense=True)
    with pytest.raises(Refused):
        stack.up([config_map("one", "default"), wrong])

    changes = stack.up([config_map("one", "default"), config_map("two", "default")])

    assert actions(changes) == {"one": "unchanged", "two": "create"}


def test_a_namespace_comes_before_what_was_registered_ahead_of_it(stack: Stack) -> None:
    changes = stack.up([config_map("one", "engine-a"), namespace("engine-a")])

    assert [change.key.name for change in changes.changes] == ["engine-a", "one"]


def test_an_object_without_a_namespace_goes_to_default_and_is_found_again(stack: Stack) -> None:
    plain = config_map("one", "")
    stack.up([plain])

    assert exists(stack.client, "ConfigMap", "one", "default")
    assert stack.up([plain]).is_empty
    assert actions(stack.up([config_map("two", "")])) == {"two": "create", "one": "delete"}


def test_a_kind_can_be_defined_and_used_in_one_stack(stack: Stack) -> None:
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "shelves.engine.example.com"},
        "spec": {
            "group": "engine.example.com",
            "scope": "Cluster",
            "names": {"kind": "Shelf", "plural": "shelves", "singular": "shelf"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                    },
                }
            ],
        },
    }
    shelf = {"apiVersion": "engine.example.com/v1", "kind": "Shelf", "metadata": {"name": "top"}, "size": 3}
    objects: Objects = [{"manifest": shelf}, {"manifest": definition}]

    assert actions(stack.preview(objects)) == {"shelves.engine.example.com": "create", "top": "create"}
    assert set(actions(stack.up(objects)).values()) == {"create"}
    assert stack.up(objects).is_empty
    stack.destroy()
    assert stack.client.find_resource("engine.example.com/v2", "Shelf") is None


def test_a_kind_that_the_cluster_does_not_have_is_a_clear_error(stack: Stack) -> None:
    unknown = {"apiVersion": "kueue.example.com/v1", "kind": "Queue", "metadata": {"name": "a"}}

    with pytest.raises(Finding, match=r"does not have the kind Queue of kueue.example.com/v1: .*not installed"):
        stack.up([{"manifest": unknown}])


def test_a_secret_is_applied_in_full_and_reported_hidden(stack: Stack) -> None:
    def secret(text: str) -> dict[str, Any]:
        metadata = {"name": "token", "namespace": "default"}
        return {
            "manifest": {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"t": text}}
        }

    stack.up([secret("hunter2")])
    assert stack.up([secret("hunter2")]).is_empty
    changes = stack.up([secret("hunter3")])

    live = stack.client.get("v1", "Secret", "token", "default")
    assert live is not None
    assert live["data"] == {"t": "aHVudGVyMw=="}
    assert [str(field) for field in changes.changes[0].fields] == ['data.t: "[secret]" → "[secret]"']


def test_outputs_are_kept_for_other_stacks_without_the_secret_ones(
    sandbox: Status, client: KubernetesClient, record: Record
) -> None:
    recorded = record("small", stack="engine-outputs", preview=False)
    deployable = [r for r in recorded.resources if r.type.endswith(("Stack", "Namespace", "Secret"))]
    recorded = type(recorded)(
        recorded.project, recorded.stack, tuple(deployable), recorded.outputs, recorded.secret_outputs
    )
    stack = Stack("engine-outputs", client, record)
    try:
        apply(client, recorded)
        assert stack_outputs(client, "organization/gpu-platform/engine-outputs") == {
            "team": "vision",
            "share": 0.5,
        }
    finally:
        with finalized_at_once(sandbox.kubeconfig):
            stack.destroy()
    assert stack_outputs(client, "engine-outputs") is None


def test_outputs_of_the_last_whole_run_stay_while_the_next_one_fails(stack: Stack) -> None:
    stack.up([config_map("one", "default")], {"gpus": 16})
    with pytest.raises(Refused):
        stack.up([config_map("one", "default", {"a": "1"}, nonsense=True)], {"gpus": 8})

    assert stack_outputs(stack.client, stack.name) == {"gpus": 16}


def test_a_workload_is_waited_for_before_what_depends_on_it_is_applied(stack: Stack) -> None:
    web = {**workload("Deployment", "web", "default"), "timeouts": {"create": "2s"}}
    late = {**config_map("late", "default"), "depends_on": ["Deployment-web"]}

    with pytest.raises(NotReady):
        stack.up([web, late])  # the cluster has no nodes, so no pod starts
    assert exists(stack.client, "Deployment", "web", "default")
    assert not exists(stack.client, "ConfigMap", "late", "default")


def not_ready_with(reason: str, stack: Stack, declared: dict[str, Any], others: Objects) -> NotReady:
    """Return the NotReady error that contains this reason. Longer timeouts are tried, because controllers may be
    slow.
    """
    for seconds in DEADLINES_SECONDS:
        with pytest.raises(NotReady) as caught:
            stack.up([*others, declared | limited(seconds)])
        if reason in str(caught.value):
            return caught.value
    pytest.fail(f"{reason!r} does not appear in any of the errors")


def test_a_workload_that_is_not_ready_in_time_says_why_and_for_how_long(stack: Stack) -> None:
    resources = {"limits": {"nvidia.com/gpu.shared": "1"}}
    pod = {"containers": [{"name": "main", "image": "app:1", "resources": resources}]}
    web = workload("Deployment", "web", "default", pod)
    stack.up([node("engine-n1")])

    error = not_ready_with("Insufficient nvidia.com/gpu.shared", stack, web, [node("engine-n1")])

    assert re.search(r"Deployment\.apps web in namespace default: after \d+ s", str(error))
    assert error.exit_code is ExitCode.FINDING


def test_a_pod_that_a_quota_refuses_is_recognised_from_the_events(stack: Stack) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": "default"},
        "spec": {"hard": {"pods": "0"}},
    }
    web = {**workload("Deployment", "web", "default"), "depends_on": ["quota"]}

    not_ready_with("exceeded quota: none", stack, web, [{"manifest": quota, "name": "quota"}])


def test_a_daemon_set_is_ready_once_a_pod_is_on_every_node_that_it_belongs_on(stack: Stack) -> None:
    nodes = [node(f"engine-n{index}", {"pool": "train"}) for index in range(3)]
    agent = workload("DaemonSet", "agent", "default", {"nodeSelector": {"pool": "train"}})

    stack.up([*nodes, node("engine-other"), agent])

    live = stack.client.get("apps/v1", "DaemonSet", "agent", "default")
    assert live is not None
    assert live["status"]["numberReady"] == 3


def test_a_daemon_set_without_a_node_is_ready_at_once(stack: Stack) -> None:
    agent = workload("DaemonSet", "agent", "default", {"nodeSelector": {"pool": "nowhere"}})

    assert actions(stack.up([agent])) == {"agent": "create"}


def test_an_object_that_skips_waiting_is_not_waited_for(stack: Stack) -> None:
    web = workload("Deployment", "web", "default")
    web["manifest"]["metadata"]["annotations"] = {"pulumi.com/skipAwait": "true"}

    assert actions(stack.up([web])) == {
        "web": "create"
    }  # the cluster has no nodes, so the Deployment is never available


def test_a_condition_of_the_program_is_waited_for(stack: Stack) -> None:
    never = node("engine-n1")
    never["manifest"]["metadata"]["annotations"]["pulumi.com/waitFor"] = "jsonpath={.status.colour}=red"
    never["timeouts"] = {"create": "2s"}

    with pytest.raises(NotReady, match=r"status\.colour is None, not yet red"):
        stack.up([never])


def test_a_run_killed_in_the_middle_is_finished_by_the_next_and_leaves_no_orphan(
    stack: Stack, sandbox: Status, tmp_path: Path
) -> None:
    old = [namespace("engine-a"), *(config_map(f"old-{index}", "engine-a") for index in range(20))]
    stack.up(old)
    new = [
        namespace("engine-a"),
        *(config_map(f"new-{index}", "engine-a") for index in range(300)),
        {
            "manifest": {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "s", "namespace": "default"},
            }
        },
    ]
    process = _apply_in_a_process(stack, new, sandbox, tmp_path)
    eventually(lambda: exists(stack.client, "ConfigMap", "new-20", "engine-a"))
    process.kill()
    process.wait()
    assert not exists(stack.client, "ServiceAccount", "s", "default"), (
        "the process had applied all objects before it was killed"
    )

    changes = stack.up(new)
    assert changes.count(Action.UNCHANGED) >= 20
    assert changes.by_kind(Action.DELETE) == {"ConfigMap": 20}
    assert stack.up(new).is_empty


def test_an_orphan_of_a_killed_run_is_pruned_even_if_its_kind_is_unused(
    stack: Stack, sandbox: Status, tmp_path: Path
) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s", "namespace": "default"}}
    many = [{"manifest": account}, *(config_map(f"new-{index}", "default") for index in range(300))]
    process = _apply_in_a_process(stack, many, sandbox, tmp_path)
    eventually(lambda: exists(stack.client, "ConfigMap", "new-5", "default"))
    process.kill()
    process.wait()

    stack.up([config_map("other", "default")])

    assert not exists(stack.client, "ServiceAccount", "s", "default")
    assert not exists(stack.client, "ConfigMap", "new-0", "default")


def _apply_in_a_process(
    stack: Stack, objects: Objects, sandbox: Status, tmp_path: Path
) -> subprocess.Popen[bytes]:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"objects": objects}))
    script = """
import pathlib, sys
from gpu_platform.deploy.embedded.apply import apply
from gpu_platform.live.client import KubernetesClient
from gpu_platform.deploy.recorded.record import record_program
program, config, kubeconfig, stack = sys.argv[1:]
platform = {"gpu-platform:platform": pathlib.Path(config).read_text()}
recorded = record_program(
    pathlib.Path(program), project="gpu-platform", stack=stack, config=platform, preview=False
)
apply(KubernetesClient(pathlib.Path(kubeconfig)), recorded)
"""
    program = Path(__file__).parent / "programs/objects.py"
    return subprocess.Popen([sys.executable, "-c", script, program, config, sandbox.kubeconfig, stack.name])


@pytest.mark.parametrize("previews", [True, False])
def test_a_terminating_namespace_is_waited_for_and_created_again(stack: Stack, previews: bool) -> None:
    objects = [namespace("engine-a"), config_map("one", "engine-a")]
    stack.up(objects)
    live = stack.client.get("v1", "Namespace", "engine-a")
    assert live is not None
    stack.client.delete(live)
    previewed = stack.preview(objects) if previews else None

    changes = apply(stack.client, stack.recorded(objects), previewed=previewed)

    assert actions(changes)["engine-a"] == "create"
    assert exists(stack.client, "ConfigMap", "one", "engine-a")


def test_a_stack_with_cloud_resources_is_refused_and_names_the_pulumi_cli(
    client: KubernetesClient, record: Record
) -> None:
    recorded = record("cloud", preview=True)

    with pytest.raises(BadInput, match=r"aws:eks/cluster:Cluster.*Pulumi CLI"):
        apply(client, recorded)


def test_the_parent_object_follows_the_apply_set_specification(stack: Stack) -> None:
    stack.up(PARTS)

    (parent,) = (
        live
        for live in stack.client.objects(
            "v1", "ConfigMap", namespace="kube-system", label_selector="applyset.kubernetes.io/id"
        )
        if live["metadata"]["labels"]["gpu-platform.dev/stack"] == stack.name
    )
    annotations = parent["metadata"]["annotations"]
    assert annotations["applyset.kubernetes.io/contains-group-kinds"] == "ConfigMap,Namespace"
    assert annotations["applyset.kubernetes.io/additional-namespaces"] == "default,engine-a"
    members = stack.client.objects(
        "v1",
        "ConfigMap",
        label_selector=f"applyset.kubernetes.io/part-of={parent['metadata']['labels']['applyset.kubernetes.io/id']}",
    )
    assert {live["metadata"]["name"] for live in members} == {"one", "two", "three"}
