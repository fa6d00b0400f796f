"""Text files that record the help, a successful call and a failing call of every command.

`python -m tests.cli.transcripts` writes them to tests/cli/transcripts/. A test compares them with the actual
output.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import typer
import urllib3
import yaml

from gpu_platform.base.paths import PROJECT_ROOT
from gpu_platform.cli.app import app
from gpu_platform.stack.project import version
from tests.extensions.reports.test_recipe import RECIPE
from tests.support.command_line import COMMAND, Ran, run
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.prometheus_api import Server
from tests.support.recordings import record_node
from tools.docs.cli import commands_of

FOLDER = Path(__file__).parent / "transcripts"
ASSETS = PROJECT_ROOT / "docs" / "assets"
_SHOWN = {
    "tmp": "TMP",
    "broken": "TMP/Pulumi.broken.yaml",
    "assets": "docs/assets",
    "port": "PORT",
    "prometheus": "PROMETHEUS",
}
# A row in the output of `doctor`.
# If a tool is not installed, only the state and the finding in its row differ.
_ROW = re.compile(r"(ok|absent|CHECK|MISSING) +(?P<name>\S+(?: \S+)*?) {2,}.*(?P<purpose>\(for: .*\))")
_SERVE = {"node-metrics"}  # these commands run until they are interrupted
_WORKLOADS = {
    "provider": "aws",
    "machine_families": ["g4dn", "g6"],
    "workloads": [
        {
            "name": "chat",
            "kind": "inference",
            "count": 6,
            "trust_domain": "shop",
            "gpu_memory": "10GB",
            "compute": 0.4,
        }
    ],
}
_MOST = 16  # maximum number of output lines of a successful call, because later lines change with the catalogue
# A successful and a failing call of each command. tests/e2e/transcripts.py records calls that need a cluster.
# `{tmp}` is a temporary folder, `{broken}` a stack file with a mistake, and `{assets}` is docs/assets.
CALLS: dict[str, tuple[str, ...]] = {
    "burn-in": ("burn-in {broken}",),
    "capacity show": ("capacity local", "capacity lokal"),
    "capacity suggest": (
        "capacity suggest --workloads {tmp}/workloads.yaml",
        "capacity suggest --workloads nowhere.yaml",
    ),
    "check": ("check local", "check {broken}"),
    "conformance": ("conformance eks-training", "conformance lokal"),
    "cost": ("cost local", "cost lokal"),
    "dashboards": (
        "dashboards --prometheus {prometheus} --board fleet --format json",
        "dashboards --prometheus http://localhost:9090 --board flet --set zone=a",
    ),
    "destroy": ("destroy {broken}",),
    "doctor": ("doctor local", "doctor lokal"),
    "guide": ("guide local vision", "guide local visoin"),
    "images": ("images local", "images lokal"),
    "init": (
        "init mine --provider eks --region us-east-2 --zone us-east-2a --out {tmp}/Pulumi.mine.yaml",
        "init mine --provider gke --out {tmp}/Pulumi.mine2.yaml",
    ),
    "machines list": ("machines list --gpu t4 --provider eks", "machines list --gpu h100-80g"),
    "machines show": ("machines show g6e.12xlarge", "machines show g6e.12xlarg", "machines show g6f.xlarge"),
    "mig check": ("mig check --gpu a100-80gb 3g.40gb:2", "mig check --gpu a100-80gb 3g.40gb:2 1g.10gb:2"),
    "mig list": ("mig list --gpu h100-80gb", "mig list --gpu t4"),
    "mig solve": ("mig solve --gpu a100-80gb --demand 1g.10gb:9", "mig solve --gpu a100-80gb --demand 1g.10gb"),
    "node-check": (
        "node-check --machine g5.12xlarge --replay {tmp}/node.json",
        "node-check --machine p5.48xlarg",
    ),
    "node-metrics": (
        "node-metrics --replay {tmp}/node.json --port {port}",
        "node-metrics --replay nowhere.json",
    ),
    "place": ("place local --workloads {assets}/pods.yaml", "place local", "place lokal"),
    "policies explain": (
        "policies explain cost-ceiling",
        "policies explain cost-ceiling --stack local",
        "policies explain cost-celing",
        "policies explain acme.image-registry",
    ),
    "policies list": ("policies list", "policies list --stack lokal"),
    "preview": ("preview {broken}",),
    "recipe": (
        "recipe local {tmp}/recipe.yaml",
        "recipe eks-training {tmp}/recipe.yaml",
        "recipe local nowhere.yaml",
    ),
    "rehearse": ("rehearse local --trace {assets}/jobs.csv", "rehearse local --trace nowhere.csv"),
    "production": ("production speech",),
    "render": ("render local --out {tmp}/rendered", "render lokal --out {tmp}/other"),
    "review": ("review local", "review {broken}"),
    "scheduler-config": ("scheduler-config local", "scheduler-config speech"),
    "sandbox down": ("sandbox down --name nowhere", "sandbox down --name Not_A_Name"),
    "sandbox fault": ("sandbox fault train-0 wrong --name nowhere",),
    "sandbox replay": ("sandbox replay train-0 {broken} --name nowhere",),
    "sandbox list": ("sandbox list", "sandbox list --format xml"),
    "sandbox status": ("sandbox status --name nowhere",),
    "sandbox up": ("sandbox up --name Not_A_Name",),
    "schema": ("schema --check", "schema --chek"),
    "team remove": ("team remove {broken} vision",),
    "up": ("up {broken}",),
    "upgrade": ("upgrade local --today 2026-11-25", "upgrade local --today yesterday"),
    "validate": ("validate {broken}",),
}


def names() -> list[str]:
    """Return the full names of all commands, such as `mig list`."""
    return [" ".join(path) for path, _ in commands_of(typer.main.get_command(app), ())]


def transcript(command: str) -> str:
    """Return the output of a command's help and calls, 80 columns wide."""
    # pytest's temporary folder is not used, because the length of its path would change the line breaks.
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="t") as folder:
        return _transcript(command, Path(folder))


def _transcript(command: str, folder: Path) -> str:
    broken = folder / "Pulumi.broken.yaml"
    shutil.copy(PROJECT_ROOT / "tests" / "broken_stacks" / "Pulumi.two_mistakes_in_one_pool.yaml", broken)
    (folder / "recipe.yaml").write_text(yaml.safe_dump(RECIPE), "utf-8")
    record_node(folder / "node.json", machine_type="g5.12xlarge", driver_version="580.65.06")
    (folder / "workloads.yaml").write_text(yaml.safe_dump(_WORKLOADS), "utf-8")
    port = str(free_port())
    prometheus = Server() if command == "dashboards" else None
    known = {
        "tmp": folder,
        "broken": broken,
        "assets": ASSETS,
        "port": port,
        "prometheus": prometheus.address if prometheus is not None else "",
    }
    environment = {
        "COLUMNS": "80",
        "GPU_PLATFORM_SANDBOX_DIR": str(folder / "sandboxes"),
        "NO_COLOR": "1",
        "TERM": "dumb",
    }
    parts: list[str] = []
    for call in (f"{command} -h", *CALLS[command]):
        words = [word.format(**known) for word in call.split(" ")]
        serves = command in _SERVE and "{port}" in call
        code, out, err = _served(words, environment, port) if serves else run(*words, env=environment)
        lines = list(_lines((out + err).replace(port, "PORT") if serves else out + err, folder))
        if command == "doctor":
            lines = [_ROW.sub(_without_what_this_machine_has, line) for line in lines]
        if code == 0 and not call.endswith("-h") and len(lines) > _MOST:
            lines = [*lines[:_MOST], "..."]
        shown = "\n".join(lines)
        parts.append(f"$ gpu-platform {call.format(**_SHOWN)}\n{shown}\n(exit {code})\n")
    if prometheus is not None:
        prometheus.stop()
    return "\n".join(parts)


def _served(words: list[str], environment: dict[str, str], port: str) -> Ran:
    """Run a command that serves metrics, request them once and interrupt it. Return its output and metrics."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*COMMAND, *words], env={**os.environ, **environment}, **streams) as process:
        metrics = eventually(lambda: _metrics(port))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    shown = [line for line in metrics.splitlines() if line.startswith("gpu_utilization_percent{")]
    return Ran(process.returncode, out, err + "".join(f"$ curl: {line}\n" for line in shown[:1]))


def _metrics(port: str) -> str:
    try:
        return urllib3.request("GET", f"http://localhost:{port}/metrics", retries=False).data.decode()
    except urllib3.exceptions.HTTPError:
        return ""


def _without_what_this_machine_has(row: re.Match[str]) -> str:
    return f"STATE  {row['name']}  FOUND  {row['purpose']}"


def _lines(text: str, folder: Path) -> Iterator[str]:
    """Yield the lines, with placeholders for values that differ between machines and releases."""
    text = text.replace(str(folder), "TMP").replace(str(PROJECT_ROOT), "PROJECT")
    text = text.replace(f"gpu-platform {version()} ", "gpu-platform VERSION ")
    text = text.replace(f"{platform.node()}: pass", "HOST: pass")
    text = text.replace(f'node="{platform.node()}"', 'node="HOST"')
    text = re.sub(r"\(\d+\.\d+ s\)", "(TIME)", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", re.sub(r"\b\d{10}\.\d+", "TIME", text))
    for line in text.rstrip().splitlines():
        yield re.sub(r"\d+ (resources|machine types|rules)\b", r"N \1", line).rstrip()


def file_of(command: str) -> Path:
    """Return the path of a command's transcript."""
    return FOLDER / f"{command.replace(' ', '-')}.txt"


def main() -> None:
    """Write all transcripts."""
    FOLDER.mkdir(exist_ok=True)
    for command in names():
        file_of(command).write_text(transcript(command), "utf-8")


if __name__ == "__main__":
    main()
