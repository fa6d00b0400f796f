"""The typed form of expectations that planning writes, its hash, and the agent's separate parser."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from agent_tables import healthy_gpu, node, of_machine

from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from gpu_platform.cli.node_check import document_for_machine
from gpu_platform.planning.expectations import DeclaredNode, expectations_for_machine
from gpu_platform.planning.expectations.section import Expectation, expectations_hash
from validators.agent.checks import run_checks
from validators.agent.cli import main as agent_main
from validators.agent.expectations import BadExpectations, health_of, parse_expectations
from validators.agent.recording import BadRecording, read_recording
from validators.this_node import check_this_node, read_document, reader_of


def machine(name):
    return load_catalog().machine_types[name]


def expected_of(name, **choices):
    return expectations_for_machine(machine(name), load_catalog(), DeclaredNode(**choices))


def values_of(name, **choices):
    expect = expected_of(name, **choices).expect
    return {
        check: entry.value for check, entry in expect.items() if check != "xid"
    }  # the value of `xid` is a large table


def test_expectations_of_a_machine_type_describe_its_gpus():
    assert values_of("p4de.24xlarge") == {
        "gpu-count": 8,
        "gpu-product": "NVIDIA A100-SXM4-80GB",
        "gpu-memory": 81920,
        "driver-minimum": "450",
        "nvlink-count": 12,
        "throttle-reasons": True,
        "temperature": True,
        "ecc": True,
        "row-remapping": True,
        "pcie-width": 16,
        "pcie-generation": 4,
        "numa-nodes": [0, 0, 0, 0, 1, 1, 1, 1],
        "application-clocks": True,
        "compute-mode": "default",
        "ecc-errors": True,
        "error-growth": True,
        "fabric-manager": True,
        "firmware": True,
        "peer-access": True,
        "power-limit": True,
        "recovery-action": True,
        "sram-errors": True,
    }


def test_every_expectation_has_a_source():
    expect = expected_of("p4de.24xlarge").expect
    source = str(machine("p4de.24xlarge").source)
    assert expect["gpu-count"].source == f"machine type p4de.24xlarge ({source})"
    assert all(entry.source for entry in expect.values())


def test_what_the_catalogue_does_not_know_is_not_expected():
    assert "numa-nodes" not in values_of("g4dn.xlarge")
    assert "row-remapping" not in values_of("g4dn.xlarge")


def test_a_pcie_cards_slot_is_not_compared_with_what_the_card_supports():
    assert "pcie-width" not in values_of("g5.48xlarge")
    assert "pcie-generation" not in values_of("g5.48xlarge")


def test_a_stated_driver_is_expected_exactly():
    entry = expected_of("g4dn.xlarge", driver_version="580.65.06", driver_source="stack").expect["driver-version"]
    assert (entry.value, entry.source) == ("580.65.06", "stack")


@pytest.mark.parametrize(
    ("layouts", "expected"),
    [
        (None, {}),
        ([{}] * 8, {"mig-mode": False}),
        ([{"1g.10gb": 7}] * 8, {"mig-mode": True, "mig-instances": [{"1g.10gb": 7}] * 8}),
        ([{"1g.10gb": 7}, *[{}] * 7], {"mig-instances": [{"1g.10gb": 7}, *[{}] * 7]}),
    ],
)
def test_a_mig_layout_sets_the_expected_mode_and_instances(layouts, expected):
    values = values_of("p4de.24xlarge", mig_layouts=layouts, mig_source="stack")
    assert {check: value for check, value in values.items() if check.startswith("mig-")} == expected


def test_every_check_of_the_agent_can_be_expected_and_nothing_else():
    with pytest.raises(BadExpectations) as error:
        parse_expectations('{"version": 1, "expect": {"?": {"value": 1}}}', "test")
    accepted = set(error.value.problems[0].allowed.split(", "))
    checks = {entry["id"] for entry in run_checks(node(healthy_gpu()), health_of(node(healthy_gpu())))}
    # The checks of NVML itself and of unique UUIDs and serial numbers need no expectation.
    assert accepted == checks - {"nvml", "gpu-uuid", "gpu-serial"}


def test_the_hash_changes_with_what_is_expected_and_with_nothing_else():
    first, again = expected_of("g4dn.xlarge", pool="a"), expected_of("g4dn.xlarge", pool="a")
    assert first.hash == again.hash
    assert len(first.hash) == 12
    other = replace(first, expect={**first.expect, "gpu-count": Expectation(2, "test")})
    assert first.hash != other.hash
    assert first.hash != expected_of("g4dn.xlarge", pool="b").hash


def test_the_document_carries_the_hash_of_its_rest():
    document = json.loads(json.dumps(expected_of("g4dn.xlarge").to_json()))
    assert document["hash"] == expectations_hash(document) == expected_of("g4dn.xlarge").hash


def test_only_memory_has_a_tolerance():
    document = expected_of("g4dn.xlarge").to_json()
    tolerant = [check for check, entry in document["expect"].items() if "tolerance_percent" in entry]
    assert tolerant == ["gpu-memory"]


def test_what_planning_writes_is_what_the_agent_reads():
    catalog = load_catalog()
    for name, machine in ((name, one) for name, one in catalog.machine_types.items() if one.has_gpus):
        written = expectations_for_machine(
            machine, catalog, DeclaredNode(mig_layouts=[{}] * machine.gpu_count)
        ).expect
        read = of_machine(name, mig_layouts=[{}] * machine.gpu_count).expect
        assert {check: entry.value for check, entry in read.items()} == {
            check: entry.value for check, entry in written.items()
        }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "text that is not JSON"),
        ("[]", "(the whole file): found a list; allowed: an object"),
        ('{"version": 1}', "expect: found nothing; allowed: an object of check ids"),
        ('{"version": 2, "expect": {}}', "version: found 2; allowed: 1"),
        ('{"version": 1, "pool": 3, "expect": {}}', "pool: found a number; allowed: text"),
        ('{"version": 1, "machine_type": 3, "expect": {}}', "machine_type: found a number; allowed: text"),
        ('{"version": 1, "hash": [], "expect": {}}', "hash: found a list; allowed: text"),
        ('{"version": 1, "expect": {"gpu-cuont": {"value": 8}}}', "Fix: did you mean 'gpu-count'?"),
        ('{"version": 1, "expect": {"gpu-count": 8}}', "expect.gpu-count: found a number; allowed: an object"),
        ('{"version": 1, "expect": {"gpu-count": {"value": "8"}}}', 'gpu-count.value: found "8"; allowed: a'),
        ('{"version": 1, "expect": {"gpu-count": {"value": true}}}', "expect.gpu-count.value: found true"),
        ('{"version": 1, "expect": {"ecc": {"value": 1}}}', "expect.ecc.value: found 1; allowed: true or false"),
        ('{"version": 1, "expect": {"driver-minimum": {"value": "R450"}}}', 'minimum.value: found "R450"'),
        ('{"version": 1, "expect": {"numa-nodes": {"value": [0, -1]}}}', "expect.numa-nodes.value: found [0, -1]"),
        ('{"version": 1, "expect": {"mig-instances": {"value": {"1g.10gb": 7}}}}', "expect.mig-instances.value"),
        ('{"version": 1, "expect": {"mig-instances": {"value": [{"1g.10gb": -1}]}}}', "mig-instances.value"),
        ('{"version": 1, "expect": {"mig-instances": {"value": [3]}}}', "expect.mig-instances.value: found [3]"),
        (
            '{"version": 1, "expect": {"gpu-memory": {"value": 1, "tolerance_percent": 100}}}',
            "expect.gpu-memory.tolerance_percent: found 100; allowed: a number from 0 to less than 100",
        ),
        (
            '{"version": 1, "expect": {"gpu-memory": {"value": 1, "tolerance_percent": -0.5}}}',
            "expect.gpu-memory.tolerance_percent: found -0.5; allowed: a number from 0",
        ),
    ],
)  # fmt: skip
def test_wrong_expectations_are_refused_with_place_and_what_is_allowed(text, said):
    with pytest.raises(BadExpectations) as raised:
        parse_expectations(text, "expectations.json")
    assert said in str(raised.value)


@pytest.mark.parametrize("percent", [0, 99.5])
def test_a_tolerance_may_be_as_low_as_0_and_is_below_100(percent):
    entry = {"value": 1, "tolerance_percent": percent}
    document = json.dumps({"version": 1, "expect": {"gpu-memory": entry}})
    assert parse_expectations(document, "x").expect["gpu-memory"].tolerance_percent == percent


def test_node_check_without_expectations_still_gives_a_report():
    assert check_this_node(None, "none", reader_of(None))["version"] == 1


def test_node_check_refuses_wrong_expectations_as_the_rest_of_the_program_does():
    with pytest.raises(BadInput, match="expect: found nothing; allowed: an object of check ids"):
        check_this_node('{"version": 1}', "expectations.json", reader_of(None))


def test_node_check_knows_every_machine_type_and_suggests_for_a_near_miss():
    catalog = load_catalog()
    assert parse_expectations(document_for_machine("p5.48xlarge", catalog), "x").machine_type == "p5.48xlarge"
    with pytest.raises(BadInput, match=r"did you mean 'p5.48xlarge'"):
        document_for_machine("p5.48xlage", catalog)


def test_node_check_refuses_a_file_that_is_not_there(tmp_path):
    with pytest.raises(BadInput, match="no such file"):
        read_document(tmp_path / "none.json")


def test_a_file_in_another_encoding_is_named_without_the_words_of_a_codec(tmp_path, capsys):
    file = tmp_path / "latin.json"
    file.write_bytes(b'{"pool": "l\xf6ss"}')
    said = "not UTF-8 text: byte 11 is 0xf6"
    with pytest.raises(BadInput, match=said):
        read_document(file)
    with pytest.raises(BadRecording, match=f"{said}; allowed: a readable recording"):
        read_recording(file)
    assert agent_main(["check", "--expect", str(file)]) == 2
    assert f"latin.json: {said}; allowed: a readable expectations file" in capsys.readouterr().err
