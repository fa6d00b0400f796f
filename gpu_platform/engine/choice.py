"""Chooses the engine that deploys a stack, and says why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpu_platform.engine.objects import only_pulumi_can_deploy
from gpu_platform.engine.pulumi_cli import PulumiCli, Unusable, find_cli
from gpu_platform.engine.record import RecordedProgram
from gpu_platform.errors import BadInput, UnknownOutcome


class EngineName(StrEnum):
    """What may deploy a stack."""

    PULUMI = "pulumi"
    EMBEDDED = "embedded"


@dataclass(frozen=True, slots=True)
class Choice:
    """The engine, the reason for a reader, and, for Pulumi, the CLI to drive."""

    engine: EngineName
    why: str
    cli: PulumiCli | None = None


def choose_engine(
    recorded: RecordedProgram, requested: str = "auto", *, already_embedded: bool = False, install: bool = True
) -> Choice:
    """Choose among pulumi on PATH, pulumi from the installer, and, where the stack allows, the embedded engine.

    `requested` is auto, pulumi or embedded. `already_embedded`: the cluster holds this stack as the embedded
    engine deployed it; auto keeps to that, since Pulumi does not take over objects that exist. With
    `$GPU_PLATFORM_NO_INSTALL` set to 1, or without `install`, nothing is downloaded.

    Raises BadInput for a stack that only Pulumi can deploy where the embedded engine is all there is, and
    UnknownOutcome where Pulumi is requested and cannot be had.
    """
    if requested == EngineName.EMBEDDED:
        return _embedded(recorded, "it was asked for")
    if requested != EngineName.PULUMI and already_embedded:
        return _embedded(recorded, "this stack is already deployed by it (run destroy first to change the engine)")
    try:
        cli = find_cli(install=install)
    except Unusable as reason:
        if requested == EngineName.PULUMI:
            raise UnknownOutcome(f"the Pulumi engine cannot be used: {reason}") from reason
        return _embedded(recorded, str(reason))
    return Choice(EngineName.PULUMI, cli.why, cli)


def _embedded(recorded: RecordedProgram, why: str) -> Choice:
    if problems := only_pulumi_can_deploy(recorded.resources):
        raise BadInput(f"stack {recorded.stack} with the embedded engine ({why})", problems)
    return Choice(EngineName.EMBEDDED, why)
