"""`gpu-platform sandbox`: start, stop and show sandboxes, and inject faults into their simulated nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_platform.base.console import console
from gpu_platform.base.errors import BadInput, ExitCode, Problem, did_you_mean, suggestion
from gpu_platform.base.progress import Progress
from gpu_platform.cli.tables import Column, show_table
from sandbox import control_plane
from sandbox.control_plane import Status

if TYPE_CHECKING:
    from sandbox.nvml import Fault


def start(
    name: str,
    *,
    api_port: int | None,
    data_dir: Path | None,
    crds: Path | None,
    kubernetes: str | None,
    karpenter: bool,
    to_json: bool,
) -> None:
    """Start or upgrade a sandbox, or restart its stopped components, and print its address."""
    status = control_plane.up(
        name,
        api_port=api_port,
        data_dir=data_dir,
        crds_dir=crds,
        kubernetes=kubernetes,
        karpenter=karpenter,
        progress=Progress(quiet=to_json),
    )
    _print(status, to_json=to_json)


def list_sandboxes(*, to_json: bool) -> None:
    """Print the sandboxes of this machine, running or stopped."""
    found = [control_plane.status(name) for name in control_plane.names()]
    if to_json:
        print(json.dumps({"version": 1, "sandboxes": [status.to_json() for status in found]}, indent=2))
        return
    if not found:
        print("no sandbox: `gpu-platform sandbox up` starts one")
        return
    columns = (
        Column("name"),
        Column("state"),
        Column("Kubernetes"),
        Column("server", 1),
        Column("kubeconfig", 2),
    )
    rows = [
        (one.name, one.state, one.kubernetes, one.server or "", str(one.kubeconfig) if one.server else "")
        for one in found
    ]
    show_table(console(), columns, rows)


def stop(name: str, *, keep_data: bool, to_json: bool) -> None:
    """Stop a sandbox. Raises BadInput for a sandbox that this machine does not have."""
    if not control_plane.has_data(name):
        _check_name(name, "sandbox down")
    control_plane.down(name, keep_data=keep_data)
    if to_json:
        print(json.dumps({"version": 1, "name": name, "state": "stopped", "data_kept": keep_data}, indent=2))
        return
    print(f"sandbox {name}: stopped" + (", data kept" if keep_data else ", data deleted"))


def show(name: str, *, to_json: bool) -> ExitCode:
    """Print whether a sandbox is running."""
    status = control_plane.status(name)
    _print(status, to_json=to_json)
    return ExitCode.GOOD if status.state == "running" else ExitCode.FINDING


def set_faults(name: str, node: str, faults: list[str], *, to_json: bool) -> None:
    """Set the faults (JSON) of a simulated node, or remove all its faults.

    Raises BadInput for an invalid fault, and for a sandbox or node that does not exist.
    """
    for fault in faults:
        _check_json(fault)
    text = f"[{', '.join(faults)}]"
    _set(name, node, text, "sandbox fault")
    if to_json:
        print(json.dumps({"version": 1, "node": node, "faults": json.loads(text)}, indent=2))
        return
    print(f"{node}: " + (", ".join(faults) if faults else "no faults"))


def _check_json(fault: str) -> None:
    """Raise BadInput if a fault is not JSON, such as the bare name of a fault kind."""
    from sandbox.nvml import FAULT_KINDS

    try:
        json.loads(fault)
    except ValueError:
        named = suggestion(did_you_mean(fault.split()[0] if fault.split() else "", FAULT_KINDS)) or "gpu-missing"
        allowed = "a fault as JSON, in single quotes because of the shell"
        fix = f"""for example, write '{{"kind": "{named}", "index": 0}}'"""
        raise BadInput("sandbox fault", [Problem("FAULT", repr(fault), allowed, fix)]) from None


def list_faults(name: str, *, to_json: bool) -> None:
    """Print the faults of all simulated nodes. Raises BadInput for a sandbox that does not exist."""
    from gpu_platform.base.names import SANDBOX_FAULTS_CONFIG_MAP, SANDBOX_NAMESPACE
    from gpu_platform.base.paths import sandbox_kubeconfig
    from gpu_platform.live.client import KubernetesClient

    _check_name(name, "sandbox fault")
    client = KubernetesClient(sandbox_kubeconfig(name))
    config_map = client.get("v1", "ConfigMap", SANDBOX_FAULTS_CONFIG_MAP, namespace=SANDBOX_NAMESPACE) or {}
    data: Mapping[str, str] = config_map.get("data") or {}
    found = {node: [_shown(fault) for fault in json.loads(text)] for node, text in sorted(data.items())}
    if to_json:
        print(json.dumps({"version": 1, "faults": found}, indent=2))
        return
    for node, faults in found.items():
        print(f"{node}: " + ", ".join(json.dumps(fault) for fault in faults))
    if not found:
        print("no faults")


def _shown(fault: Mapping[str, Any]) -> dict[str, Any]:
    """Return a fault without the text of its recording."""
    return {key: value for key, value in fault.items() if key != "recording"}


def replay(name: str, node: str, file: Path | None, *, to_json: bool) -> None:
    """Make a simulated node replay the recording of a real node instead of simulating faults. Without `file`, end
    the replay.

    Raises BadInput for a file that is not a recording, for a recording with more GPUs than the node has, and for a
    sandbox or node that does not exist.
    """
    from sandbox.nvml import pack
    from validators.this_node import reader_of

    faults: list[dict[str, str]] = []
    if file is not None:
        reader_of(file, "sandbox replay", "FILE")  # raises BadInput for a file that is not a recording
        faults = [{"kind": "recorded-node", "recording": pack(file.read_text("utf-8"))}]
    _set(name, node, json.dumps(faults), "sandbox replay")
    if to_json:
        shown = None if file is None else str(file)
        print(json.dumps({"version": 1, "node": node, "replays": shown}, indent=2))
        return
    print(f"{node}: " + ("simulates its machine type without faults" if file is None else f"replays {file}"))


def _set(name: str, node: str, text: str, command: str) -> None:
    """Set the faults of a node. `text` is a JSON list, and an empty list removes all faults."""
    from gpu_platform.base.names import SANDBOX_FAULTS_CONFIG_MAP, SANDBOX_NAMESPACE
    from gpu_platform.base.paths import sandbox_kubeconfig
    from gpu_platform.live.client import KubernetesClient
    from sandbox.nvml import parse_faults

    parsed = parse_faults(text, "FAULT")
    _check_name(name, command)
    client = KubernetesClient(sandbox_kubeconfig(name))
    _check_node(node, parsed, list(client.objects("v1", "Node")), command)
    client.merge(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": SANDBOX_FAULTS_CONFIG_MAP, "namespace": SANDBOX_NAMESPACE},
            "data": {node: text if parsed else None},
        }
    )


def _check_name(name: str, command: str) -> None:
    """Raise BadInput for a sandbox that this machine does not have."""
    known = control_plane.names()
    if name not in known:
        allowed = ", ".join(known) or "none, because this machine has no sandbox"
        fix = (
            did_you_mean(name, known)
            or "run `gpu-platform sandbox list`, or start a sandbox with `gpu-platform sandbox up`"
        )
        raise BadInput(command, [Problem("--name", repr(name), allowed, fix)])


def _check_node(node: str, faults: Sequence[Fault], nodes: Sequence[Mapping[str, Any]], command: str) -> None:
    """Raise BadInput for a node that is not in the sandbox, and for a fault that its machine type cannot have."""
    from gpu_platform.base.names import SANDBOX_DRIVER_ANNOTATION, SANDBOX_MACHINE_ANNOTATION
    from gpu_platform.catalog import load_catalog
    from sandbox.nvml import NodeProfile, build_node

    found: dict[str, Mapping[str, str]] = {
        each["metadata"]["name"]: each["metadata"].get("annotations") or {} for each in nodes
    }
    machines = {name: notes for name, notes in found.items() if SANDBOX_MACHINE_ANNOTATION in notes}
    if node not in machines:
        allowed = ", ".join(sorted(machines)) or "none, because no stack is deployed"
        raise BadInput(command, [Problem("NODE", repr(node), allowed, did_you_mean(node, machines))])
    notes = machines[node]
    machine, driver = notes[SANDBOX_MACHINE_ANNOTATION], notes.get(SANDBOX_DRIVER_ANNOTATION, "580.65.06")
    if faults:
        build_node(
            NodeProfile(machine_type=machine, driver_version=driver, faults=tuple(faults), node=node),
            load_catalog(),
        )


def _print(status: Status, *, to_json: bool) -> None:
    if to_json:
        print(json.dumps(status.to_json(), indent=2))
        return
    if status.state == "absent":
        print(f"sandbox {status.name}: absent; `gpu-platform sandbox list` lists the sandboxes of this machine")
        return
    print(f"sandbox {status.name}: {status.state}, Kubernetes {status.kubernetes}")
    if status.server:
        print(f"  server      {status.server}")
    print(f"  kubeconfig  {status.kubeconfig}")
    for component, pid in status.pids.items():
        print(f"  {component:<24}{'process ' + str(pid) if pid else 'not running'}")
    if status.state == "degraded":
        what = (
            "some components are not running"
            if not all(status.pids.values())
            else "the API server does not answer"
        )
        print(f"  {what}: `gpu-platform sandbox up --name {status.name}` starts what is missing, or waits for it")
