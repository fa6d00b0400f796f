"""A rule never crashes, whatever a record contains, and never reports a violation for a value that it could not
read.
"""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from policy_records import (
    TODAY,
    UNKNOWN,
    Record,
    cluster_policy,
    container,
    deployment,
    device_plugin_config_map,
    ec2_node_class,
    eks_node_group,
    gke_node_pool,
    helm_release,
    job,
    karpenter_node_pool,
    kubernetes,
    launch_template,
    layout,
    mig_node,
    mig_parted_config_map,
    namespace,
    node,
    pod_spec,
    quota,
    shared,
    with_strategy,
)

from gpu_platform.catalog.scaling_triggers import PROMETHEUS
from policies import evaluate
from tests.support.size import size

PROMETHEUS_METADATA = {"serverAddress": PROMETHEUS, "query": "gpu", "ignoreNullValues": "false"}
HEALTHY: list[Record] = [
    cluster_policy(),
    helm_release(
        {"mig": {"strategy": "mixed"}, "devicePlugin": {"config": {"name": "x", "data": {"a": shared()}}}}
    ),
    device_plugin_config_map(
        train="version: v1\nflags: {migStrategy: none}", serve=shared(), notebooks=with_strategy("mixed")
    ),
    mig_parted_config_map(layout("notebooks", g3_40gb=1, g2_20gb=2)),
    node("train-0", labels={"gpu-platform.dev/topology-policy": "restricted"}),
    node("serve-0", workload="inference", machine_type="g5.12xlarge"),
    mig_node(),
    eks_node_group(launchTemplate={"id": "lt-1"}),
    launch_template(
        userData="dG9wb2xvZ3lNYW5hZ2VyUG9saWN5OiByZXN0cmljdGVkCmNwdU1hbmFnZXJQb2xpY3k6IHN0YXRpYw==",
        instanceType="p5.48xlarge",
    ),
    gke_node_pool(),
    karpenter_node_pool(),
    ec2_node_class("topologyManagerPolicy: restricted\ncpuManagerPolicy: static"),
    deployment(
        pod_spec(
            container({"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "1"}),
            nodeSelector={"gpu-platform.dev/pool": "train"},
        )
    ),
    job(
        namespace="research",
        labels={"kueue.x-k8s.io/queue-name": "training"},
        annotations={
            "karpenter.sh/do-not-disrupt": "true",
            "kueue.x-k8s.io/podset-preferred-topology": "kubernetes.io/hostname",
        },
        parallelism=2,
    ),
    kubernetes("scheduling.k8s.io/v1:PriorityClass", "training", value=100),
    kubernetes("policy/v1:PodDisruptionBudget", "serve", {"maxUnavailable": 1}),
    kubernetes("kueue.x-k8s.io/v1beta2:LocalQueue", "training", {"clusterQueue": "vision"}, "research"),
    kubernetes(
        "kueue.x-k8s.io/v1beta2:ClusterQueue",
        "vision",
        {
            "cohortName": "all",
            "resourceGroups": [
                {
                    "coveredResources": ["nvidia.com/gpu"],
                    "flavors": [
                        {
                            "name": "train",
                            "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 8, "borrowingLimit": 8}],
                        }
                    ],
                }
            ],
        },
    ),
    kubernetes("kueue.x-k8s.io/v1beta2:Topology", "train", {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}),
    kubernetes(
        "keda.sh/v1alpha1:ScaledObject",
        "ranker",
        {"triggers": [{"type": "prometheus", "metadata": PROMETHEUS_METADATA}]},
    ),
    namespace(),
    quota(
        {
            "requests.nvidia.com/gpu": "8",
            "requests.nvidia.com/gpu.shared": "4",
            "requests.nvidia.com/mig-2g.20gb": "0",
            "requests.nvidia.com/mig-3g.40gb": "0",
        }
    ),
]

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(10**20), max_value=10**20)
    | st.floats()
    | st.sampled_from(
        [UNKNOWN, "[secret]", "", "all", "1", "-1", "7" * 40, "1e400", "&a [*a]", "? [", "2026-99-99"]
    )
    | st.text(max_size=12)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value in a record, including the record itself."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in below for place in places(item, (*path, key)))]


@st.composite
def mangled(draw: st.DrawFn) -> list[Any]:
    """Draw the valid stack with some values overwritten and some records replaced."""
    records: list[Any] = copy.deepcopy(HEALTHY)
    for _ in range(draw(st.integers(1, 4))):
        index = draw(st.integers(0, len(records) - 1))
        path = draw(st.sampled_from(places(records[index])))
        value = draw(VALUES)
        if not path:
            records[index] = value
            continue
        here = records[index]
        for key in path[:-1]:
            here = here[key]
        here[path[-1]] = value
    return records


@settings(max_examples=size(60, 4000))
@given(mangled())
def test_no_rule_crashes_on_a_mangled_stack(records: list[Any]):
    found = evaluate(records, {}, TODAY)
    assert found.to_json()["version"] == 1


TEXTS = st.sampled_from(
    [
        "mig-configs",
        "version",
        "v1",
        "sharing",
        "flags",
        "timeSlicing",
        "mps",
        "{",
        "}",
        ":",
        "- ",
        "\n",
        " ",
        "1",
        "&a",
        "*a",
    ]
)


@settings(max_examples=size(60, 2000))
@given(st.lists(TEXTS | st.text(max_size=6), max_size=20).map("".join))
def test_no_rule_crashes_on_a_mangled_config(text: str):
    stack = [cluster_policy(), node(), mig_node()]
    for config in (device_plugin_config_map(), mig_parted_config_map("")):
        config["inputs"]["data"] = {"train": text, "notebooks": text, "config.yaml": text}
        stack.append(config)
    evaluate(stack, {}, TODAY)


@settings(max_examples=size(60, 4000))
@given(st.data())
def test_hiding_a_value_of_a_healthy_stack_makes_no_violation(data: st.DataObject):
    records = copy.deepcopy(HEALTHY)
    for _ in range(data.draw(st.integers(0, 3))):
        inputs = data.draw(st.sampled_from(records))["inputs"]
        path = data.draw(st.sampled_from([place for place in places(inputs) if place]))
        here = inputs
        for key in path[:-1]:
            here = here[key]
        here[path[-1]] = UNKNOWN
    assert [str(one) for one in evaluate(records, {}, TODAY).violations] == []
