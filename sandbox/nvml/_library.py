"""Replacement for the loaded NVML library in the real `pynvml` bindings."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable
from types import ModuleType, TracebackType
from typing import Any

# Importing a module of handlers registers its symbols.
from sandbox.nvml import _device, _health, _mig, _system, _topology  # noqa: F401 # pyright: ignore[reportUnusedImport]
from sandbox.nvml._hardware import SimulatedNode
from sandbox.nvml._symbols import SYMBOLS, UNINITIALIZED, Symbol, call

_VERSION_SUFFIX = re.compile(r"_v\d+$")
_NEEDS_NO_INIT = {"nvmlInitWithFlags", "nvmlInit_v2", "nvmlErrorString"}


class SimulatedLibrary:
    """Object with the attributes of a loaded shared library: callables, or AttributeError if absent."""

    def __init__(self, node: SimulatedNode) -> None:
        self.node = node
        self.open = 0
        """Number of initialisations without a shutdown."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        bare = _VERSION_SUFFIX.sub("", name)
        if name == "nvmlErrorString":
            return _ErrorString()
        if name not in SYMBOLS or {name, bare} & self.node.missing_functions:
            raise AttributeError(name)
        return _Function(self, name, bare, SYMBOLS[name])


class _Function:
    """An exported function; `restype` can be set, as on a ctypes function."""

    def __init__(self, library: SimulatedLibrary, name: str, bare: str, symbol: Symbol) -> None:
        self._library = library
        self._names = {name, bare}
        self._name = name
        self._symbol = symbol
        self.restype: object = None

    def __call__(self, *arguments: Any) -> int:  # noqa: ANN401 - C arguments
        library = self._library
        if library.node.hangs_in in self._names:
            threading.Event().wait()
        if library.node.crashes_in in self._names:
            os.kill(os.getpid(), signal.SIGSEGV)
        if self._name not in _NEEDS_NO_INIT and not library.open:
            return UNINITIALIZED
        status = call(library.node, self._symbol, arguments)
        if self._name in _NEEDS_NO_INIT:
            library.open += 1
        elif self._name == "nvmlShutdown":
            library.open -= 1
        return status


class _ErrorString:
    def __init__(self) -> None:
        self.restype: object = None

    def __call__(self, code: Any) -> bytes:  # noqa: ANN401 - a C argument
        return _system.error_string(int(code))


class Installation:
    """A simulated NVML in a `pynvml` module; `remove()` or the end of the `with` block removes it."""

    def __init__(self, bindings: ModuleType, node: SimulatedNode) -> None:
        self._bindings: Any = bindings
        self._previous_library = self._bindings.nvmlLib
        self._previous_loader = self._bindings.CDLL
        self.library = None if node.nvml_missing else SimulatedLibrary(node)
        self._bindings.nvmlLib = self.library
        self._bindings.CDLL = _no_library  # so that a machine with a driver does not load the real one
        self._bindings._nvmlGetFunctionPointer_cache.clear()

    def remove(self) -> None:
        """Restore the bindings."""
        self._bindings.nvmlLib = self._previous_library
        self._bindings.CDLL = self._previous_loader
        self._bindings._nvmlGetFunctionPointer_cache.clear()

    def __enter__(self) -> Installation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


def _no_library(name: str) -> None:
    raise OSError(f"{name}: cannot open shared object file: No such file or directory (simulated)")
