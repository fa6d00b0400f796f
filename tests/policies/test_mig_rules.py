"""Rules about MIG: supported GPUs, valid geometry, the strategy, and changes of the layout."""

from __future__ import annotations

import pytest
from policy_records import (
    UNKNOWN,
    cluster_policy,
    config_map,
    device_plugin_config_map,
    eks_node_group,
    gke_node_pool,
    helm_release,
    karpenter_node_pool,
    layout,
    mig_node,
    mig_parted_config_map,
    node,
    not_checked,
    only,
    report_of,
    violations,
    with_strategy,
)

SEVEN = layout("notebooks", g1_10gb=7)

# -- mig-on-unsupported-gpu -------------------------------------------------------------------------------


def test_mig_on_an_a100_passes():
    stack = [mig_node(), cluster_policy(), mig_parted_config_map(SEVEN)]
    assert violations("mig-on-unsupported-gpu", *stack) == []


@pytest.mark.parametrize("machine_type", ["g4dn.12xlarge", "g5.48xlarge", "g6.xlarge", "g6e.12xlarge"])
def test_mig_on_a_gpu_without_it_is_found(machine_type: str):
    stack = [mig_node(machine_type=machine_type), cluster_policy(), mig_parted_config_map(SEVEN)]
    found = only(violations("mig-on-unsupported-gpu", *stack))
    assert found.problem.path == 'metadata.labels["nvidia.com/mig.config"]'
    assert "a100-80gb" in found.problem.allowed


def test_mig_that_is_disabled_passes_on_any_gpu():
    off = [mig_node("t4-0", layout="all-disabled", machine_type="g4dn.xlarge")]
    written_out = [
        mig_node("t4-0", layout="t4", machine_type="g4dn.xlarge"),
        cluster_policy(),
        mig_parted_config_map("t4:\n  - devices: all\n    mig-enabled: false\n"),
    ]
    assert violations("mig-on-unsupported-gpu", *off) == []
    assert violations("mig-on-unsupported-gpu", *written_out) == []


def test_mig_on_an_eks_node_group_of_l4s_is_found():
    group = eks_node_group(instanceTypes=["g6.12xlarge"], labels={"nvidia.com/mig.config": "all-1g.6gb"})
    assert only(violations("mig-on-unsupported-gpu", group)).problem.path == 'labels["nvidia.com/mig.config"]'


def test_mig_on_a_machine_type_that_is_not_known_yet_is_not_checked():
    hidden = mig_node(machine_type=UNKNOWN)
    assert "not known yet" in not_checked("mig-on-unsupported-gpu", hidden)


def test_mig_on_a_machine_type_outside_the_catalogue_is_not_checked():
    assert "p9.48xlarge is not in the catalogue" in not_checked(
        "mig-on-unsupported-gpu", mig_node(machine_type="p9.48xlarge")
    )


# -- mig-geometry-valid -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "instances", [{"g1_10gb": 7}, {"g3_40gb": 2}, {"g4_40gb": 1, "g3_40gb": 1}, {"g1_20gb": 4}, {"g7_80gb": 1}]
)
def test_a_layout_that_the_gpu_can_hold_passes(instances: dict[str, int]):
    stack = [mig_node(), cluster_policy(), mig_parted_config_map(layout("notebooks", **instances))]
    assert violations("mig-geometry-valid", *stack) == []


def test_instances_whose_slices_collide_are_found_in_the_config_map():
    stack = [mig_node(), cluster_policy(), mig_parted_config_map(layout("notebooks", g3_40gb=2, g1_10gb=1))]
    found = only(violations("mig-geometry-valid", *stack))
    assert found.name == "mig-parted-config-3c4d"
    assert found.problem.path == 'data["config.yaml"].mig-configs.notebooks[0].mig-devices'
    assert found.problem.fix == "3g.40gb x2 is legal"


def test_a_profile_of_another_gpus_memory_is_found():
    stack = [mig_node(), cluster_policy(), mig_parted_config_map(layout("notebooks", g1_5gb=7))]
    found = only(violations("mig-profile-matches-model", *stack))
    assert "'1g.5gb' on NVIDIA A100-SXM4-80GB" in found.problem.found
    assert "1g.10gb" in found.problem.allowed


def test_a_profile_of_another_gpu_is_reported_by_one_rule_alone():
    stack = [mig_node(), cluster_policy(), mig_parted_config_map(layout("notebooks", g1_5gb=7))]
    assert violations("mig-geometry-valid", *stack) == []


def test_a_layout_is_checked_for_each_pool_that_names_it():
    stack = [
        mig_node("notebooks-0", layout="sevenths"),
        mig_node("small-0", layout="sevenths", machine_type="p4d.24xlarge"),
        cluster_policy(),
        mig_parted_config_map(layout("sevenths", g1_10gb=7)),
    ]
    assert "pool 'small'" in only(violations("mig-geometry-valid", *stack)).problem.found


def test_a_label_that_names_no_layout_of_the_config_is_found_with_the_near_miss():
    stack = [mig_node(layout="notebook"), cluster_policy(), mig_parted_config_map(SEVEN)]
    found = only(violations("mig-geometry-valid", *stack))
    assert found.name == "notebooks-0"
    assert found.problem.fix == "did you mean 'notebooks'?"


def test_the_layout_that_the_operator_generates_is_checked_by_its_name():
    assert violations("mig-profile-matches-model", mig_node(layout="all-1g.10gb")) == []
    assert violations("mig-profile-matches-model", mig_node(layout="all-balanced")) == []
    assert only(violations("mig-profile-matches-model", mig_node(layout="all-1g.5gb")))


def test_an_entry_with_mig_off_is_not_checked():
    off = "{name}:\n  - devices: all\n    mig-enabled: false\n    mig-devices: {{3g.40gb: 9}}\n"
    stack = [mig_node(), cluster_policy(), mig_parted_config_map(off.format(name="notebooks"))]
    assert violations("mig-geometry-valid", *stack) == []
    assert violations("mig-geometry-valid", mig_parted_config_map(off.format(name="unused"))) == []


def test_a_gpu_without_mig_is_the_matter_of_another_rule():
    stack = [mig_node(machine_type="g5.xlarge"), cluster_policy(), mig_parted_config_map(SEVEN)]
    assert violations("mig-geometry-valid", *stack) == []


def test_a_layout_that_no_visible_pool_uses_must_fit_on_some_gpu():
    fits = mig_parted_config_map(layout("small", g1_5gb=7))
    overlaps = mig_parted_config_map(layout("odd", g3_20gb=2, g1_5gb=1))
    assert violations("mig-geometry-valid", fits) == []
    assert "'odd'" in only(violations("mig-geometry-valid", overlaps)).problem.found


FILTERED = """\
        mixed:
          - device-filter: ["0x20B010DE"]
            devices: all
            mig-enabled: true
            mig-devices: {1g.5gb: 7}
        """


def test_a_layout_without_an_entry_for_the_pools_gpu_is_refused():
    stack = [mig_node(layout="mixed"), cluster_policy(), mig_parted_config_map(FILTERED)]
    found = only(violations("mig-geometry-valid", *stack)).problem
    assert "without an entry for NVIDIA A100-SXM4-80GB" in found.found
    assert "0x20B210DE" in found.fix


def test_an_entry_is_checked_on_the_gpus_that_its_device_filter_names():
    named = FILTERED.replace('["0x20B010DE"]', '"0x20b210de"')
    stack = [mig_node(layout="mixed"), cluster_policy(), mig_parted_config_map(named)]
    assert "1g.5gb" in only(violations("mig-profile-matches-model", *stack)).problem.found
    legal = named.replace("1g.5gb", "1g.10gb")
    stack = [mig_node(layout="mixed"), cluster_policy(), mig_parted_config_map(legal)]
    assert violations("mig-profile-matches-model", *stack) == []


def test_a_geometry_on_a_karpenter_pool_is_checked_for_every_gpu_of_the_family():
    pool = karpenter_node_pool(
        [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["p5.48xlarge"]}]
    )
    labels = pool["inputs"]["spec"]["template"]["metadata"]["labels"]
    labels["nvidia.com/mig.config"] = "halves"
    assert violations("mig-geometry-valid", pool, mig_parted_config_map(layout("halves", g3_40gb=2))) == []
    assert only(violations("mig-profile-matches-model", pool, mig_parted_config_map(layout("halves", g3_71gb=2))))


def test_a_config_that_is_not_known_yet_is_not_checked():
    hidden = config_map("mig-parted-config-3c4d", {"config.yaml": UNKNOWN})
    assert "'notebooks' is not in this stack" in not_checked(
        "mig-geometry-valid", mig_node(), cluster_policy(), hidden
    )


# -- mig-strategy-consistent ------------------------------------------------------------------------------

MIXED = layout("notebooks", g3_40gb=1, g2_20gb=2)


def test_a_mixed_layout_with_the_mixed_strategy_passes():
    stack = [mig_node(), cluster_policy(), mig_parted_config_map(MIXED)]
    with_config = device_plugin_config_map(notebooks=with_strategy("mixed"))
    assert violations("mig-strategy-consistent", *stack, with_config) == []


@pytest.mark.parametrize("strategy", ["single", "none"])
def test_a_mixed_layout_with_another_strategy_is_found(strategy: str):
    config = device_plugin_config_map(notebooks=with_strategy(strategy))
    found = only(
        violations("mig-strategy-consistent", mig_node(), cluster_policy(), mig_parted_config_map(MIXED), config)
    )
    assert found.problem.allowed == "strategy mixed"
    assert "2g.20gb, 3g.40gb" in found.problem.found


def test_a_uniform_layout_passes_with_single_and_not_with_none():
    stack = [mig_node(), cluster_policy(), mig_parted_config_map(SEVEN)]
    single, none = (device_plugin_config_map(notebooks=with_strategy(it)) for it in ("single", "none"))
    assert violations("mig-strategy-consistent", *stack, single) == []
    assert only(violations("mig-strategy-consistent", *stack, none))


def test_gpus_that_stay_whole_beside_mig_need_the_mixed_strategy():
    half = """\
        notebooks:
          - devices: [0, 1, 2, 3]
            mig-enabled: true
            mig-devices: {1g.10gb: 7}
          - devices: [4, 5, 6, 7]
            mig-enabled: false
        """
    config = device_plugin_config_map(notebooks=with_strategy("single"))
    found = violations(
        "mig-strategy-consistent", mig_node(), cluster_policy(), mig_parted_config_map(half), config
    )
    assert "1g.10gb and whole GPUs" in only(found).problem.found


def test_the_operators_strategy_wins_over_the_nodes_config():
    config = device_plugin_config_map(notebooks=with_strategy("mixed"))
    stack = [mig_node(), mig_parted_config_map(MIXED), config]
    found = only(violations("mig-strategy-consistent", *stack, cluster_policy(mig={"strategy": "single"})))
    assert "leave mig.strategy empty" in found.problem.fix
    assert violations("mig-strategy-consistent", *stack, cluster_policy(mig={"strategy": "mixed"})) == []


def test_a_strategy_that_nobody_sets_is_none():
    config = device_plugin_config_map(notebooks="version: v1\nflags: {}")
    stack = [mig_node(), cluster_policy(), mig_parted_config_map(MIXED), config]
    assert "'none'" in only(violations("mig-strategy-consistent", *stack)).problem.found


def test_an_empty_strategy_in_helm_values_leaves_each_node_to_its_config():
    values = {
        "mig": {"strategy": ""},
        "devicePlugin": {"config": {"name": "plugin", "data": {"notebooks": with_strategy("mixed")}}},
        "migManager": {"config": {"name": "mig-parted-config-3c4d"}},
    }
    stack = [mig_node(), mig_parted_config_map(MIXED)]
    assert violations("mig-strategy-consistent", *stack, helm_release(values)) == []
    del values["mig"]
    assert "'single'" in only(violations("mig-strategy-consistent", *stack, helm_release(values))).problem.found


def test_the_charts_default_is_too_little_for_a_balanced_layout():
    release = helm_release({"devicePlugin": {"enabled": True}})
    plain = mig_node(layout="all-balanced", labels={"nvidia.com/device-plugin.config": None})
    assert "'single'" in only(violations("mig-strategy-consistent", plain, release)).problem.found
    uniform = mig_node(layout="all-1g.10gb", labels={"nvidia.com/device-plugin.config": None})
    assert violations("mig-strategy-consistent", uniform, release) == []


def test_a_balanced_layout_of_ones_own_is_checked_by_what_is_in_it():
    stack = [
        mig_node(layout="all-balanced"),
        cluster_policy(),
        mig_parted_config_map(layout("all-balanced", g3_40gb=2)),
    ]
    config = device_plugin_config_map(notebooks=with_strategy("single"))
    assert violations("mig-strategy-consistent", *stack, config) == []


def test_a_strategy_that_is_not_known_yet_is_not_checked():
    stack = [mig_node(), cluster_policy(mig={"strategy": UNKNOWN}), mig_parted_config_map(MIXED)]
    config = device_plugin_config_map(notebooks="version: v1\nflags: {}")
    assert "spec.mig.strategy" in not_checked("mig-strategy-consistent", *stack, config)


def test_a_strategy_is_not_checked_without_the_operator():
    plain = mig_node(labels={"nvidia.com/device-plugin.config": None})
    assert "GPU Operator is not in this stack" in not_checked(
        "mig-strategy-consistent", plain, mig_parted_config_map(MIXED)
    )


def test_a_layout_that_fits_no_gpu_is_found_though_the_layout_of_a_pool_is_not_known():
    hidden = mig_node(labels={"nvidia.com/mig.config": UNKNOWN})
    impossible = mig_parted_config_map(layout("never", g7_80gb=2))
    found = report_of("mig-geometry-valid", hidden, cluster_policy(), impossible)
    assert "'never'" in only(list(found.violations)).problem.found
    assert [gap.subject for gap in found.not_checked] == ["notebooks"]


# -- mig-live-change --------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["drain", "replace"])
def test_a_mig_pool_that_drains_or_is_replaced_passes(change: str):
    assert violations("mig-live-change", mig_node(labels={"gpu-platform.dev/mig-change": change})) == []


def test_the_promise_may_be_an_annotation():
    annotated = mig_node(
        labels={"gpu-platform.dev/mig-change": None}, annotations={"gpu-platform.dev/mig-change": "drain"}
    )
    assert violations("mig-live-change", annotated) == []


def test_the_promise_may_be_an_annotation_of_karpenters_nodes():
    machine = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["p4de.24xlarge"]}
    pool = karpenter_node_pool([machine])
    metadata = pool["inputs"]["spec"]["template"]["metadata"]
    metadata["labels"]["nvidia.com/mig.config"] = "all-1g.10gb"
    assert only(violations("mig-live-change", pool))
    metadata["annotations"] = {"gpu-platform.dev/mig-change": "drain"}
    assert violations("mig-live-change", pool) == []


@pytest.mark.parametrize("change", ["live", None])
def test_a_mig_pool_that_changes_live_or_does_not_say_is_found(change: str | None):
    found = only(violations("mig-live-change", mig_node(labels={"gpu-platform.dev/mig-change": change})))
    assert found.problem.path == 'metadata.labels["gpu-platform.dev/mig-change"]'
    assert "drain" in found.problem.fix


def test_an_annotation_that_says_live_is_the_place_of_the_violation():
    annotated = mig_node(
        labels={"gpu-platform.dev/mig-change": None}, annotations={"gpu-platform.dev/mig-change": "live"}
    )
    found = only(violations("mig-live-change", annotated))
    assert found.problem.path == 'metadata.annotations["gpu-platform.dev/mig-change"]'


def test_a_pool_without_mig_needs_no_promise():
    assert violations("mig-live-change", node(), gke_node_pool()) == []


def test_a_promise_that_is_not_known_yet_is_not_checked():
    hidden = mig_node(labels={"gpu-platform.dev/mig-change": UNKNOWN})
    assert "mig-change" in not_checked("mig-live-change", hidden)
