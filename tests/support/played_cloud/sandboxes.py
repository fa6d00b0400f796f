"""Sandboxes of this machine as the control planes of the simulated cloud's clusters."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import NamedTuple

from gpu_platform.base.progress import Progress
from sandbox import control_plane
from sandbox._layout import ADMIN, Layout
from tests.support.played_cloud.account import Account


class Access(NamedTuple):
    """Address of an API server (https://...), and its certificate authority in base64."""

    server: str
    authority: str


def start(account: Account, name: str, version: str) -> Access:
    """Start a control plane. Clients find a token for it in the account's folder."""
    status = control_plane.up(name, kubernetes=version, progress=Progress(quiet=True))
    layout = Layout(status.data_dir)
    _write_token(name, layout.token(ADMIN))
    account.record("control plane", cluster=name, version=version)
    return Access(status.server or "", base64.b64encode(layout.authority.read_bytes()).decode())


def upgrade(account: Account, name: str, version: str) -> None:
    """Start a control plane again with another Kubernetes version."""
    control_plane.up(name, kubernetes=version, progress=Progress(quiet=True))
    account.record("control plane", cluster=name, version=version)


def delete(account: Account, name: str) -> None:
    """Delete a control plane with all its nodes and objects."""
    control_plane.down(name)
    account.record("control plane deleted", cluster=name)


def _write_token(cluster: str, token: str) -> None:
    """Write what the credential program of the cloud prints for this cluster."""
    credential = {
        "kind": "ExecCredential",
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "spec": {},
        "status": {"token": token},
    }
    file = Path(os.environ["PLAYED_CLOUD"]) / f"token-{cluster}.json"
    file.touch(mode=0o600)
    file.write_text(json.dumps(credential), "utf-8")
