"""Check the labels that a stack file adds to Google Cloud resources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from gpu_platform.planning.problems import Problems
from gpu_platform.stack._types import GCP_LABEL_KEY, GCP_LABEL_VALUE

_KEY: Final = re.compile(GCP_LABEL_KEY)
_VALUE: Final = re.compile(GCP_LABEL_VALUE)
_OWN: Final = ("gpu-platform-pool", "gpu-platform-workload", "managed-by", "stack")
_OF_GOOGLE: Final = "goog"


def check_resource_labels(labels: Mapping[str, str], problems: Problems) -> None:
    """Record problems with invalid labels for Google Cloud resources, and with labels that Google or the program
    sets itself.
    """
    for key, value in labels.items():
        if not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
            problems.at(key).add(
                f"{key}: {value}",
                "a Google Cloud label: at most 63 characters of a-z, 0-9, - and _; the key must start with a "
                "letter",
                "change it",
            )
        elif key in _OWN or key.startswith(_OF_GOOGLE):
            problems.at(key).add(
                f"{key!r}", "a different key, because Google or the program sets this key", "rename it"
            )
