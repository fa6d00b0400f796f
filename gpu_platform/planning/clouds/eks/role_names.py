"""Names of IAM roles: a cluster's prefix and a suffix, in IAM's 64 characters.

Source: IAM user guide, "IAM and AWS STS quotas": role names have 64 characters at most; read 2026-11-23. Pulumi
appends a dash and seven characters, and fails where the name is too long for them.
"""

from __future__ import annotations

import hashlib
from typing import Final

LONGEST_ROLE: Final = 64 - 8
"""Characters of the name of a role before what Pulumi appends."""
_HASH: Final = 6


def role_name(prefix: str, suffix: str) -> str:
    """Return `<prefix>-<suffix>`; of a long name the beginning and a hash, so that names alike stay different."""
    name = f"{prefix}-{suffix}"
    if len(name) <= LONGEST_ROLE:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH]
    return f"{name[: LONGEST_ROLE - _HASH - 1].rstrip('-')}-{digest}"
