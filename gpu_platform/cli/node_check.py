"""`gpu-platform node-check`: run the node agent once on this machine."""

from __future__ import annotations

import json
from pathlib import Path

from gpu_platform.catalog import Catalog, load_catalog
from gpu_platform.errors import BadInput, ExitCode, Problem, did_you_mean
from gpu_platform.planning.expectations import expectations_for_machine
from validators.agent.report import as_text, exit_code
from validators.this_node import check_this_node, read_document


def check_node(expect: Path | None, machine: str | None, *, to_json: bool) -> ExitCode:
    """Compare this machine with a file of expectations or a machine type; without either check its health."""
    if expect is not None and machine is not None:
        problem = Problem("--machine", repr(machine), "only one of --expect and --machine", "remove one of them")
        raise BadInput("node-check", [problem])
    if expect is not None:
        document, source = read_document(expect), str(expect)
    elif machine is not None:
        document, source = document_for_machine(machine, load_catalog()), f"machine type {machine}"
    else:
        document, source = None, "no expectations"
    report = check_this_node(document, source)
    print(json.dumps(report["checks"], indent=2) if to_json else as_text(report))
    return ExitCode(exit_code(report))


def document_for_machine(name: str, catalog: Catalog) -> str:
    """Return the Expectations JSON of a machine type; raises BadInput for one that the catalogue lacks."""
    machine = catalog.machine_types.get(name)
    if machine is None:
        known = catalog.machine_types
        allowed = "one of the machine types of the catalogue"
        raise BadInput("node-check", [Problem("--machine", repr(name), allowed, did_you_mean(name, known))])
    if not machine.has_gpus:
        allowed = "a machine type with GPUs: the node agent reads GPUs alone"
        raise BadInput("node-check", [Problem("--machine", repr(name), allowed, "remove --machine")])
    return json.dumps(expectations_for_machine(machine, catalog).to_json())
