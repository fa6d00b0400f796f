"""The permissions of each team role, checked with the authorizer of a real API server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.deploy.embedded.apply import apply
from gpu_platform.deploy.embedded.destroy import destroy
from gpu_platform.deploy.recorded.record import record_program
from gpu_platform.live.client import KubernetesClient
from sandbox.control_plane import Status
from tests.support.terminating import finalized_at_once

HERE = Path(__file__).parent
TABLE: list[Mapping[str, Any]] = yaml.load((HERE / "team_access.yaml").read_text("utf-8"), Loader=yaml.CSafeLoader)
STACK = "role-table"
PLACES = {"own": STACK, "other": "kube-system", "cluster": ""}
GROUPS = {"viewer": "role-table-viewers", "user": "role-table-users", "admin": "role-table-admins"}

Asked = Callable[[str, str, str, str], bool]


@pytest.fixture(scope="module")
def may(sandbox: Status) -> Iterator[Asked]:
    """Yield a function that returns whether a role allows a verb on a resource.

    The function asks the API server of a sandbox in which the team and its roles are deployed.
    """
    client = KubernetesClient(sandbox.kubeconfig)
    program = record_program(
        HERE / "programs" / "team_with_roles.py",
        project="gpu-platform",
        config={},
        secret_config=[],
        stack=STACK,
        preview=False,
        unknown_outputs=False,
    )
    apply(client, program)

    def ask(role: str, verb: str, resource: str, place: str) -> bool:
        first, _, rest = resource.partition("/")
        group, path = (
            (first, rest)
            if "." in first or first in {"apps", "batch", "policy", "autoscaling"}
            else ("", resource)
        )
        name, _, sub = path.partition("/")
        attributes = {
            "verb": verb,
            "group": group,
            "resource": name,
            "subresource": sub,
            "namespace": PLACES[place],
        }
        review = client.create(
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "metadata": {},
                "spec": {
                    "user": "ada",
                    "groups": [GROUPS[role], "system:authenticated"],
                    "resourceAttributes": attributes,
                },
            }
        )
        return review["status"]["allowed"]

    yield ask
    with finalized_at_once(sandbox.kubeconfig):
        destroy(client, STACK)


@pytest.mark.sandbox
@pytest.mark.parametrize("role", GROUPS)
def test_a_role_may_do_what_the_table_says_and_nothing_that_it_denies(may: Asked, role: str) -> None:
    asked = [
        (entry, verb, resource) for entry in TABLE for verb in entry["verbs"] for resource in entry["resources"]
    ]
    assert len(asked) > 300
    wrong = [
        f"{verb} {resource} ({entry['place']}): expected {role in entry['roles']}"
        for entry, verb, resource in asked
        if may(role, verb, resource, entry["place"]) != (role in entry["roles"])
    ]
    assert wrong == []
