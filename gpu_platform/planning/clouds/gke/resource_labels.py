"""Check labels that a stack file puts on resources of Google."""

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
    """Record what cannot be a label of Google's resources, or what Google or the program sets."""
    for key, value in labels.items():
        if not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
            problems.at(key).add(
                f"{key}: {value}",
                "a label of Google's resources: at most 63 of a-z, 0-9, - and _, the key with a letter first",
                "change it",
            )
        elif key in _OWN or key.startswith(_OF_GOOGLE):
            problems.at(key).add(f"{key!r}", "another key: Google and the program set this one", "rename it")
