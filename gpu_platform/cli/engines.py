"""The two engines behind one face: what `up`, `preview` and `destroy` ask of either."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from gpu_platform.cluster_access import client_of
from gpu_platform.engine.apply import apply
from gpu_platform.engine.applyset import stack_outputs
from gpu_platform.engine.client import KubernetesClient
from gpu_platform.engine.destroy import destroy
from gpu_platform.engine.diff import preview
from gpu_platform.engine.record import RecordedProgram
from gpu_platform.errors import CouldNotTell
from gpu_platform.program import record_stack
from gpu_platform.progress import Progress
from gpu_platform.stacks import LoadedStack

ChangesDocument = Mapping[str, Any]
"""Counts by action (`counts`), by action and kind (`kinds`), and each change (`changes`), as plain JSON."""


class Deployment(Protocol):
    """One stack and the engine that was chosen for it."""

    @property
    def engine(self) -> str:
        """The engine's name."""
        ...

    @property
    def why(self) -> str:
        """Why it was chosen."""
        ...

    def preview(self) -> ChangesDocument:
        """Return what `up` would change."""
        ...

    def up(self) -> ChangesDocument:
        """Deploy, wait until everything is ready, and return what changed."""
        ...

    def destroy(self) -> ChangesDocument:
        """Remove everything that the stack deployed."""
        ...


@dataclass(frozen=True, slots=True)
class EmbeddedDeployment:
    """Server-side apply into the stack's cluster, in process."""

    loaded: LoadedStack
    progress: Progress
    why: str
    engine: str = "embedded"

    def preview(self) -> ChangesDocument:
        """Compare with the cluster by server-side dry run."""
        client = client_of(self.loaded.plan)
        return preview(client, self._record(client, dry=True)).to_json()

    def up(self) -> ChangesDocument:
        """Apply, wait and prune."""
        client = client_of(self.loaded.plan)
        return apply(client, self._record(client, dry=False), self.progress).to_json()

    def destroy(self) -> ChangesDocument:
        """Delete the stack's members."""
        return destroy(client_of(self.loaded.plan), self.loaded.stack, self.progress).to_json()

    def _record(self, client: KubernetesClient, *, dry: bool) -> RecordedProgram:
        plan = self.loaded.plan
        if plan.kind == "team" and not dry and stack_outputs(client, plan.environment_stack) is None:
            raise CouldNotTell(
                f"stack {plan.stack} stands on the environment {plan.environment_stack!r}, which is not deployed: "
                f"run `gpu-platform up {plan.environment_stack}` first"
            )
        return record_stack(self.loaded, preview=dry, resolve_stack=lambda name: stack_outputs(client, name))


def choose_deployment(
    loaded: LoadedStack, recorded: RecordedProgram, requested: str, progress: Progress
) -> Deployment:
    """Choose the engine of a stack; raises BadInput where the requested one cannot deploy it."""
    return EmbeddedDeployment(loaded, progress, "asked for")
