"""Writes differences into the catalogue's files, entry by entry. Comments, order and all other content stay
unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from tools.renew.compare import Difference, Value


def with_differences(text: str, differences: Iterable[Difference]) -> tuple[str, frozenset[Difference]]:
    """Return the text of a catalogue file with the cloud's values, and the differences that it now contains.

    A fact is written to the entry of its machine type. A price is written to the line with the type's prices in
    its region.
    """
    done: set[Difference] = set()
    for difference in differences:
        written = _with(text, difference)
        if written is not None:
            text = written
            done.add(difference)
    return text, frozenset(done)


def write(folder: Path, differences: Iterable[Difference]) -> frozenset[Difference]:
    """Write differences to the files of a folder. Return the differences that must be written by hand."""
    left = frozenset(differences)
    for file in sorted(folder.glob("*.yaml")):
        old = file.read_text("utf-8")
        new, done = with_differences(old, sorted(left, key=lambda one: (one.machine_type, one.where)))
        left -= done
        if new != old:
            file.write_text(new, "utf-8")
    return left


def new_entry(name: str, gpu: str, facts: Mapping[str, Value]) -> str:
    """Return a catalogue line for a new machine type. Its source and NVLinks have to be added by hand."""
    fields = {"name": name, "gpu": gpu, **{field: value for field, value in facts.items() if value != 0}}
    return "  - {" + ", ".join(f"{field}: {value}" for field, value in fields.items()) + "}"


def _with(text: str, difference: Difference) -> str | None:
    if difference.cloud is None:
        return None
    if difference.where.startswith("price "):
        region = re.escape(difference.where.removeprefix("price "))
        line = re.compile(rf"(?m)^( +{re.escape(difference.machine_type)}: \{{[^}}]*\b{region}: )[\d.]+")
        return line.sub(rf"\g<1>{difference.cloud}", text) if line.search(text) else None
    entry = re.search(rf"\bname: {re.escape(difference.machine_type)}(?=[,}}])[^{{}}]*", text)
    if entry is None or " " in difference.where or "vcpu:" not in entry[0]:
        return None
    field = re.compile(rf"\b{difference.where}: [^,}}]+")
    said = f"{difference.where}: {difference.cloud}"
    renewed = field.sub(said, entry[0]) if field.search(entry[0]) else f"{entry[0].rstrip()}, {said}"
    return text[: entry.start()] + renewed + text[entry.end() :]
