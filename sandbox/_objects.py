"""Creates the initial objects of a sandbox: CustomResourceDefinitions and a namespace."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from kubernetes.client import (
    ApiClient,
    ApiException,
    ApiextensionsV1Api,
    Configuration,
    CoordinationV1Api,
    CoreV1Api,
)
from kubernetes.client.exceptions import NotFoundException
from urllib3.exceptions import HTTPError

from gpu_platform.errors import BadInput, Problem, UnknownOutcome
from gpu_platform.names import SANDBOX_NAMESPACE
from sandbox._definitions import Document, read_definitions
from sandbox._layout import ADMIN, Layout, Settings
from sandbox.diagnosis import diagnose

_PERMISSIVE_CRDS: Final = Path(__file__).resolve().parent / "crds"
_FIELD_MANAGER: Final = "gpu-platform-sandbox"
REQUEST_SECONDS: Final = 30.0


def install(layout: Layout, settings: Settings, given: Sequence[Document]) -> None:
    """Create the initial objects of a sandbox.

    The definitions `given` are applied; ours, which permit any content, only where there is none yet.

    Raises:
        BadInput: the API server refuses definitions.
        UnknownOutcome: it does not answer.
    """
    with _client(layout, settings) as client:
        api = ApiextensionsV1Api(client)
        present = {_name(item) for item in _definitions(api)}
        absent = [item for item in read_definitions(_PERMISSIVE_CRDS) if _name(item) not in present]
        refused: list[Problem] = []
        for definition in [*absent, *given]:
            try:
                _apply(api.patch_custom_resource_definition, definition)
            except ApiException as error:
                answer = cast("Any", error)
                reason = json.loads(answer.body or "{}").get("message", answer.reason)
                refused.append(
                    Problem(
                        _name(definition), str(reason), "a CustomResourceDefinition that the API server accepts"
                    )
                )
        if refused:
            raise BadInput("CRD folder", refused)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SANDBOX_NAMESPACE}}
        _apply(CoreV1Api(client).patch_namespace, namespace)


def kinds_are_served(layout: Layout, settings: Settings) -> bool:
    """Return whether the API server serves the kinds of all definitions."""
    with _client(layout, settings) as client:
        return all(_is_established(item) for item in _definitions(ApiextensionsV1Api(client)))


def pods_are_accepted(layout: Layout, settings: Settings) -> bool:
    """Return whether the controllers have created what pods mount: service account and CA certificate."""
    with _client(layout, settings) as client:
        core = CoreV1Api(client)
        try:
            core.read_namespaced_service_account("default", "default")
            core.read_namespaced_config_map("kube-root-ca.crt", "default")
        except NotFoundException:
            return False
        return True


def forget_leases(layout: Layout, settings: Settings) -> None:
    """Delete the leases of all nodes: a new KWOK would wait up to 40 s for those of a killed one."""
    with _client(layout, settings) as client:
        CoordinationV1Api(client).delete_collection_namespaced_lease("kube-node-lease")


@contextmanager
def _client(layout: Layout, settings: Settings) -> Generator[ApiClient]:
    configuration = Configuration(
        host=settings.server,
        api_key={"authorization": layout.token(ADMIN)},
        api_key_prefix={"authorization": "Bearer"},
    )
    configuration.ssl_ca_cert = str(layout.authority)
    configuration.proxy = None  # this machine is never behind the proxy of the environment
    configuration.retries = 1  # of the client's three, each with a timeout of its own
    try:
        with ApiClient(configuration) as client:
            connection: Any = client.rest_client
            connection.request = _limited(connection.request)
            yield client
    except (HTTPError, ApiException) as error:
        answer = cast("Any", error)
        cause = f"HTTP {answer.status} {answer.reason}" if isinstance(error, ApiException) else str(error)
        raise UnknownOutcome(
            f"The sandbox's API server at {settings.server} does not answer: {cause}. {diagnose(settings.name)}"
        ) from error


def _limited(request: Callable[..., object]) -> Callable[..., object]:
    """Return the client's function for requests with a time limit, which they do not have by default."""

    def limited(*args: object, **options: object) -> object:
        options["_request_timeout"] = options.get("_request_timeout") or REQUEST_SECONDS
        return request(*args, **options)

    return limited


def _definitions(api: ApiextensionsV1Api) -> list[Document]:
    # Not parsed by the client, whose models of thousands of schema fields would take seconds.
    response = cast("Any", api.list_custom_resource_definition(_preload_content=False))
    return json.loads(response.data)["items"]


def _is_established(definition: Document) -> bool:
    conditions: Sequence[Document] = definition["status"].get("conditions") or []  # null in a new one
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)


def _name(document: Document) -> str:
    return document["metadata"]["name"]


def _apply(patch: Callable[..., object], document: Document) -> None:
    """Apply an object by server-side apply with one of the client's patch functions."""
    patch(
        _name(document),
        document,
        field_manager=_FIELD_MANAGER,
        force=True,
        _content_type="application/apply-patch+yaml",  # JSON is YAML
    )
