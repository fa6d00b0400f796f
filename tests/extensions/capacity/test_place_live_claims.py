"""How `gpu-platform place --live` evaluates pods whose device claims do not exist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from extensions.capacity.pod_sources import read_cluster
from gpu_platform.catalog import load_catalog
from gpu_platform.live.client import KubernetesClient
from tests.planning.conftest import PlanMaker, make_plan, pool

__all__ = ["make_plan"]

CLAIM = {
    "metadata": {"name": "given-gpu-x1", "namespace": "vision"},
    "spec": {
        "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 1}}]}
    },
}


class ApiServer:
    """A simulated API server with some pending pods and one claim."""

    def __init__(self, *pods: dict[str, Any]) -> None:
        self._objects = {"Pod": pods, "ResourceClaim": (CLAIM,)}

    def objects(self, _: str, kind: str, **selected: str) -> Iterator[dict[str, Any]]:
        waiting = selected.get("field_selector") == "spec.nodeName="
        yield from self._objects.get(kind, ()) if kind != "Pod" or waiting else ()


def pending(claims: list[dict[str, str]], statuses: list[dict[str, str]]) -> dict[str, Any]:
    return {
        "metadata": {"name": "wants", "namespace": "vision", "creationTimestamp": "2026-11-29T10:00:00Z"},
        "spec": {"containers": [{"name": "main"}], "resourceClaims": claims},
        "status": {"phase": "Pending", "resourceClaimStatuses": statuses},
    }


@pytest.mark.parametrize(
    ("claims", "statuses", "why"),
    [
        (
            [{"name": "gpu", "resourceClaimTemplateName": "bigg"}],
            [],
            "its claim from template bigg was not created, because the template or quota is missing",
        ),
        ([{"name": "gpu", "resourceClaimName": "lost"}], [], "its claim lost does not exist"),
    ],
)
def test_a_pod_without_its_claim_is_not_placed(
    make_plan: PlanMaker, claims: list[dict[str, str]], statuses: list[dict[str, str]], why: str
) -> None:
    client = cast("KubernetesClient", ApiServer(pending(claims, statuses)))
    found = read_cluster(client, make_plan(pool()), load_catalog())
    assert found.groups == ()
    assert [one.why for one in found.skipped] == [why]


def test_a_pod_whose_claim_was_made_from_a_template_requests_its_devices(make_plan: PlanMaker) -> None:
    entry = {"name": "gpu", "resourceClaimTemplateName": "big"}
    status = {"name": "gpu", "resourceClaimName": "given-gpu-x1"}
    client = cast("KubernetesClient", ApiServer(pending([entry], [status])))
    [group] = read_cluster(client, make_plan(pool()), load_catalog()).groups
    assert group.requests["gpu.nvidia.com"] == 1
