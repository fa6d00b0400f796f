"""The real API server and the program give the same verdict on each device selector."""

from __future__ import annotations

from gpu_platform.live.client import KubernetesClient, Refused
from gpu_platform.planning.dra.cel import check_cel
from sandbox.control_plane import Status
from tests.planning.cel_cases import INVALID, PASSED_BUT_REFUSED, REFUSED_BUT_TAKEN, VALID


def test_the_api_server_and_our_check_agree_on_every_selector(sandbox: Status) -> None:
    client = KubernetesClient(sandbox.kubeconfig)
    differ = [text for text in [*VALID, *INVALID] if (check_cel(text) is None) != _is_taken(client, text)]
    assert differ == []


def test_the_known_differences_are_still_differences(sandbox: Status) -> None:
    client = KubernetesClient(sandbox.kubeconfig)
    assert [text for text in PASSED_BUT_REFUSED if _is_taken(client, text)] == []
    assert [text for text in REFUSED_BUT_TAKEN if not _is_taken(client, text)] == []


def _is_taken(client: KubernetesClient, expression: str) -> bool:
    device_class = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "selector"},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }
    try:
        client.create(device_class, dry_run=True)
    except Refused as refusal:
        if "spec.selectors[0].cel.expression" in str(refusal):
            return False
        raise  # an error about another field is not a verdict on the CEL expression
    return True
