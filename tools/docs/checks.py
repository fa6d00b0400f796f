"""Generates the reference page for the validator's checks, from the texts in `checks.yaml` and the checks'
severities and remedies.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import yaml

from gpu_platform.base import names
from gpu_platform.catalog import load_catalog
from gpu_platform.catalog.models import Measure
from gpu_platform.planning.burn_in.section import BurnInPoolPlan, LeastBandwidth
from gpu_platform.planning.expectations import DeclaredNode, expectations_for_machine
from gpu_platform.planning.expectations.section import NodeExpectation
from gpu_platform.planning.teams.section import WorkloadPlan
from gpu_platform.planning.workloads.section import PodPlan
from sandbox.nvml import describe_faults
from tools.docs.markdown import GENERATED, block, code, table
from validators.agent.checks import run_checks
from validators.agent.expectations import parse_expectations
from validators.agent.snapshot import GpuSnapshot, Reading, Snapshot
from validators.burn_in import VERSION, burn_in_checks
from validators.cluster import check_node
from validators.devices import check_devices, check_nics
from validators.nvlink import check_domain
from validators.reservations import ExpectedReservation, check_reservation
from validators.result import CheckResult

_TEXTS = Path(__file__).with_name("checks.yaml")
_MACHINE_TYPE = "p5.48xlarge"
_LAYOUT = {"1g.10gb": 7}

_OF_OTHERS = ("retired-pages", "persistence", "processes")  # checks that do not apply to this machine type

_INTRODUCTION = """
# Validator checks

`gpu-platform validate` and the gate of `up` run these checks; [Validation](../validation.md) describes how. Each
result has one of four verdicts: `pass`, `fail`, `not-applicable` (nothing is expected) and `unknown` (the value
could not be read).

A `fail` fails the node whatever its severity. An `unknown` of a critical check makes the node `unknown`; an
`unknown` of a check of lower severity is only shown, because virtual machines and older drivers do not report
everything.
"""


def page() -> str:
    """Return the reference page in Markdown. Raises KeyError if the checks and `checks.yaml` do not match."""
    texts = yaml.safe_load(_TEXTS.read_text("utf-8"))
    node = dict(_node_checks())
    cluster = {check.id: check.to_json() for check in _cluster_checks()}
    cluster["node-agent"] = {"severity": "critical", "remediation": ""}
    active = {check.id: check.to_json() for check in _active_checks()}
    for kind, found in (("node", node), ("cluster", cluster), ("active", active)):
        if odd := set(found) ^ set(texts[kind]):
            raise KeyError(f"{_TEXTS.name}, {kind}: {', '.join(sorted(odd))}: has no text or no check")
    return "\n".join(
        (
            GENERATED + _INTRODUCTION,
            "## On the node\n",
            "The node agent compares NVML's values with the plan.\n",
            _table(texts["node"], node),
            "## From Kubernetes\n",
            "`up` and `validate` compare the API objects of nodes and pools with the plan.\n",
            _table(texts["cluster"], cluster),
            "## Active checks\n",
            "`gpu-platform burn-in` measures idle nodes if the stack file contains `validation.burn_in`.\n",
            _table(texts["active"], active),
            "## Simulated faults\n",
            "`gpu-platform sandbox fault NODE FAULT` takes these as JSON: `kind` and the fields after it.\n",
            block(describe_faults(), "text"),
        )
    )


def _table(texts: Mapping[str, Mapping[str, str]], checks: Mapping[str, Mapping[str, str]]) -> str:
    header = ("Check", "Compares", "Expected value from", "Severity", "When it fails")
    return table(
        header,
        [
            (
                code(check),
                text["compares"],
                text["source"],
                checks[check]["severity"],
                text.get("remedy") or checks[check]["remediation"],
            )
            for check, text in texts.items()
        ],
    )


def _node_checks() -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield each check of the agent, with its severity and its remedy for a broken node."""
    catalog = load_catalog()
    machine = catalog.machine_types[_MACHINE_TYPE]
    declared = DeclaredNode(driver_version="580.65.06", mig_layouts=[_LAYOUT] * machine.gpu_count)
    expected = expectations_for_machine(machine, catalog, declared)
    document = expected.to_json()
    document["expect"] |= {"fabric-nics": {"value": {"efa": 4}}, "nic-affinity": {"value": "efa"}}
    document["expect"] |= {"fabric-mtu": {"value": {"efa": 8896}}, "imex-domain": {"value": True}}
    document["expect"] |= {"locked-memory": {"value": True}}
    document["expect"] |= {check: {"value": True, "source": ""} for check in _OF_OTHERS}
    expectations = parse_expectations(json.dumps(document), _MACHINE_TYPE)
    found: dict[str, Mapping[str, str]] = {}
    # If a GPU is missing, checks that depend on indices are unknown, so a node with all GPUs is also checked.
    for count in (machine.gpu_count, machine.gpu_count - 1):
        for entry in run_checks(_broken(count), expectations):
            if entry["id"] not in found or not found[entry["id"]]["remediation"]:
                found[entry["id"]] = entry
    yield from found.items()


def _broken(gpus: int) -> Snapshot:
    """Return a snapshot of a node on which every reading is wrong."""
    return Snapshot(
        gpus=tuple(
            GpuSnapshot(
                index=index,
                pci=Reading((0, 0x10 + index, 0)),
                handle=Reading(True),
                name=Reading("Tesla T4"),
                uuid=Reading("GPU-0"),
                memory_mib=Reading(1),
                ecc=Reading((False, False)),
                mig_mode=Reading((False, False)),
                mig_instances=Reading({}),
                throttle_reasons=Reading(0x8),
                temperature=Reading(99),
                slowdown_threshold=Reading(90),
                remapped_rows=Reading((0, 0, True, False)),
                fabric_domain=Reading(("0", index)),
                growth=Reading({"seconds": 60, "NVLink replays": 1}),
                serial=Reading("1"),
                vbios=Reading(str(min(index, 1))),
                peers=Reading({index + 1: (0, 5)}),
                persistence=Reading(False),
                compute_mode=Reading(2),
                graphics_clock=Reading((1, 2)),
                power_limit=Reading((1000, 2000)),
                ecc_errors=Reading({"memory": 1}),
                sram_exceeded=Reading(True),
                retired_pages=Reading((0, 1, True)),
                recovery_action=Reading(1),
                processes=Reading([(1, 1)]),
                nvlinks=Reading([False]),
                pcie_width=Reading(1),
                pcie_generation=Reading(1),
                numa_node=Reading(7),
                fabric=Reading((2, 0)),
            )
            for index in range(gpus)
        ),
        driver_version=Reading("1.0"),
        gpu_count=Reading(gpus),
        xids=Reading([(79, 0, 0x10, 0, 60, "")]),
        interfaces=Reading([("efa", "eth1", 1460)]),
        locked_memory=Reading(8 * 2**20),
        pci_devices=Reading(
            [
                ("gpu", "0000:10:00.0", ("pci0000:00", "0000:00:01.0")),
                ("gpu", "0000:11:00.0", ("pci0000:01", "0000:01:01.0")),
                ("efa", "0000:12:00.0", ("pci0000:00", "0000:00:01.0")),
            ]
        ),
    )


def _cluster_checks() -> Iterator[CheckResult]:
    """Yield the failure of each cluster check on a node whose properties are all wrong."""
    expectation = NodeExpectation(
        pool="train",
        allocatable={names.GPU_RESOURCE: 8},
        labels={names.DEVICE_PLUGIN_CONFIG_LABEL: "train", names.MIG_STATE_LABEL: "success"},
        taints=({"key": names.GPU_TAINT_KEY, "value": names.GPU_TAINT_VALUE, "effect": "NoSchedule"},),
        gpu_devices=8,
        mig_profiles=("1g.10gb",),
        nic_driver="dra.net",
        nic_devices=32,
    )
    labels = {names.DEVICE_PLUGIN_CONFIG_LABEL: "default"}
    conditions = [{"type": "Ready", "status": "False"}]
    node: Mapping[str, Any] = {
        "metadata": {"name": "NODE", "labels": labels},
        "status": {"conditions": conditions},
    }
    # The labels are assumed to be correct, because a wrong device plugin is more common than a wrong label.
    plain = {**node, "metadata": {"name": "NODE", "labels": dict(expectation.labels)}}
    for check in check_node(plain, expectation):
        if check.id == "allocatable":
            yield check
    of_slices = (*check_devices("NODE", [], expectation), *check_nics("NODE", [], expectation))
    for check in (*check_node(node, expectation), *of_slices):
        if check.id != "allocatable":
            yield check
    rack = NodeExpectation(pool="rack", allocatable={}, labels={}, one_clique=True)
    domain = check_domain(
        rack, [{"metadata": {"name": name, "labels": {names.GPU_CLIQUE_LABEL: name}}} for name in "ab"]
    )
    assert domain is not None  # noqa: S101 - the pool is a rack, and has nodes
    yield domain
    yield check_reservation(
        ExpectedReservation(
            node_class="train", reservation="ID", machine_type=_MACHINE_TYPE, zone="us-east-2a", source=""
        ),
        [],
    )


def _active_checks() -> Iterator[CheckResult]:
    """Yield the failure of each active check on a node where every result is slow or wrong."""
    least = LeastBandwidth(gb_per_second=1.0, source="")
    pod = PodPlan(workload=_pause())
    pool = BurnInPoolPlan(
        pool="train",
        machine_type=_MACHINE_TYPE,
        gpus_per_node=2,
        skipped="",
        alone=pod,
        together=pod,
        not_together="",
        network="efa",
        claims=(),
        least=dict.fromkeys(get_args(Measure), least),
        seconds=0,
    )
    slow = {
        "version": VERSION,
        "host_to_device": [0.0, 0.0],
        "device_to_host": [0.0, 0.0],
        "device_to_device": [0.0, 0.0],
        "wrong_products": [1, 0],
        "products": ["a", "b"],
        "all_reduce": {"gb_per_second": 0.0, "bytes": 0, "right": True},
    }
    yield from burn_in_checks({"node_uid": "", "time": "", "alone": slow, "together": slow}, pool, "")


def _pause() -> WorkloadPlan:
    return WorkloadPlan(
        name="",
        pool="",
        replicas=1,
        image="",
        command=(),
        resource="",
        units=0,
        cpu="",
        memory="",
        priority_class="",
        node_selector={},
        tolerations=(),
    )
