"""Files in a sandbox's data folder: settings, tokens, certificates and kubeconfigs."""

from __future__ import annotations

import base64
import csv
import json
import os
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from sandbox._modules import DEFAULT

_DAY_SECONDS: Final = 86_400
# The API server's self-signed certificate is valid for one year and is renewed well before it expires.
_CERTIFICATE_DAYS: Final = 300

HOST: Final = "127.0.0.1"
ADMIN: Final = "admin"
# Users of the API server and their groups.
# The API server itself creates the roles of the two Kubernetes components.
IDENTITIES: Final = {
    ADMIN: "system:masters",
    "system:kube-controller-manager": "",
    "system:kube-scheduler": "",
    "kwok": "system:masters",
    "sandbox-simulator": "system:masters",
    "kueue": "system:masters",
    "karpenter": "system:masters",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings that a sandbox keeps between two runs of `up`."""

    name: str
    api_port: int
    kubernetes: str = DEFAULT.kubernetes  # for sandboxes created before versions could be chosen
    """Minor version of the control plane."""
    kueue_port: int | None = None
    """Port of Kueue's webhooks. None if the sandbox has never had a stack with queues."""
    karpenter: bool = False
    """Whether Karpenter creates nodes for pending pods."""

    @property
    def server(self) -> str:
        """URL of the API server."""
        return f"https://{HOST}:{self.api_port}"


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths in a sandbox's data folder."""

    folder: Path

    @property
    def lock(self) -> Path:
        """Lock for processes that change the sandbox. A folder with this file is a sandbox's data folder."""
        return self.folder / ".gpu-platform-sandbox.lock"

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of the administrator, for users and for this program."""
        return self.folder / "kubeconfig"

    @property
    def scratch(self) -> Path:
        """Folder for temporary files of the components, deleted with the sandbox."""
        return self.folder / "tmp"

    @property
    def tokens(self) -> Path:
        """Static token file of the API server."""
        return self.folder / "tokens.csv"

    @property
    def kueue(self) -> Path:
        """Folder with Kueue's configuration and certificate."""
        return self.folder / "kueue"

    @property
    def instance_types(self) -> Path:
        """File with the machine types that Karpenter may create."""
        return self.folder / "karpenter" / "instance-types.json"

    @property
    def certificates(self) -> Path:
        """Folder for the API server's key and self-signed certificate."""
        return self.folder / "pki"

    @property
    def server_key(self) -> Path:
        """Private key of the API server, which also signs service-account tokens."""
        return self.certificates / "apiserver.key"

    @property
    def authority(self) -> Path:
        """Certificate authority that clients must trust."""
        return self.certificates / "ca.crt"

    @property
    def _settings(self) -> Path:
        return self.folder / "sandbox.json"

    def component_kubeconfig(self, user: str) -> Path:
        """Return the kubeconfig of one of `IDENTITIES`."""
        return self.kubeconfig if user == ADMIN else self.folder / "kubeconfigs" / user.replace(":", "-")

    def settings(self) -> Settings | None:
        """Return the settings of the sandbox, or None if this folder has no sandbox."""
        try:
            return Settings(**json.loads(self._settings.read_text()))
        except FileNotFoundError:
            return None

    def offers(self) -> dict[str, dict[str, int]]:
        """Return the extended resources of machine types in autoscaled pools, by machine type."""
        try:
            return json.loads(self._offers.read_text())
        except FileNotFoundError:
            return {}

    def write_offers(self, offers: Mapping[str, Mapping[str, int]]) -> None:
        """Write the extended resources of machine types in autoscaled pools."""
        _write(self._offers, json.dumps(offers) + "\n")

    @property
    def _offers(self) -> Path:
        return self.instance_types.with_name("offers.json")

    def write_instance_types(self, found: Sequence[Mapping[str, object]]) -> None:
        """Write the machine types that Karpenter may create."""
        _write(self.instance_types, json.dumps(found, indent=1) + "\n")

    def write_settings(self, settings: Settings) -> None:
        """Write the settings of the sandbox."""
        _write(self._settings, json.dumps(asdict(settings)) + "\n")

    def ensure_tokens(self) -> None:
        """Create missing tokens of identities. The API server reads the tokens only when it starts."""
        known = self._tokens() if self.tokens.exists() else {}
        tokens = {user: known.get(user) or secrets.token_hex(24) for user in IDENTITIES}
        rows = [f'{tokens[user]},{user},{user},"{group}"\n' for user, group in IDENTITIES.items()]
        _write(self.tokens, "".join(rows))

    def token(self, user: str) -> str:
        """Return the token of one of `IDENTITIES`."""
        return self._tokens()[user]

    def _tokens(self) -> dict[str, str]:
        with self.tokens.open(newline="") as file:
            return {user: token for token, user, *_ in csv.reader(file)}

    def certificate_is_old(self) -> bool:
        """Return whether the API server should create a new certificate at its next start."""
        certificate = self.certificates / "apiserver.crt"
        if not certificate.exists():
            return False
        return time.time() - certificate.stat().st_mtime > _CERTIFICATE_DAYS * _DAY_SECONDS

    def write_kubeconfigs(self, settings: Settings) -> bool:
        """Write the certificate authority and all kubeconfigs, and return False if the certificate is missing."""
        try:
            chain = (self.certificates / "apiserver.crt").read_text()
        except FileNotFoundError:
            return False
        found = re.findall(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n", chain, re.DOTALL)
        # The API server writes its own certificate first and the authority's certificate last.
        if len(found) < 2:
            return False
        _write(self.authority, found[-1])
        for user in IDENTITIES:
            text = json.dumps(self._kubeconfig(settings, user), indent=2)  # JSON is valid YAML
            _write(self.component_kubeconfig(user), text + "\n")
        return True

    def _kubeconfig(self, settings: Settings, user: str) -> dict[str, object]:
        context = f"sandbox-{settings.name}"
        authority = base64.b64encode(self.authority.read_bytes()).decode()
        cluster = {"server": settings.server, "certificate-authority-data": authority}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": context, "cluster": cluster}],
            "users": [{"name": user, "user": {"token": self.token(user)}}],
            "contexts": [{"name": context, "context": {"cluster": context, "user": user}}],
            "current-context": context,
        }


def _write(path: Path, text: str) -> None:
    """Replace a file atomically, readable only by its owner. An unchanged file is not written."""
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    temporary.replace(path)
