"""`python -m tools.type_check` runs pyright on the files that it has not found correct before; `--all` on all.

What pyright finds in a file depends on the file, on all that it imports, directly or through others, on the
settings and on the installed packages. The build cache has a digest of all of them for each file that was found
correct; a file is left out while its digest is there. Every night all files are checked.
"""

from __future__ import annotations

import argparse
import ast
import functools
import hashlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpu_platform.paths import PROJECT_ROOT, cache_dir

_FINDING: Final = re.compile(r"^ +(/.+):\d+:\d+ - (?:error|warning)\b", re.MULTILINE)
_SUMMARY: Final = re.compile(r"^(\d+) errors?, (\d+) warnings?, ")  # pyright's last line
_DONE: Final = (0, 1)  # exit codes of pyright: without errors, with errors
# pyright empties its cache of types where Node.js' memory ends, and works them out again: ten times for all files,
# a fifth of the CPU time.
_NODE_MEMORY_MIB: Final = 8192
_SUFFIXES: Final = (".py", ".pyi")
_NOT_IMPORTED: Final = ("gpu-platform", "pip")  # this project, whose files count by themselves, and a program
_MOST_DIGESTS: Final = 50_000
_PYRIGHT: Final = (sys.executable, "-m", "pyright")


class Project:
    """A folder with a `pyproject.toml` that has pyright's settings, as it is now: nothing is read twice.

    `packages`: a text that is another one when other packages are installed.
    """

    def __init__(self, root: Path, packages: str) -> None:
        self.root = root
        self._packages = packages
        self._contents: dict[Path, str] = {}
        self._modules: dict[Path, Sequence[Path]] = {}

    @functools.cached_property
    def settings(self) -> Mapping[str, Any]:
        """Return pyright's settings."""
        return tomllib.loads((self.root / "pyproject.toml").read_text("utf-8"))["tool"]["pyright"]

    @functools.cached_property
    def files(self) -> Sequence[Path]:
        """Return the files that pyright checks, in order of their paths."""
        excluded = [self.root / name for name in self.settings.get("exclude", ())]
        found: set[Path] = set()
        for name in self.settings["include"]:
            place = self.root / name
            files = [place] if place.is_file() else [one for one in place.rglob("*") if one.suffix in _SUFFIXES]
            found |= {file for file in files if not any(file.is_relative_to(one) for one in excluded)}
        return sorted(found)

    @functools.cached_property
    def environment(self) -> str:
        """Return a digest of what every file depends on: settings, stubs, Python, and the installed packages."""
        digest = hashlib.sha256(repr((sys.version, sorted(self.settings.items()))).encode())
        stubs = self.root / self.settings.get("stubPath", "typings")
        for stub in [self.root / "__builtins__.pyi", *sorted(stubs.rglob("*"))]:
            if stub.is_file():
                digest.update(f"{stub.relative_to(self.root)} {self.content(stub)}\n".encode())
        digest.update(self._packages.encode())
        digest.update(os.environ.get("PYRIGHT_PYTHON_FORCE_VERSION", "").encode())
        return digest.hexdigest()

    def digests(self, parsed: Parsed) -> Mapping[Path, str]:
        """Return for each file that pyright checks a digest of all that its findings in the file follow from."""
        reached = self._reached(parsed)
        files = list(reached)  # in an order that does not depend on what they import
        lines = [f"{file.relative_to(self.root)} {self.content(file)}\n" for file in files]
        found: dict[Path, str] = {}
        for file in self.files:
            of_file = [f"{self.environment}\n{file.relative_to(self.root)}\n"]
            of_file += [line for place, line in enumerate(lines) if reached[file] >> place & 1]
            found[file] = hashlib.sha256("".join(of_file).encode()).hexdigest()
        return found

    def _reached(self, parsed: Parsed) -> Mapping[Path, int]:
        """Return the files that each file reaches by imports: a bit for each, by its place in the result."""
        imports: dict[Path, frozenset[Path]] = {}
        waiting = list(self.files)
        while waiting:
            file = waiting.pop()
            if file not in imports:
                imports[file] = self._imports(file, parsed)
                waiting.extend(imports[file])
        reached = {file: 1 << place for place, file in enumerate(sorted(imports))}
        changed = True
        while changed:  # files may import each other
            changed = False
            for file, direct in imports.items():
                more = functools.reduce(int.__or__, (reached[one] for one in direct), reached[file])
                changed = changed or more != reached[file]
                reached[file] = more
        return reached

    def content(self, file: Path) -> str:
        """Return a digest of a file's content."""
        if file not in self._contents:
            self._contents[file] = hashlib.sha256(file.read_bytes()).hexdigest()
        return self._contents[file]

    def _imports(self, file: Path, parsed: Parsed) -> frozenset[Path]:
        """Return the files of the project that a file imports, and the packages that they are in."""
        package = file.relative_to(self.root).parent.parts
        names = {_full_name(one, package) for one in parsed.imports(file, self.content(file))} - {""}
        return frozenset(found for name in names for found in self._find(name, file))

    def _find(self, module: str, importer: Path) -> Iterator[Path]:
        parts = module.split(".")
        # pyright looks beside the importing file, too.
        for root in self._roots | {importer.parent}:
            for length in range(1, len(parts) + 1):
                yield from self._of_module(root.joinpath(*parts[:length]))

    @functools.cached_property
    def _roots(self) -> frozenset[Path]:
        return frozenset({self.root, *(self.root / name for name in self.settings.get("extraPaths", ()))})

    def _of_module(self, place: Path) -> Sequence[Path]:
        if place not in self._modules:
            candidates = (
                *(place.parent / f"{place.name}{suffix}" for suffix in _SUFFIXES),
                *(place / f"__init__{suffix}" for suffix in _SUFFIXES),
            )
            self._modules[place] = [one for one in candidates if one.is_file()]
        return self._modules[place]


def _full_name(name: str, package: Sequence[str]) -> str:
    """Return the full name of a module whose relative name, such as `..nodes`, is written in a package."""
    relative = name.lstrip(".")
    level = len(name) - len(relative)
    above = package[: len(package) - level + 1] if level else ()
    return ".".join([*above, *([relative] if relative else [])])


def _imported(tree: ast.AST) -> Iterator[str]:
    """Yield the names of all modules that a module may import, at any place of it, as they are written."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield base
            between = "." if node.module else ""
            yield from (f"{base}{between}{alias.name}" for alias in node.names if alias.name != "*")


class Parsed:
    """The imports of files by their contents, in a file of the build cache: to parse all takes some seconds."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: dict[str, list[str]] = json.loads(file.read_text("utf-8")) if file.exists() else {}
        self._used: dict[str, list[str]] = {}

    def imports(self, file: Path, content: str) -> Sequence[str]:
        """Return the names of all modules that a file may import, as they are written there."""
        found = self._known.get(content)
        if found is None:
            try:
                found = sorted(set(_imported(ast.parse(file.read_bytes()))))
            except SyntaxError:  # pyright reports it
                found = []
        self._used[content] = found
        return found

    def write(self) -> None:
        """Keep what was asked for."""
        if self._used.keys() != self._known.keys():
            _replace(self._file, json.dumps(self._used))


@dataclass(frozen=True)
class Verdicts:
    """The digests of files that pyright found correct, in a file of the build cache."""

    file: Path

    def read(self) -> frozenset[str]:
        """Return the digests; none if there is no file yet."""
        try:
            return frozenset(self.file.read_text("ascii").split())
        except FileNotFoundError:
            return frozenset()

    def add(self, digests: Iterable[str]) -> None:
        """Add digests; the oldest are dropped where there are too many."""
        kept = self.file.read_text("ascii").split()[-_MOST_DIGESTS:] if self.file.exists() else []
        _replace(self.file, "\n".join([*kept, *sorted(digests)]) + "\n")


def _replace(file: Path, text: str) -> None:
    """Write a file that other runs may read and write at the same time."""
    file.parent.mkdir(parents=True, exist_ok=True)
    writing = file.with_name(f"{file.name}.{os.getpid()}")
    writing.write_text(text, "utf-8")
    writing.replace(file)


def installed_packages() -> str:
    """Return the name, the version and a digest of the files of each installed package that may be imported."""
    return "".join(
        sorted(
            f"{one.name}=={one.version} {hashlib.sha256((one.read_text('RECORD') or '').encode()).hexdigest()}\n"
            for one in importlib.metadata.distributions()
            if one.name not in _NOT_IMPORTED
        )
    )


def check(project: Project, cache: Path, *, pyright: Sequence[str] = _PYRIGHT, everything: bool = False) -> int:
    """Run pyright on the files that are not known to be correct, print what it prints; return its exit code."""
    verdicts, parsed = Verdicts(cache / "correct"), Parsed(cache / "imports.json")
    digests = project.digests(parsed)
    parsed.write()
    known = frozenset[str]() if everything else verdicts.read()
    left = [file for file, digest in digests.items() if digest not in known]
    print(f"types: {len(left)} of {len(digests)} files to check", flush=True)
    if not left:
        return 0
    names = [] if len(left) == len(digests) else [str(file.relative_to(project.root)) for file in left]
    ran = subprocess.run(
        [*pyright, *names],
        cwd=project.root,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "NODE_OPTIONS": node_options(os.environ.get("NODE_OPTIONS", ""), memory_mib())},
    )
    print(ran.stdout, end="", flush=True)
    if ran.returncode in _DONE and (found := with_findings(ran.stdout)) is not None:
        verdicts.add(digests[file] for file in left if file not in found)
    return ran.returncode


def with_findings(output: str) -> frozenset[Path] | None:
    """Return the files in which pyright found an error or a warning; None if its output cannot be read."""
    findings = _FINDING.findall(output)
    summary = _SUMMARY.match(output.rstrip().rpartition("\n")[2])
    if summary is None or len(findings) != int(summary[1]) + int(summary[2]):
        return None
    return frozenset(Path(file) for file in findings)


def node_options(options: str, memory: int) -> str:
    """Return options of Node.js with a limit for pyright where the `memory` (MiB) is large and they have none."""
    if "max-old-space-size" in options or memory < 2 * _NODE_MEMORY_MIB:
        return options
    return f"{options} --max-old-space-size={_NODE_MEMORY_MIB}".strip()


def memory_mib() -> int:
    """Return the memory of this machine in MiB."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20


def main() -> int:
    """Check the types of this project; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.type_check", description=__doc__)
    parser.add_argument("--all", action="store_true", help="check all files, also those found correct before")
    everything = parser.parse_args().all
    return check(Project(PROJECT_ROOT, installed_packages()), cache_dir() / "types", everything=everything)


if __name__ == "__main__":
    sys.exit(main())
