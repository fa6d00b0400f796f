"""The Pulumi engine: drives the CLI through the Automation API, and says its errors in its own words."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pulumi import automation

from gpu_platform.engine.changes import Action
from gpu_platform.engine.properties import REDACTED
from gpu_platform.engine.pulumi_cli import PulumiCli
from gpu_platform.errors import CouldNotTell, Finding
from gpu_platform.paths import PROJECT_ROOT

_ACTIONS: Final = {  # of the engine's operations; the steps of a replacement are not counted beside it
    "create": Action.CREATE,
    "update": Action.UPDATE,
    "replace": Action.REPLACE,
    "delete": Action.DELETE,
    "same": Action.UNCHANGED,
}

OnOutput = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class PulumiResult:
    """What the CLI did, or would do: resources by action, and the stack's outputs (secrets hidden)."""

    stack: str
    counts: Mapping[Action, int]
    outputs: Mapping[str, Any]

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        return not any(count for action, count in self.counts.items() if action is not Action.UNCHANGED)

    def to_json(self) -> dict[str, Any]:
        """Return counts by action, in the form of the embedded engine's report."""
        return {"stack": self.stack, "counts": {action.value: self.counts.get(action, 0) for action in Action}}


class PulumiEngine:
    """One stack of a Pulumi project, driven through the CLI.

    Methods stream the CLI's own lines to `on_output`. They raise Finding where the CLI fails, with its
    diagnostics, and CouldNotTell where another update holds the stack.
    """

    def __init__(
        self,
        cli: PulumiCli,
        stack: str,
        *,
        project: Path = PROJECT_ROOT,
        config_file: Path | None = None,
        policy_packs: Sequence[Path] = (),
        env: Mapping[str, str] | None = None,
        on_output: OnOutput | None = None,
    ) -> None:
        """Take the stack's name; `config_file` only where it is not the project's own file of that stack."""
        self._stack_name = stack
        self._on_output = on_output
        self._config_file = str(config_file) if config_file else None
        self._policy_packs = [str(pack) for pack in policy_packs] or None
        self._options = automation.LocalWorkspaceOptions(
            pulumi_command=cli.command, env_vars=dict(env or {}), work_dir=str(project)
        )
        self._project = str(project)

    def preview(self) -> PulumiResult:
        """Return what `up` would do; the policy packs judge it."""
        stack = self._stack()
        with _clean_errors("preview", self._stack_name):
            result = stack.preview(
                policy_packs=self._policy_packs,
                config_file=self._config_file,
                color="never",
                on_output=self._on_output,
                on_error=self._on_output,
            )
        return PulumiResult(self._stack_name, _counts(result.change_summary), {})

    def up(self) -> PulumiResult:
        """Deploy the stack; the policy packs judge it first."""
        stack = self._stack()
        with _clean_errors("up", self._stack_name):
            result = stack.up(
                policy_packs=self._policy_packs,
                config_file=self._config_file,
                color="never",
                show_secrets=False,
                on_output=self._on_output,
                on_error=self._on_output,
            )
        outputs = {name: REDACTED if output.secret else output.value for name, output in result.outputs.items()}
        return PulumiResult(self._stack_name, _counts(result.summary.resource_changes), outputs)

    def destroy(self) -> PulumiResult:
        """Delete everything of the stack, and keep its configuration and history; fine where it is not there."""
        try:
            with _clean_errors("select", self._stack_name):
                stack = automation.select_stack(self._stack_name, work_dir=self._project, opts=self._options)
        except _NoSuchStack:
            return PulumiResult(self._stack_name, {}, {})
        with _clean_errors("destroy", self._stack_name):
            result = stack.destroy(
                config_file=self._config_file,
                color="never",
                show_secrets=False,
                on_output=self._on_output,
                on_error=self._on_output,
            )
        return PulumiResult(self._stack_name, _counts(result.summary.resource_changes), {})

    def _stack(self) -> automation.Stack:
        with _clean_errors("select", self._stack_name):
            return automation.create_or_select_stack(self._stack_name, work_dir=self._project, opts=self._options)


class _NoSuchStack(Finding):
    """The backend does not know the stack."""


@contextmanager
def _clean_errors(operation: str, stack: str) -> Generator[None]:
    try:
        yield
    except automation.ConcurrentUpdateError as error:
        raise CouldNotTell(
            f"another update holds stack {stack}; wait for it, or free the stack with `pulumi cancel`"
        ) from error
    except automation.StackNotFoundError as error:
        raise _NoSuchStack(f"the backend has no stack {stack}") from error
    except automation.CommandError as error:
        raise Finding(f"pulumi {operation} of stack {stack} failed:\n{_told(str(error))}") from error


_HEADINGS: Final = ("Diagnostics:", "Policies:", "Outputs:", "Resources:", "Duration:")


def _told(error: str) -> str:
    """Return the diagnostics and policy violations of a failed command, else what it wrote to standard error."""
    sections: dict[str, list[str]] = {}
    heading = ""
    stdout, _, stderr = error.partition("\n stderr: ")
    for line in stdout.splitlines():
        if line.strip() in _HEADINGS:
            heading = line.strip()
        elif line.strip() and not line.strip().startswith("✅"):  # a policy pack that has nothing to say
            sections.setdefault(heading, []).append(line)
    told = [*sections.get("Policies:", ()), *sections.get("Diagnostics:", ())]
    return "\n".join(told) or re.sub(r"\n{2,}", "\n", stderr).strip() or error.strip()


def _counts(operations: automation.OpMap | None) -> dict[Action, int]:
    found = {str(getattr(name, "value", name)): count for name, count in (operations or {}).items()}
    return {action: found[name] for name, action in _ACTIONS.items() if name in found}
