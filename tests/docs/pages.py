"""Reads the fenced blocks of the documents, the comment before each block, and the commands in the blocks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpu_platform.base.paths import PROJECT_ROOT
from tools.docs.outputs import documents

_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*) -->\n)?^```(?P<language>\w+)[^\n]*\n(?P<text>.*?)^```$", re.M | re.S
)
_PLACEHOLDER = re.compile(r"\b(STACK|NODE|FAULT|MODEL|FILE|PROFILE)\b|\$\w+|…")


@dataclass(frozen=True)
class Block:
    """A fenced block. `mark` is the comment on the line before the block."""

    page: Path
    line: int
    language: str
    mark: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(PROJECT_ROOT)}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A call of `gpu-platform` in a console block."""

    block: Block
    arguments: tuple[str, ...]

    @property
    def has_placeholder(self) -> bool:
        return any(_PLACEHOLDER.search(argument) for argument in self.arguments)

    def __str__(self) -> str:
        return f"{self.block} {shlex.join(self.arguments)}"


def blocks(*languages: str) -> list[Block]:
    """Return every block in one of the languages from every hand-written page."""
    found: list[Block] = []
    for page in documents():
        text = page.read_text("utf-8")
        for match in _BLOCK.finditer(text):
            if match["language"] in languages:
                line = text.count("\n", 0, match.start()) + 1
                found.append(Block(page, line, match["language"], match["mark"] or "", match["text"]))
    return found


def commands() -> list[Command]:
    """Return every `gpu-platform` command in console blocks.

    If a page copies a stack file, the returned commands name the original file, not the copy.
    """
    copies = {
        (block.page, copy): original
        for block in blocks("console")
        for original, copy in (
            *re.findall(r"cp stacks/Pulumi\.(\S+)\.yaml stacks/Pulumi\.(\S+)\.yaml", block.text),
            *(("local", name) for name in re.findall(r"gpu-platform init ([a-z-]+)", block.text)),
        )
    }
    return [
        Command(block, tuple(copies.get((block.page, word), word) for word in arguments))
        for block in blocks("console")
        for line in lines(block)
        for arguments in _calls(line)
    ]


def lines(block: Block) -> list[str]:
    """Return the lines that a reader types, without prompts and comments."""
    typed = [line.removeprefix("$ ") for line in block.text.splitlines() if line.startswith("$ ")]
    return [re.sub(r"\s+# .*", "", line) for line in typed]


def inline_commands() -> Iterator[tuple[Path, str]]:
    """Yield every inline `gpu-platform ...` command with its page."""
    for page in documents():
        text = _BLOCK.sub("", page.read_text("utf-8"))
        yield from ((page, " ".join(call.split())) for call in re.findall(r"`gpu-platform ([^`]+)`", text))


def _calls(line: str) -> Iterator[list[str]]:
    if line.startswith("pip "):  # a package name, not a command
        return
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&>")
    lexer.whitespace_split = True
    call: list[str] | None = None
    for word in (*lexer, ";"):
        if set(word) <= set(";|&>"):
            if call is not None:
                yield call
            call = None
        elif word == "gpu-platform" and call is None:
            call = []
        elif call is not None:
            call.append(word)
