"""What a new sandbox already holds: the definitions of the kinds that the program uses, and a namespace."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from kubernetes.client import (
    ApiClient,
    ApiException,
    ApiextensionsV1Api,
    Configuration,
    CoordinationV1Api,
    CoreV1Api,
)

from gpu_platform.errors import CouldNotTell
from gpu_platform.names import SANDBOX_NAMESPACE
from sandbox._definitions import Document, read_definitions
from sandbox._layout import ADMIN, Layout, Settings

_PERMISSIVE_CRDS: Final = Path(__file__).resolve().parent / "crds"
_FIELD_MANAGER: Final = "gpu-platform-sandbox"
_POLL_SECONDS: Final = 0.05


def install(layout: Layout, settings: Settings, given: Sequence[Document], *, deadline: float) -> None:
    """Create what a sandbox holds from the start, and wait until it serves.

    The definitions `given` are applied; ours, which permit any content, only where there is none yet.
    `deadline` is in seconds of `time.monotonic()`.

    Raises:
        CouldNotTell: not everything served by the deadline.
    """
    with _client(layout, settings) as client:
        api = ApiextensionsV1Api(client)
        present = _established(api)
        absent = [item for item in read_definitions(_PERMISSIVE_CRDS) if _name(item) not in present]
        wanted = {_name(item): item for item in [*absent, *given]}
        for name, definition in wanted.items():
            _apply(api.patch_custom_resource_definition, name, definition)
        core = CoreV1Api(client)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SANDBOX_NAMESPACE}}
        _apply(core.patch_namespace, SANDBOX_NAMESPACE, namespace)
        while not all(_established(api).values()):
            _sleep(deadline, "the new kinds")
        while not _pods_are_accepted(core):
            _sleep(deadline, "the controllers' service accounts")


def _sleep(deadline: float, awaited: str) -> None:
    if time.monotonic() > deadline:
        raise CouldNotTell(f"The sandbox's API server does not serve {awaited} in time")
    time.sleep(_POLL_SECONDS)


def forget_leases(layout: Layout, settings: Settings) -> None:
    """Delete every node's lease: a new KWOK would wait up to 40 s for those of one that was killed."""
    with _client(layout, settings) as client:
        CoordinationV1Api(client).delete_collection_namespaced_lease("kube-node-lease")


def _client(layout: Layout, settings: Settings) -> ApiClient:
    configuration = Configuration(
        host=settings.server,
        api_key={"authorization": layout.token(ADMIN)},
        api_key_prefix={"authorization": "Bearer"},
    )
    configuration.ssl_ca_cert = str(layout.authority)
    configuration.proxy = None  # never through the proxy of the environment: it is this machine
    return ApiClient(configuration)


def _name(definition: Document) -> str:
    return definition["metadata"]["name"]


def _apply(patch: Callable[..., object], name: str, document: Document) -> None:
    """Apply on the server's side with one of the client's patch functions."""
    patch(
        name,
        document,
        field_manager=_FIELD_MANAGER,
        force=True,
        _content_type="application/apply-patch+yaml",  # JSON is YAML
    )


def _established(api: ApiextensionsV1Api) -> dict[str, bool]:
    """Return every definition's name, and whether its kind is served."""
    found: list[Document] = [item.to_dict() for item in api.list_custom_resource_definition().items]
    return {
        _name(item): any(
            condition["type"] == "Established" and condition["status"] == "True"
            for condition in (item.get("status") or {}).get("conditions") or []
        )
        for item in found
    }


def _pods_are_accepted(core: CoreV1Api) -> bool:
    """Return whether the controllers made what every pod mounts: an account and the authority's certificate."""
    try:
        core.read_namespaced_service_account("default", "default")
        core.read_namespaced_config_map("kube-root-ca.crt", "default")
    except ApiException as error:
        if error.status == 404:
            return False
        raise
    return True
