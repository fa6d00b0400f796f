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
        return FAILED if shared_memory and not repeated else BUG
    if lost_peer(error):
        # Its own end is counted in the pod that failed. Without progress it costs an attempt here as well, or a
        # broken network would be tried for ever.
        return INTERRUPTED if saved else FAILED
    if _NODE_FAULTS.search(str(error)):
        return NODE_FAULT
    return BUG if repeated or isinstance(error, _MISTAKES) else FAILED


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
    return any(one.__name__ == name for one in type(error).__mro__)
