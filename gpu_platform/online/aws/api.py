"""Calls to the AWS API with the user's credentials, short timeouts, and readable reasons for failures."""

# boto3 has no types. The client that uses this module returns typed answers.
# ruff: noqa: ANN401

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from gpu_platform.online.finding import NotLookedAt

_CONNECT_SECONDS: Final = 5
_READ_SECONDS: Final = 20
_ATTEMPTS: Final = 2
_DENIED: Final = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError")
_LOGIN_AGAIN: Final = (
    "ExpiredToken",
    "ExpiredTokenException",
    "RequestExpired",
    "InvalidClientTokenId",
    "UnrecognizedClientException",
    "AuthFailure",
    "SignatureDoesNotMatch",
)
_SESSION: Final = "gpu-platform"
_LOGIN: Final = "run aws sso login, or set AWS_PROFILE"

# IAM prefixes of services that have another name in boto3.
_PREFIXES: Final = {"efs": "elasticfilesystem", "service-quotas": "servicequotas"}


def iam_action(service: str, operation: str) -> str:
    """Return the IAM action of an operation, such as servicequotas:GetServiceQuota."""
    return f"{_PREFIXES.get(service, service)}:{operation}"


class Missing(Exception):
    """The requested object does not exist in AWS."""


def new_session() -> Any:
    """Return a boto3 session for the user. Raises NotLookedAt if boto3 or credentials are missing."""
    try:
        import boto3
        from botocore.exceptions import BotoCoreError
    except ImportError as error:
        raise NotLookedAt(
            "boto3 is not installed", "pip install 'gpu-platform[online]', or pip install boto3"
        ) from error
    try:
        session: Any = boto3.Session()
        if session.get_credentials() is None:
            raise NotLookedAt("no AWS credentials were found", _LOGIN)
    except BotoCoreError as error:
        raise NotLookedAt(f"the AWS credentials cannot be used: {error}", _LOGIN) from error
    return session


class AwsApi:
    """The API of one region. Calls raise NotLookedAt if AWS does not answer, and Missing if an object does not
    exist.

    `role` is the ARN of a role, possibly in another account, that is assumed for every call. A service that has
    failed to answer once is not called again, because every further call would wait for the timeout.
    """

    def __init__(self, region: str, session: Any | None = None, *, role: str | None = None) -> None:
        self._region = region
        self._session = session
        self._role = role
        self._no_session: NotLookedAt | None = None
        self._clients: dict[str, Any] = {}
        self._silent: dict[str, str] = {}

    def call(self, service: str, operation: str, **parameters: Any) -> Any:
        """Call an operation and return its response. `operation` is its name in the API, such as DescribeVpcs."""
        from botocore import xform_name

        client = self._client(service)
        return self._answered(service, operation, lambda: getattr(client, xform_name(operation))(**parameters))

    def pages(self, service: str, operation: str, key: str, **parameters: Any) -> Iterator[Any]:
        """Yield the entries of `key` on all pages of an operation."""
        from botocore import xform_name

        paginator = self._client(service).get_paginator(xform_name(operation))
        pages = self._answered(service, operation, lambda: list(paginator.paginate(**parameters)))
        for page in cast("list[Mapping[str, Any]]", pages):
            yield from page[key]

    def _client(self, service: str) -> Any:
        if service in self._silent:
            raise NotLookedAt(self._silent[service], "check the network, the proxy and the region")
        if service not in self._clients:
            self._clients[service] = self._client_of(self._signed_in(), service)
        return self._clients[service]

    def _client_of(self, session: Any, service: str) -> Any:
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError

        config = Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
            retries={"total_max_attempts": _ATTEMPTS, "mode": "standard"},
        )
        try:
            return session.client(service, region_name=self._region, config=config)
        except (BotoCoreError, ValueError) as error:
            raise NotLookedAt(f"{service} cannot be queried: {error}", _LOGIN) from error

    def _signed_in(self) -> Any:
        """Return the session. A failure is cached, because the search for credentials can take seconds."""
        if self._no_session is not None:
            raise self._no_session
        try:
            if self._session is None:
                self._session = new_session()
            if self._role is not None:
                self._session, self._role = self._assumed(self._session, self._role), None
        except NotLookedAt as reason:
            self._no_session = reason
            raise
        return self._session

    def _assumed(self, session: Any, role: str) -> Any:
        """Return a session that has assumed the role. The provider and the kubeconfig assume the same role."""
        import boto3

        sts = self._client_of(session, "sts")
        wanted = {"RoleArn": role, "RoleSessionName": _SESSION}
        keys = self._answered("sts", "AssumeRole", lambda: sts.assume_role(**wanted))["Credentials"]
        return boto3.Session(
            aws_access_key_id=keys["AccessKeyId"],
            aws_secret_access_key=keys["SecretAccessKey"],
            aws_session_token=keys["SessionToken"],
        )

    def _answered(self, service: str, operation: str, ask: Any) -> Any:
        from botocore.exceptions import (
            BotoCoreError,
            ClientError,
            ConnectionError,
            HTTPClientError,
        )

        try:
            return ask()
        except ClientError as error:
            raise _refusal(service, operation, error.response) from error
        except (ConnectionError, HTTPClientError) as error:
            self._silent[service] = f"{service} did not answer: {error}"
            raise NotLookedAt(self._silent[service], "check the network, the proxy and the region") from error
        except BotoCoreError as error:  # such as credentials that cannot be loaded or renewed
            raise NotLookedAt(f"{service} cannot be queried: {error}", _LOGIN) from error


def _refusal(service: str, operation: str, response: Mapping[str, Any]) -> Exception:
    code = str(response.get("Error", {}).get("Code", ""))
    message = str(response.get("Error", {}).get("Message", ""))
    if code in _DENIED:
        action = iam_action(service, operation)
        return NotLookedAt(f"the credentials lack {action}", f"allow {action}, or check this line yourself")
    if code in _LOGIN_AGAIN:
        return NotLookedAt(f"AWS does not accept the credentials ({code})", _LOGIN)
    if code.startswith(
        ("ResourceNotFound", "NoSuch", "NotFound", "InvalidInstanceType", "FileSystemNotFound")
    ) or code.endswith(".NotFound"):
        return Missing(message)
    return NotLookedAt(f"{service} {operation} failed: {code} {message}".strip(), "try again later")
