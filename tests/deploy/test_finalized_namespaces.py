"""The namespace controller deletes no objects in namespaces that `support.terminating` finalizes."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from gpu_platform.live.client import KubernetesClient
from sandbox.control_plane import Status
from sandbox.simulator.kube import Api
from tests.deploy.conftest import config_map, namespace
from tests.support.eventually import eventually
from tests.support.terminating import finalized_at_once

PLACE = "engine-finalized"


def _watch(api: Api, version: str, events: list[Mapping[str, Any]], gone: threading.Event) -> None:
    for event in api.watch("/api/v1/namespaces", {"fieldSelector": f"metadata.name={PLACE}"}, version):
        events.append(event)
        if event["type"] == "DELETED":
            gone.set()
            return


def test_terminating_namespaces_never_have_the_controllers_finalizer(
    sandbox: Status, client: KubernetesClient
) -> None:
    client.apply(namespace(PLACE)["manifest"])
    client.apply(config_map("one", PLACE)["manifest"])
    live = client.get("v1", "Namespace", PLACE)
    assert live is not None
    events: list[Mapping[str, Any]] = []
    gone = threading.Event()
    api = Api(sandbox.kubeconfig)
    version = live["metadata"]["resourceVersion"]
    threading.Thread(target=_watch, args=[api, version, events, gone], daemon=True).start()

    with finalized_at_once(sandbox.kubeconfig):
        client.delete(live)
        eventually(gone.is_set)

    deleted = [event["object"] for event in events if "deletionTimestamp" in event["object"]["metadata"]]
    assert deleted
    assert all(not found["spec"].get("finalizers") for found in deleted)
    assert client.get("v1", "ConfigMap", "one", PLACE) is None


def test_a_namespace_that_stays_is_given_back_to_the_controller(sandbox: Status, client: KubernetesClient) -> None:
    client.apply(namespace(PLACE)["manifest"])

    with finalized_at_once(sandbox.kubeconfig):
        pass

    live = client.get("v1", "Namespace", PLACE)
    assert live is not None
    assert live["spec"]["finalizers"] == ["kubernetes"]
    with finalized_at_once(sandbox.kubeconfig):
        client.delete(live)
        eventually(lambda: client.get("v1", "Namespace", PLACE) is None)
