"""Every check of the agent, with tables of possible NVML readings."""

from __future__ import annotations

import json

import pynvml
import pytest
from agent_tables import NOT_SUPPORTED, expecting, findings, healthy_gpu, node, tolerating, verdict

from validators.agent.checks import run_checks, verdict_of
from validators.agent.expectations import Expectations, parse_expectations
from validators.agent.nvml import _kind
from validators.agent.outcome import unanswered
from validators.agent.snapshot import Reading, Snapshot

NO = "fail"
UNKNOWN = "unknown"
TOO_OLD = Reading(problem="function-not-found", call="nvmlDeviceGetX")


def rows(correctable, uncorrectable, *, pending=False, failed=False):
    return {"remapped_rows": (correctable, uncorrectable, pending, failed)}


def outcome(check, expected, gpu=None, **more):
    """Return the verdict and the observed value of a check on a node with one GPU."""
    entries = run_checks(node(gpu or healthy_gpu(), **more), expecting(**{check: expected}))
    [entry] = [entry for entry in entries if entry["id"] == check.replace("_", "-")]
    return entry["verdict"], entry["observed"]


@pytest.mark.parametrize(
    ("check", "expected", "reading", "verdict", "observed"),
    [
        ("gpu_product", "NVIDIA H100 80GB HBM3", {}, "pass", "NVIDIA H100 80GB HBM3"),
        ("gpu_product", "NVIDIA H100 80GB HBM3", {"name": "H100 80GB HBM3"}, "pass", "H100 80GB HBM3"),
        ("gpu_product", "NVIDIA H200", {}, NO, "NVIDIA H100 80GB HBM3"),
        ("gpu_product", "NVIDIA H200", {"name": TOO_OLD}, UNKNOWN, "nvmlDeviceGetX: function not found"),
        ("ecc", True, {}, "pass", "on"),
        ("ecc", True, {"ecc": (False, False)}, NO, "off"),
        ("ecc", True, {"ecc": (True, False)}, NO, "on, off after the next reset"),
        ("ecc", True, {"ecc": (False, True)}, NO, "off, on after the next reset"),
        ("ecc", True, {"ecc": NOT_SUPPORTED}, UNKNOWN, "nvmlDeviceGetX: not supported"),
        ("ecc", False, {"ecc": NOT_SUPPORTED}, "pass", "not supported"),
        ("mig_mode", True, {"mig_mode": (True, True)}, "pass", "on"),
        ("mig_mode", True, {"mig_mode": (False, True)}, NO, "off, on after the next reset"),
        ("mig_mode", False, {}, "pass", "off"),
        ("mig_mode", False, {"mig_mode": (True, True)}, NO, "on"),
        ("mig_mode", False, {"mig_mode": NOT_SUPPORTED}, "pass", "not supported"),
        ("mig_instances", [{"1g.10gb": 7}], {"mig_instances": {"1g.10gb": 7}}, "pass", "7 x 1g.10gb"),
        ("mig_instances", {"all": {"1g.10gb": 7}}, {"mig_instances": {"1g.10gb": 7}}, "pass", "7 x 1g.10gb"),
        ("mig_instances", [{"1g.10gb": 7}], {"mig_instances": {"1g.10gb": 6}}, NO, "6 x 1g.10gb"),
        ("mig_instances", [{"1g.10gb": 7}], {"mig_instances": {}}, NO, "no instances"),
        ("mig_instances", [{"1g.10gb": 0}], {"mig_instances": {}}, "pass", "no instances"),
        ("mig_instances", [{}], {"mig_instances": NOT_SUPPORTED}, "pass", "not supported"),
        (
            "mig_instances",
            [{"1g.10gb": 1, "3g.40gb": 2}],
            {"mig_instances": {"3g.40gb": 2, "1g.10gb": 1}},
            "pass",
            "1 x 1g.10gb, 2 x 3g.40gb",
        ),
        ("row_remapping", True, {}, "pass", "0 correctable, 0 uncorrectable"),
        ("row_remapping", True, rows(3, 512), "pass", "3 correctable, 512 uncorrectable"),
        ("row_remapping", True, rows(0, 513), NO, "0 correctable, 513 uncorrectable"),
        ("row_remapping", True, rows(0, 1, pending=True), NO, "0 correctable, 1 uncorrectable, one pending"),
        ("row_remapping", True, rows(0, 1, failed=True), NO, "0 correctable, 1 uncorrectable, one failed"),
        ("row_remapping", True, {"remapped_rows": NOT_SUPPORTED}, UNKNOWN, "nvmlDeviceGetX: not supported"),
        ("nvlink_count", 18, {}, "pass", "18 of 18 active"),
        ("nvlink_count", 18, {"nvlinks": [True] * 5 + [False] + [True] * 12}, NO, "17 of 18 active; inactive: 5"),
        ("nvlink_count", 18, {"nvlinks": [False] * 18}, NO, "0 of 18 active"),
        ("nvlink_count", 0, {"nvlinks": NOT_SUPPORTED}, "pass", "no NVLink"),
        ("nvlink_count", 18, {"nvlinks": NOT_SUPPORTED}, UNKNOWN, "nvmlDeviceGetX: not supported"),
        ("fabric_state", True, {}, "pass", "registered"),
        ("fabric_state", True, {"fabric": (2, 0)}, NO, "registration in progress"),
        ("fabric_state", True, {"fabric": (3, 999)}, NO, "registered, status 999"),
        ("fabric_state", True, {"fabric": NOT_SUPPORTED}, UNKNOWN, "nvmlDeviceGetX: not supported"),
        ("pcie_width", 16, {}, "pass", "x16"),
        ("pcie_width", 16, {"pcie_width": 8}, NO, "x8"),
        ("pcie_generation", 5, {"pcie_generation": 4}, NO, "generation 4"),
        ("pcie_generation", 5, {"pcie_generation": 6}, "pass", "generation 6"),
        ("pcie_generation", 5, {"pcie_generation": NOT_SUPPORTED}, UNKNOWN, "nvmlDeviceGetX: not supported"),
        ("numa_nodes", [0], {}, "pass", "node 0"),
        ("numa_nodes", [1], {}, NO, "node 0"),
        ("numa_nodes", [1], {"numa_node": -1}, UNKNOWN, "unknown (-1)"),
        ("throttle_reasons", True, {"throttle_reasons": 0x0}, "pass", "none"),
        ("throttle_reasons", True, {"throttle_reasons": 0x1 | 0x2 | 0x4 | 0x10 | 0x100}, "pass", "none"),
        ("throttle_reasons", True, {"throttle_reasons": 0x8}, NO, "hardware slowdown"),
        ("throttle_reasons", True, {"throttle_reasons": 0x20}, NO, "software thermal slowdown"),
        (
            "throttle_reasons",
            True,
            {"throttle_reasons": 0x40 | 0x80},
            NO,
            "hardware thermal slowdown, hardware power brake",
        ),
        ("throttle_reasons", True, {"throttle_reasons": TOO_OLD}, UNKNOWN, "nvmlDeviceGetX: function not found"),
        ("temperature", True, {"temperature": 86}, "pass", "86 °C"),
        ("temperature", True, {"temperature": 87}, NO, "87 °C"),
        ("temperature", True, {"slowdown_threshold": NOT_SUPPORTED}, "pass", "54 °C to the limit"),
        (
            "temperature",
            True,
            {"slowdown_threshold": NOT_SUPPORTED, "temperature_margin": -2},
            NO,
            "-2 °C to the limit",
        ),
        (
            "temperature",
            True,
            {"slowdown_threshold": NOT_SUPPORTED, "temperature_margin": TOO_OLD},
            UNKNOWN,
            "nvmlDeviceGetX: not supported",
        ),
    ],
)  # fmt: skip
def test_a_gpu_is_compared_with_its_expectation(check, expected, reading, verdict, observed):
    assert outcome(check, expected, healthy_gpu(**reading)) == (verdict, observed)


@pytest.mark.parametrize(
    ("check", "reading", "observed"),
    [
        ("ecc", "ecc", "not supported"),
        ("fabric-state", "fabric", "no NVLink between nodes"),
        ("mig-mode", "mig_mode", "not supported"),
        ("nvlink-count", "nvlinks", "no NVLink"),
        ("peer-access", "peers", "not supported"),
        ("row-remapping", "remapped_rows", "not supported"),
    ],
)
def test_only_an_unsupported_value_is_reported_without_expectation(check, reading, observed):
    for answer, text in ((NOT_SUPPORTED, observed), (TOO_OLD, "")):
        entries = run_checks(node(healthy_gpu(0, **{reading: answer})), Expectations())
        [entry] = [entry for entry in entries if entry["id"] == check]
        assert (entry["verdict"], entry["observed"]) == ("not-applicable", text)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [(81559, "pass"), (80336, "pass"), (80335, "fail"), (82782, "pass"), (82783, "fail"), (40960, "fail")],
)
def test_memory_may_differ_by_its_tolerance_and_no_more(found, verdict):
    entries = run_checks(node(healthy_gpu(memory_mib=found)), tolerating(1.5, gpu_memory=81559))
    [entry] = [entry for entry in entries if entry["id"] == "gpu-memory"]
    assert (entry["verdict"], entry["expected"]) == (verdict, "81559 MiB ±1.5 %")


@pytest.mark.parametrize(
    ("check", "expected", "driver", "verdict"),
    [
        ("driver_version", "580.65.06", "580.65.06", "pass"),
        ("driver_version", "580.65.06", "580.65.6", "fail"),
        ("driver_version", "580.65.06", "575.57.08", "fail"),
        ("driver_version", "580", "580.65.06", "pass"),
        ("driver_version", "580.65", "580.65.06", "pass"),
        ("driver_version", "580.6", "580.65.06", "fail"),
        ("driver_version", "575", "580.65.06", "fail"),
        ("driver_minimum", "450", "580.65.06", "pass"),
        ("driver_minimum", "580", "580.65.06", "pass"),
        ("driver_minimum", "580.65.06", "580.65.06", "pass"),
        ("driver_minimum", "580.126.01", "580.65.06", "fail"),
        ("driver_minimum", "1000", "580.65.06", "fail"),
    ],
)
def test_the_driver_is_compared_by_number_not_by_text(check, expected, driver, verdict):
    assert outcome(check, expected, driver=driver)[0] == verdict


@pytest.mark.parametrize(("rolled", "verdict"), [({}, NO), ({"rolled": True}, UNKNOWN)])
def test_another_driver_is_no_fault_of_a_node_where_the_platform_installs_it(rolled, verdict):
    entry = {"value": "580.65.06", "source": "", "remedy": "wait for the rollout", **rolled}
    held = {"version": 1, "expect": {"driver-version": entry}}
    expected = parse_expectations(json.dumps(held), "test")
    entries = run_checks(node(healthy_gpu(), driver="575.57.08"), expected)
    [found] = [one for one in entries if one["id"] == "driver-version"]
    assert (found["verdict"], found["observed"], verdict_of(entries)) == (verdict, "575.57.08", verdict)
    assert found["remediation"] == "wait for the rollout"


def test_another_driver_is_a_warning_if_it_is_installed_at_boot():
    held = {"version": 1, "expect": {"driver-version": {"value": "580.65.06", "source": "", "at_boot": True}}}
    entries = run_checks(node(healthy_gpu(), driver="575.57.08"), parse_expectations(json.dumps(held), "test"))
    [found] = [one for one in entries if one["id"] == "driver-version"]
    assert (found["verdict"], found["severity"], verdict_of(entries)) == (UNKNOWN, "warning", "pass")


@pytest.mark.parametrize(
    ("label", "verdict"),
    [("lab-old", UNKNOWN), ("lab-old-again", UNKNOWN), ("lab-new", NO), ("lab-new-again", NO), ("", NO)],
)
@pytest.mark.parametrize(("check", "value"), [("mig-mode", True), ("mig-instances", [{"1g.10gb": 7}])])
def test_a_layout_is_judged_only_on_a_node_whose_label_asks_for_it(label, verdict, check, value):
    found = layout_check(check, value, label, rolled=True)
    assert found["verdict"] == verdict
    assert ("requests MIG config lab-old, not lab-new: run `gpu-platform up`" in found["remediation"]) == (
        verdict == UNKNOWN
    )


@pytest.mark.parametrize("label", ["lab-old", "all-disabled", "lab-new", ""])
@pytest.mark.parametrize(("check", "value"), [("mig-mode", True), ("mig-instances", [{"1g.10gb": 7}])])
def test_nodes_that_only_their_owner_labels_fail_with_the_label_to_set(label, check, value):
    found = layout_check(check, value, label, rolled=False)
    assert found["verdict"] == NO
    asked = f"requests MIG config {label}, not lab-new: drain the node and set its label nvidia.com/mig.config"
    assert (asked in found["remediation"]) == (label in ("lab-old", "all-disabled"))


def layout_check(check, value, label, *, rolled):
    """Return the entry of a MIG check for a node with whole GPUs and the given MIG config label."""
    entry = {"value": value, "source": "", "mig_config": "lab-new", "rolled": rolled}
    expected = parse_expectations(json.dumps({"version": 1, "expect": {check: entry}}), "test")
    gpu = healthy_gpu(mig_mode=(False, False), mig_instances={})
    [found] = [one for one in run_checks(node(gpu), expected, label) if one["id"] == check]
    return found


@pytest.mark.parametrize(
    ("check", "expected"), [("driver-version", "580.65.06"), ("driver-minimum", "580 or newer")]
)
def test_a_driver_version_that_cannot_be_read_is_unknown(check, expected):
    unread = Snapshot(gpus=(healthy_gpu(),), driver_version=TOO_OLD, gpu_count=Reading(1))
    entries = run_checks(unread, expecting(**{check.replace("-", "_"): expected.removesuffix(" or newer")}))
    [entry] = [entry for entry in entries if entry["id"] == check]
    assert (entry["verdict"], entry["expected"]) == (UNKNOWN, expected)
    assert entry["observed"] == "nvmlDeviceGetX: function not found"


@pytest.mark.parametrize(
    ("check", "field", "default", "lower"),
    [("power-limit", "power_limit", 700_000, 600_000), ("application-clocks", "graphics_clock", 1980, 1500)],
)
def test_a_lower_limit_passes_on_all_gpus_alike_and_fails_on_some(check, field, default, lower):
    def judged(*limits):
        gpus = (healthy_gpu(index, **{field: (limit, default)}) for index, limit in enumerate(limits))
        entries = run_checks(node(*gpus), expecting(**{check.replace("-", "_"): True}))
        return [(entry["device"], entry["verdict"]) for entry in entries if entry["id"] == check]

    assert judged(lower, lower) == [(None, "pass")]
    assert judged(lower) == [(None, "pass")]
    assert judged(default, lower) == [("GPU 0", "pass"), ("GPU 1", "fail")]
    assert judged(lower, lower - 100) == [("GPU 0", "fail"), ("GPU 1", "fail")]


def test_seven_of_eight_gpus_fail():
    snapshot = node(*(healthy_gpu(index) for index in range(7)))
    assert findings(snapshot, expecting(gpu_count=8)) == [("gpu-count", None, "fail", "7")]


def test_more_gpus_than_declared_fail():
    snapshot = node(*(healthy_gpu(index) for index in range(8)))
    assert findings(snapshot, expecting(gpu_count=4)) == [("gpu-count", None, "fail", "8")]


def test_a_gpu_that_nvml_counts_and_that_does_not_answer_is_not_a_gpu():
    lost = Reading(problem="gpu-lost", call="nvmlDeviceGetHandleByIndex")
    snapshot = node(healthy_gpu(0), healthy_gpu(1, handle=lost, uuid=lost))
    assert ("gpu-count", None, "fail", "1 (GPU 1: gpu lost)") in findings(snapshot, expecting(gpu_count=2))


@pytest.mark.parametrize("unread", ["temperature", "handle"])
def test_a_gpu_off_the_bus_fails_without_an_expected_count(unread):
    lost = {unread: Reading(problem="gpu-lost", call="nvmlDeviceGetX")}
    snapshot = node(healthy_gpu(0), healthy_gpu(1, **lost))
    assert ("gpu-count", None, "fail", "1 (GPU 1: gpu lost)") in findings(snapshot, expecting())
    assert verdict(snapshot, expecting()) == "fail"


@pytest.mark.parametrize("unread", ["temperature", "utilization", "handle"])
@pytest.mark.parametrize("expected", [{}, {"gpu_count": 2}])
def test_a_gpu_that_says_that_it_must_be_reset_fails_with_that_remedy(unread, expected):
    problem = _kind(pynvml.NVMLError(pynvml.NVML_ERROR_RESET_REQUIRED))
    snapshot = node(healthy_gpu(0), healthy_gpu(1, **{unread: Reading(problem=problem, call="nvmlDeviceGetX")}))
    [found] = [one for one in run_checks(snapshot, expecting(**expected)) if one["verdict"] == "fail"]
    assert (found["id"], found["observed"]) == ("gpu-count", "1 (GPU 1: reset required)")
    assert "reset the GPU" in found["remediation"]
    assert verdict(snapshot, expecting(**expected)) == "fail"


@pytest.mark.parametrize("problem", ["reset-required", "gpu-lost"])
def test_pairwise_readings_do_not_count_a_gpu_as_missing(problem):
    broken = Reading(problem=problem, call="nvmlDeviceGetX")
    snapshot = node(healthy_gpu(0, peers=broken), healthy_gpu(1, temperature=broken, peers=broken))
    [found] = [one for one in run_checks(snapshot, expecting(gpu_count=2)) if one["id"] == "gpu-count"]
    assert found["observed"] == f"1 (GPU 1: {problem.replace('-', ' ')})"


def test_a_value_of_a_lost_gpu_says_to_power_cycle_the_node():
    lost = Reading(problem="gpu-lost", call="nvmlDeviceGetTemperature")
    assert "power-cycle the node" in unanswered(lost, "below 90 C").remediation


def test_a_gpu_lost_between_two_calls_is_not_a_gpu_either():
    lost = Reading(problem="gpu-lost", call="nvmlDeviceGetTemperature")
    snapshot = node(healthy_gpu(0), healthy_gpu(1, temperature=lost))
    assert findings(snapshot, expecting(gpu_count=2)) == [("gpu-count", None, "fail", "1 (GPU 1: gpu lost)")]


def test_gpus_that_the_container_may_not_open_are_unknown():
    barred = Reading(problem="no-permission", call="nvmlDeviceGetHandleByIndex")
    snapshot = node(healthy_gpu(0), healthy_gpu(1, handle=barred))
    [(check, _, verdict, _)] = findings(snapshot, expecting(gpu_count=2))
    assert (check, verdict) == ("gpu-count", "unknown")


def test_a_node_without_gpus_fails_its_count_and_its_other_checks_are_unknown():
    assert findings(node(), expecting(gpu_count=8, ecc=True)) == [
        ("gpu-count", None, "fail", "0"),
        ("ecc", None, "unknown", "no GPU found"),
    ]


def test_two_gpus_with_one_uuid_fail_without_anyone_expecting_it():
    snapshot = node(healthy_gpu(0), healthy_gpu(1), healthy_gpu(2, uuid="GPU-0"))
    assert findings(snapshot, Expectations()) == [
        ("gpu-uuid", None, "fail", "GPU 0 and GPU 2 are GPU-0"),
    ]


@pytest.mark.parametrize(
    ("value", "answer", "verdict"),
    [
        ("uuid", TOO_OLD, UNKNOWN),
        ("uuid", NOT_SUPPORTED, UNKNOWN),
        ("serial", TOO_OLD, UNKNOWN),
        ("serial", NOT_SUPPORTED, "not-applicable"),
    ],
)
def test_only_a_serial_number_may_be_unsupported(value, answer, verdict):
    entries = run_checks(node(healthy_gpu(0), healthy_gpu(1, **{value: answer})), Expectations())
    assert [entry["verdict"] for entry in entries if entry["id"] == f"gpu-{value}"] == [verdict]


def test_twelve_of_eighteen_links_pass_where_twelve_are_declared():
    links = [True] * 12 + [False] * 6
    assert outcome("nvlink_count", 12, healthy_gpu(nvlinks=links)) == ("pass", "12 of 18 active")


def test_a_pcie_card_with_unbridged_links_passes_where_none_are_declared():
    assert outcome("nvlink_count", 0, healthy_gpu(nvlinks=[False] * 12)) == ("pass", "0 of 12 active")


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (pynvml.NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED, "not supported by the chipset"),
        (pynvml.NVML_P2P_STATUS_GPU_NOT_SUPPORTED, "not supported by the GPU"),
        (pynvml.NVML_P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED, "not supported by the topology"),
        (pynvml.NVML_P2P_STATUS_DISABLED_BY_REGKEY, "disabled by the driver's settings"),
        (pynvml.NVML_P2P_STATUS_NOT_SUPPORTED, "not supported"),
        (pynvml.NVML_P2P_STATUS_UNKNOWN, "unknown"),
        (7, "status 7"),
    ],
)
def test_a_pair_without_peer_access_is_reported_with_its_reason(status, reason):
    reached, lonely = {1: (status, pynvml.NVML_P2P_STATUS_OK)}, {0: (pynvml.NVML_P2P_STATUS_OK, status)}
    snapshot = node(healthy_gpu(0, peers=reached), healthy_gpu(1, peers=lonely))
    assert findings(snapshot, expecting(peer_access=True)) == [("peer-access", None, "fail", f"1-0: {reason}")]


def test_links_do_not_matter_to_a_gpu_in_mig_mode():
    gpu = healthy_gpu(nvlinks=[False] * 12, mig_mode=(True, True))
    assert outcome("nvlink_count", 12, gpu)[0] == "not-applicable"


def test_remapped_rows_that_nvml_hides_behind_instances_do_not_stop_a_node():
    gpu = healthy_gpu(mig_instances={"1g.10gb": 7}, remapped_rows=NOT_SUPPORTED)
    assert outcome("row_remapping", True, gpu)[0] == "not-applicable"


def test_a_bank_without_spare_rows_fails_no_gpu_whether_or_not_it_has_instances():
    whole = healthy_gpu(banks_without_rows=1)
    cut = healthy_gpu(banks_without_rows=1, mig_instances={"1g.10gb": 7}, remapped_rows=NOT_SUPPORTED)
    assert outcome("row_remapping", True, whole)[0] == "pass"
    found = outcome("row_remapping", True, cut)
    assert found[0] == "not-applicable"
    assert "memory banks without spare rows: 1" in found[1]


def test_a_hidden_numa_node_is_unknown_and_fails_no_node():
    snapshot, held = node(healthy_gpu(numa_node=-1)), expecting(numa_nodes=[0])
    assert findings(snapshot, held) == [("numa-nodes", None, "unknown", "unknown (-1)")]
    assert verdict(snapshot, held) == "pass"


def test_a_critical_check_that_is_unknown_is_no_pass():
    assert verdict(node(healthy_gpu(ecc=TOO_OLD)), expecting(ecc=True)) == "unknown"


def test_a_failure_outweighs_an_unknown_check_whatever_its_severity():
    assert verdict(node(healthy_gpu(ecc=TOO_OLD, numa_node=1)), expecting(ecc=True, numa_nodes=[0])) == "fail"


def test_a_missing_gpu_gives_no_second_alarm_about_numa_nodes_or_layouts():
    snapshot = node(healthy_gpu(0), healthy_gpu(1))
    held = expecting(gpu_count=3, numa_nodes=[0, 1, 0], mig_instances=[{"1g.10gb": 7}, {}, {}])
    assert [(check, verdict) for check, _, verdict, _ in findings(snapshot, held)] == [
        ("gpu-count", "fail"),
        ("mig-instances", "unknown"),
        ("numa-nodes", "unknown"),
    ]


def test_a_layout_that_is_the_same_on_all_gpus_is_checked_where_one_is_missing():
    snapshot = node(healthy_gpu(0, mig_instances={"1g.10gb": 7}), healthy_gpu(1, mig_instances={}))
    held = expecting(mig_instances=[{"1g.10gb": 7}] * 3)
    assert findings(snapshot, held) == [("mig-instances", "GPU 1", "fail", "no instances")]


def test_gpus_that_agree_share_an_entry_and_the_odd_one_has_its_own():
    gpus = [healthy_gpu(index, pcie_width=8 if index == 2 else 16, numa_node=index // 2) for index in range(5)]
    entries = run_checks(node(*gpus), expecting(pcie_width=16, numa_nodes=[0, 0, 1, 1, 2]))
    shown = [(entry["id"], entry["device"], entry["observed"]) for entry in entries if entry["source"]]
    assert shown == [
        ("pcie-width", "GPUs 0-1, 3-4", "x16"),
        ("pcie-width", "GPU 2", "x8"),
        ("numa-nodes", None, "node 0, node 1, node 2"),
    ]


def test_a_check_without_an_expectation_is_not_applicable_and_shows_what_is():
    entries = run_checks(node(healthy_gpu()), Expectations())
    verdicts = {entry["id"]: entry["verdict"] for entry in entries}
    assert {verdicts.pop(check) for check in ("nvml", "gpu-uuid", "gpu-serial")} == {"pass"}
    assert set(verdicts.values()) == {"not-applicable"}
    assert {entry["observed"] for entry in entries if entry["id"] == "gpu-memory"} == {"81559 MiB"}


def test_what_needs_attention_has_a_remedy_and_a_source_and_what_passes_has_none():
    gpu = healthy_gpu(ecc=(False, False), pcie_width=TOO_OLD)
    entries = run_checks(node(gpu), expecting(ecc=True, pcie_width=16, gpu_count=1))
    assert [
        (entry["id"], bool(entry["remediation"]), entry["source"]) for entry in entries if entry["source"]
    ] == [
        ("gpu-count", False, "source of gpu_count"),
        ("ecc", True, "source of ecc"),
        ("pcie-width", True, "source of pcie_width"),
    ]


def test_nothing_passes_on_a_node_whose_nvml_did_not_answer():
    snapshot = Snapshot(failure="nvmlDeviceGetName on GPU 3 did not return within 20 s", remediation="reboot")
    entries = run_checks(snapshot, expecting(gpu_count=8, ecc=True, numa_nodes=[0]))
    told = {entry["id"]: entry["verdict"] for entry in entries if entry["verdict"] != "not-applicable"}
    assert told == dict.fromkeys(["nvml", "gpu-count", "ecc", "numa-nodes"], "unknown")
    assert verdict(snapshot, Expectations()) == "unknown"


def test_the_remedy_of_a_gpu_that_must_be_reset_turns_off_what_keeps_it_open():
    gpu = healthy_gpu(0, recovery_action=1)
    [found] = [one for one in run_checks(node(gpu), expecting(recovery_action=True)) if one["verdict"] == "fail"]
    first, second = "nvidia-smi --persistence-mode=0", "nvidia-smi --gpu-reset"
    assert 0 < found["remediation"].index(first) < found["remediation"].index(second)
