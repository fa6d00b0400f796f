"""Chooses the engine that deploys a stack, and states the reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpu_platform.base.errors import BadInput, Problem, UnknownOutcome
from gpu_platform.deploy.pulumi.pulumi_cli import PulumiCli, Unusable, find_cli
from gpu_platform.deploy.recorded.objects import ONLY_PULUMI, only_pulumi_can_deploy
from gpu_platform.deploy.recorded.record import RecordedProgram


class EngineName(StrEnum):
    """Names of the engines."""

    PULUMI = "pulumi"
    EMBEDDED = "embedded"


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen engine, the reason, and the CLI if the engine is Pulumi."""

    engine: EngineName
    why: str
    cli: PulumiCli | None = None


def choose_engine(
    recorded: RecordedProgram,
    requested: str = "auto",
    *,
    sandbox: bool = True,
    already_embedded: bool = False,
    install: bool = True,
) -> Choice:
    """Choose between the Pulumi CLI (on PATH, or installed) and the embedded engine.

    `requested` is `auto`, `pulumi` or `embedded`. `sandbox` is true if the cluster is a sandbox. The embedded
    engine deploys only to sandboxes, because it keeps neither secrets nor history. `already_embedded` is true if
    the embedded engine has deployed this stack. With `auto`, that engine then deploys it again, because Pulumi
    does not take over existing objects. Nothing is downloaded if `install` is false or `$GPU_PLATFORM_NO_INSTALL`
    is 1.

    Raises BadInput if only the embedded engine is available and it cannot deploy the stack, and UnknownOutcome if
    Pulumi is requested but not available.
    """
    if requested == EngineName.EMBEDDED:
        return _embedded(recorded, "requested", sandbox=sandbox)
    if requested != EngineName.PULUMI and already_embedded:
        why = "it has deployed this stack before (run destroy first to change the engine)"
        return _embedded(recorded, why, sandbox=sandbox)
    try:
        cli = find_cli(install=install)
    except Unusable as reason:
        if requested == EngineName.PULUMI:
            raise UnknownOutcome(f"the Pulumi CLI cannot be used: {reason}") from reason
        return _embedded(recorded, str(reason), sandbox=sandbox)
    return Choice(EngineName.PULUMI, cli.why, cli)


def _embedded(recorded: RecordedProgram, why: str, *, sandbox: bool) -> Choice:
    problems = only_pulumi_can_deploy(recorded.resources)
    if not sandbox and not problems:
        allowed = "a sandbox, because the embedded engine keeps neither secrets nor history"
        problems = (Problem("cluster.provider", "a cluster that is not a sandbox", allowed, ONLY_PULUMI),)
    if problems:
        raise BadInput(f"stack {recorded.stack} with the embedded engine ({why})", problems)
    return Choice(EngineName.EMBEDDED, why)
