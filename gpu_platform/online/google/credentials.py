"""Lists the Google Cloud credentials on this machine (environment variables, files).

Sources: Google Cloud, how Application Default Credentials work; variables of Pulumi's Google provider; read
2026-11-21.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, cast

_VARIABLES: Final = ("GOOGLE_CREDENTIALS", "GOOGLE_CLOUD_KEYFILE_JSON", "GCLOUD_KEYFILE_JSON")


def google_sources(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the kinds and places of the Google Cloud credentials on this machine, in order of precedence.

    The network is not used, so the credentials of an instance are not found. The result contains no secret.
    """
    return list(_found(environment))


def _found(environment: Mapping[str, str]) -> Iterator[str]:
    for name in _VARIABLES:
        if environment.get(name):
            yield f"credentials of the Pulumi provider ({name})"
    if environment.get("GOOGLE_OAUTH_ACCESS_TOKEN"):
        yield "access token (GOOGLE_OAUTH_ACCESS_TOKEN)"
    named = environment.get("GOOGLE_APPLICATION_CREDENTIALS")
    if named and (kind := _google_kind(Path(named))):
        yield f"{kind} in {named} (GOOGLE_APPLICATION_CREDENTIALS)"
    home = Path(environment.get("HOME", "~")).expanduser() / ".config" / "gcloud"
    default = Path(environment.get("CLOUDSDK_CONFIG") or home) / "application_default_credentials.json"
    if kind := _google_kind(default):
        yield f"{kind} in {default} (gcloud auth application-default login)"


def _google_kind(path: Path) -> str:
    try:
        document: object = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return ""
    kind = cast("dict[object, object]", document).get("type") if isinstance(document, dict) else None
    return kind if isinstance(kind, str) else ""
