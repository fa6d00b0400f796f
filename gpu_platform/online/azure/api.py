"""Calls to Azure Resource Manager with the login of the Azure CLI or of a service principal, and readable reasons
for failures.

The calls use `requests` instead of Azure's generated clients, which are far larger. Every answer is a small JSON
document.
"""

# requests has no complete types. The client that uses this module returns typed answers.
# ruff: noqa: ANN401

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from gpu_platform.online.finding import NotLookedAt

_ROOT: Final = "https://management.azure.com"
_TOKENS: Final = "https://login.microsoftonline.com"
_TIMEOUT: Final = (5, 20)  # seconds to connect, and to read
_CLI_TIMEOUT: Final = 60  # seconds
_NETWORK: Final = "check the network and the proxy"


class Missing(Exception):
    """The requested object does not exist in Azure."""


class AzureApi:
    """Client for Azure Resource Manager. Calls raise NotLookedAt if it does not answer, and Missing if an object
    does not exist. After a failed connection or login, it is not called again.
    """

    def __init__(self, subscription: str, session: Any | None = None) -> None:
        """Use a session, or create a session with the user's credentials."""
        self._subscription = subscription
        self._session = session
        self._failed: NotLookedAt | None = None

    def get(self, path: str, version: str, permission: str, **query: str) -> Mapping[str, Any]:
        """Return the JSON document at a path, with all pages of its list. `permission` is the action that the call
        needs.
        """
        document = self._call("GET", f"{_ROOT}{path}", permission, {"api-version": version, **query})
        items, following = list(document.get("value") or ()), document.get("nextLink")
        while following:
            page = self._call("GET", str(following), permission, {})
            items += page.get("value") or ()
            following = page.get("nextLink")
        return {**document, "value": items} if "value" in document else document

    def post(self, path: str, version: str, permission: str) -> Mapping[str, Any]:
        """Return the JSON document of an action that changes nothing."""
        return self._call("POST", f"{_ROOT}{path}", permission, {"api-version": version})

    def _call(self, method: str, url: str, permission: str, query: Mapping[str, str]) -> Mapping[str, Any]:
        session = self._signed_in()
        from requests import RequestException

        try:
            answer = session.request(method, url, params=query, timeout=_TIMEOUT)
        except RequestException as error:
            self._failed = NotLookedAt(f"Azure did not answer: {error}", _NETWORK)
            raise self._failed from error
        try:
            document = cast("Mapping[str, Any]", answer.json())
        except ValueError as error:
            raise NotLookedAt(f"Azure answered {answer.status_code} without JSON", _NETWORK) from error
        if answer.status_code != 200:
            raise self._refusal(permission, answer.status_code, document)
        return document

    def _signed_in(self) -> Any:
        if self._failed is not None:
            raise self._failed
        if self._session is None:
            try:
                self._session = _new_session(self._subscription)
            except NotLookedAt as reason:
                self._failed = reason
                raise
        return self._session

    def _refusal(self, permission: str, status: int, document: Mapping[str, Any]) -> Exception:
        error: Mapping[str, Any] = document.get("error") or {}
        if error.get("code") in ("SubscriptionNotFound", "InvalidSubscriptionId"):
            why = f"the credentials cannot see subscription {self._subscription}"
            return NotLookedAt(why, _login(self._subscription))
        if status == 404:
            return Missing(str(error.get("message", "")))
        if status == 401:
            return NotLookedAt("Azure does not accept the credentials", _login(self._subscription))
        if status == 403:
            why = f"the credentials lack {permission}"
            return NotLookedAt(why, "grant the role Reader on the subscription, or check this line yourself")
        return NotLookedAt(f"Azure answered {status}: {error.get('message', '')}", "try again later")


def _login(subscription: str) -> str:
    return f"run az login, then az account set --subscription {subscription}"


def _new_session(subscription: str) -> Any:
    try:
        import requests
    except ImportError as error:
        fix = "pip install 'gpu-platform[online]', or pip install requests"
        raise NotLookedAt("requests is not installed", fix) from error
    session = requests.Session()
    principal = _principal(os.environ)
    token = _token_of_principal(session, principal) if principal else _token_of_cli(subscription)
    session.headers["Authorization"] = f"Bearer {token}"
    return session


def _principal(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the credentials of a service principal, by the fields of a token request, or nothing if the variables
    of the Azure provider name none.
    """
    client, tenant = environment.get("ARM_CLIENT_ID"), environment.get("ARM_TENANT_ID")
    if not client or not tenant:
        return {}
    secret, file = environment.get("ARM_CLIENT_SECRET"), environment.get("ARM_OIDC_TOKEN_FILE_PATH")
    assertion = environment.get("ARM_OIDC_TOKEN") or (Path(file).read_text("utf-8") if file else "")
    if secret:
        return {"tenant": tenant, "client_id": client, "client_secret": secret}
    if assertion:
        kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        return {
            "tenant": tenant,
            "client_id": client,
            "client_assertion_type": kind,
            "client_assertion": assertion.strip(),
        }
    return {}


def _token_of_principal(session: Any, principal: Mapping[str, str]) -> str:
    from requests import RequestException

    fields = {name: value for name, value in principal.items() if name != "tenant"}
    fields |= {"grant_type": "client_credentials", "scope": f"{_ROOT}/.default"}
    try:
        answer = session.post(f"{_TOKENS}/{principal['tenant']}/oauth2/v2.0/token", data=fields, timeout=_TIMEOUT)
        return str(answer.json()["access_token"])
    except (RequestException, ValueError, KeyError) as error:
        why = f"service principal {principal['client_id']} gets no token"
        raise NotLookedAt(why, "check ARM_CLIENT_ID, ARM_TENANT_ID and its credentials") from error


def _token_of_cli(subscription: str) -> str:
    command = ["az", "account", "get-access-token", "--subscription", subscription, "--output", "json"]
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_CLI_TIMEOUT)
        return str(json.loads(done.stdout)["accessToken"])
    except FileNotFoundError as error:
        raise NotLookedAt("the Azure CLI is not installed", "install az, then run az login") from error
    except (subprocess.SubprocessError, ValueError, KeyError) as error:
        raise NotLookedAt("the Azure CLI gets no token", _login(subscription)) from error
