"""Lists the Azure credentials on this machine (environment variables, login of the Azure CLI).

Source: terraform-provider-azurerm, guides on authentication; read 2026-11-30.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, cast

_VARIABLES: Final = {
    "ARM_CLIENT_SECRET": "service principal with a secret",
    "ARM_CLIENT_CERTIFICATE_PATH": "service principal with a certificate",
    "ARM_OIDC_TOKEN": "workload identity",
    "ARM_OIDC_TOKEN_FILE_PATH": "workload identity",
    "ARM_OIDC_REQUEST_URL": "workload identity",
}


def azure_sources(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the kinds and places of the Azure credentials on this machine, in order of precedence.

    The network is not used, so the credentials of an instance are not found. The result contains no secret.
    """
    return list(_found(environment))


def _found(environment: Mapping[str, str]) -> Iterator[str]:
    principal = environment.get("ARM_CLIENT_ID") and environment.get("ARM_TENANT_ID")
    for name, kind in _VARIABLES.items():
        if principal and environment.get(name):
            yield f"{kind} of the Pulumi provider ({name})"
    if environment.get("ARM_USE_MSI", "").casefold() == "true":
        yield "managed identity of the Pulumi provider (ARM_USE_MSI)"
    home = Path(environment.get("AZURE_CONFIG_DIR") or Path(environment.get("HOME", "~")).expanduser() / ".azure")
    if _has_subscriptions(home / "azureProfile.json"):
        yield f"login of the Azure CLI in {home}"


def _has_subscriptions(path: Path) -> bool:
    """Return whether the Azure CLI has a login. Before the first login, the file has no subscriptions."""
    try:
        document: object = json.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError):
        return False
    return isinstance(document, dict) and bool(cast("dict[object, object]", document).get("subscriptions"))
