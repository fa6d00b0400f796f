"""A node that keeps failing its checks is cordoned, or replaced if the stack file requires it. The agent does not
change the cordons of others.
"""

from __future__ import annotations

import pytest

from validators.agent.api_server import ApiServer
from validators.agent.cordon import CORDON_ANNOTATION, NodeCordon, OnFailure
from validators.agent.hold import FAILED_TAINT
from validators.agent.report import Identity

HERE = Identity("train-0", "validate-train-abcde", "uid-1", "gpu-platform-validation")
NOW = "2026-11-25T19:30:00Z"
EARLIER, JUST = "2026-11-25T19:00:00Z", "2026-11-25T19:29:30Z"
CLAIM = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "train-x7k2p", "uid": "c-1"}
OURS = {CORDON_ANNOTATION: EARLIER}


def held(since=EARLIER):
    return [{"key": FAILED_TAINT, "value": "held-train-0", "effect": "NoSchedule", "timeAdded": since}]


def acted(api, token, verdict, action="cordon", *, taints=(), annotations=None, owners=(), **spec):
    """Return what the agent did with a node, and the requests that the agent sent to change an object."""
    api.node["metadata"] |= {"annotations": annotations or {}, "ownerReferences": list(owners)}
    api.node["spec"] = {"taints": list(taints), **spec}
    cordon = NodeCordon(HERE, ApiServer(api.url, token, ""), OnFailure(action, 600))
    done = cordon.set({"verdict": verdict}, api.node, NOW)
    return done, [(path.partition("?")[0], sent) for path, _, sent in api.requests if sent]


def changed(annotation, unschedulable):
    metadata = {"resourceVersion": "7", "annotations": {CORDON_ANNOTATION: annotation}}
    return ("/api/v1/nodes/train-0", {"metadata": metadata, "spec": {"unschedulable": unschedulable}})


def test_a_node_that_has_failed_long_enough_is_cordoned_and_marked(api, token):
    assert acted(api, token, "fail", taints=held()) == ("cordoned", [changed(NOW, True)])


def test_it_is_uncordoned_when_it_passes(api, token):
    found = acted(api, token, "pass", taints=(), annotations=OURS, unschedulable=True)
    assert found == ("uncordoned", [changed(None, None)])


@pytest.mark.parametrize("verdict", ["pass", "fail", "unknown"])
def test_it_is_uncordoned_where_the_stack_no_longer_has_nodes_cordoned(api, token, verdict):
    found = acted(api, token, verdict, "", taints=held(), annotations=OURS, unschedulable=True)
    assert found == ("uncordoned", [changed(None, None)])


@pytest.mark.parametrize(
    ("verdict", "taints", "annotations", "spec"),
    [
        pytest.param("fail", held(JUST), {}, {}, id="a node that failed half a minute ago"),
        pytest.param("fail", (), {}, {}, id="a node without the taint, because too many nodes have it"),
        pytest.param("unknown", held(), {}, {}, id="an unknown verdict"),
        pytest.param("fail", held(), {}, {"unschedulable": True}, id="a node that somebody else has cordoned"),
        pytest.param("pass", (), {}, {"unschedulable": True}, id="a good node that somebody else has cordoned"),
        pytest.param("fail", held(), OURS, {"unschedulable": True}, id="a node that is already cordoned"),
    ],
)
def test_a_node_is_left_alone(api, token, verdict, taints, annotations, spec):
    assert acted(api, token, verdict, taints=taints, annotations=annotations, **spec) == ("", [])


def test_a_node_of_karpenter_is_replaced_by_deleting_the_claim_that_owns_it(api, token):
    done, sent = acted(api, token, "fail", "replace", taints=held(), owners=[CLAIM])
    assert done == "replaced: NodeClaim train-x7k2p is deleted"
    deletion = ("/apis/karpenter.sh/v1/nodeclaims/train-x7k2p", {"preconditions": {"uid": "c-1"}})
    assert sent == [changed(NOW, True), deletion]


def test_a_node_that_somebody_else_has_cordoned_is_not_replaced(api, token):
    assert acted(api, token, "fail", "replace", taints=held(), owners=[CLAIM], unschedulable=True) == ("", [])


def test_a_node_without_a_claim_is_cordoned_alone(api, token):
    assert acted(api, token, "fail", "replace", taints=held()) == ("cordoned", [changed(NOW, True)])


def test_a_node_that_is_changed_meanwhile_is_left_to_the_next_pass(api, token):
    answer = api.answers.get
    api.answers = type(
        "", (dict,), {"get": lambda self, key, usual: 409 if len(api.requests) > 1 else answer(key, usual)}
    )()
    done, sent = acted(api, token, "fail", "replace", taints=held(), owners=[CLAIM])
    assert (done, len(sent)) == ("", 1)


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({}, OnFailure("", 0)),
        ({"GPU_PLATFORM_ON_FAILURE": "cordon", "GPU_PLATFORM_FAILING_SECONDS": "60"}, OnFailure("cordon", 60)),
        ({"GPU_PLATFORM_ON_FAILURE": "destroy", "GPU_PLATFORM_FAILING_SECONDS": "60"}, OnFailure("", 0)),
        ({"GPU_PLATFORM_ON_FAILURE": "replace"}, OnFailure("", 0)),
    ],
)
def test_without_both_variables_nothing_is_done(variables, found):
    assert OnFailure.of_environment(variables) == found
