"""Creates a Kubernetes client for the cluster of a stack, from the kubeconfig of its provider."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from gpu_platform.base.errors import ExitCode, Problem, UnknownOutcome, did_you_mean
from gpu_platform.base.paths import sandbox_kubeconfig
from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.objects import items_at
from gpu_platform.planning import Plan
from sandbox.diagnosis import diagnose

KUBECONFIG_OUTPUT = "kubeconfig"


class WrongKubeconfig(UnknownOutcome):
    """The stack file names a kubeconfig or context that cannot be used.

    A command that needs the cluster reports bad input. Code that reads the cluster only for additional information
    continues without it, as if the cluster did not answer.
    """

    exit_code = ExitCode.BAD_INPUT

    def __init__(self, stack: str, problem: Problem) -> None:
        self.problem = problem
        super().__init__(f"stack {stack}: {problem}")


class ClusterAccess:
    """Gives one command access to the cluster of a stack. The client is created at the first use.

    In a cloud, each new client runs `pulumi stack output`. A failure is not cached, because the cluster may exist
    later.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._client: KubernetesClient | None = None

    def client(self) -> KubernetesClient:
        """Return the client. Raises UnknownOutcome if the cluster's kubeconfig is not available."""
        if self._client is None:
            self._client = client_of(self._plan)
        return self._client

    def forget(self) -> None:
        """Create a new client at the next use, because the cluster and its kubeconfig may have been replaced."""
        self._client = None


def client_of(plan: Plan) -> KubernetesClient:
    """Return a client for a stack's cluster.

    Raises WrongKubeconfig if the stack file names a kubeconfig or context that does not exist. Raises
    UnknownOutcome if the sandbox is not on this machine, or the kubeconfig in the stack's outputs cannot be used.
    """
    cluster = plan.cluster
    match cluster.access:
        case "sandbox":
            path = sandbox_kubeconfig(cluster.name)
            if not path.exists():
                raise UnknownOutcome(
                    f"there is no sandbox {cluster.name} on this machine; `gpu-platform up` of the stack starts it"
                )
            return KubernetesClient(path, diagnose=lambda: diagnose(cluster.name))
        case "kubeconfig":
            path = Path(cluster.kubeconfig).expanduser() if cluster.kubeconfig else None
            if path is not None:
                _check_kubeconfig(path, cluster.context, plan.stack)
            return KubernetesClient(path, cluster.context)
        case "outputs":
            return _client_of_output(plan.stack if plan.kind == "environment" else plan.environment_stack)


def _check_kubeconfig(path: Path, context: str | None, stack: str) -> None:
    """Raise WrongKubeconfig if the kubeconfig does not exist, is not a kubeconfig, or lacks the context."""
    allowed = "a kubeconfig for the cluster"
    try:
        document: object = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        found = f"{path}: {error.strerror}"
        problem = Problem("cluster.kubeconfig", found, allowed, "name a file that exists")
        raise WrongKubeconfig(stack, problem) from None
    except (yaml.YAMLError, UnicodeDecodeError):
        found = f"{path}, which is not YAML"
        problem = Problem("cluster.kubeconfig", found, allowed, "name a kubeconfig")
        raise WrongKubeconfig(stack, problem) from None
    content = cast("Mapping[str, Any]", document) if isinstance(document, Mapping) else {}
    entries = items_at(content, "contexts")
    if not entries:
        found = f"{path}, which has no contexts"
        raise WrongKubeconfig(stack, Problem("cluster.kubeconfig", found, allowed, "name a kubeconfig"))
    contexts = [str(one.get("name", "")) for one in entries]
    chosen = context or content.get("current-context")
    if chosen not in contexts:
        known = f"a context of {path}: {', '.join(contexts)}"
        found = repr(chosen) if chosen else "nothing, and the file has no current-context"
        fix = did_you_mean(str(chosen), contexts) or f"write context: {contexts[0]}"
        raise WrongKubeconfig(stack, Problem("cluster.context", found, known, fix))


def _client_of_output(stack: str) -> KubernetesClient:
    """Return a client for the kubeconfig in the secret outputs of a stack.

    The client needs a file. Only the current user can read the file, and it is deleted after the client has read
    it.
    """
    text = _kubeconfig_output(stack)
    for command, hint in _commands_of(text):
        if shutil.which(command) is None:
            raise UnknownOutcome(
                f"the kubeconfig of stack {stack} gets its credentials from `{command}`, which is not on PATH"
                + (f": {hint}" if hint else "")
            )
    with tempfile.NamedTemporaryFile("w", prefix="gpu-platform-kubeconfig-", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        return KubernetesClient(Path(file.name), source=f"the kubeconfig of stack {stack}")


def _kubeconfig_output(stack: str) -> str:
    # Importing Pulumi's SDK takes time, and clusters of other providers do not need it.
    from gpu_platform.deploy.pulumi.pulumi_cli import Unusable, find_cli
    from gpu_platform.deploy.pulumi.pulumi_engine import PulumiEngine

    try:
        cli = find_cli(install=True)
    except Unusable as reason:
        raise UnknownOutcome(
            f"the kubeconfig of stack {stack} is a stack output, which only the Pulumi CLI can read: {reason}"
        ) from reason
    outputs = PulumiEngine(cli, stack).outputs(show_secrets=True)
    kubeconfig = (outputs or {}).get(KUBECONFIG_OUTPUT)
    if not isinstance(kubeconfig, str):
        raise UnknownOutcome(
            f"stack {stack} is not deployed: it has no output {KUBECONFIG_OUTPUT} ({cli.why}). "
            "Run `gpu-platform up` for that stack first"
        )
    return kubeconfig


def _commands_of(kubeconfig: str) -> Iterator[tuple[str, str]]:
    """Yield the credential commands (exec plugins) of a kubeconfig, each with its install hint."""
    try:
        document: object = yaml.safe_load(kubeconfig)
    except yaml.YAMLError:
        return  # the client reports the error
    users = cast("Mapping[str, Any]", document).get("users") or () if isinstance(document, Mapping) else ()
    for entry in users:
        plugin: Mapping[str, str] = entry.get("user", {}).get("exec") or {}
        if command := plugin.get("command"):
            yield command, plugin.get("installHint", "")
