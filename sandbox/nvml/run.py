"""Runs the node agent with a simulated NVML: `python -m sandbox.nvml.run --profile FILE -- AGENT.pyz ARGS...`.

The agent reads NVML in a child process. If `GPU_PLATFORM_NVML_READER` is set, the agent starts the child process
with this command. This module sets the variable to its own command. In the agent's process it only runs the agent.
In the child process it installs the simulated NVML into the zipapp's `pynvml`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import runpy
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

READER_VARIABLE: Final = "GPU_PLATFORM_NVML_READER"  # same as in validators/agent/reading.py
SYSFS_VARIABLE: Final = "GPU_PLATFORM_SYSFS"
READ_COMMAND: Final = "read-nvml"


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the agent and exit with its exit code."""
    parser = argparse.ArgumentParser(prog="python -m sandbox.nvml.run", description=__doc__)
    parser.add_argument("--faults", action=_ListFaults, help="list the kinds of faults and exit")
    parser.add_argument("--profile", required=True, metavar="FILE", help="NodeProfile as JSON")
    parser.add_argument("agent", metavar="AGENT.pyz")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS")
    parsed = parser.parse_args(arguments)
    if parsed.arguments[:1] == [READ_COMMAND]:
        _read(parsed.profile, parsed.agent, parsed.arguments)
    environment = {**os.environ, **agent_environment(Path(parsed.profile), Path(parsed.agent))}
    os.execve(sys.executable, [sys.executable, parsed.agent, *parsed.arguments], environment)  # noqa: S606


def agent_environment(profile: Path, agent: Path) -> dict[str, str]:
    """Return the environment variables that make an agent read the simulated NVML of a profile file."""
    reader = [sys.executable, "-m", "sandbox.nvml.run", "--profile", str(profile), "--", str(agent)]
    return {READER_VARIABLE: json.dumps(reader), SYSFS_VARIABLE: os.devnull}


class _ListFaults(argparse.Action):
    """Option that, like `--version`, prints and exits before argparse checks required options."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *arguments: object) -> None:
        from sandbox.nvml import describe_faults

        print(describe_faults())
        parser.exit()


def _read(profile: str, agent: str, arguments: Sequence[str]) -> NoReturn:
    from gpu_platform.base.errors import GpuPlatformError
    from sandbox.nvml import install, parse_profile

    _end_with_parent()
    sys.path.insert(0, agent)
    bindings = importlib.import_module("pynvml")
    try:
        install(parse_profile(Path(profile).read_bytes(), profile), bindings=bindings)
    except (GpuPlatformError, OSError) as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    sys.argv = [agent, *arguments]
    runpy.run_path(agent, run_name="__main__")
    sys.exit(0)


def _end_with_parent() -> None:
    """End this process when its parent ends, even during a call that hangs."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main()
