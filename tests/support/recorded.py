"""What a program registered, with ways to find it."""

from __future__ import annotations

from gpu_platform.engine.record import RecordedProgram, ResourceRecord


class Recorded:
    """The resources of one run of a program."""

    def __init__(self, program: RecordedProgram) -> None:
        self.program = program
        self.resources = program.resources

    def of(self, kind: str) -> list[ResourceRecord]:
        """Return the resources of a kind; fails where there is none, so that no loop over them is empty."""
        found = self._of(kind)
        assert found, f"no {kind} among {sorted({_kind(record) for record in self.resources})}"
        return found

    def has(self, kind: str) -> bool:
        """Return whether any resource of a kind was registered."""
        return bool(self._of(kind))

    def one(self, kind: str, name: str) -> ResourceRecord:
        """Return the resource of a kind with a name, Pulumi's or the object's own."""
        found = [r for r in self._of(kind) if name in (r.name, r.inputs.get("metadata", {}).get("name", r.name))]
        assert len(found) == 1, [r.urn for r in self._of(kind)]
        return found[0]

    def _of(self, kind: str) -> list[ResourceRecord]:
        return [record for record in self.resources if _kind(record) == kind]


def _kind(record: ResourceRecord) -> str:
    return record.type.rsplit(":", 1)[-1]
