"""Runs Kueue's controller as a kubelet would run its pod, with its ConfigMap and Secret as files.

The controller runs as long as the stack's ConfigMap `kueue-manager-config` exists. After the ConfigMap is deleted,
the controller runs until Kueue has finished deleting its objects.
"""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import threading
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, cast

from sandbox.kueue.manifests import NAMESPACE, SECRET, service, webhooks
from sandbox.simulator.kube import Api, ApiError, Informer, log

CONFIG_MAP: Final = "kueue-manager-config"
CONFIG_KEY: Final = "controller_manager_config.yaml"
_RUNNING: Final = "running"  # key of the ConfigMap that the deployment engine waits for
_HOST: Final = "127.0.0.1"
_TICK_SECONDS: Final = 0.2  # polling interval while Kueue is starting or stopping
_IDLE_SECONDS: Final = 5.0
_STOP_SECONDS: Final = 10.0
_KUEUE: Final = "/apis/kueue.x-k8s.io/v1beta2"
# Kinds of objects whose deletion Kueue has to complete.
_FINISHED_BY_KUEUE: Final = ("clusterqueues", "resourceflavors", "topologies", "admissionchecks", "workloads")
_WEBHOOKS: Final = "/apis/admissionregistration.k8s.io/v1"
_COLLECTIONS: Final = {
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}


class Runner:
    """Keeps the controller running. Its files are written to `folder`. `manifests` contains the files of Kueue's
    Go module.
    """

    def __init__(self, api: Api, kubeconfig: Path, binary: Path, manifests: Path, folder: Path, port: int) -> None:
        self._api = api
        self._kubeconfig = kubeconfig
        self._binary = binary
        self._manifests = manifests
        self._folder = folder
        self._port = port
        self._changed = threading.Event()
        self._stopped = False
        self._process: subprocess.Popen[bytes] | None = None
        self._config: str | None = None  # configuration of the running process
        self._serves = False
        namespace = f"/api/v1/namespaces/{NAMESPACE}"
        self._maps = Informer(api, f"{namespace}/configmaps", self._changed)
        self._secrets = Informer(api, f"{namespace}/secrets", self._changed)

    def run(self) -> None:
        """Run until `stop` is called."""
        while not self._stopped:
            settled = self._process is None if self._wanted() is None else self._serves
            self._changed.wait(_IDLE_SECONDS if settled else _TICK_SECONDS)
            self._changed.clear()
            try:
                self._reconcile()
            except ApiError as error:
                log(f"kueue: {error}")
                self._changed.wait(_TICK_SECONDS)
        self._end()

    def stop(self) -> None:
        """End `run`, which also stops the controller."""
        self._stopped = True
        self._changed.set()

    def _wanted(self) -> str | None:
        for config_map in self._maps.all():
            if config_map["metadata"]["name"] == CONFIG_MAP and "deletionTimestamp" not in config_map["metadata"]:
                return str(config_map["data"][CONFIG_KEY])
        return None

    def _reconcile(self) -> None:
        if not self._maps.synced.is_set():
            return
        wanted = self._wanted()
        if wanted is None:
            if not self._has_work():
                self._unregister()
                self._end()
            return
        if self._process is None or self._process.poll() is not None or wanted != self._config:
            self._end()
            self._start(wanted)
        self._mount_certificate()
        if not self._serves and self._listens():
            self._register(json.loads(wanted))
            self._serves = True
            log("kueue: its webhooks are registered")
            self._tell("true")

    # -- the process -----------------------------------------------------------------------------------------

    def _start(self, wanted: str) -> None:
        self._tell("false")
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}}
        for kind, body in (("services", service()), ("secrets", secret)):
            self._create(f"/api/v1/namespaces/{NAMESPACE}/{kind}", body)
        self._certificates.mkdir(parents=True, exist_ok=True)
        config = self._folder / "config.json"
        config.write_text(json.dumps(self._here(json.loads(wanted))), "utf-8")  # JSON is valid YAML
        command = [
            str(self._binary),
            f"--config={config}",
            f"--kubeconfig={self._kubeconfig}",
            "--zap-log-level=2",
        ]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        self._config = wanted
        log(f"kueue: process {self._process.pid}")

    @property
    def _certificates(self) -> Path:
        return self._folder / "certificates"

    def _here(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """Adapt the configuration to a controller that runs as one process on this machine."""
        return {
            **config,
            "namespace": NAMESPACE,
            "health": {"healthProbeBindAddress": "0"},
            "metrics": {**config["metrics"], "bindAddress": "0"},
            "webhook": {"host": _HOST, "port": self._port, "certDir": str(self._certificates)},
            "leaderElection": {"leaderElect": False},
            # The visibility server requires the API server's aggregation layer.
            "featureGates": {**config.get("featureGates", {}), "VisibilityOnDemand": False},
        }

    def _end(self) -> None:
        process, self._process, self._config, self._serves = self._process, None, None, False
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        log("kueue: stopped")

    def _has_work(self) -> bool:
        """Return whether the controller is running and still has to finish the deletion of objects."""
        if self._process is None:
            return False
        for kind in _FINISHED_BY_KUEUE:
            items = cast("list[Mapping[str, Any]]", self._api.get(f"{_KUEUE}/{kind}")["items"])
            if any("deletionTimestamp" in item["metadata"] for item in items):
                return True
        return False

    def _tell(self, running: str) -> None:
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{CONFIG_MAP}"
        self._api.patch(path, {"data": {_RUNNING: running}}, "merge")

    # -- its webhooks ----------------------------------------------------------------------------------------

    def _mount_certificate(self) -> None:
        for name, content in self._certificate().items():
            file = self._certificates / name
            if not file.exists() or file.read_bytes() != content:
                new = file.with_name(f".{name}.new")
                new.write_bytes(content)
                new.chmod(0o600)
                new.replace(file)

    def _certificate(self) -> Mapping[str, bytes]:
        """Return the files in Kueue's Secret, with the certificate last, or no files until Kueue has filled the
        Secret.
        """
        for secret in self._secrets.all():
            if secret["metadata"]["name"] == SECRET:
                data = cast("Mapping[str, str]", secret.get("data") or {})
                return {name: base64.b64decode(data[name]) for name in sorted(data, key="tls.crt".__eq__)}
        return {}

    def _listens(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex((_HOST, self._port)) == 0

    def _register(self, config: Mapping[str, Any]) -> None:
        authority = base64.b64encode(self._certificate()["ca.crt"]).decode()
        selector = config["managedJobsNamespaceSelector"]
        for document in webhooks(self._manifests, self._port, authority, selector):
            path = f"{_WEBHOOKS}/{_COLLECTIONS[document['kind']]}"
            if not self._create(path, document):
                self._api.patch(f"{path}/{document['metadata']['name']}", document, "merge")

    def _unregister(self) -> None:
        """Delete the webhooks. Without a controller, they would reject every workload of a team."""
        for kind in _COLLECTIONS.values():
            for item in cast("list[Mapping[str, Any]]", self._api.get(f"{_WEBHOOKS}/{kind}")["items"]):
                if item["metadata"]["name"].startswith("kueue-"):
                    name, uid = item["metadata"]["name"], item["metadata"]["uid"]
                    self._api.delete_now(f"{_WEBHOOKS}/{kind}/{name}", uid)

    def _create(self, path: str, body: Mapping[str, Any]) -> bool:
        """Create an object. Return False if it already exists."""
        try:
            self._api.create(path, body)
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            return False
        return True
