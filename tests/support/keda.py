"""KEDA's operator next to a sandbox, and its metrics server behind the aggregation layer of the API server.

Both run as processes of a test. This module creates only those objects of KEDA's chart that the processes need.
The API server reaches the metrics server through an ExternalName Service that points to this machine. The API
server sends no client certificate, so the reader role is bound to anonymous requests.
"""

from __future__ import annotations

import base64
import contextlib
import os
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import yaml

from gpu_platform.live.client import KubernetesClient
from sandbox.build import Binaries
from tests.support.certificates import self_signed
from tests.support.eventually import eventually
from tests.support.ports import free_port

NAMESPACE: Final = "keda"
GROUP: Final = "external.metrics.k8s.io"
_SERVICE: Final = "keda-metrics-apiserver"
_OPERATOR: Final = "keda-operator"


def definitions(binaries: Binaries) -> list[dict[str, Any]]:
    """Return KEDA's CustomResourceDefinitions."""
    folder = binaries.manifests("keda-operator") / "config/crd/bases"
    return [yaml.safe_load(file.read_text("utf-8")) for file in sorted(folder.glob("*.yaml"))]


@contextlib.contextmanager
def keda(binaries: Binaries, kubeconfig: Path, folder: Path) -> Generator[None]:
    """Run KEDA on a cluster that has its CustomResourceDefinitions. `folder` is for certificates and logs."""
    client = KubernetesClient(kubeconfig)
    authority = _write_certificate(folder)
    metrics, operator = free_port(), free_port()
    made = [client.create(one) for one in _objects(authority, metrics)]
    env = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "POD_NAMESPACE": NAMESPACE,
        "KEDA_CLUSTER_OBJECT_NAMESPACE": NAMESPACE,
        "WATCH_NAMESPACE": "",
    }
    commands = {
        "keda-operator": [
            f"--metrics-service-bind-address=127.0.0.1:{operator}",
            "--enable-prometheus-metrics=false",
            "--health-probe-bind-address=0",
            f"--cert-dir={folder}",
        ],
        "keda-adapter": [
            "--bind-address=127.0.0.1",
            f"--secure-port={metrics}",
            "--port=0",
            f"--metrics-service-address=127.0.0.1:{operator}",
            f"--metrics-service-grpc-authority={_OPERATOR}",
            f"--cert-dir={folder}",
            f"--tls-cert-file={folder / 'tls.crt'}",
            f"--tls-private-key-file={folder / 'tls.key'}",
            f"--lister-kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--authentication-skip-lookup=true",
        ],
    }
    with contextlib.ExitStack() as running:
        processes = [_start(running, binaries, name, options, env, folder) for name, options in commands.items()]
        try:
            eventually(lambda: _serves(client) or any(one.poll() is not None for one in processes))
            assert all(one.poll() is None for one in processes), _logs(folder)
            yield
        finally:
            # First delete the objects that make the API server call the processes.
            for one in reversed(made):
                client.delete(one)
            for process in processes:
                process.terminate()
                process.wait(timeout=30)


def _start(
    running: contextlib.ExitStack,
    binaries: Binaries,
    name: str,
    options: list[str],
    env: dict[str, str],
    folder: Path,
) -> subprocess.Popen[bytes]:
    log = running.enter_context((folder / f"{name}.log").open("wb"))
    return subprocess.Popen([str(binaries.path(name)), *options], env=env, stdout=log, stderr=log)


def _serves(client: KubernetesClient) -> bool:
    """Return whether the API server can reach the metrics server."""
    found = client.get("apiregistration.k8s.io/v1", "APIService", f"v1beta1.{GROUP}")
    conditions = (found or {}).get("status", {}).get("conditions", ())
    return any(one["type"] == "Available" and one["status"] == "True" for one in conditions)


def _logs(folder: Path) -> str:
    return "\n".join(file.read_text(errors="replace")[-2000:] for file in folder.glob("*.log"))


def _objects(authority: bytes, port: int) -> list[dict[str, Any]]:
    """Return the objects that the API server needs to reach the metrics server."""
    rbac = "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": [GROUP], "resources": ["*"], "verbs": ["get", "list"]},
        {"nonResourceURLs": ["/apis", "/apis/*"], "verbs": ["get"]},
    ]
    role = {"apiGroup": rbac, "kind": "ClusterRole", "name": "keda-external-metrics"}
    subjects = [
        {"apiGroup": rbac, "kind": "User", "name": "system:anonymous"},
        {"kind": "ServiceAccount", "name": "horizontal-pod-autoscaler", "namespace": "kube-system"},
    ]
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": _SERVICE, "namespace": NAMESPACE},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        },
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": role["name"]}, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": role["name"]},
            "roleRef": role,
            "subjects": subjects,
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"v1beta1.{GROUP}"},
            "spec": {
                "group": GROUP,
                "version": "v1beta1",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "service": {"name": _SERVICE, "namespace": NAMESPACE, "port": port},
                "caBundle": base64.b64encode(authority).decode(),
            },
        },
    ]


def _write_certificate(folder: Path) -> bytes:
    """Write one self-signed certificate for both processes, and its key. Return the certificate."""
    hosts = ("localhost", _OPERATOR, f"{_SERVICE}.{NAMESPACE}.svc")
    public, private = self_signed("KEDA of a test", hosts)
    for file in ("ca.crt", "tls.crt"):
        (folder / file).write_bytes(public)
    (folder / "tls.key").write_bytes(private)
    return public
