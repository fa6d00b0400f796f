"""Calls to Google's REST APIs with the application default credentials, and readable reasons for failures.

The calls use google-auth instead of the generated clients, which are far larger. Every answer is a small JSON
document.
"""

# google-auth and requests have no complete types. The client that uses this module returns typed answers.
# ruff: noqa: ANN401

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, cast

from gpu_platform.online.finding import NotLookedAt

_TIMEOUT: Final = (5, 20)  # time limits in seconds, to connect and to read
_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform.read-only"
_LOGIN: Final = "run gcloud auth login --update-adc"
_NETWORK: Final = "check the network and the proxy"


class Missing(Exception):
    """The requested object does not exist in Google Cloud."""


class Disabled(Exception):
    """The project has not enabled the API."""


def new_session(impersonated: str | None = None) -> Any:
    """Return a session with the user's credentials. Raises NotLookedAt if google-auth or credentials are missing.

    `impersonated` is the e-mail address of the service account that the user acts as.
    """
    try:
        import google.auth
        import google.auth.impersonated_credentials
        import google.oauth2.credentials
        from google.auth.exceptions import GoogleAuthError
        from google.auth.transport.requests import AuthorizedSession
    except ImportError as error:
        fix = "pip install 'gpu-platform[online]', or pip install google-auth requests"
        raise NotLookedAt("google-auth is not installed", fix) from error
    token = os.environ.get("GOOGLE_OAUTH_ACCESS_TOKEN")
    credentials: Any
    if token:
        credentials = google.oauth2.credentials.Credentials(token=token)
    else:
        try:
            credentials, _ = google.auth.default(scopes=[_SCOPE])
        except GoogleAuthError as error:
            raise NotLookedAt("no Google Cloud credentials were found", _LOGIN) from error
    if impersonated is not None:
        credentials = google.auth.impersonated_credentials.Credentials(
            source_credentials=credentials, target_principal=impersonated, target_scopes=[_SCOPE]
        )
    return AuthorizedSession(credentials)


class GoogleApi:
    """Client for the APIs `compute`, `container`, `serviceusage` and `cloudquotas`.

    As with gcloud, CLOUDSDK_API_ENDPOINT_OVERRIDES_<NAME> replaces an endpoint, for example in a private network.
    Calls raise NotLookedAt if the API does not answer, Missing if an object does not exist, and Disabled if the
    project has not enabled the API. An API that has failed to answer once is not called again.
    """

    def __init__(self, session: Any | None = None, *, impersonated: str | None = None) -> None:
        """Use a session, or create a session with the user's credentials. With `impersonated`, the user acts as
        this service account.
        """
        self._session = session
        self._impersonated = impersonated
        self._no_session: NotLookedAt | None = None
        self._silent: dict[str, str] = {}

    def get(self, api: str, path: str, permission: str, **query: str) -> Mapping[str, Any]:
        """Return the JSON document at a path. `permission` is the IAM permission that the call needs."""
        if api in self._silent:
            raise NotLookedAt(self._silent[api], _NETWORK)
        session = self._signed_in()
        from google.auth.exceptions import GoogleAuthError
        from requests import RequestException

        override = os.environ.get(f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api.upper()}")
        # gcloud's endpoint override for compute contains the API version.
        root = (override or f"https://{api}.googleapis.com").rstrip("/").removesuffix("/compute/v1")
        url = f"{root}/{path}"
        try:
            answer = session.get(url, params=query, timeout=_TIMEOUT)
        except RequestException as error:
            self._silent[api] = f"{api} did not answer: {error}"
            raise NotLookedAt(self._silent[api], _NETWORK) from error
        except GoogleAuthError as error:
            raise NotLookedAt(f"the Google Cloud credentials cannot be used: {error}", _LOGIN) from error
        try:
            document = cast("Mapping[str, Any]", answer.json())
        except ValueError as error:
            raise NotLookedAt(f"{api} answered {answer.status_code} without JSON", _NETWORK) from error
        if answer.status_code != 200:
            raise _refusal(api, permission, answer.status_code, document)
        return document

    def _signed_in(self) -> Any:
        if self._no_session is not None:
            raise self._no_session
        if self._session is None:
            try:
                self._session = new_session(self._impersonated)
            except NotLookedAt as reason:
                self._no_session = reason
                raise
        return self._session


def _refusal(api: str, permission: str, status: int, document: Mapping[str, Any]) -> Exception:
    error: Mapping[str, Any] = document.get("error") or {}
    reasons = {str(detail.get("reason")) for detail in error.get("details") or ()}
    reasons |= {str(detail.get("reason")) for detail in error.get("errors") or ()}
    if reasons & {"SERVICE_DISABLED", "accessNotConfigured"}:
        return Disabled(f"{api}.googleapis.com is not enabled")
    if status == 404:
        return Missing(str(error.get("message", "")))
    if status == 401:
        return NotLookedAt("Google Cloud does not accept the credentials", _LOGIN)
    if status == 403:
        why = f"the credentials lack {permission}"
        return NotLookedAt(why, f"grant a role with {permission}, or check this line yourself")
    return NotLookedAt(f"{api} answered {status}: {error.get('message', '')}", "try again later")
