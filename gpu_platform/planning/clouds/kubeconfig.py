"""Write kubeconfigs for cloud clusters. The kubeconfigs contain no credentials.

Clients run the cloud's credential command, which uses the credentials of the client's user.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_EXEC_API = "client.authentication.k8s.io/v1beta1"


def kubeconfig(name: str, cluster: Mapping[str, str], credentials: Mapping[str, Any]) -> str:
    """Return a kubeconfig as JSON text. Its context is named `name`.

    `credentials` are the fields of the command that gets a token. Fields with the value None are left out.
    """
    command = {"apiVersion": _EXEC_API, **{key: value for key, value in credentials.items() if value is not None}}
    # JSON is valid YAML, so every Kubernetes client can read it.
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": dict(cluster)}],
            "users": [{"name": name, "user": {"exec": command}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        },
        indent=2,
    )
