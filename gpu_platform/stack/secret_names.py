"""Common names of variables that contain secrets. Errors never repeat the values of such variables."""

from __future__ import annotations

import re

_SECRET = re.compile(r"(^|_)(TOKEN|PASSWORD|PASSWD|SECRET|KEY|CREDENTIALS)$")


def names_secret(name: str) -> bool:
    """Return whether a variable with this name usually contains a secret, such as HF_TOKEN or WANDB_API_KEY."""
    return _SECRET.search(name.upper()) is not None
