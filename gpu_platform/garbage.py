"""Garbage collection of a command, whose objects almost all live until it ends: modules, models, a plan, resources."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_SELDOM: Final = (100_000, 20, 50)  # objects created, and collections of the younger generation


@contextmanager
def seldom(*, restore: bool) -> Generator[None]:
    """Collect garbage seldom in the body; with `restore` as before after it, without it no more: the process ends.

    A command that ends soon may disable collection in the body. Measured with `check` of stack local: 1.5 s of CPU
    time instead of 2.4 s, a third of a second of it while Python ends.
    """
    enabled, thresholds = gc.isenabled(), gc.get_threshold()
    gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        if restore:
            gc.set_threshold(*thresholds)
            if enabled:
                gc.enable()
        else:
            gc.disable()
            gc.freeze()  # else Python goes through all objects twice when it ends
