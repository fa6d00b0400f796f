"""Requests to the API server with a pod's service account, using only the standard library."""

from __future__ import annotations

import json
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
_TIMEOUT_SECONDS = 10
_CONFLICT = 409
_NOT_FOUND = 404
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class ApiError(Exception):
    """A request failed. The message contains the reason."""


class Conflict(ApiError):
    """The object already exists, or another field manager is changing it at the same time."""


class NotFound(ApiError):
    """The object does not exist."""


@dataclass(frozen=True)
class ApiServer:
    """URL of the API server, and the paths of its token and CA files.

    If the CA path is empty, the system's CAs are used.
    """

    url: str
    token_file: str
    ca_file: str

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] = os.environ) -> ApiServer:
        """Return the API server of the cluster that this pod runs in.

        The variables `GPU_PLATFORM_API_SERVER`, `GPU_PLATFORM_TOKEN_FILE` and `GPU_PLATFORM_CA_FILE` override its
        URL, token file and CA file. Raises ApiError outside a cluster, and for a URL that would send the token
        unencrypted.
        """
        url = environment.get("GPU_PLATFORM_API_SERVER", "")
        if not url:
            host = environment.get("KUBERNETES_SERVICE_HOST", "")
            if not host:
                raise ApiError("not in a cluster: KUBERNETES_SERVICE_HOST is not set")
            host = f"[{host}]" if ":" in host else host
            url = f"https://{host}:{environment.get('KUBERNETES_SERVICE_PORT', '443')}"
        parts = urllib.parse.urlsplit(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
            raise ApiError(f"{url}: not an https URL")
        return cls(
            url.rstrip("/"),
            environment.get("GPU_PLATFORM_TOKEN_FILE", f"{ACCOUNT_DIR}/token"),
            environment.get("GPU_PLATFORM_CA_FILE", f"{ACCOUNT_DIR}/ca.crt"),
        )


def send(
    server: ApiServer,
    method: str,
    path: str,
    body: Mapping[str, Any] | None,
    query: Mapping[str, str],
    *,
    patch: str = APPLY,
) -> dict[str, Any]:
    """Send a request to the API server and return the response.

    `patch` is the content type of a PATCH request. Raises Conflict if the object already exists or somebody else
    has changed it, NotFound if it does not exist, and ApiError for any other failure.
    """
    kind = patch if method == "PATCH" else "application/json"
    url = server.url + path + (f"?{urllib.parse.urlencode(query)}" if query else "")
    try:
        with open(server.token_file, encoding="ascii") as file:  # not cached, because the kubelet renews tokens
            token = file.read().strip()
        request = urllib.request.Request(  # noqa: S310 - ApiServer has checked the scheme
            url,
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={"Authorization": f"Bearer {token}", "Content-Type": kind},
        )
        with _opener(server).open(request, timeout=_TIMEOUT_SECONDS) as response:
            answer: dict[str, Any] = json.loads(response.read())
            return answer
    except urllib.error.HTTPError as error:
        problem = {_CONFLICT: Conflict, _NOT_FOUND: NotFound}.get(error.code, ApiError)
        raise problem(f"API server: {error.code} {_message(error)}") from None
    except (OSError, ValueError) as error:  # OSError includes URLError
        raise ApiError(f"API server {server.url}: {error}") from None


def _opener(server: ApiServer) -> urllib.request.OpenerDirector:
    handlers: list[urllib.request.BaseHandler] = [
        urllib.request.ProxyHandler({})
    ]  # never use a proxy for requests to the API server
    if server.url.startswith("https"):
        context = ssl.create_default_context(cafile=server.ca_file or None)
        # Cluster CAs often lack the key identifiers that Python 3.13 requires.
        context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
        handlers.append(urllib.request.HTTPSHandler(context=context))
    return urllib.request.build_opener(*handlers)


def _message(error: urllib.error.HTTPError) -> str:
    """Return the API server's error message, or the HTTP reason if there is none."""
    try:
        return json.loads(error.read())["message"]
    except (OSError, ValueError, KeyError, TypeError):
        return str(error.reason)
