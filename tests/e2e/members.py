"""Objects that members of a team create in its namespace."""

from __future__ import annotations

import base64
from typing import Any

from tests.e2e.conftest import TOLERATION
from tests.support.restricted import satisfying

PASSWORD = base64.b64encode(b"hunter2").decode()


def members_objects(namespace: str) -> list[dict[str, Any]]:
    """Return objects that the team's Role allows a member to create: a StatefulSet, a 2 TiB claim and a Secret."""
    labels = {"app": "features"}
    pod = {
        "metadata": {"labels": labels},
        "spec": satisfying(
            {
                "containers": [
                    {"name": "main", "image": "db:1", "resources": {"limits": {"nvidia.com/gpu": 1}}},
                ],
                "tolerations": [TOLERATION],
                # The namespace controller checks at intervals of half this period whether the pods are gone.
                "terminationGracePeriodSeconds": 1,
            }
        ),
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "dataset", "namespace": namespace},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "",
                "resources": {"requests": {"storage": "2Ti"}},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "token", "namespace": namespace},
            "data": {"password": PASSWORD},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "features", "namespace": namespace},
            "spec": {
                "serviceName": "features",
                "selector": {"matchLabels": labels},
                "template": pod,
                "replicas": 2,
            },
        },
    ]
