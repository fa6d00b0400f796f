"""Reads which pools this run sets to the size in the stack file, even if an autoscaler has changed their size."""

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
