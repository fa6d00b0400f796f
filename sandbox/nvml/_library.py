"""Replaces the loaded NVML library in the real `pynvml` bindings."""

from __future__ import annotations

import functools
import os
import re
import signal
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Final, cast

# Importing the handler modules registers their symbols.
from sandbox.nvml import _device, _health, _mig, _system, _topology  # noqa: F401
from sandbox.nvml._hardware import NO_LIBRARY, BrokenCall, SimulatedNode
from sandbox.nvml._recording import Recording
from sandbox.nvml._replay import CRASHES, HANGS, answer, error_string
from sandbox.nvml._symbols import (
    ERROR_STRINGS,
    NO_PERMISSION,
    SUCCESS,
    SYMBOLS,
    UNINITIALIZED,
    Status,
    Symbol,
    call,
    gpu_handle,
    value_of,
)
from sandbox.nvml._sysfs import devices, kernel_log, limits, sysfs_of

KMSG_VARIABLE: Final = "GPU_PLATFORM_KMSG"  # same as in validators/agent/xids.py
SYSFS_VARIABLE: Final = "GPU_PLATFORM_SYSFS"  # same as in validators/agent/fabric.py
PROC_VARIABLE: Final = "GPU_PLATFORM_PROC"  # same as in validators/agent/fabric.py
DEVICES_VARIABLE: Final = "GPU_PLATFORM_PROC_DEVICES"  # same as in validators/agent/fabric.py
_VERSION_SUFFIX = re.compile(r"_v\d+$")
_NEEDS_NO_INIT = {"nvmlInitWithFlags", "nvmlInit_v2", "nvmlErrorString"}


class SimulatedLibrary:
    """Object that acts like a loaded shared library. Its attributes are the exported functions. A missing
    attribute raises AttributeError.
    """

    def __init__(self, node: SimulatedNode) -> None:
        self.node = node
        self.open = 0
        """Number of initialisations without a shutdown."""
        self.waits = 0
        """Number of waits for events so far."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        bare = _VERSION_SUFFIX.sub("", name)
        if name == "nvmlErrorString":
            return _ErrorString(self.node.recording)
        if name not in SYMBOLS or {name, bare} & self.node.missing_functions:
            raise AttributeError(name)
        return _Function(self, name, bare, SYMBOLS[name])


class _Function:
    """An exported function. Its `restype` can be set, as on a ctypes function."""

    def __init__(self, library: SimulatedLibrary, name: str, bare: str, symbol: Symbol) -> None:
        self._library = library
        self._names = {name, bare}
        self._name = name
        self._bare = bare
        self._symbol = symbol
        self.restype: object = None

    def __call__(self, *arguments: Any) -> int:  # noqa: ANN401 - C arguments
        library = self._library
        if self._is_broken(library.node.hangs, arguments):
            hang()
        if self._is_broken(library.node.crashes, arguments):
            crash()
        if self._is_broken(library.node.refused, arguments):
            return NO_PERMISSION
        if self._name not in _NEEDS_NO_INIT and not library.open:
            return UNINITIALIZED
        library.waits += self._bare == "nvmlEventSetWait"
        recording = library.node.recording
        status = (
            call(library.node, self._symbol, arguments)
            if recording is None
            else _replay(recording, self._bare, arguments, library.waits)
        )
        if self._name in _NEEDS_NO_INIT:
            library.open += 1
        elif self._name == "nvmlShutdown":
            library.open -= 1
        return status

    def _is_broken(self, broken: BrokenCall | None, arguments: Sequence[Any]) -> bool:
        """Return whether a fault applies to this call.

        The fault must be for this function, and for the call's GPU or for all GPUs.
        """
        if broken is None or broken.call not in self._names:
            return False
        if broken.gpu is None:
            return True
        first = value_of(arguments[0]) if arguments else None
        if self._symbol.subject == "node":  # the first argument is a GPU index, or one of two handles
            return first in (broken.gpu, gpu_handle(broken.gpu))
        return isinstance(first, int) and first >> 8 == gpu_handle(broken.gpu) >> 8


def _replay(recording: Recording, function: str, arguments: Sequence[Any], waits: int) -> int:
    """Answer a call as the recorded node did. Return the NVML status."""
    try:
        found = answer(recording, function, arguments, waits)
    except Status as status:
        return status.code
    if found == HANGS:
        hang()
    elif found == CRASHES:
        crash()
    return SUCCESS


def hang() -> None:
    """Never return."""
    threading.Event().wait()


def crash() -> None:
    """End the process with a segmentation fault."""
    os.kill(os.getpid(), signal.SIGSEGV)


class _ErrorString:
    def __init__(self, recording: Recording | None) -> None:
        self._recording = recording
        self.restype: object = None

    def __call__(self, code: Any) -> bytes:  # noqa: ANN401 - a C argument
        if self._recording is not None and int(code) not in ERROR_STRINGS:
            return error_string(self._recording, int(code)).encode()
        return _system.error_string(int(code))


_installed: list[Installation] = []
"""References to the current installations, so that Python does not delete their files before `remove()`."""


class Installation:
    """A simulated NVML in a `pynvml` module, until `remove()` is called or the `with` block ends."""

    def __init__(self, bindings: ModuleType, node: SimulatedNode) -> None:
        self._bindings = cast("Any", bindings)
        self._previous_library = self._bindings.nvmlLib
        self._previous_loader = self._bindings.CDLL
        self.library = SimulatedLibrary(node) if node.load_error is None else None
        self._bindings.nvmlLib = self.library
        # The loader is always replaced, so that a machine with a driver never loads the real library.
        self._bindings.CDLL = functools.partial(_no_library, node.load_error or NO_LIBRARY)
        self._bindings._nvmlGetFunctionPointer_cache.clear()
        self._files = tempfile.TemporaryDirectory(prefix="simulated-node-", ignore_cleanup_errors=True)
        self._previous: dict[str, str | None] = {}
        log = Path(self._files.name, "kmsg")
        if node.log_readable:
            log.write_text("".join(f"{record}\n" for record in kernel_log(node)))
        self._set(KMSG_VARIABLE, str(log))
        if node.imex_channels is not None:
            Path(self._files.name, "devices").write_text(devices(node))
        if node.locked_memory is not None:
            own = Path(self._files.name, "self")
            own.mkdir()
            (own / "limits").write_text(limits(node))
        self._set(PROC_VARIABLE, self._files.name)  # hides this machine's processes from the agent
        self._set(DEVICES_VARIABLE, str(Path(self._files.name, "devices")))
        if node.pci_devices is not None or node.numa_files:
            self._set(SYSFS_VARIABLE, str(sysfs_of(node)))
        _installed.append(self)

    def _set(self, variable: str, value: str) -> None:
        self._previous[variable] = os.environ.get(variable)
        os.environ[variable] = value

    def remove(self) -> None:
        """Restore the bindings and the environment."""
        if self in _installed:
            _installed.remove(self)
        self._bindings.nvmlLib = self._previous_library
        self._bindings.CDLL = self._previous_loader
        self._files.cleanup()
        for variable, value in self._previous.items():
            if value is None:
                os.environ.pop(variable, None)
            else:
                os.environ[variable] = value
        self._bindings._nvmlGetFunctionPointer_cache.clear()

    def __enter__(self) -> Installation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


def _no_library(error: str, name: str) -> None:
    raise OSError(f"{name}: {error} (simulated)")
