"""Customer-managed keys in the stack file: ARNs of AWS KMS keys, names of Cloud KMS keys, and resource IDs of disk
encryption sets.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from gpu_platform.stack._types import wrong
from gpu_platform.stack.azure_resources import DISK_ENCRYPTION_SET, EXAMPLE_ENCRYPTION_SET

_AWS_EXAMPLE: Final = "arn:aws:kms:us-east-2:123456789012:key/0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
_GOOGLE_EXAMPLE: Final = "projects/my-project/locations/us-central1/keyRings/nodes/cryptoKeys/disks"
# Matches a key or an alias. Later checks decide which fields accept an alias.
_AWS: Final = r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:(key/[0-9a-zA-Z-]+|alias/[\w/-]+)"
_GOOGLE: Final = r"projects/[^/\s]+/locations/[a-z0-9-]+/keyRings/[^/\s]+/cryptoKeys/[^/\s]+"


def _key(value: str) -> str:
    if not re.fullmatch(f"{_AWS}|{_GOOGLE}|{DISK_ENCRYPTION_SET}", value):
        raise wrong(
            "the ARN of an AWS KMS key, the name of a Cloud KMS key, or the resource ID of a disk encryption set",
            f"for example, write {_AWS_EXAMPLE}, {_GOOGLE_EXAMPLE}, or {EXAMPLE_ENCRYPTION_SET}",
        )
    return value


AwsKey = Annotated[str, Field(pattern=f"^{_AWS}$", examples=[_AWS_EXAMPLE])]
GoogleKey = Annotated[str, Field(pattern=f"^{_GOOGLE}$", examples=[_GOOGLE_EXAMPLE])]
Key = Annotated[str, AfterValidator(_key), Field(examples=[_AWS_EXAMPLE])]
"""Key of any cloud. Planning checks that the key belongs to the cluster's cloud."""
