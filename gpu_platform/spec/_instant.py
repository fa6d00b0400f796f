"""A point in time, also as the Pulumi CLI hands YAML's timestamps to a program."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AwareDatetime, BeforeValidator

# Go's time.Time.String(), which is what the CLI makes of an unquoted timestamp: 2026-12-14 11:30:00 +0000 UTC.
_AS_GO_PRINTS_IT = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?) ([+-]\d\d)(\d\d) \S+")


def _rfc3339(value: object) -> object:
    match = _AS_GO_PRINTS_IT.fullmatch(value) if isinstance(value, str) else None
    return f"{match[1]}{match[2]}:{match[3]}" if match else value


Instant = Annotated[AwareDatetime, BeforeValidator(_rfc3339, json_schema_input_type=AwareDatetime)]
"""With a time zone, such as 2026-12-14T11:30:00Z."""
