"""Types for IDs of Azure resources in the stack file. Azure Resource Manager assigns these IDs.

Azure ignores their case. The program compares them, so it accepts only Azure's own spelling.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from gpu_platform.stack.patterns import worded

GUID: Final = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
EXAMPLE_GUID: Final = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
_IN_GROUP: Final = rf"^/subscriptions/{GUID}/resourceGroups/[^/\s]+/providers"
ObjectId = Annotated[
    str,
    Field(pattern=worded(rf"^{GUID}$", "an object ID in lower case such as " + EXAMPLE_GUID)),
    Field(examples=[EXAMPLE_GUID]),
]
SubnetResource = Annotated[
    str,
    Field(
        pattern=worded(
            rf"{_IN_GROUP}/Microsoft\.Network/virtualNetworks/[^/\s]+/subnets/[^/\s]+$",
            "the resource ID of a subnet: /subscriptions/S/resourceGroups/G/providers/Microsoft.Network/"
            "virtualNetworks/V/subnets/N",
        ),
        examples=[
            f"/subscriptions/{EXAMPLE_GUID}/resourceGroups/network/providers/Microsoft.Network/virtualNetworks/"
            "hub/subnets/gpu-nodes"
        ],
    ),
]
StorageAccountResource = Annotated[
    str,
    Field(
        pattern=worded(
            rf"{_IN_GROUP}/Microsoft\.Storage/storageAccounts/[a-z0-9]+$",
            "the resource ID of a storage account: /subscriptions/S/resourceGroups/G/providers/Microsoft.Storage/"
            "storageAccounts/A",
        ),
        examples=[
            f"/subscriptions/{EXAMPLE_GUID}/resourceGroups/data/providers/Microsoft.Storage/storageAccounts/acmeml"
        ],
    ),
]
ManagedIdentityResource = Annotated[
    str,
    Field(
        pattern=worded(
            rf"{_IN_GROUP}/Microsoft\.ManagedIdentity/userAssignedIdentities/[A-Za-z0-9_-]+$",
            "the resource ID of a user-assigned managed identity: /subscriptions/S/resourceGroups/G/providers/"
            "Microsoft.ManagedIdentity/userAssignedIdentities/N",
        ),
        examples=[
            f"/subscriptions/{EXAMPLE_GUID}/resourceGroups/identities/providers/Microsoft.ManagedIdentity/"
            "userAssignedIdentities/vision"
        ],
    ),
]
FILE_SHARE: Final = (
    rf"{_IN_GROUP}/Microsoft\.Storage/storageAccounts/[a-z0-9]+/fileServices/default/shares/[a-z0-9-]+$"
)
EXAMPLE_FILE_SHARE: Final = (
    f"/subscriptions/{EXAMPLE_GUID}/resourceGroups/data/providers/Microsoft.Storage/storageAccounts/acmeml/"
    "fileServices/default/shares/home"
)
DISK_ENCRYPTION_SET: Final = rf"{_IN_GROUP}/Microsoft\.Compute/diskEncryptionSets/[A-Za-z0-9_-]+$"
EXAMPLE_ENCRYPTION_SET: Final = (
    f"/subscriptions/{EXAMPLE_GUID}/resourceGroups/keys/providers/Microsoft.Compute/diskEncryptionSets/disks"
)
DiskEncryptionSetResource = Annotated[
    str,
    Field(
        pattern=worded(
            DISK_ENCRYPTION_SET,
            "the resource ID of a disk encryption set: /subscriptions/S/resourceGroups/G/providers/"
            "Microsoft.Compute/diskEncryptionSets/N",
        ),
        examples=[EXAMPLE_ENCRYPTION_SET],
    ),
]
KeyVersionResource = Annotated[
    str,
    Field(
        pattern=worded(
            rf"{_IN_GROUP}/Microsoft\.KeyVault/vaults/[A-Za-z0-9-]+/keys/[A-Za-z0-9-]+/versions/[0-9a-f]{{32}}$",
            "the resource ID of a version of a key in Key Vault: /subscriptions/S/resourceGroups/G/providers/"
            "Microsoft.KeyVault/vaults/V/keys/K/versions/N",
        ),
        examples=[
            f"/subscriptions/{EXAMPLE_GUID}/resourceGroups/keys/providers/Microsoft.KeyVault/vaults/acme/keys/"
            "secrets/versions/0a1b2c3d4e5f60718293a4b5c6d7e8f9"
        ],
    ),
]
