"""`python -m sandbox.kueue`: runs Kueue's controller until SIGTERM or SIGINT, and logs to standard output."""

from __future__ import annotations

import argparse
import signal
from pathlib import Path
from types import FrameType

from sandbox.kueue.runner import Runner
from sandbox.simulator.kube import Api, log


def main() -> None:
    """Run the controller as long as the stack uses Kueue."""
    parser = argparse.ArgumentParser(prog="python -m sandbox.kueue", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True, metavar="FILE")
    parser.add_argument("--binary", type=Path, required=True, metavar="FILE", help="Kueue's executable")
    parser.add_argument("--manifests", type=Path, required=True, metavar="FOLDER", help="folder of its Go module")
    parser.add_argument("--folder", type=Path, required=True, metavar="FOLDER", help="folder for its files")
    parser.add_argument("--port", type=int, required=True, help="port of its webhooks")
    given = parser.parse_args()
    runner = Runner(
        Api(given.kubeconfig), given.kubeconfig, given.binary, given.manifests, given.folder, given.port
    )

    def stop(_number: int, _frame: FrameType | None) -> None:
        runner.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    runner.run()
    log("kueue: ended")


if __name__ == "__main__":
    main()
