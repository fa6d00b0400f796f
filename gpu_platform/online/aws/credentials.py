"""Lists the AWS credentials on this machine (environment variables, shared files).

Source: AWS SDKs and tools reference, credential provider chain; read 2026-11-21.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_PROFILE_KINDS: Final = {
    "sso_session": "IAM Identity Center",
    "sso_start_url": "IAM Identity Center",
    "login_session": "console login",
    "role_arn": "assumed role",
    "credential_process": "external process",
    "aws_access_key_id": "access key",
}


def aws_sources(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the kinds and places of the AWS credentials on this machine, in order of precedence.

    The network is not used, so the credentials of an instance are not found. The result contains no secret.
    """
    return list(_found(environment))


def _found(environment: Mapping[str, str]) -> Iterator[str]:
    if environment.get("AWS_ACCESS_KEY_ID") and environment.get("AWS_SECRET_ACCESS_KEY"):
        yield "access key in the environment (AWS_ACCESS_KEY_ID)"
    if environment.get("AWS_WEB_IDENTITY_TOKEN_FILE") and environment.get("AWS_ROLE_ARN"):
        yield "web identity (AWS_WEB_IDENTITY_TOKEN_FILE)"
    profile = environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE") or "default"
    home = Path(environment.get("HOME", "~")).expanduser() / ".aws"
    files = (
        (Path(environment.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials"), profile),
        (
            Path(environment.get("AWS_CONFIG_FILE") or home / "config"),
            profile if profile == "default" else f"profile {profile}",
        ),
    )
    for path, section in files:
        keys = _keys_of(path, section)
        kind = next((text for key, text in _PROFILE_KINDS.items() if key in keys), None)
        if kind is not None:
            yield f"{kind} in profile {profile} of {path}"
    if environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI") or environment.get(
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"
    ):
        yield "container credentials (AWS_CONTAINER_CREDENTIALS_*)"


def _keys_of(path: Path, section: str) -> set[str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read(path, "utf-8")
    except (configparser.Error, OSError, UnicodeDecodeError):
        return set()
    return set(parser.options(section)) if parser.has_section(section) else set()
