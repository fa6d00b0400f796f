"""Type of a point in time in the stack file. Its validator also parses the timestamp format of the Pulumi CLI."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated

from pydantic import AwareDatetime, BeforeValidator

# The CLI formats an unquoted timestamp with Go's time.Time.String(): 2026-12-14 11:30:00 +0000 UTC.
_GO_TIME = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?) ([+-]\d\d)(\d\d) \S+")


def _read(value: object) -> object:
    if not isinstance(value, str):
        return value
    as_go = _GO_TIME.fullmatch(value)
    try:
        return datetime.fromisoformat(f"{as_go[1]}{as_go[2]}:{as_go[3]}" if as_go else value)
    except ValueError:
        return value


Instant = Annotated[AwareDatetime, BeforeValidator(_read, json_schema_input_type=AwareDatetime)]
"""A point in time with a time zone, such as 2026-12-14T11:30:00Z."""
