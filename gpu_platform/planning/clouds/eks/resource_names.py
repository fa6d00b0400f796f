"""Names that begin with the name of a cluster and comply with the limits of AWS: 64 characters for IAM roles, 80
for queues.

Source: IAM user guide, "IAM and AWS STS quotas": role names have 64 characters at most; read 2026-11-23. Pulumi
appends a dash and seven characters, and fails if the result is too long.
"""

from __future__ import annotations

import hashlib
from typing import Final

LONGEST_ROLE: Final = 64 - 8
"""Maximum length of a role's name before the suffix that Pulumi appends."""
_LONGEST_QUEUE: Final = 80  # Amazon SQS developer guide, quotas; read 2026-11-28
_HASH: Final = 6


def role_name(prefix: str, suffix: str) -> str:
    """Return the name of a role, `<prefix>-<suffix>`."""
    return _shortened(f"{prefix}-{suffix}", LONGEST_ROLE)


def queue_name(cluster: str) -> str:
    """Return the name of the interruption queue for a cluster's Karpenter."""
    return _shortened(f"{cluster}-karpenter", _LONGEST_QUEUE)


def _shortened(name: str, most: int) -> str:
    """Return a name, or a truncated name with a hash if the name is too long. Similar names stay different."""
    if len(name) <= most:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH]
    return f"{name[: most - _HASH - 1].rstrip('-')}-{digest}"
