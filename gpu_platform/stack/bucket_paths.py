"""Patterns for bucket names and prefixes in the stack file, for volumes and team identities."""

from __future__ import annotations

from typing import Final

from gpu_platform.stack.declared import On
from gpu_platform.stack.patterns import worded

BUCKET_NAME: Final = worded(
    r"^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$", "the name of a bucket: 3 to 222 characters of a-z, 0-9, . _ and -"
)
# Pattern of a segment. It excludes `..` and the characters that IAM policies or Mountpoint treat as wildcards.
BUCKET_PATH_SEGMENT: Final = r"[A-Za-z0-9_=+-][A-Za-z0-9_=+.-]*"
BUCKET_PREFIX: Final = rf"^{BUCKET_PATH_SEGMENT}(/{BUCKET_PATH_SEGMENT})*/?$"
KMS_OF_BUCKET: Final = On(
    ("eks",), "Cloud Storage decrypts objects for every reader that has access", fix="remove kms_key"
)
