"""Recordings made by `node-check --record`: the answer to each call, such as `nvmlDeviceGetEccMode on GPU 3`."""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

VERSION: Final = 2  # same as in validators/agent/recording.py
_LOADING: Final = "loading libnvidia-ml.so.1"
_NOT_LOADABLE: Final = "library-not-loadable: "

Answer = tuple[Any, str]
"""A recorded answer, as a pair of the JSON value and the kind of error. The kind is "" if the call returned a
value.
"""


@dataclass(frozen=True, slots=True)
class Recording:
    """The recorded answers of one node."""

    answers: Mapping[str, Answer]

    @property
    def gpu_count(self) -> int:
        """Number of GPUs that NVML reported. If it reported none, the number of GPUs that it returned by index."""
        count, _ = self.answers.get("nvmlDeviceGetCount", (None, ""))
        if isinstance(count, int):
            return count
        return sum(text.startswith("nvmlDeviceGetHandleByIndex on ") for text in self.answers)

    @property
    def load_error(self) -> str | None:
        """The dynamic loader's error, "" if there was no library, or None if the library was loaded."""
        _, problem = self.answers.get(_LOADING, (True, ""))
        if problem.startswith(_NOT_LOADABLE):
            return problem.removeprefix(_NOT_LOADABLE).partition(": ")[2].removesuffix(" (simulated)")
        return "" if problem else None

    def of(self, function: str, device: str = "") -> Any:  # noqa: ANN401 - JSON
        """Return the recorded value of a call without arguments other than its device, or None if there is no
        value.
        """
        return self.answers.get(f"{function} on {device}" if device else function, (None, ""))[0]

    @property
    def problems(self) -> list[str]:
        """All kinds of errors in the recording, sorted."""
        return sorted({problem for _, problem in self.answers.values() if problem})


def pack(text: str) -> str:
    """Compress the text of a recording into a string of printable characters."""
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def unpack(packed: str) -> Recording:
    """Return the recording from a packed string. Raises ValueError if the string is not a packed recording."""
    try:
        content: Any = json.loads(zlib.decompress(base64.b64decode(packed, validate=True)))
        version, answers = content["version"], cast("Mapping[str, Sequence[Any]]", content["answers"])
        found = {text: (value, str(problem)) for text, (value, problem) in answers.items()}
    except (binascii.Error, zlib.error, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"no packed recording: {error}") from None
    if version != VERSION:
        raise ValueError(f"recording version {version!r}, not {VERSION}")
    return Recording(found)


def mig_profiles(recording: Recording, gpu: int) -> list[tuple[int, str]]:
    """Return the ID and the profile of each GPU instance of a recorded GPU."""
    found: dict[int, str] = {}
    place = 0
    while (device := f"MIG device {place} of GPU {gpu}") and recording.of(
        "nvmlDeviceGetMigDeviceHandleByIndex", device
    ):
        number = recording.of("nvmlDeviceGetGpuInstanceId", device)
        name = re.search(r"(\d+g\.\d+gb\S*)$", recording.of("nvmlDeviceGetName", device) or "")
        if number is not None and name:
            found[number] = name[1]
        place += 1
    return sorted(found.items())
