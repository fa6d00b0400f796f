"""Launcher of a training job: `python -m gpu_platform_training.train [OPTIONS] module:function [ARGUMENTS]`.

In a pod, it is the container's command. It checks the pod's GPUs, starts one process for each GPU with torchrun's
agent, and ends with an exit code from `gpu_platform_training.exit_codes`. The processes run this module as well.
They join the job and call the function with a `gpu_platform_training.training.Training`.

Only Kubernetes restarts failed pods. The restarts of torchrun are disabled, so that every failure is handled and
counted in one place.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist
from torch.distributed import run as torchrun
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import RendezvousClosedError

from gpu_platform_training import exit_codes, metrics, options, parallel, stopping
from gpu_platform_training.checkpoints import NoGoodCheckpoint
from gpu_platform_training.granted import Granted, WrongSetting
from gpu_platform_training.training import Training

_WORKER: Final = "TORCHELASTIC_RUN_ID"  # set by torchrun in its workers
_FAILURE_FILE: Final = "last-failure.json"
# Maximum time for the pods of a job to rejoin after one of them failed.
_MEETING_SECONDS: Final = 900
# A signal that nobody sends, so that torchrun's agent leaves SIGTERM to the launcher.
_UNUSED_SIGNAL: Final = "SIGUSR2"

log = logging.getLogger("workloads")


def main(arguments: Sequence[str]) -> int:
    """Run the launcher of a pod, or one of the pod's processes in a torchrun worker. Return the exit code."""
    _configure_log()
    chosen = options.parse(arguments)
    try:
        granted = Granted.from_environment()
        if _WORKER in os.environ:
            return _work(chosen, granted)
        return _launch(arguments, granted)
    except WrongSetting as error:
        log.error("%s", error)
        return exit_codes.USAGE


# -- the pod ------------------------------------------------------------------------------------------------


def _launch(arguments: Sequence[str], granted: Granted) -> int:
    """Start the processes of this pod and wait for them."""
    broken = _missing_gpus(granted)
    if broken is not None:
        log.error("%s", broken)
        return exit_codes.NODE_FAULT
    notice = stopping.pass_on_by_file()
    args = torchrun.parse_args(
        [
            "--max-restarts=0",
            f"--signals-to-handle={_UNUSED_SIGNAL}",
            "--module",
            "gpu_platform_training.train",
            *arguments,
        ]
    )
    if "PET_NPROC_PER_NODE" not in os.environ:
        args.nproc_per_node = str(granted.gpus or max(1, torch.cuda.device_count()))
    given_up = time.monotonic() + _MEETING_SECONDS
    while True:
        try:
            torchrun.run(args)
        except ChildFailedError as error:
            code = exit_codes.worst([failure.exitcode for failure in error.failures.values()])
            log.error("the pod ends with exit code %d: %s", code, _meaning(code))
            return code
        except RendezvousClosedError:
            # Some pods of the failed attempt are still running.
            if notice.exists() or time.monotonic() > given_up:
                return exit_codes.INTERRUPTED if notice.exists() else exit_codes.FAILED
            time.sleep(5)
        else:
            return exit_codes.FINISHED


def _missing_gpus(granted: Granted) -> str | None:
    """Return a message if the pod has too few GPUs, or None."""
    if not granted.gpus:
        return None
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    # For CUDA, the shares or MIG instances of a pod are one device.
    expected = granted.gpus if granted.sharing == "none" else 1
    if found < expected:
        return f"the pod was granted {expected} GPUs, but CUDA finds {found}: the node or its driver is broken"
    return None


def _meaning(code: int) -> str:
    return {
        exit_codes.BUG: "another attempt would fail as well",
        exit_codes.NODE_FAULT: "a GPU or driver failed; another attempt may succeed",
        exit_codes.INTERRUPTED: "interrupted with its work saved; another attempt costs no retry",
        exit_codes.USAGE: "wrong arguments or settings",
    }.get(code, "another attempt may succeed")


# -- a process ----------------------------------------------------------------------------------------------


def _work(chosen: options.Options, granted: Granted) -> int:
    """Run one process of the training."""
    function = _function(chosen.target)
    notice = stopping.StopNotice()
    notice.listen()
    training: Training | None = None
    try:
        place = parallel.join()
        _warm_up(place, chosen, granted)
        training = Training(chosen, granted, place, notice)
        if chosen.metrics_port is not None and place.rank == 0:
            metrics.serve(training.metrics, chosen.metrics_port, {"process": str(place.rank)})
        with training.guard():
            function(training)
    except WrongSetting:
        raise
    except BaseException as error:
        code = _code_of(error, training, chosen, granted)
        if not isinstance(error, SystemExit):
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        # Exit immediately, because an orderly exit would wait for processes that are gone.
        os._exit(code)
    dist.destroy_process_group()
    return exit_codes.FINISHED


def _function(target: str) -> Callable[[Training], Any]:
    module, _, name = target.partition(":")
    if not module or not name:
        raise WrongSetting(f"found {target!r}, expected module:function, for example my_module:main")
    sys.path.insert(0, str(Path.cwd()))
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise  # the module exists, but an import in it failed
        raise WrongSetting(f"no module {module!r} in {Path.cwd()} or installed") from None
    function = getattr(loaded, name, None)
    if not callable(function):
        raise WrongSetting(f"{module} has no function {name!r}")
    return function


def _warm_up(place: parallel.ProcessRank, chosen: options.Options, granted: Granted) -> None:
    if chosen.warm_up_mib == 0:
        return
    found = parallel.bus_bandwidth(place, chosen.warm_up_mib)
    if found is not None and place.rank == 0:
        network = granted.interconnect or "no fabric"
        text = "all-reduce of %d MiB over %d processes (%s, %s): %.2f GB/s bus bandwidth"
        log.info(text, chosen.warm_up_mib, place.processes, dist.get_backend(), network, found)


def _code_of(error: BaseException, training: Training | None, chosen: options.Options, granted: Granted) -> int:
    if isinstance(error, NoGoodCheckpoint):
        return exit_codes.BUG
    repeated = training is not None and not isinstance(error, SystemExit) and _repeated(error, training, chosen)
    return exit_codes.code_of(
        error,
        saved=training is not None and training.saved,
        repeated=repeated,
        shared_memory=granted.shares_memory,
    )


def _repeated(error: BaseException, training: Training, chosen: options.Options) -> bool:
    """Return whether the last attempt that failed had the same error at the same step, and record this error."""
    directory = chosen.checkpoints or training.granted.checkpoints
    if directory is None or exit_codes.lost_peer(error):
        return False
    file = directory / _FAILURE_FILE
    text = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    own = {"step": training.step, "error": text, "attempt": training.attempt}
    try:
        before = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps(own))
    except (OSError, ValueError) as unreadable:
        log.warning("%s: %s", file, unreadable)
        return False
    same = before.get("step") == own["step"] and before.get("error") == own["error"]
    return same and before.get("attempt") != own["attempt"]


def _configure_log() -> None:
    logging.basicConfig(
        stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s", force=True
    )
    logging.getLogger("torch").setLevel(logging.WARNING)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
