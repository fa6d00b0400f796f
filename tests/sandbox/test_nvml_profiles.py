"""The effects of profiles and faults of simulated nodes, and the errors for invalid ones."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from sandbox.nvml import FAULT_KINDS, NodeProfile, build_node, parse_faults, parse_profile

CONTRACT = {
    "gpu-missing", "nvlink-degraded", "mig-wrong-layout", "mig-config-failed", "hardware-slowdown", "thermal",
    "row-remap-pending", "row-remap-failed", "ecc-disabled", "ecc-pending", "pcie-width", "wrong-driver",
    "gpu-lost", "nvml-hang", "nvml-missing", "numa-unknown", "duplicate-uuid", "memory-short",
}  # fmt: skip


def profile(**more):
    fields: dict[str, Any] = {"machine_type": "p4de.24xlarge", "driver_version": "580.65.06", **more}
    return NodeProfile(**fields)


def test_every_fault_of_the_field_can_be_simulated():
    assert set(FAULT_KINDS) >= CONTRACT


def test_every_fault_is_documented_with_its_fields():
    command = [sys.executable, "-m", "sandbox.nvml.run", "--faults"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    listed = [line.split()[0] for line in text.splitlines() if not line.startswith(" ")]
    assert listed == list(FAULT_KINDS)
    assert "nvlink-degraded index link=0\n    One NVLink of the GPU is inactive." in text


def test_a_profile_survives_json():
    given = profile(
        mig_layout=({"1g.10gb": 7}, None),
        faults=({"kind": "gpu-missing", "index": 3}, {"kind": "nvml-hang"}),
        node="train-0",
    )
    assert parse_profile(given.model_dump_json()) == given


def test_the_same_node_has_the_same_uuids_and_another_node_has_others():
    catalog = load_catalog()
    here, again, there = (
        {gpu.uuid for gpu in build_node(profile(node=node), catalog).gpus} for node in ("a", "a", "b")
    )
    assert here == again
    assert len(here) == 8
    assert not here & there


def test_mig_mode_takes_the_links_of_its_gpu_down():
    sliced, whole, *_ = build_node(profile(mig_layout=({},)), load_catalog()).gpus
    assert (any(sliced.links), all(whole.links)) == (False, True)


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        ([{"kind": "gpu-mising", "index": 1}], "[0].kind: found \"gpu-mising\"; .*did you mean 'gpu-missing'"),
        ([{"index": 1}], "[0].kind: found nothing; allowed: one of clocks-lowered"),
        (
            [{"kind": "gpu-missing"}],
            "[0].index: found nothing; allowed: a whole number of 0 or more. Fix: add index: 0",
        ),
        (
            [{"kind": "gpu-missing", "index": "3"}],
            '[0].index: found "3"; allowed: a whole number of 0 or more. Fix: write 3 without quotes',
        ),
        (
            [{"kind": "nvml-missing", "index": 3}],
            "[0].index: found unknown key 'index'; allowed: one of kind. Fix: remove it",
        ),
        ([{"kind": "pcie-width", "index": 0, "width": 3}], "[0].width: found 3; allowed: one of 1, 2, 4, 8"),
        (
            [{"kind": "nvml-hang", "call": "nvmlDeviceGetTempreature"}],
            '[0].call: found "nvmlDeviceGetTempreature"; allowed: an NVML function, such as '
            "nvmlDeviceGetTemperature. Fix: did you mean 'nvmlDeviceGetTemperature'",
        ),
    ],
)
def test_a_wrong_fault_is_refused_with_place_and_what_is_allowed(faults, said):
    with pytest.raises(BadInput, match=said.replace("[", r"\[")):
        parse_faults(json.dumps(faults), "gpu-faults")


def test_every_wrong_fault_is_named_at_once():
    with pytest.raises(BadInput) as raised:
        parse_faults('[{"kind": "a"}, {"kind": "gpu-missing"}, {"kind": "nvml-missing"}]', "gpu-faults")
    assert [problem.path for problem in raised.value.problems] == ["[0].kind", "[1].index"]


def test_text_that_is_not_json_is_refused():
    with pytest.raises(BadInput, match="text that is not JSON"):
        parse_profile("machine_type: t4")


@pytest.mark.parametrize(
    ("given", "path", "said"),
    [
        ({"machine_type": "p4de.24xlage"}, "machine_type", "did you mean 'p4de.24xlarge'"),
        ({"mig_layout": ({"1g.5gb": 1},)}, "mig_layout[0].1g.5gb", "1g.10gb"),
        ({"machine_type": "g4dn.xlarge", "mig_layout": ({},)}, "mig_layout[0]", "t4 has no MIG"),
        (
            {"machine_type": "g4dn.xlarge", "faults": ({"kind": "mig-change-failed"},)},
            "faults[0]",
            "none on t4: it has no MIG",
        ),
        ({"faults": ({"kind": "thermal", "index": 8},)}, "faults[0].index", "0 to 7"),
        ({"faults": ({"kind": "nvlink-degraded", "index": 0, "link": 12},)}, "faults[0].link", "0 to 11"),
        (
            {"faults": ({"kind": "mig-wrong-layout", "index": 0, "instances": {"9g.1gb": 1}},)},
            "faults[0].instances.9g.1gb",
            "1g.10gb",
        ),
    ],
)
def test_what_the_machine_does_not_have_is_refused(given, path, said):
    with pytest.raises(BadInput) as raised:
        build_node(profile(**given), load_catalog())
    [problem] = raised.value.problems
    assert problem.path == path
    assert said in str(problem)
