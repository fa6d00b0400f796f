"""Reads the names of the pools that this run resizes to the stack file's `count`, even if they are autoscaled."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

from components._run_settings import run_setting
from gpu_platform.base.names import RESIZED_VARIABLE


def resized() -> Collection[str]:
    """Return the names of the pools whose `count` was edited, as `gpu-platform` reports them. The result is empty
    if `gpu-platform` did not start the program.
    """
    document = run_setting(RESIZED_VARIABLE)
    return cast("list[str]", document) if isinstance(document, list) else ()
