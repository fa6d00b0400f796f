"""Common names of secret variables, whose values are never repeated in an error."""

from __future__ import annotations

import re

_SECRET = re.compile(r"(^|_)(TOKEN|PASSWORD|PASSWD|SECRET|KEY|CREDENTIALS)$")


def names_secret(name: str) -> bool:
    """Return whether a variable of this name usually has a secret: HF_TOKEN, WANDB_API_KEY."""
    return _SECRET.search(name.upper()) is not None
