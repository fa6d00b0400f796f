"""Names the pools whose number of nodes this run sets, even if an autoscaler has changed it."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from typing import cast

from gpu_platform.base.names import RESIZED_VARIABLE


def resized() -> Collection[str]:
    """Return the pools whose `count` was edited, from `gpu-platform`; empty without it."""
    try:
        document: object = json.loads(os.environ.get(RESIZED_VARIABLE, "[]"))
    except ValueError:
        return ()
    return cast("list[str]", document) if isinstance(document, list) else ()
