"""Reads the names of the pools that this run resizes to the stack file's `count`, even if they are autoscaled."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from typing import cast

from gpu_platform.base.names import RESIZED_VARIABLE


def resized() -> Collection[str]:
    """Return the names of the pools whose `count` was edited, as `gpu-platform` reports them. The result is empty
    if `gpu-platform` did not start the program.
    """
    try:
        document: object = json.loads(os.environ.get(RESIZED_VARIABLE, "[]"))
    except ValueError:
        return ()
    return cast("list[str]", document) if isinstance(document, list) else ()
