"""Ends a command cleanly, with a short text, on SIGINT, SIGTERM or SIGHUP (exit code 128 + signal), or at a time
limit.

Before a command begins, while modules are imported, nothing has been started or changed, so the process ends at
once. After that, a signal raises KeyboardInterrupt, so that the command can release locks and stop what it has
started. This module imports only the standard library, because the command line installs the handlers first.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Final

_AGAIN_SECONDS: Final = 0.01
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(slots=True)
class _State:
    begun: bool = False
    received: int = signal.SIGINT
    deferring: int = 0
    deferred: bool = False
    raised: bool = False
    explanation: str = ""


_state = _State()


def install() -> None:
    """Install handlers for SIGINT, SIGTERM and SIGHUP, except for signals that the process ignores (a background
    job ignores SIGINT). Outside the main thread, the function does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _handle)
    sys.unraisablehook = _raise_again


@contextmanager
def handled(*, restore: bool = False) -> Generator[None]:
    """Handle SIGINT, SIGTERM and SIGHUP while the body runs. With `restore`, the previous handlers are restored
    afterwards.
    """
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    hook = sys.unraisablehook
    install()
    try:
        yield
    finally:
        if restore and threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)
            sys.unraisablehook = hook
            _state.begun = _state.raised = False
            _state.explanation = ""


def explain(text: str) -> None:
    """Set the text that an interrupted command prints when it ends: the current state, and how to continue."""
    _state.explanation = text


def explanation() -> str:
    """Return the text that `explain` has set, or an empty string."""
    return _state.explanation


def begin() -> None:
    """Make signals raise KeyboardInterrupt from now on, because the command may have changed something."""
    _state.begun = True


def exit_code() -> int:
    """Return the exit code for the signal that was received: 130 for SIGINT, 143 for SIGTERM."""
    return 128 + _state.received


@contextmanager
def limited(seconds: float | None) -> Generator[None]:
    """Raise KeyboardInterrupt in the body after `seconds`, or never if `seconds` is None. `is_timeout`
    distinguishes the time limit from a signal.

    The function only works in the main thread and cannot be nested, because a process has only one such timer.
    """
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, _handle)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def stoppable() -> Generator[Callable[[], None]]:
    """Pass the body a function that another thread can call to raise KeyboardInterrupt in the body.

    The body must run in the main thread.
    """
    before = signal.signal(signal.SIGUSR1, _handle)
    try:
        yield lambda: os.kill(os.getpid(), signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
        if is_stop():
            _state.raised = False  # the command itself was not interrupted


def is_stop() -> bool:
    """Return whether the function from `stoppable` raised the last KeyboardInterrupt."""
    return _state.received == signal.SIGUSR1


def is_timeout() -> bool:
    """Return whether the time limit of `limited` raised the last KeyboardInterrupt."""
    return _state.received == signal.SIGALRM


def was_raised() -> bool:
    """Return whether a signal or the time limit of `limited` has raised KeyboardInterrupt in this command."""
    return _state.raised


def ignore() -> None:
    """Ignore further signals while the process ends."""
    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            if signal.getsignal(number) is _handle:
                signal.signal(number, signal.SIG_IGN)


@contextmanager
def deferred() -> Generator[None]:
    """Delay KeyboardInterrupt until the body ends, so that the body can start something and record it without
    interruption.
    """
    _state.deferring += 1
    try:
        yield
    finally:
        _state.deferring -= 1
        if _state.deferred and not _state.deferring:
            _state.deferred = False
            _state.raised = True
            raise KeyboardInterrupt


def _handle(number: int, _frame: FrameType | None) -> None:
    _state.received = number
    if not _state.begun:
        os.write(sys.stderr.fileno(), b"interrupted: nothing was changed\n")
        os._exit(128 + number)
    if _state.deferring:
        _state.deferred = True
        return
    _state.raised = True
    raise KeyboardInterrupt


def _raise_again(unraisable: sys.UnraisableHookArgs) -> None:
    """Send the signal again if Python dropped the KeyboardInterrupt. Python drops exceptions in finalizers and C
    callbacks.
    """
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        left = threading.Event()
        try:
            threading.Thread(target=_send_again, args=(left, _state.received)).start()
        finally:
            left.set()
    else:
        sys.__unraisablehook__(unraisable)


def _send_again(left: threading.Event, number: int) -> None:
    """Send a signal to this process after `sys.unraisablehook` has returned. Python would drop a KeyboardInterrupt
    that the signal raises inside the hook.
    """
    left.wait()
    time.sleep(_AGAIN_SECONDS)
    os.kill(os.getpid(), number)
