"""Rules about granted capacity and its cost: quotas compared with pools, GPUs that several teams share, and the
hourly budget.
"""

from __future__ import annotations

from typing import Any

import pytest
from policy_records import (
    UNKNOWN,
    Record,
    bottlerocket,
    bottlerocket_pool,
    bottlerocket_sharing,
    cluster_policy,
    device_plugin_config_map,
    eks_node_group,
    gke_node_pool,
    gke_shares,
    karpenter_node_pool,
    kubernetes,
    launch_template,
    layout,
    mig_node,
    mig_parted_config_map,
    namespace,
    node,
    not_checked,
    only,
    quota,
    report_of,
    shared,
    violations,
)

GPUS = "requests.nvidia.com/gpu"
SHARES = "requests.nvidia.com/gpu.shared"
OPERATOR = [cluster_policy(), device_plugin_config_map(train="version: v1", serve=shared(replicas=4))]
LABELS = {"gpu-platform.dev/pool": "train", "nvidia.com/device-plugin.config": "train"}


def promised(**hard: dict[str, Any]) -> list[Record]:
    return [one for team, limits in hard.items() for one in (namespace(team, team), quota(limits, team))]


def fleet(*pools: Record) -> list[Record]:
    return [*OPERATOR, *pools]


# -- quota-exceeds-capacity -------------------------------------------------------------------------------


def test_quotas_up_to_what_the_nodes_have_pass_and_one_more_is_found():
    nodes = fleet(node("train-0"), node("train-1"))
    assert violations("quota-exceeds-capacity", *nodes, *promised(a={GPUS: "10"}, b={GPUS: 6})) == []
    found = only(violations("quota-exceeds-capacity", *nodes, *promised(a={GPUS: "10"}, b={GPUS: 7})))
    assert found.problem.found == "17 of nvidia.com/gpu in all quotas (a 10, b 7)"
    assert found.problem.allowed == "at most 16, the maximum of all pools"
    assert found.problem.path == f'spec.hard["{GPUS}"]'


def test_a_quota_of_what_no_pool_offers_is_left_to_the_rule_about_it():
    assert violations("quota-exceeds-capacity", *fleet(node()), *promised(a={SHARES: 2})) == []


def test_shares_are_counted_by_replicas():
    serve = node("serve-0", machine_type="g4dn.xlarge", workload="inference")
    assert violations("quota-exceeds-capacity", *fleet(serve), *promised(a={SHARES: 4})) == []
    assert (
        "at most 4"
        in only(violations("quota-exceeds-capacity", *fleet(serve), *promised(a={SHARES: 5}))).problem.allowed
    )


def test_a_shared_resource_without_replicas_counts_its_gpus_once():
    config = shared().replace("                replicas: 4\n", "")
    stack = [cluster_policy(), device_plugin_config_map(serve=config), node("serve-0", machine_type="g4dn.xlarge")]
    assert violations("quota-exceeds-capacity", *stack, *promised(a={SHARES: 1})) == []
    assert only(violations("quota-exceeds-capacity", *stack, *promised(a={SHARES: 2})))


def test_instances_of_the_strategy_single_count_as_gpus():
    parted = mig_parted_config_map(layout("notebooks", g1_10gb=7))
    config = device_plugin_config_map(notebooks="version: v1")
    stack = [cluster_policy(mig={"strategy": "single"}), config, parted, mig_node()]
    assert violations("quota-exceeds-capacity", *stack, *promised(a={GPUS: 56})) == []
    assert only(violations("quota-exceeds-capacity", *stack, *promised(a={GPUS: 57})))


@pytest.mark.parametrize(
    "scope",
    [
        {"scopes": ["BestEffort"]},
        {"scopeSelector": {"matchExpressions": [{"scopeName": "BestEffort", "operator": "Exists"}]}},
    ],
)
def test_a_quota_with_scopes_promises_no_gpus(scope: dict[str, Any]):
    nodes, scoped = fleet(node("train-0"), node("train-1")), quota({GPUS: 99}, "a", **scope)
    assert violations("quota-exceeds-capacity", *nodes, *promised(a={GPUS: 16}), scoped) == []


def test_a_pool_without_gpus_whose_size_is_not_known_leaves_quotas_checked():
    system = eks_node_group(
        scalingConfig=UNKNOWN,
        instanceTypes=["m7i.xlarge"],
        amiType="AL2023_x86_64_STANDARD",
        labels={"gpu-platform.dev/pool": "system"},
    )
    stack = [*fleet(node("train-0"), system), *promised(a={GPUS: 9})]
    found = report_of("quota-exceeds-capacity", *stack)
    assert only(list(found.violations))
    assert not found.not_checked


def test_overcommit_is_a_setting():
    stack = [*fleet(node()), *promised(a={GPUS: 12})]
    assert only(violations("quota-exceeds-capacity", *stack))
    assert violations("quota-exceeds-capacity", *stack, overcommit=1.5) == []


def test_a_pool_counts_with_its_maximum():
    eks = eks_node_group(scalingConfig={"minSize": 0, "maxSize": 2}, labels=LABELS, instanceTypes=["p5.48xlarge"])
    assert violations("quota-exceeds-capacity", *fleet(eks), *promised(a={GPUS: 16})) == []
    assert only(violations("quota-exceeds-capacity", *fleet(eks), *promised(a={GPUS: 17})))


def test_a_gke_pool_counts_in_each_of_its_zones():
    pool = gke_node_pool(labels=LABELS)
    pool["inputs"] |= {"nodeLocations": ["us-central1-a", "us-central1-b"], "autoscaling": {"maxNodeCount": 1}}
    assert violations("quota-exceeds-capacity", *fleet(pool), *promised(a={GPUS: 16})) == []
    pool["inputs"]["autoscaling"] = {"totalMaxNodeCount": 1}
    assert only(violations("quota-exceeds-capacity", *fleet(pool), *promised(a={GPUS: 16})))


def test_a_karpenter_pool_counts_by_its_limit_of_gpus():
    pool = karpenter_node_pool(
        [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["p5.48xlarge"]}]
    )
    pool["inputs"]["spec"]["template"]["metadata"]["labels"] = LABELS
    pool["inputs"]["spec"]["limits"] = {"nvidia.com/gpu": "16"}
    assert violations("quota-exceeds-capacity", *fleet(pool), *promised(a={GPUS: 16})) == []
    assert only(violations("quota-exceeds-capacity", *fleet(pool), *promised(a={GPUS: 17})))
    pool["inputs"]["spec"]["limits"] = {"cpu": "1000"}
    assert violations("quota-exceeds-capacity", *fleet(pool), *promised(a={GPUS: 17})) == []


def test_namespaces_without_a_team_queues_and_scoped_quotas_promise_nothing():
    other = [namespace("a", None), quota({GPUS: 99}, "a")]
    queued = [*promised(b={GPUS: 99}), kubernetes("kueue.x-k8s.io/v1beta2:LocalQueue", "default", {}, "b")]
    scoped = [namespace("c", "c"), quota({GPUS: 99}, "c", scopes=["BestEffort"])]
    assert violations("quota-exceeds-capacity", *fleet(node()), *other, *queued, *scoped) == []


def test_quotas_whose_pools_are_elsewhere_or_not_known_are_not_checked():
    assert "not in this stack" in not_checked("quota-exceeds-capacity", *promised(a={GPUS: 1}))
    hidden = fleet(eks_node_group(scalingConfig=UNKNOWN, labels=LABELS, instanceTypes=["p5.48xlarge"]))
    assert "scalingConfig" in not_checked("quota-exceeds-capacity", *hidden, *promised(a={GPUS: 1}))


def test_the_capacity_of_an_environment_in_another_stack_is_a_setting():
    stack = promised(a={GPUS: 9})
    assert only(violations("quota-exceeds-capacity", *stack, capacity={"nvidia.com/gpu": 8}))
    assert violations("quota-exceeds-capacity", *stack, capacity={"nvidia.com/gpu": 9}) == []
    assert only(violations("quota-unplaceable", *stack, capacity={"nvidia.com/gpu.shared": 8}))


# -- quota-unplaceable ------------------------------------------------------------------------------------


def test_a_quota_for_a_missing_resource_is_found_unless_zero():
    found = only(violations("quota-unplaceable", *fleet(node()), *promised(a={GPUS: 1, SHARES: 2})))
    assert found.problem.found.startswith("a quota of 2 of nvidia.com/gpu.shared")
    assert violations("quota-unplaceable", *fleet(node()), *promised(a={GPUS: 1, SHARES: 0})) == []
    assert "not in this stack" in not_checked("quota-unplaceable", *promised(a={GPUS: 1}))


# -- sharing-across-tenants -------------------------------------------------------------------------------


def test_shares_for_two_teams_are_found_unless_they_trust_each_other():
    stack = promised(a={SHARES: 2}, b={SHARES: 2})
    assert "for a, b" in only(violations("sharing-across-tenants", *stack)).problem.found
    assert violations("sharing-across-tenants", *stack, trusted=[["a", "b", "c"]]) == []
    three = promised(a={SHARES: 2}, b={SHARES: 2}, c={SHARES: 1})
    assert only(violations("sharing-across-tenants", *three, trusted=[["a", "b"], ["b", "c"]]))


def test_shares_of_one_team_and_whole_gpus_of_two_pass():
    assert violations("sharing-across-tenants", *promised(a={SHARES: 2, GPUS: 1}, b={SHARES: 0, GPUS: 1})) == []
    assert "spec.hard" in not_checked("sharing-across-tenants", *promised(a={SHARES: UNKNOWN}))


def queue(team: str, flavor: str, nominal: int, borrowing: int | None = 0) -> list[Record]:
    """Return a team's queue in a cohort, with a flavor of whole GPUs. If `borrowing` is None, it has no borrowing
    limit.
    """
    entry = {"name": "nvidia.com/gpu", "nominalQuota": nominal}
    entry |= {} if borrowing is None else {"borrowingLimit": borrowing}
    groups = [{"flavors": [{"name": flavor, "resources": [entry]}]}]
    version = "kueue.x-k8s.io/v1beta2"
    return [
        kubernetes(f"{version}:LocalQueue", "queue", {"clusterQueue": team}, team),
        kubernetes(f"{version}:ClusterQueue", team, {"cohortName": "teams", "resourceGroups": groups}, ""),
    ]


FLAVORS = [
    kubernetes("kueue.x-k8s.io/v1beta2:ResourceFlavor", pool, {"nodeLabels": {"gpu-platform.dev/pool": pool}}, "")
    for pool in ("serve", "other")
]
SHARED_POOL = [
    cluster_policy(),
    device_plugin_config_map(serve=shared(rename=False)),
    node("serve-0", workload="inference"),
]


def test_queues_do_not_change_who_shares_a_gpu():
    stack = promised(a={SHARES: 2}, b={SHARES: 2})
    assert only(violations("sharing-across-tenants", *stack, *queue("a", "serve", 2), *queue("b", "serve", 2)))


@pytest.mark.parametrize(
    "pools",
    [
        SHARED_POOL,
        [gke_node_pool(**gke_shares())],
        [*bottlerocket_pool(bottlerocket_sharing(rename=False))],
    ],
    ids=["operator", "gke", "bottlerocket"],
)
def test_shares_by_the_name_of_whole_gpus_are_found_by_their_pool(pools: list[Record]):
    stack = promised(a={GPUS: 2}, b={GPUS: 2})
    found = only(violations("sharing-across-tenants", *pools, *stack)).problem
    assert found.found.startswith("nvidia.com/gpu (a share of a GPU on pool '")
    assert found.found.endswith("') for a, b")
    assert violations("sharing-across-tenants", *pools, *promised(a={GPUS: 2}, b={GPUS: 0})) == []
    assert violations("sharing-across-tenants", *pools, *stack, trusted=[["a", "b"]]) == []


def test_a_team_whose_queue_has_no_shared_pool_shares_nothing():
    stack = [*SHARED_POOL, *FLAVORS, *promised(a={GPUS: 2}, b={GPUS: 2}), *queue("a", "serve", 2)]
    assert violations("sharing-across-tenants", *stack, *queue("b", "other", 2)) == []
    assert violations("sharing-across-tenants", *stack, *queue("b", "serve", 0)) == []
    assert only(violations("sharing-across-tenants", *stack, *queue("b", "serve", 0, borrowing=1)))
    assert only(violations("sharing-across-tenants", *stack, *queue("b", "serve", 0, borrowing=None)))
    assert "not in this stack" in not_checked("sharing-across-tenants", *stack, queue("b", "serve", 2)[0])


def test_shares_and_instances_of_bottlerocket_count_as_the_quota_names_them():
    pool = bottlerocket_pool(bottlerocket_sharing(replicas=3))
    assert violations("quota-exceeds-capacity", *pool, *promised(a={SHARES: 48})) == []
    assert only(violations("quota-exceeds-capacity", *pool, *promised(a={SHARES: 49})))
    mig = 'device-partitioning-strategy = "mig"\n[settings.kubelet-device-plugins.nvidia.mig.profile]\n'
    pool = bottlerocket_pool(bottlerocket(mig + '"a100.40gb" = "1g.5gb"\n'))
    assert violations("quota-exceeds-capacity", *pool, *promised(a={GPUS: 112})) == []
    assert only(violations("quota-exceeds-capacity", *pool, *promised(a={GPUS: 113})))
    assert only(violations("gpu-namespace-quota", *pool, namespace("a", "a"))).problem.fix.endswith(
        f'"{GPUS}": "0"'
    )


# -- cost-ceiling -----------------------------------------------------------------------------------------


def test_a_stack_above_its_budget_is_found_with_every_pool_at_its_maximum():
    pool = eks_node_group(scalingConfig={"maxSize": 2}, instanceTypes=["p5.48xlarge"])
    budget = {"region": "us-east-1"}
    cost = 2 * 55.04
    assert violations("cost-ceiling", pool, **budget, maxUsdPerHour=cost + 0.01) == []
    found = only(violations("cost-ceiling", pool, **budget, maxUsdPerHour=cost - 0.01))
    assert found.problem.found == f"up to {cost:.2f} USD/h at list prices (train {cost:.0f})"
    assert violations("cost-ceiling", pool) == []


def test_cost_without_price_or_limit_is_unchecked_unless_already_over():
    unlimited = eks_node_group(scalingConfig={"maxSize": UNKNOWN}, instanceTypes=["p5.48xlarge"])
    assert not_checked("cost-ceiling", unlimited, maxUsdPerHour=10)
    assert report_of("cost-ceiling", unlimited, node(), maxUsdPerHour=1).violations
    assert not_checked("cost-ceiling", node(), maxUsdPerHour=10, region="xx-nowhere-1")


def test_the_template_names_the_machine_of_a_pool():
    pool = eks_node_group(scalingConfig={"maxSize": 1}, instanceTypes=[])
    assert only(violations("cost-ceiling", launch_template(instanceType="p5.48xlarge"), pool, maxUsdPerHour=1))


def test_a_karpenter_pool_costs_the_nodes_that_its_limit_of_gpus_admits():
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["p5.48xlarge"]}
    pool = karpenter_node_pool([requirement])
    pool["inputs"]["spec"]["limits"] = {"nvidia.com/gpu": "16"}
    cost = 2 * 55.04
    assert violations("cost-ceiling", pool, region="us-east-1", maxUsdPerHour=cost + 0.01) == []
    assert only(violations("cost-ceiling", pool, region="us-east-1", maxUsdPerHour=cost - 0.01))
