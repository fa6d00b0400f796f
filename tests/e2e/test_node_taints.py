"""Cordons and taints by people, autoscalers and Kubernetes are not drift, but the stack's taints are repaired."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from gpu_platform.deploy.taints import repair_taints
from gpu_platform.live.client import Refused
from tests.e2e.conftest import Platform
from tests.e2e.impersonation import member
from tests.support.eventually import eventually
from tests.support.recorded import record_platform

pytestmark = [pytest.mark.long, pytest.mark.sandbox, pytest.mark.xdist_group("e2e-taints")]

NODE = "serve-0"
GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
SCALER = {"key": "ToBeDeletedByClusterAutoscaler", "value": "1795374307", "effect": "NoSchedule"}
PERSON = {"key": "ops.example.com/repair", "value": "ticket-7", "effect": "NoSchedule"}
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def taints(platform: Platform) -> list[dict[str, Any]]:
    node = platform.client.get("v1", "Node", NODE)
    assert node is not None
    found = node["spec"].get("taints") or []
    return [{key: value for key, value in taint.items() if key != "timeAdded"} for taint in found]


def change(platform: Platform, **spec: Any) -> None:
    """Change the node as `kubectl cordon` and `kubectl taint` do."""
    platform.client.merge({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "spec": spec})


@pytest.fixture
def cordoned(deployed: Platform) -> Iterator[Platform]:
    """The deployed stack, with a cordoned node that also has taints set by an autoscaler and by a person."""
    change(deployed, unschedulable=True)
    eventually(lambda: CORDON in taints(deployed))
    change(deployed, taints=[*taints(deployed), SCALER, PERSON])
    yield deployed
    change(deployed, unschedulable=None, taints=[GPU])
    eventually(lambda: taints(deployed) == [GPU])


def preview(platform: Platform, stack: dict[str, Any], *options: str) -> Any:
    return platform.run("preview", str(platform.write(stack)), "--engine", "embedded", *options)


def test_neither_preview_nor_up_lists_or_removes_a_cordon_or_a_taint_of_others(
    cordoned: Platform, base: dict[str, Any]
) -> None:
    seen = preview(cordoned, base, "--format", "json")
    assert seen.json["changes"]["changes"] == []
    ran = cordoned.up(base)
    assert ran.code == 0, ran.err
    assert ran.json["changes"]["changes"] == []
    assert sorted(taints(cordoned), key=str) == sorted([GPU, CORDON, SCALER, PERSON], key=str)
    node = cordoned.client.get("v1", "Node", NODE)
    assert node is not None
    assert node["spec"]["unschedulable"] is True


def test_a_removed_stack_taint_returns_and_other_taints_stay(cordoned: Platform, base: dict[str, Any]) -> None:
    change(cordoned, taints=[taint for taint in taints(cordoned) if taint != GPU])
    seen = preview(cordoned, base, "--objects")
    shown = " ".join(seen.out.split())
    assert "spec.taints[nvidia.com/gpu:NoSchedule]: (not set)" in shown
    assert "{'" not in seen.out, "the taint is printed as JSON, not as a Python dict"
    assert "ToBeDeleted" not in seen.out
    ran = cordoned.up(base)
    assert ran.code == 0, ran.err
    assert sorted(taints(cordoned), key=str) == sorted([GPU, CORDON, SCALER, PERSON], key=str)


def test_a_taint_removed_from_the_stack_file_is_removed_and_other_taints_stay(
    cordoned: Platform, base: dict[str, Any]
) -> None:
    more = copy.deepcopy(base)
    more["pools"][1]["taints"] = [{"key": "example.com/serving", "effect": "NoSchedule"}]
    assert cordoned.up(more).code == 0
    assert "example.com/serving" in {taint["key"] for taint in taints(cordoned)}
    ran = cordoned.up(base)
    assert ran.code == 0, ran.err
    assert sorted(taints(cordoned), key=str) == sorted([GPU, CORDON, SCALER, PERSON], key=str)


def test_taints_are_repaired_for_an_engine_that_leaves_them_alone(cordoned: Platform) -> None:
    change(cordoned, taints=[taint for taint in taints(cordoned) if taint != GPU])
    assert repair_taints(cordoned.client, {NODE: [GPU], "gone-0": [GPU]}) == [NODE]
    assert sorted(taints(cordoned), key=str) == sorted([GPU, CORDON, SCALER, PERSON], key=str)
    assert repair_taints(cordoned.client, {NODE: [GPU]}) == []


def test_validate_and_up_mention_them_with_who_and_since_when_and_fail_nothing(
    cordoned: Platform, base: dict[str, Any]
) -> None:
    ran = cordoned.run("validate", str(cordoned.write(base)))
    assert ran.code == 0, ran.out
    shown = " ".join(ran.out.split())
    assert f"{NODE}: cordoned by gpu-platform since " in shown, "the field manager of this test"
    scaler = "taint ToBeDeletedByClusterAutoscaler=1795374307:NoSchedule since 2026-11-22 19:05 UTC"
    assert f"{scaler} is not part of the stack: set by the cluster autoscaler" in shown
    assert "taint ops.example.com/repair=ticket-7:NoSchedule is not part of the stack" in shown
    up = cordoned.up(base)
    assert up.code == 0, up.err
    [node] = [one for one in up.json["validation"]["nodes"] if one["node"] == NODE]
    assert len(node["notes"]) == 3


STARTUP = "startup-taint.cluster-autoscaler.kubernetes.io/gpu-unvalidated"
FAILED = "status-taint.cluster-autoscaler.kubernetes.io/gpu-failed"
LOST: dict[str, Any] = {"kind": "gpu-missing", "index": 0}


def keys(platform: Platform, node: str) -> set[str]:
    live = platform.client.get("v1", "Node", node)
    assert live is not None
    return {taint["key"] for taint in live["spec"].get("taints") or ()}


def condition(platform: Platform, node: str) -> dict[str, Any]:
    live = platform.client.get("v1", "Node", node)
    assert live is not None
    found = [one for one in live["status"]["conditions"] if one["type"] == "GpuPlatformValidated"]
    return found[0] if found else {"status": "", "message": ""}


def leases_of(platform: Platform) -> list[dict[str, Any]]:
    namespace = "gpu-platform-validation"
    return list(platform.client.objects("coordination.k8s.io/v1", "Lease", namespace=namespace))


def cordoned_by_agent(platform: Platform, node: str) -> tuple[bool, bool]:
    """Return whether a node is cordoned, and whether the agent has marked the cordon as its own."""
    live = platform.client.get("v1", "Node", node)
    assert live is not None
    marked = "gpu-platform.dev/cordoned" in (live["metadata"].get("annotations") or {})
    return bool(live["spec"].get("unschedulable")), marked


def cordon(platform: Platform, node: str, *, on: bool) -> None:
    spec = {"unschedulable": on or None}
    platform.client.merge({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "spec": spec})


@pytest.fixture
def gated(platform: Platform, base: dict[str, Any]) -> Iterator[Platform]:
    """The deployed stack with a pool `fresh`, whose nodes are tainted until they pass validation. The node
    `fresh-1` lacks its GPU.
    """
    gpu = {"machine_type": "g4dn.xlarge", "workload": "inference", "count": {"desired": 2}}
    base["pools"].append({"name": "fresh", **gpu, "gate_nodes": "always"})
    base["validation"] = {"gate": False, "on_failure": "cordon", "failing_for": "1s"}
    platform.write_faults(**{"fresh-1": [LOST]})
    ran = platform.up(base)
    assert ran.code == 0, ran.err
    yield platform
    platform.write_faults()


def test_unproven_nodes_start_no_pods_and_failing_nodes_are_held_back(
    gated: Platform, base: dict[str, Any]
) -> None:
    eventually(lambda: condition(gated, "fresh-1")["status"] == "False")
    for node in ("fresh-0", "fresh-1"):
        of_node = {"gpu-platform.dev/pool": "fresh", "kubernetes.io/hostname": node}
        gated.pod(f"on-{node}", "nvidia.com/gpu", nodeSelector=of_node)
    eventually(lambda: gated.find_pod("on-fresh-0")["status"].get("phase") == "Running")
    assert keys(gated, "fresh-0") == {"nvidia.com/gpu"}
    assert STARTUP in keys(gated, "fresh-1")
    why = gated.unschedulable("on-fresh-1")
    assert "untolerated taint" in why or "were unschedulable" in why, "the node is also cordoned by now"
    with pytest.raises(Refused, match="gpu-unproven-node"):
        gated.pod("escape", "nvidia.com/gpu", namespace="vision", tolerations=[{"operator": "Exists"}])

    gated.write_faults()
    eventually(lambda: gated.find_pod("on-fresh-1")["status"].get("phase") == "Running")
    assert STARTUP not in keys(gated, "fresh-1")
    # The condition is set after the taints, and the test below waits for it to change.
    eventually(lambda: condition(gated, "fresh-1")["status"] == "True")
    changes = gated.up(base).json["changes"]["changes"]
    assert changes == [], "a node that has passed gets no second startup taint"

    gated.write_faults(**{"fresh-0": [LOST], "fresh-1": [LOST]})
    eventually(lambda: all(condition(gated, node)["status"] == "False" for node in ("fresh-0", "fresh-1")))
    held = [node for node in ("fresh-0", "fresh-1") if FAILED in keys(gated, node)]
    assert len(held) == 1, "25 % of two nodes, but at least one"
    [free] = {"fresh-0", "fresh-1"} - set(held)
    assert condition(gated, free)["message"].startswith(
        "not held back: the pool already has the maximum number of held-back nodes (1)"
    )
    leases = leases_of(gated)
    assert [lease["spec"]["holderIdentity"] for lease in leases] == held
    eventually(lambda: cordoned_by_agent(gated, held[0]) == (True, True))
    assert cordoned_by_agent(gated, free) == (False, False), "only the nodes that are held back are cordoned"

    agent = "system:serviceaccount:gpu-platform-validation:gpu-node-validation"
    other = member(gated.kubeconfig, "system:serviceaccounts", agent, node=free)
    with pytest.raises(Refused, match="Leases only for its own node"):
        other.delete(leases[0])
    with pytest.raises(Refused, match=r"only (.* )?its own node"):
        other.merge({"apiVersion": "v1", "kind": "Node", "metadata": {"name": held[0]}, "spec": {"taints": []}})
    evicting = {"key": FAILED, "effect": "NoExecute"}
    with pytest.raises(Refused, match="writes only the label"):
        other.merge(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": free}, "spec": {"taints": [evicting]}}
        )

    # Somebody cordons the other node.
    # The agent is not allowed to take over or remove a cordon that somebody else set.
    cordon(gated, free, on=True)
    mark = {"annotations": {"gpu-platform.dev/cordoned": "2026-11-25T19:00:00Z"}}
    for fields in (
        {"metadata": {"name": free, **mark}},
        {"metadata": {"name": free}, "spec": {"unschedulable": None}},
    ):
        with pytest.raises(Refused, match="and its own cordon"):
            other.merge({"apiVersion": "v1", "kind": "Node", **fields})

    gated.write_faults()
    eventually(lambda: FAILED not in keys(gated, held[0]))
    eventually(lambda: cordoned_by_agent(gated, held[0]) == (False, False))
    eventually(lambda: condition(gated, free)["status"] == "True")
    assert cordoned_by_agent(gated, free) == (True, False)
    cordon(gated, free, on=False)
    eventually(lambda: leases_of(gated), [])


def test_an_edit_after_which_no_node_is_held_back_frees_the_nodes_that_are(
    gated: Platform, base: dict[str, Any]
) -> None:
    gated.write_faults()
    eventually(lambda: condition(gated, "fresh-1")["status"] == "True")
    gated.write_faults(**{"fresh-1": [LOST]})
    eventually(lambda: cordoned_by_agent(gated, "fresh-1") == (True, True))
    assert FAILED in keys(gated, "fresh-1")
    base["pools"][-1]["gate_nodes"] = "startup"
    base["validation"] = {"gate": False}
    assert gated.up(base).code == 0
    eventually(lambda: cordoned_by_agent(gated, "fresh-1") == (False, False))
    eventually(lambda: FAILED not in keys(gated, "fresh-1"))
    eventually(lambda: leases_of(gated), [])
    assert condition(gated, "fresh-1")["status"] == "False"


CLAIMS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "nodeclaims.karpenter.sh"},
    "spec": {
        "group": "karpenter.sh",
        "scope": "Cluster",
        "names": {"kind": "NodeClaim", "plural": "nodeclaims"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


def test_an_agent_may_delete_only_the_node_claim_of_its_own_node(platform: Platform) -> None:
    pool = {
        "name": "train",
        "machine_type": "p5.48xlarge",
        "count": {"desired": 0, "max": 2},
        "workload": "training",
        "provisioner": "karpenter",
        "zones": ["us-east-2a"],
    }
    found = record_platform(
        {
            "kind": "environment",
            "cluster": {"provider": "eks", "name": "ml", "region": "us-east-2"},
            "pools": [pool],
            "validation": {"gate_nodes": "always", "on_failure": "replace"},
        }
    )
    platform.client.apply(CLAIMS)
    user = "gpu-node-agent-of-karpenter"  # a different name than the agents of the deployed stack use
    agent = "system:serviceaccount:gpu-platform-validation:gpu-node-validation"
    role = found.one("ClusterRole", "gpu-node-validation").inputs
    binding = found.one("ClusterRoleBinding", "gpu-node-validation").inputs
    policy = found.one("ValidatingAdmissionPolicy", "gpu-node-agent-node-claims").inputs
    bound = found.one("ValidatingAdmissionPolicyBinding", "gpu-node-agent-node-claims").inputs
    platform.client.apply({**role, "metadata": {"name": user}})
    platform.client.apply({**binding, "metadata": {"name": user}, "roleRef": {**binding["roleRef"], "name": user}})
    platform.client.apply(policy)
    platform.client.apply(bound)
    eventually(lambda: platform.client.find_resource("karpenter.sh/v1", "NodeClaim") is not None)
    claims: dict[str, Any] = {}

    def create(node: str) -> None:
        claim = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": f"claim-{node}"}}
        claims[node] = platform.client.apply({**claim, "status": {"nodeName": node}})

    here = member(platform.kubeconfig, "system:serviceaccounts", agent, node="train-0")

    def refused(node: str) -> str:
        try:
            here.delete(claims[node])
        except Refused as refusal:
            return str(refusal)
        return "deleted"

    # The API server needs a moment to enforce a new policy.
    # The policy is in effect once the deletion of another node's claim is refused.
    def guarded() -> bool:
        create("none")
        return "of its own node" in refused("none")

    eventually(guarded)
    create("train-0")
    create("train-1")
    assert "of its own node" in refused("train-1")
    with pytest.raises(Refused, match="cannot list"):
        list(here.objects("karpenter.sh/v1", "NodeClaim"))
    here.delete(claims["train-0"])
    assert platform.client.get("karpenter.sh/v1", "NodeClaim", "claim-train-0") is None
    assert platform.client.get("karpenter.sh/v1", "NodeClaim", "claim-train-1") is not None


def test_a_new_node_of_a_mig_pool_is_tainted_until_it_is_partitioned(
    platform: Platform, base: dict[str, Any]
) -> None:
    mig = {"mode": "mig", "layout": {"1g.10gb": 7}}
    machine = {"machine_type": "p4de.24xlarge", "workload": "development", "count": {"desired": 1}}
    base["pools"].append({"name": "cut", **machine, "sharing": mig})
    base["validation"] = {"gate": False}
    platform.write_faults(**{"cut-0": [{"kind": "mig-change-slow", "seconds": 300}]})
    ran = platform.up(base)
    assert ran.code == 0, ran.err
    platform.pod("part", "nvidia.com/mig-1g.10gb", nodeSelector={"kubernetes.io/hostname": "cut-0"})
    assert "untolerated taint" in platform.unschedulable("part")
    assert STARTUP in keys(platform, "cut-0")

    platform.write_faults()
    eventually(lambda: platform.find_pod("part")["status"].get("phase") == "Running")
    assert STARTUP not in keys(platform, "cut-0")
