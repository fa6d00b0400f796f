"""`python -m sandbox.simulator --kubeconfig FILE`: runs until SIGTERM or SIGINT, and logs to standard output."""

from __future__ import annotations

import argparse
import signal
from pathlib import Path
from types import FrameType

from gpu_platform.catalog import load_catalog
from sandbox.simulator.controller import Controller
from sandbox.simulator.kube import Api, log
from sandbox.simulator.validation import ValidationPods


def main() -> None:
    """Run the simulator."""
    parser = argparse.ArgumentParser(prog="python -m sandbox.simulator", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True, metavar="FILE")
    parser.add_argument("--mig-seconds", type=float, default=0.5, help="duration of a MIG change (%(default)s)")
    parser.add_argument(
        "--driver-seconds", type=float, default=0.5, help="duration of a driver restart (%(default)s)"
    )
    parser.add_argument(
        "--agents",
        type=int,
        default=2,
        help="maximum number of node agents at a time (%(default)s)",
    )
    given = parser.parse_args()

    api = Api(given.kubeconfig)
    validation = ValidationPods(api, workers=given.agents)
    controller = Controller(
        api,
        load_catalog(),
        mig_seconds=given.mig_seconds,
        driver_seconds=given.driver_seconds,
        validation=validation,
    )

    def stop(_number: int, _frame: FrameType | None) -> None:
        controller.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    try:
        controller.run()
    finally:
        validation.stop()
    log("simulator: stopped")


if __name__ == "__main__":
    main()
