"""Settings of a single run, which `gpu-platform` passes to the program in environment variables."""

from __future__ import annotations

import json
import os


def run_setting(variable: str) -> object:
    """Return the JSON value of an environment variable, or None if the variable is not set or is invalid.

    Plain `pulumi up` sets none of these variables.
    """
    try:
        return json.loads(os.environ.get(variable, "null"))
    except ValueError:
        return None
