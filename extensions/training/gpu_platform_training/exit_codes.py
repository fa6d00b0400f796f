"""Exit codes of a training process, and the mapping from errors to exit codes.

The exit code determines whether Kubernetes starts another attempt, and whether that attempt counts as a retry. The
planned Jobs contain these codes in their pod failure policies. The numbers follow sysexits.h.
"""

from __future__ import annotations

import re
from typing import Final

FINISHED: Final = 0
FAILED: Final = 1  # another attempt may succeed; it costs one of the job's retries
USAGE: Final = 2  # wrong arguments or settings
BUG: Final = 70  # EX_SOFTWARE: no further attempt, because it would fail as well
NODE_FAULT: Final = 71  # EX_OSERR: a GPU or driver failed; another attempt costs one of the retries
INTERRUPTED: Final = 75  # EX_TEMPFAIL: stopped from outside after saving; another attempt costs no retry

_MISTAKES: Final = (
    NameError,
    TypeError,
    AttributeError,
    ImportError,
    SyntaxError,
    NotImplementedError,
    AssertionError,
    LookupError,
)
# CUDA runtime errors that indicate a broken GPU, link or driver, as cudaGetErrorString returns them.
# "An illegal memory access" and "unspecified launch failure" are left out, because kernels can also cause them.
# Source: CUDA Runtime API, cudaError.
_NODE_FAULTS: Final = re.compile(
    r"uncorrectable ECC error|uncorrectable NVLink error|hardware stack error"
    r"|device\(s\) is/are busy or unavailable"
    r"|no CUDA-capable device|system not yet initialized|Invalid access of peer GPU memory over nvlink"
    r"|CUDA error: unknown error|GPU is lost|driver shutting down",
    re.IGNORECASE,
)
# A failed assertion in a kernel is a bug in the program, such as an index out of bounds.
_BUGS: Final = re.compile(r"device-side assert triggered", re.IGNORECASE)
# PyTorch's message with the requested memory and the free memory of the GPU.
_ASKED_AND_FREE: Final = re.compile(r"Tried to allocate ([\d.]+) (\w+)\..* of which ([\d.]+) (\w+) is free")
_UNITS: Final = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_LOST_PEERS: Final = re.compile(
    r"Connection closed by peer|Connection reset by peer|Broken pipe|remote process exited|ncclRemoteError"
    r"|Timed out waiting|Watchdog caught collective operation timeout|Socket Timeout|failed to recv",
    re.IGNORECASE,
)
_DISTRIBUTED: Final = {"DistBackendError", "DistNetworkError", "DistStoreError"}


def code_of(error: BaseException, *, saved: bool, repeated: bool, shared_memory: bool) -> int:
    """Return the exit code for an error.

    `saved` is true if this attempt has completed a checkpoint. `repeated` is true if the previous attempt ended
    with the same error at the same step. `shared_memory` is true if other pods use memory of the same GPU.
    """
    if isinstance(error, SystemExit):
        return _of_exit(error)
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED if saved else FAILED
    if _is(error, "OutOfMemoryError"):
        return FAILED if shared_memory and not repeated and not _at_own_limit(str(error)) else BUG
    if lost_peer(error):
        # The failure of the other pod is already counted, so this attempt is not counted if it saved a checkpoint.
        # If attempts without a checkpoint were not counted, a broken network would cause endless attempts.
        return INTERRUPTED if saved else FAILED
    if _NODE_FAULTS.search(str(error)):
        return NODE_FAULT
    return BUG if repeated or isinstance(error, _MISTAKES) or _BUGS.search(str(error)) else FAILED


def _at_own_limit(message: str) -> bool:
    """Return whether the GPU had enough free memory. If so, the process reached its own limit."""
    found = _ASKED_AND_FREE.search(message)
    if found is None:
        return False
    asked, asked_unit, free, free_unit = found.groups()
    return float(free) * _UNITS.get(free_unit, 1) >= float(asked) * _UNITS.get(asked_unit, 1)


def lost_peer(error: BaseException) -> bool:
    """Return whether an error means that another process of the job is gone."""
    known = any(_is(error, name) for name in _DISTRIBUTED)
    return known or (isinstance(error, RuntimeError | OSError) and bool(_LOST_PEERS.search(str(error))))


def worst(codes: list[int]) -> int:
    """Return the exit code of a pod from the exit codes of its processes. Negative codes are signal numbers."""
    for code in (BUG, NODE_FAULT, USAGE, FAILED):
        if code in codes:
            return code
    if INTERRUPTED in codes:
        return INTERRUPTED
    failed = [code for code in codes if code != FINISHED]
    if not failed:
        return FINISHED
    return failed[0] if failed[0] > 0 else 128 - failed[0]


def _of_exit(error: SystemExit) -> int:
    if error.code is None:
        return FINISHED
    return error.code if isinstance(error.code, int) else FAILED


def _is(error: BaseException, name: str) -> bool:
    # pyrefly: ignore[partially-unknown-type] - pyrefly treats the classes as unknown
    return any(one.__name__ == name for one in type(error).__mro__)
