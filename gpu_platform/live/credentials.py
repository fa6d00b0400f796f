"""Lists the cloud credentials on this machine (environment variables, shared files) without network access.

Results name the kind and place of the credentials and never contain a secret. The role of an EC2 instance is not
looked up, because that needs the network.

Sources: AWS SDKs and tools reference, credential provider chain; Google Cloud, how Application Default Credentials
work, and the variables of Pulumi's Google provider; read 2026-11-21. Azure: terraform-provider-azurerm, guides on
authentication; read 2026-11-30.
"""

from __future__ import annotations

import configparser
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, cast

_AWS_PROFILE_KINDS: Final = {
    "sso_session": "IAM Identity Center",
    "sso_start_url": "IAM Identity Center",
    "login_session": "console login",
    "role_arn": "assumed role",
    "credential_process": "external process",
    "aws_access_key_id": "access key",
}
_AZURE_VARIABLES: Final = {
    "ARM_CLIENT_SECRET": "service principal with a secret",
    "ARM_CLIENT_CERTIFICATE_PATH": "service principal with a certificate",
    "ARM_OIDC_TOKEN": "workload identity",
    "ARM_OIDC_TOKEN_FILE_PATH": "workload identity",
    "ARM_OIDC_REQUEST_URL": "workload identity",
}
_GOOGLE_VARIABLES: Final = ("GOOGLE_CREDENTIALS", "GOOGLE_CLOUD_KEYFILE_JSON", "GCLOUD_KEYFILE_JSON")


def aws_sources(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the kinds and places of the AWS credentials on this machine, in order of precedence."""
    return list(_aws(environment))


def google_sources(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the kinds and places of the Google Cloud credentials on this machine, in order of precedence."""
    return list(_google(environment))


def azure_sources(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the kinds and places of the Azure credentials on this machine, in order of precedence."""
    return list(_azure(environment))


def _azure(environment: Mapping[str, str]) -> Iterator[str]:
    principal = environment.get("ARM_CLIENT_ID") and environment.get("ARM_TENANT_ID")
    for name, kind in _AZURE_VARIABLES.items():
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


def _aws(environment: Mapping[str, str]) -> Iterator[str]:
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
        kind = next((text for key, text in _AWS_PROFILE_KINDS.items() if key in keys), None)
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


def _google(environment: Mapping[str, str]) -> Iterator[str]:
    for name in _GOOGLE_VARIABLES:
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


_SOURCES: Final[Mapping[str, Callable[[], list[str]]]] = {
    "aws": aws_sources,
    "google": google_sources,
    "azure": azure_sources,
}


def credential_sources(kind: str) -> list[str]:
    """Return the credentials on this machine for one cloud. `kind` is `aws`, `google` or `azure`."""
    return _SOURCES[kind]()
