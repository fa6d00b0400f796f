"""A node agent that is forked from a server behaves in the same way as in a separate Python process."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.catalog import load_catalog
from gpu_platform.planning.expectations import DeclaredNode, expectations_for_machine
from sandbox.nvml import NodeProfile
from sandbox.nvml.run import READER_VARIABLE, agent_environment
from sandbox.simulator.agents import Agents
from tests.support.eventually import eventually
from tests.support.processes import is_alive
from validators.zipapp import build_agent

MACHINE, DRIVER = "p4de.24xlarge", "580.95.05"


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agents]:
    agents = Agents(tmp_path_factory.mktemp("agents"))
    yield agents
    agents.stop()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Agents]:
    """Agents for one test. The test may stop their servers."""
    agents = Agents(tmp_path)
    yield agents
    agents.stop()


def zipapp(code: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("__main__.py", code)
    return buffer.getvalue()


PYTHON = zipapp("import sys; exec(sys.argv[1])")
ANOTHER, A_THIRD = (zipapp(f"import sys; exec(sys.argv[1]); {number}") for number in (2, 3))
WAIT = "import os, signal; print(os.getppid(), os.getpid(), flush=True); signal.pause()"


def run(
    command: list[str], env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, **options)


@pytest.mark.parametrize("faults", [[], [{"kind": "gpu-missing", "index": 3}], [{"kind": "nvml-crash"}]])
def test_the_shipped_agent_ends_as_in_an_interpreter_of_its_own(
    agents: Agents, tmp_path: Path, faults: list[Any]
) -> None:
    catalog = load_catalog()
    expected = expectations_for_machine(
        catalog.machine_types[MACHINE], catalog, DeclaredNode(pool="train", driver_version=DRIVER)
    )
    files = {name: tmp_path / name for name in ("agent", "profile", "expectations")}
    files["agent"].write_bytes(build_agent())
    profile = NodeProfile.model_validate({"machine_type": MACHINE, "driver_version": DRIVER, "faults": faults})
    files["profile"].write_text(profile.model_dump_json())
    files["expectations"].write_text(json.dumps(expected.to_json()))
    # On a busy machine, eight processes that crash one after the other may take longer than the default minute.
    arguments = ["check", "--expect", str(files["expectations"]), "--format", "json", "--deadline", "300"]
    simulated = {**os.environ, **agent_environment(files["profile"], files["agent"])}
    reader = json.dumps(agents.reader(build_agent(), files["profile"]))

    alone = run([sys.executable, str(files["agent"]), *arguments], simulated)
    forked = run(agents.command(build_agent(), *arguments), {**simulated, READER_VARIABLE: reader})

    assert (forked.returncode, forked.stderr) == (alone.returncode, alone.stderr)
    reports = [json.loads(ran.stdout) for ran in (forked, alone)]
    for report in reports:
        del report["time"], report["duration_seconds"]
    assert reports[0] == reports[1]


def test_a_process_inherits_only_from_its_client(agents: Agents, tmp_path: Path) -> None:
    code = (
        "import json, os, signal\n"
        "handlers = [str(signal.getsignal(one)) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)]\n"
        "open_files = len(os.listdir('/proc/self/fd'))\n"
        "said = sys.argv[2:], dict(os.environ), os.getcwd(), sys.stdin.read(), handlers, open_files\n"
        "os.environ['LEFT'] = sys.argv[0] = 'behind'\n"
        "print(json.dumps(said))"
    )
    file = tmp_path / "alone.pyz"
    file.write_bytes(PYTHON)
    for arguments, env in ((["a", "b c"], {"TOKEN": "é"}), ([], {"OTHER": "1"})):
        inputs: dict[str, Any] = {"env": env, "input": "in", "cwd": tmp_path}
        forked = run(agents.command(PYTHON, code, *arguments), **inputs)
        alone = run([sys.executable, str(file), code, *arguments], **inputs)
        assert forked.stderr == ""
        assert json.loads(forked.stdout) == json.loads(alone.stdout)


@pytest.mark.parametrize(
    ("code", "end", "last_error"),
    [
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit('why')", 1, "why"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
        ("import validators.nothing", 1, "ModuleNotFoundError: No module named 'validators.nothing'"),
        ("def", 1, "SyntaxError: invalid syntax"),
        ("import os; os.kill(os.getpid(), 11)", -signal.SIGSEGV, ""),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL, ""),
    ],
)
def test_the_client_ends_as_the_process_does(agents: Agents, code: str, end: int, last_error: str) -> None:
    ran = run(agents.command(PYTHON, code))
    assert ran.returncode == end
    assert (ran.stderr.splitlines() or [""])[-1] == last_error


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_process_is_killed_with_its_client(agents: Agents, how: signal.Signals) -> None:
    with subprocess.Popen(
        agents.command(PYTHON, WAIT), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as client:
        assert client.stdout is not None
        pid = int(client.stdout.readline().split()[1])
        assert is_alive(pid)
        client.send_signal(how)
    eventually(lambda: not is_alive(pid))


def test_a_child_of_an_agent_ends_when_the_agent_is_killed(agents: Agents) -> None:
    child = agents.command(PYTHON, WAIT)
    code = f"import subprocess, signal; child = subprocess.Popen({child!r}); signal.pause()"
    with subprocess.Popen(
        agents.command(PYTHON, code), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as client:
        assert client.stdout is not None
        pid = int(client.stdout.readline().split()[1])
        client.kill()
    eventually(lambda: not is_alive(pid))


def test_processes_of_two_zipapps_run_side_by_side_and_end_with_stop(own: Agents) -> None:
    clients = [
        subprocess.Popen(own.command(agent, WAIT), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for agent in (PYTHON, ANOTHER, PYTHON, ANOTHER)
    ]
    started = [[int(part) for part in client.stdout.readline().split()] for client in clients if client.stdout]
    servers = [server for server, _ in started]
    assert servers[:2] == servers[2:]
    assert servers[0] != servers[1]
    own.stop()
    for client in clients:
        assert client.communicate()[1] == "the process that starts node agents has ended\n"
        assert client.returncode == 1
    for server, process in started:
        assert not is_alive(server)
        eventually(lambda process=process: not is_alive(process))


@pytest.mark.long
def test_a_killed_server_restarts_and_a_third_zipapp_ends_the_oldest(own: Agents) -> None:
    def server(agent: bytes) -> int:
        return int(run(own.command(agent, "import os; print(os.getppid())")).stdout)

    killed = server(PYTHON)
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: not is_alive(killed))
    again, other = server(PYTHON), server(ANOTHER)
    assert server(PYTHON) == again
    server(A_THIRD)
    assert not is_alive(other)
    assert server(PYTHON) == again


@pytest.mark.long
def test_a_folder_may_be_deeper_than_the_address_of_a_socket(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    agents = Agents(deep)
    try:
        assert run(agents.command(PYTHON, "print('runs')")).stdout == "runs\n"
    finally:
        agents.stop()
