"""Exit codes of a training process, and the one that an error means.

Kubernetes decides by the code whether there is another attempt and what it costs: the planned Jobs have the
numbers in their pod failure policies. They are those of sysexits.h.
"""

from __future__ import annotations

import re
from typing import Final

FINISHED: Final = 0
FAILED: Final = 1  # another attempt may succeed; it costs one of the job's retries
USAGE: Final = 2  # wrong arguments or settings
BUG: Final = 70  # EX_SOFTWARE: another attempt would fail as well, so there is none
NODE_FAULT: Final = 71  # EX_OSERR: GPU or driver failed; another attempt, which costs one of the retries
INTERRUPTED: Final = 75  # EX_TEMPFAIL: stopped from outside with its work saved; another attempt for nothing

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
# Errors of the CUDA runtime that name a broken GPU, link or driver. "An illegal memory access" and "unspecified
# launch failure" are not among them: kernels cause them, too.
# Source: CUDA Runtime API, cudaError; messages as cudaGetErrorString returns them.
_NODE_FAULTS: Final = re.compile(
    r"uncorrectable ECC error|uncorrectable NVLink error|hardware stack error"
    r"|device\(s\) is/are busy or unavailable"
    r"|no CUDA-capable device|system not yet initialized|Invalid access of peer GPU memory over nvlink"
    r"|CUDA error: unknown error|GPU is lost|driver shutting down",
    re.IGNORECASE,
)
# What a kernel says of its own arguments, such as an index out of bounds.
_BUGS: Final = re.compile(r"device-side assert triggered", re.IGNORECASE)
# As PyTorch has it: so much was asked for, and so much of the GPU is free.
_ASKED_AND_FREE: Final = re.compile(r"Tried to allocate ([\d.]+) (\w+)\..* of which ([\d.]+) (\w+) is free")
_UNITS: Final = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_LOST_PEERS: Final = re.compile(
    r"Connection closed by peer|Connection reset by peer|Broken pipe|remote process exited|ncclRemoteError"
    r"|Timed out waiting|Watchdog caught collective operation timeout|Socket Timeout|failed to recv",
    re.IGNORECASE,
)
_DISTRIBUTED: Final = {"DistBackendError", "DistNetworkError", "DistStoreError"}


def code_of(error: BaseException, *, saved: bool, repeated: bool, shared_memory: bool) -> int:
    """Return the exit code that an error means.

    `saved`: whether this attempt has completed a checkpoint; `repeated`: whether the last attempt ended with the
    same error at the same step; `shared_memory`: whether other pods take memory of the same GPU.
    """
    if isinstance(error, SystemExit):
        return _of_exit(error)
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED if saved else FAILED
    if _is(error, "OutOfMemoryError"):
        return FAILED if shared_memory and not repeated and not _at_own_limit(str(error)) else BUG
    if lost_peer(error):
        # Its own end is counted in the pod that failed. Without progress it costs an attempt here as well, or a
        # broken network would be tried for ever.
        return INTERRUPTED if saved else FAILED
    if _NODE_FAULTS.search(str(error)):
        return NODE_FAULT
    return BUG if repeated or isinstance(error, _MISTAKES) or _BUGS.search(str(error)) else FAILED


def _at_own_limit(message: str) -> bool:
    """Return whether the GPU had the memory that was asked for, and only this process may not have it."""
    found = _ASKED_AND_FREE.search(message)
    if found is None:
        return False
    asked, asked_unit, free, free_unit = found.groups()
    return float(free) * _UNITS.get(free_unit, 1) >= float(asked) * _UNITS.get(asked_unit, 1)


def lost_peer(error: BaseException) -> bool:
    """Return whether an error says that another process of the job is gone."""
    known = any(_is(error, name) for name in _DISTRIBUTED)
    return known or (isinstance(error, RuntimeError | OSError) and bool(_LOST_PEERS.search(str(error))))


def worst(codes: list[int]) -> int:
    """Return the code of a pod by those of its processes; negative: ended by a signal."""
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
    # pyrefly: ignore[partially-unknown-type] - pyrefly takes the classes as unknown
    return any(one.__name__ == name for one in type(error).__mro__)
