"""The report about all nodes: the results that count in it, its content, and its three formats."""

from __future__ import annotations

import dataclasses
import io
import json
from typing import Any
from xml.etree import ElementTree

import pytest
from cluster_objects import POOL, agent_report, config_map, entry, node
from rich.console import Console

from gpu_platform.base import names
from gpu_platform.base.errors import ExitCode
from gpu_platform.catalog import load_catalog
from gpu_platform.cli.validate_page import validation_page
from validators.render import as_ctrf, as_junit, print_report
from validators.report import build_report, pod_uids_of, reports_of

THREE = [node(f"serve-{index}") for index in range(3)]


def report_of(*reports, nodes=THREE, pods=None, desired=3):
    """Return the report about the nodes of one pool, built from the agents' reports."""
    pool = dataclasses.replace(POOL, least=desired, most=desired)
    return build_report([pool], nodes, {report["node"]: report for report in reports}, pods)


def good(*indices):
    return [agent_report(f"serve-{index}") for index in indices]


def attention(report):
    return [
        (each.title, check.id, check.verdict, check.observed)
        for each in report.nodes
        for check in each.checks
        if check.needs_attention
    ]


def text_of(report, width=160):
    text = io.StringIO()
    print_report(report, Console(file=text, width=width))
    return text.getvalue()


def test_nodes_that_pass_make_a_report_that_passes():
    report = report_of(*good(0, 1, 2))
    assert (report.verdict, report.exit_code) == ("pass", ExitCode.GOOD)
    assert [each.node for each in report.nodes] == ["serve-0", "serve-1", "serve-2"]


def test_one_failing_node_fails_the_report():
    bad = agent_report("serve-1", entry("gpu-count", "fail", "3"))
    report = report_of(*good(0, 2), bad)
    assert (report.verdict, report.exit_code) == ("fail", ExitCode.FINDING)
    assert attention(report) == [("serve-1", "gpu-count", "fail", "3")]


def test_a_node_without_a_report_is_unknown():
    report = report_of(*good(0, 2))
    assert (report.verdict, report.exit_code) == ("unknown", ExitCode.UNKNOWN)
    assert attention(report) == [("serve-1", "node-agent", "unknown", "no report")]


def test_a_check_of_low_severity_that_is_unknown_does_not_stop_the_report():
    unsure = agent_report("serve-1", entry("numa-nodes", "unknown", "unknown (-1)", severity="info"))
    assert report_of(*good(0, 2), unsure).verdict == "pass"


def test_the_verdict_that_an_agent_claims_is_not_believed():
    liar = agent_report("serve-1", entry("gpu-count", "fail", "3"), verdict="pass")
    assert report_of(*good(0, 2), liar).verdict == "fail"


def test_cluster_checks_and_the_agents_checks_make_one_node():
    nodes = [node("serve-0", allocatable={"nvidia.com/gpu.shared": "12"})]
    bad = agent_report("serve-0", entry("gpu-count", "fail", "3"))
    assert attention(report_of(bad, nodes=nodes, desired=1)) == [
        ("serve-0", "gpu-count", "fail", "3"),
        ("serve-0", "allocatable", "fail", "12"),
    ]


@pytest.mark.parametrize(
    ("stale", "why"),
    [
        ({"expectations_hash": "0123456789ab"}, "a report based on expectations '0123456789ab'"),
        ({"pod_uid": "uid-of-an-older-pod"}, "an outdated report from an earlier pod"),
        ({"version": 2}, "a report of version 2"),
        ({"checks": [{"id": "gpu-count"}]}, "an invalid report: check without 'verdict'"),
        ({"checks": None}, "an invalid report"),
        (
            {"checks": [entry("gpu-count", "fine", "4")]},
            "an invalid report: check 'gpu-count' with verdict 'fine'",
        ),
        ({"checks": [entry("gpu-count", "pass", 4)]}, "an invalid report: check 'gpu-count' with"),
    ],
)
def test_an_outdated_or_invalid_report_is_not_counted(stale, why):
    pods = {f"serve-{index}": f"uid-serve-{index}" for index in range(3)}
    report = report_of(*good(0, 2), agent_report("serve-1", **stale), pods=pods)
    [(name, check, verdict, observed)] = attention(report)
    assert (name, check, verdict) == ("serve-1", "node-agent", "unknown")
    assert observed.startswith(why)


def test_a_report_whose_pod_is_gone_is_not_counted():
    [(_, _, _, observed)] = attention(report_of(*good(0), nodes=THREE[:1], pods={}, desired=1))
    assert observed == "a report, but no agent pod"


@pytest.mark.parametrize("desired", [2, 4])
def test_a_pool_with_another_number_of_nodes_fails(desired):
    assert attention(report_of(*good(0, 1, 2), desired=desired)) == [
        ("(pool serve)", "pool-size", "fail", "3 nodes"),
    ]


def scaled(*reports, nodes=THREE, **bounds):
    """Return the report about a pool whose number of nodes may change, for example through an autoscaler."""
    fields: dict[str, Any] = {"least": 0, "most": 10, "why": "an autoscaler sets the node count", **bounds}
    pool = dataclasses.replace(POOL, **fields)
    return build_report([pool], nodes, {report["node"]: report for report in reports})


def test_any_number_of_nodes_between_the_bounds_passes():
    for least, most in ((0, 3), (3, 9), (1, 10)):
        report = scaled(*good(0, 1, 2), least=least, most=most)
        assert (report.verdict, len(report.nodes)) == ("pass", 3)


@pytest.mark.parametrize(("least", "most"), [(4, 10), (0, 2)])
def test_fewer_nodes_than_the_least_and_more_than_the_most_fail(least, most):
    report = scaled(*good(0, 1, 2), least=least, most=most)
    assert attention(report) == [("(pool serve)", "pool-size", "fail", "3 nodes")]
    assert report.nodes[0].checks[0].expected == f"{least} to {most} nodes, an autoscaler sets the node count"


def test_a_pool_without_nodes_that_must_have_some_fails():
    report = scaled(nodes=[], least=1)
    assert (report.verdict, report.exit_code) == ("fail", ExitCode.FINDING)


def test_a_pool_that_may_be_empty_and_is_does_not_apply_and_never_passes():
    report = scaled(nodes=[])
    [entry_of_pool] = report.nodes
    assert (entry_of_pool.node, entry_of_pool.verdict) == (None, "not-applicable")
    assert (report.verdict, report.exit_code) == ("not-applicable", ExitCode.GOOD)
    assert report.to_json()["summary"] == {"pass": 0, "fail": 0, "unknown": 0}
    text = text_of(report)
    assert "pool serve: no nodes to validate (0 to 10 nodes, an autoscaler sets the node count)" in text
    assert "Validation: not-applicable" in text


def test_an_empty_pool_beside_one_that_passes_is_still_shown():
    empty = dataclasses.replace(
        POOL, node=dataclasses.replace(POOL.node, pool="burst"), selector={"a": "b"}, least=0
    )
    full = dataclasses.replace(POOL, least=3, most=3)
    report = build_report([full, empty], THREE, {report["node"]: report for report in good(0, 1, 2)})
    assert report.verdict == "pass"
    assert "pool burst: no nodes to validate" in text_of(report)


def test_fewer_nodes_than_the_stack_asks_for_are_shown_and_stop_nothing():
    report = scaled(*good(0, 1, 2), usual=4)
    assert report.verdict == "pass"
    assert attention(report) == [("(pool serve)", "pool-size", "unknown", "3 nodes")]
    assert attention(scaled(*good(0, 1, 2), usual=2)) == []


def test_an_empty_pool_is_skipped_in_junit():
    root = ElementTree.fromstring(as_junit(scaled(nodes=[])))
    [suite] = root
    assert (suite.get("name"), suite.get("skipped"), suite.get("failures")) == ("(pool serve)", "1", "0")


def test_nodes_of_other_pools_are_left_alone():
    stranger = node("train-0", labels={"gpu-platform.dev/pool": "train"})
    report = report_of(*good(0, 1, 2), nodes=[*THREE, stranger])
    assert "train-0" not in [each.node for each in report.nodes]


def test_reports_come_out_of_their_config_maps():
    maps = [
        config_map(agent_report("serve-0"), "serve-0"),
        config_map("not json", "serve-1"),
        config_map("[]", "serve-2"),
        {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "x"}},
    ]
    assert reports_of(maps) == {"serve-0": agent_report("serve-0"), "serve-1": {}, "serve-2": {}}


def test_a_config_map_without_a_report_in_it_is_unknown():
    report = build_report([POOL], THREE[:1], reports_of([config_map("")]))
    assert attention(report) == [("serve-0", "node-agent", "unknown", "a report of version None")]


def test_only_pods_of_the_agent_that_stay_count():
    def pod(name, app="gpu-node-validation", **metadata):
        labels = {"app.kubernetes.io/name": app}
        return {"metadata": {"uid": f"uid-{name}", "labels": labels, **metadata}, "spec": {"nodeName": name}}

    pending = pod("serve-3")
    del pending["spec"]["nodeName"]
    pods = [pod("serve-0"), pod("serve-1", deletionTimestamp="now"), pod("serve-2", app="other"), pending]
    assert pod_uids_of(pods) == {"serve-0": "uid-serve-0"}


def test_json_has_every_check_of_every_node():
    report = report_of(*good(0, 1), agent_report("serve-2", entry("ecc", "fail", "off", "GPU 3")))
    document = json.loads(json.dumps(report.to_json()))
    assert document["verdict"] == "fail"
    assert document["summary"] == {"pass": 2, "fail": 1, "unknown": 0}
    assert [(each["node"], each["verdict"], len(each["checks"])) for each in document["nodes"]] == [
        ("serve-0", "pass", 7),
        ("serve-1", "pass", 7),
        ("serve-2", "fail", 7),
    ]
    assert document["nodes"][2]["checks"][0] == {**entry("ecc", "fail", "off", "GPU 3"), "replacement": ""}


def test_the_terminal_names_node_check_expected_source_observed_and_remedy():
    text = text_of(report_of(*good(0, 1), agent_report("serve-2", entry("gpu-count", "fail", "3"))))
    row = next(line for line in text.splitlines() if "gpu-count" in line)
    assert all(word in row for word in ("serve-2", "gpu-count", "4", "3", "drain the node"))
    assert "(machine type g5.12xlarge)" in text
    assert "Validation: fail" in text


def test_the_terminal_puts_failures_before_unknown_checks_and_counts_what_passes():
    text = text_of(report_of(*good(0), agent_report("serve-2", entry("gpu-count", "fail", "3"))))
    assert text.index("serve-2") < text.index("serve-1")
    assert "serve-0" not in text
    summary = next(line for line in text.splitlines() if line.startswith("serve "))
    assert summary.split() == ["serve", "g5.12xlarge", "3", "1", "1", "1", "19", "of", "21"]


def test_the_terminal_has_one_row_for_nodes_that_share_a_finding():
    nodes = [node(f"serve-{index}") for index in range(6)]
    bad = [agent_report(f"serve-{index}", entry("gpu-count", "fail", "3")) for index in range(6)]
    text = text_of(report_of(*bad, nodes=nodes, desired=6))
    assert text.count("gpu-count") == 1
    assert "and 2 more" in text


def test_the_terminal_has_one_row_for_checks_that_are_unknown_for_the_same_reason():
    lost = [entry(name, "unknown", "nvmlDeviceGetHandleByIndex: gpu lost") for name in ("ecc", "clocks", "memory")]
    other = entry("numa-nodes", "unknown", "-1")
    text = text_of(report_of(*good(0, 1), agent_report("serve-2", *lost, other)), width=300)
    assert text.count("gpu lost") == 1
    assert "ecc, clocks, memory" in text
    assert "3 checks" in text
    assert "numa-nodes" in text


def test_the_terminal_has_a_row_for_each_check_that_fails_with_the_same_value():
    bad = [entry(name, "fail", "off") for name in ("ecc", "persistence")]
    assert text_of(report_of(*good(0, 1), agent_report("serve-2", *bad)), width=300).count("off") == 2


@pytest.mark.parametrize("width", [80, 160, 400])
def test_the_terminal_breaks_no_word_of_a_command(width):
    label = f"{names.DRIVER_UPGRADE_STATE_LABEL}=upgrade-required"
    failed = node("serve-0", labels={names.DRIVER_UPGRADE_STATE_LABEL: "upgrade-failed"})
    text = text_of(report_of(*good(0), nodes=[failed], desired=1), width)
    assert f"--overwrite {label}" in text


def test_during_an_upgrade_the_driver_is_explained_by_the_upgrade():
    old = entry("driver-version", "fail", "580.1")
    waiting = node("serve-1", labels={names.DRIVER_UPGRADE_STATE_LABEL: "upgrade-required"})
    reports = {f"serve-{index}": agent_report(f"serve-{index}", old) for index in range(2)}
    pool = dataclasses.replace(POOL, least=2, most=2)
    report = build_report([pool], [node("serve-0"), waiting], reports, behind=["serve-0"])
    remedies = {
        (each.node, check.id): check.remediation
        for each in report.nodes
        for check in each.checks
        if check.verdict != "pass"
    }
    assert remedies["serve-1", "driver-version"] == "see this node's driver-upgrade check"
    assert "until the upgrade of serve-0 ends" in remedies["serve-1", "driver-upgrade"]
    assert remedies["serve-0", "driver-version"] == old["remediation"]


def test_the_terminal_shows_brackets_as_they_are():
    text = text_of(report_of(*good(0, 1), agent_report("serve-2", entry("ecc", "fail", "[bold]off[/bold]"))))
    assert "[bold]off[/bold]" in text


def test_a_failed_check_fails_the_node_and_shows_no_severity_that_would_soften_it():
    report = report_of(*good(0, 2), agent_report("serve-1", entry("ecc-mode", "fail", "off", severity="warning")))
    assert (report.verdict, report.exit_code) == ("fail", ExitCode.FINDING)
    text = text_of(report, width=300)
    assert "ecc-mode" in text
    assert "warning" not in text


def test_a_check_that_is_unknown_shows_a_severity_that_does_not_fail_the_node():
    unsure = entry("numa-nodes", "unknown", "-1", severity="info")
    report = report_of(*good(0, 2), agent_report("serve-1", unsure))
    assert (report.verdict, report.exit_code) == ("pass", ExitCode.GOOD)
    assert "numa-nodes (info: does not fail the node)" in text_of(report, width=400)


def test_junit_has_a_suite_for_each_node_and_never_passes_an_unknown_check():
    bad = agent_report(
        "serve-2",
        entry("gpu-count", "fail", "3"),
        entry("ecc", "unknown", "?", "GPU 0"),
        entry("numa-nodes", "unknown", "-1", severity="info"),
        entry("mig-mode", "not-applicable", ""),
    )
    root = ElementTree.fromstring(as_junit(report_of(*good(0, 1), bad)))
    suites = {suite.get("name"): suite for suite in root}
    assert list(suites) == ["serve-0", "serve-1", "serve-2"]
    counts = [suites["serve-2"].get(name) for name in ("tests", "failures", "errors", "skipped")]
    assert counts == ["10", "1", "1", "2"]
    found = {case.get("name"): [child.tag for child in case] for case in suites["serve-2"]}
    assert found["gpu-count"] == ["failure"]
    assert found["ecc GPU 0"] == ["error"]
    assert found["numa-nodes"] == found["mig-mode"] == ["skipped"]
    assert found["node-ready"] == []
    failure = suites["serve-2"].find("testcase/failure")
    assert failure is not None
    assert failure.get("message") == "fail: expected 4, observed 3"
    assert failure.text == "machine type g5.12xlarge\ndrain the node"


def test_junit_survives_characters_that_xml_cannot_hold():
    odd = agent_report("serve-0", entry("gpu-product", "fail", "Tesla\x00\x1b[31m <T4> & co"))
    root = ElementTree.fromstring(as_junit(report_of(odd, nodes=THREE[:1], desired=1)))
    failure = root.find("testsuite/testcase/failure")
    assert failure is not None
    assert "<T4> & co" in failure.get("message", "")


# -- CPU pools --------------------------------------------------------------------------------------------


def of_cpu_pool(*nodes):
    """Return the report about nodes without GPUs and without reports of the agent."""
    hardware = dataclasses.replace(POOL.hardware, machine_type="m7i.2xlarge", expect={})
    expected = dataclasses.replace(POOL.node, allocatable={}, labels={"gpu-platform.dev/pool": "serve"}, taints=())
    pool = dataclasses.replace(POOL, hardware=hardware, node=expected, least=len(nodes), most=len(nodes))
    return build_report([pool], nodes, {}, {})


def without_gpus(name="serve-0", **changes):
    return node(name, **{"allocatable": {"cpu": "7910m"}, "taints": [], **changes})


def test_nodes_of_a_cpu_pool_pass_without_a_report_of_the_agent():
    report = of_cpu_pool(without_gpus(), without_gpus("serve-1"))
    assert (report.verdict, report.exit_code) == ("pass", ExitCode.GOOD)


def test_a_node_of_a_cpu_pool_that_is_not_ready_fails():
    report = of_cpu_pool(
        without_gpus(conditions=[{"type": "Ready", "status": "False", "reason": "NetworkNotReady"}])
    )
    assert attention(report) == [("serve-0", "node-ready", "fail", "Ready is False: NetworkNotReady")]


def test_a_node_of_a_cpu_pool_that_advertises_gpus_fails():
    report = of_cpu_pool(without_gpus(allocatable={"nvidia.com/gpu": "1"}))
    assert attention(report) == [("serve-0", "allocatable", "fail", "1")]


@pytest.mark.parametrize(
    ("remedy", "said"),
    [("replace the node", True), ("have the GPU replaced", True), ("reset the GPU", False)],
)
def test_a_failed_check_that_may_need_another_node_names_what_creates_it(remedy, said):
    pool = dataclasses.replace(POOL, replacement="terminate the instance of the node")
    broken = {**entry("row-remapping", "fail", "failed"), "remediation": remedy}
    report = build_report([pool], [node()], {"serve-0": agent_report("serve-0", broken)})
    [found] = [check for one in report.nodes for check in one.checks if check.id == "row-remapping"]
    assert found.remediation == remedy
    assert found.replacement == ("terminate the instance of the node" if said else "")
    text = "To replace the node: terminate the instance of the node"
    assert (text in found.remedy) is said
    checks = [check for one in report.to_json()["nodes"] for check in one["checks"]]
    assert [one["replacement"] for one in checks if one["id"] == "row-remapping"] == [found.replacement]
    assert (text in as_junit(report)) is said
    assert ('<property name="replacement" value="terminate the instance' in as_junit(report)) is said
    [test] = [one for one in as_ctrf(report)["results"]["tests"] if "row-remapping" in one["name"]]
    assert test.get("extra") == ({"replacement": found.replacement} if said else None)
    assert (text in validation_page(report, "shop", load_catalog(), [])) is said
