"""The resources that a program registered, and ways to find them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from gpu_platform.deploy.recorded.record import RecordedProgram, ResourceRecord
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, load_stack, plan_platform


class Recorded:
    """The resources of one program run."""

    def __init__(self, program: RecordedProgram) -> None:
        self.program = program
        self.resources = program.resources

    def of(self, kind: str) -> list[ResourceRecord]:
        """Return the resources of a kind. Fails if there are none, so that a loop over them always checks
        something.
        """
        found = self._of(kind)
        assert found, f"no {kind} among {sorted({_kind(record) for record in self.resources})}"
        return found

    def has(self, kind: str) -> bool:
        """Return whether any resource of a kind was registered."""
        return bool(self._of(kind))

    def one(self, kind: str, name: str) -> ResourceRecord:
        """Return the resource of a kind whose Pulumi name, or whose name in the metadata, is `name`."""
        found = [r for r in self._of(kind) if name in (r.name, r.inputs.get("metadata", {}).get("name", r.name))]
        assert len(found) == 1, [r.urn for r in self._of(kind)]
        return found[0]

    def before(self, record: ResourceRecord, *, above: bool = False) -> set[str]:
        """Return the URNs of all resources that exist before a resource, through direct and indirect dependencies.

        With `above`, parents and providers also count, because they are registered first.
        """
        by_urn = {one.urn: one for one in self.resources}
        found: set[str] = set()
        left = [record.urn]
        while left:
            one = by_urn.get(left.pop())
            if one is None:
                continue
            others = {one.parent, one.provider.rpartition("::")[0]} & by_urn.keys() if above else set[str]()
            new = {*one.dependencies, *others} - found
            found |= new
            left += new
        return found

    def _of(self, kind: str) -> list[ResourceRecord]:
        return [record for record in self.resources if _kind(record) == kind]


def record_platform(platform: Mapping[str, Any]) -> Recorded:
    """Return the resources that the program registers in a preview of a platform. Results are cached for this
    process.
    """
    return Recorded(_record_text(json.dumps(platform, default=str)))


@cache
def record_shipped(stack: str) -> RecordedProgram:
    """Return the resources that the program registers in a preview of a stack in `stacks/`. Results are cached for
    this process.
    """
    return record_stack(load_stack(stack))


@cache
def _record_text(text: str) -> RecordedProgram:
    platform = json.loads(text)
    return record_stack(LoadedStack("test", Path("Pulumi.test.yaml"), platform, plan_platform(platform, "test")))


def _kind(record: ResourceRecord) -> str:
    return record.type.rsplit(":", 1)[-1]
