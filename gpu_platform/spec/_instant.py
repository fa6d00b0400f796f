"""A point in time, also as the Pulumi CLI hands YAML's timestamps to a program."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated

from pydantic import AwareDatetime, BeforeValidator

# Go's time.Time.String(), which is what the CLI makes of an unquoted timestamp: 2026-12-14 11:30:00 +0000 UTC.
_AS_GO_PRINTS_IT = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?) ([+-]\d\d)(\d\d) \S+")


def _read(value: object) -> object:
    if not isinstance(value, str):
        return value
    as_go = _AS_GO_PRINTS_IT.fullmatch(value)
    try:
        return datetime.fromisoformat(f"{as_go[1]}{as_go[2]}:{as_go[3]}" if as_go else value)
    except ValueError:
        return value


Instant = Annotated[AwareDatetime, BeforeValidator(_read, json_schema_input_type=AwareDatetime)]
"""With a time zone, such as 2026-12-14T11:30:00Z."""
