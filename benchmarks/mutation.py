"""Mutation test: run a sample of small code changes, each against the tests of its module.

    .venv/bin/python benchmarks/mutation.py --sample 100 --seed 1 --results out/mutation.jsonl [--format json]

Each mutant (see mutants.py: swapped comparisons, changed constants and keys, negated conditions, dropped
statements, `return None`, ...) is written into a copy of the working tree in a temporary folder; the tree itself
stays as it is. Then its tests run until one fails: first those that import its module, then the rest of the tests
of its package (TESTS), last those that need the sandbox, unless --no-sandbox. Verdicts:

    killed     a test failed, and failed again alone: the mistake would have been noticed
    survived   every test passed: a test is missing, or the change changes nothing (decide by hand)
    timeout    the tests took three times as long as without a change; counted as noticed
    unknown    the tests cannot run at all without a change

A package's tests run once without a change before its first mutant: for the time limit, and to leave out and name
those that fail without one, as some do on a loaded machine. Interrupted, run it again with the same --results:
finished mutants are not run again. 100 mutants take some hours on two quiet cores.
Survivors that change nothing which a user could notice are in survivors.yaml, each with its reason; a test holds
that each is still a mutant of the code.
Exit codes: 0 none survived without a reason, 1 some did, 2 bad input, 3 unknown verdicts and no such survivor,
130 interrupted.

Why no library: mutmut runs the whole suite once to learn which test reaches what, and takes no sample; cosmic-ray
changes files in place, has one test command for all modules, and no operators for keys, `return None` and
statements.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from mutants import Mutant, mutants_of

ROOT = Path(__file__).resolve().parent.parent
AREAS = ("gpu_platform/planning", "gpu_platform/engine", "gpu_platform/rollout", "policies", "validators/agent")
NO_SANDBOX = "not sandbox and not pulumi"
# Tests of a module by the longest prefix of its path: those that need nothing, then those that need the sandbox.
TESTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "gpu_platform/planning": (("tests/planning", "tests/spec", "tests/cli", "tests/components"), ()),
    "gpu_platform/planning/clouds/eks": (("tests/planning/clouds/eks", "tests/components/eks"), ()),
    "gpu_platform/planning/clouds/gke": (("tests/planning/clouds/gke", "tests/components/gke"), ()),
    "gpu_platform/planning/placement": (("tests/planning",), ()),
    "gpu_platform/engine": (("tests/engine", "tests/cli"), ("tests/engine", "tests/e2e/test_embedded_up.py")),
    "gpu_platform/rollout": (("tests/rollout", "tests/cli"), ("tests/rollout", "tests/e2e/test_mig_change.py")),
    "policies": (("tests/policies", "tests/cli"), ()),
    "validators/agent": (("tests/validators",), ("tests/validators",)),
}
EXPLAINED = ROOT / "benchmarks" / "survivors.yaml"
_FAILED = re.compile(r"^(?:FAILED|ERROR) ([^\s\[@]+)", re.MULTILINE)  # without a test's parameters
_PASSED = (0, 5)  # exit statuses of pytest: all passed, nothing was selected
_SOME_FAILED = 1


@dataclass(frozen=True, slots=True)
class Stage:
    """One run of pytest: test files and folders, a marker expression, and files that are left out."""

    paths: tuple[str, ...]
    markers: str
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unchanged:
    """How tests run without a change: the time limit with one, tests that fail, and whether they run at all."""

    limit: float
    failing: frozenset[str]
    runs: bool


@dataclass(frozen=True, slots=True)
class Selection:
    """Tests of one mutant. `whole`: what is run without a change; `stages`: the same in parts, likeliest first."""

    whole: Stage
    stages: tuple[Stage, ...]


@dataclass(slots=True)
class Result:
    """What became of one mutant. `seconds`: of all its stages; `test`: the one that failed."""

    id: str
    path: str
    line: int
    operator: str
    before: str
    after: str
    verdict: str
    seconds: float
    test: str = ""

    @property
    def line_key(self) -> tuple[str, str, str]:
        """Return what survivors.yaml names a mutant by: no line number, which each edit above it would change."""
        return self.path, self.before, self.after


@dataclass(slots=True)
class Copy:
    """A copy of the working tree, and what is known of the tests that ran there without a change."""

    folder: Path
    workers: int
    unchanged: dict[Stage, Unchanged] = field(default_factory=dict[Stage, Unchanged])

    def evaluate(self, mutant: Mutant, selections: Sequence[Selection]) -> Result:
        """Run a mutant's tests until one fails."""
        started = time.monotonic()
        verdict, test = "survived", ""
        for selection in selections:
            if verdict == "survived":
                unchanged = self._run_unchanged(selection.whole)
                verdict, test = (
                    self._run_changed(mutant, selection, unchanged) if unchanged.runs else ("unknown", "")
                )
        seconds = round(time.monotonic() - started, 1)
        changed = (mutant.id, mutant.path, mutant.line, mutant.operator, mutant.before, mutant.after)
        return Result(*changed, verdict, seconds, test)

    def _run_changed(self, mutant: Mutant, selection: Selection, unchanged: Unchanged) -> tuple[str, str]:
        file = self.folder / mutant.path
        source = file.read_bytes()
        left_out = set(unchanged.failing)
        stages = list(selection.stages)
        try:
            file.write_bytes(mutant.apply(source))
            while stages:
                status, failed = self._run(stages[0], unchanged.limit, left_out, first=True)
                if status is None:
                    return "timeout", ""
                if status in _PASSED:
                    stages.pop(0)
                    continue
                # A test that fails only among others, or only now and then, has not noticed the change.
                again = Stage(failed[:1], stages[0].markers)
                if failed and self._run(again, unchanged.limit, left_out, first=True)[0] in _PASSED:
                    left_out.add(failed[0])
                    continue
                return "killed", failed[0] if failed else f"pytest ended with {status}"
        finally:
            file.write_bytes(source)
        return "survived", ""

    def _run_unchanged(self, whole: Stage) -> Unchanged:
        if whole not in self.unchanged:
            started = time.monotonic()
            status, failed = self._run(whole, 3600.0, (), first=False)
            limit = max(60.0, 3 * (time.monotonic() - started))
            if failed:
                print(f"left out, failing without a change: {', '.join(failed)}", file=sys.stderr, flush=True)
            self.unchanged[whole] = Unchanged(limit, frozenset(failed), status in (*_PASSED, _SOME_FAILED))
        return self.unchanged[whole]

    def _run(
        self, stage: Stage, limit: float, left_out: Collection[str], *, first: bool
    ) -> tuple[int | None, tuple[str, ...]]:
        """Return the exit status of pytest, None after the time limit, and the tests that failed; `first`: one."""
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-m",
            stage.markers,
            *stage.paths,
        ]
        command += ["-n", str(self.workers), "--dist", "loadgroup", *(["-x"] if first else [])]
        command += [f"--ignore={file}" for file in stage.ignored]
        command += [f"--deselect={test}" for test in left_out]
        # Bytecode of a change must not outlive it; CI makes property tests draw the same examples each time.
        environment = {"PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1", "CI": "1"}
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            _stop(process)
            return None, ()
        except BaseException:
            _stop(process)
            raise
        return process.returncode, tuple(dict.fromkeys(_FAILED.findall(output)))


def _stop(process: subprocess.Popen[str]) -> None:
    """End a run of pytest: first so that it stops the sandboxes that it started."""
    for sign, seconds in ((signal.SIGINT, 30), (signal.SIGKILL, 30)):
        try:
            os.killpg(process.pid, sign)
            process.communicate(timeout=seconds)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
        return


def selections_of(path: str, tree: Path, *, sandbox: bool) -> list[Selection]:
    """Return the tests of a file's mutants."""
    prefix = max((one for one in TESTS if path == one or path.startswith(f"{one}/")), key=len)
    plain, needing = (tuple(part for part in parts if (tree / part).exists()) for parts in TESTS[prefix])
    imports = _imports(path.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    files = sorted({file for part in plain for file in _test_files(tree / part)})
    direct = tuple(str(file.relative_to(tree)) for file in files if imports.search(file.read_text("utf-8")))
    whole = Stage(plain, NO_SANDBOX)
    stages = (Stage(direct, NO_SANDBOX), Stage(plain, NO_SANDBOX, direct)) if direct else (whole,)
    selections = [Selection(whole, stages)]
    if sandbox and needing:
        in_sandbox = Stage(needing, "sandbox")
        selections.append(Selection(in_sandbox, (in_sandbox,)))
    return selections


def _imports(module: str) -> re.Pattern[str]:
    """Return a pattern of the lines that import a module."""
    package, _, name = (re.escape(part) for part in module.rpartition("."))
    whole = re.escape(module)
    return re.compile(
        rf"^\s*(from {whole} import|import {whole}\b|from {package} import .*\b{name}\b)", re.MULTILINE
    )


def _test_files(part: Path) -> list[Path]:
    return sorted(part.rglob("test_*.py")) if part.is_dir() else [part] if part.exists() else []


def sample_of(tree: Path, count: int, seed: int, areas: Sequence[str]) -> tuple[list[Mutant], int]:
    """Return a sample of the mutants of all areas, and how many there are in all."""
    every = [
        mutant
        for area in areas
        for file in sorted((tree / area).rglob("*.py") if (tree / area).is_dir() else [tree / area])
        for mutant in mutants_of(str(file.relative_to(tree)), file.read_bytes())
    ]
    random.Random(seed).shuffle(every)
    compiling = (mutant for mutant in every if _compiles(mutant.apply((tree / mutant.path).read_bytes())))
    return list(islice(compiling, count)), len(every)


def _compiles(source: bytes) -> bool:
    try:
        compile(source, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def copy_tree(source: Path, target: Path) -> None:
    """Copy what git knows or would add, as it is in the working tree, and byte-compile it.

    The bytecode is valid by the hash of its source, since a mutant may have the size and second of its original.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=source,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        file = source / name
        if name and file.is_file() and not file.is_symlink():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, target / name)
    compiling = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", str(target)]
    subprocess.run(compiling, check=False)


def read_results(file: Path, run: dict[str, Any]) -> dict[str, Result]:
    """Return the finished mutants of an earlier run, by id; raises ValueError where that run was another one."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(run) + "\n", "utf-8")
        return {}
    header, *lines = file.read_text("utf-8").splitlines() or ["{}"]
    if json.loads(header) != run:
        raise ValueError(
            f"{file}: found results of another sample; allowed: those of the same source, seed and options. "
            "Fix: name another file with --results"
        )
    # A run that was killed may have left half a line.
    finished = [Result(**json.loads(line)) for line in lines if line.endswith("}")]
    return {result.id: result for result in finished if result.verdict != "unknown"}


def explained(file: Path = EXPLAINED) -> dict[tuple[str, str, str], str]:
    """Return why a mutant may survive, by its path and its line before and after the change."""
    listed = yaml.safe_load(file.read_text("utf-8"))["survivors"]
    return {(one["path"], one["before"], one["after"]): one["reason"] for one in listed}


def summary(results: Sequence[Result]) -> dict[str, int]:
    """Return how many mutants have each verdict."""
    counts = Counter(result.verdict for result in results)
    return {verdict: counts[verdict] for verdict in ("killed", "survived", "timeout", "unknown")}


def report(
    results: Sequence[Result], total: int, reasons: Mapping[tuple[str, str, str], str] = MappingProxyType({})
) -> Iterator[str]:
    """Yield the lines of the text report: what was not noticed, and why where that is known, then the counts."""
    for result in sorted(results, key=lambda one: (one.verdict, one.path, one.line)):
        if result.verdict in {"survived", "unknown"}:
            yield f"{result.verdict}: {result.path}:{result.line} ({result.operator})"
            yield f"  - {result.before}"
            yield f"  + {result.after}"
            if result.line_key in reasons:
                yield f"  explained: {reasons[result.line_key]}"
    counts = summary(results)
    noticed, judged = counts["killed"] + counts["timeout"], len(results) - counts["unknown"]
    share = f"{100 * noticed / judged:.0f} %" if judged else "none"
    yield f"{len(results)} of {total} mutants: {', '.join(f'{n} {verdict}' for verdict, n in counts.items())}"
    yield f"noticed: {share}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the sample and print the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sample", type=int, default=100, help="how many mutants (100)")
    parser.add_argument("--seed", type=int, default=1, help="another seed draws another sample (1)")
    parser.add_argument(
        "--areas", nargs="+", default=list(AREAS), help="folders or files of the code, " + ", ".join(AREAS)
    )
    parser.add_argument("--results", type=Path, default=ROOT / "out" / "mutation.jsonl", help="finished mutants")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("--workers", type=int, default=2, help="processes of pytest-xdist (2)")
    parser.add_argument("--no-sandbox", action="store_true", help="leave out the tests that need the sandbox")
    parser.add_argument("--list", action="store_true", help="print the sample and run nothing")
    options = parser.parse_args(arguments)
    for area in options.areas:
        if not (ROOT / area).exists() or not any(area == one or area.startswith(f"{one}/") for one in TESTS):
            parser.error(f"--areas: found {area!r}; allowed: what is below {', '.join(AREAS)}")
    drawn, total = sample_of(ROOT, options.sample, options.seed, options.areas)
    if options.list:
        for mutant in drawn:
            print(f"{mutant.path}:{mutant.line} ({mutant.operator})\n  - {mutant.before}\n  + {mutant.after}")
        return 0
    digest = hashlib.sha256("\n".join(mutant.id for mutant in drawn).encode()).hexdigest()
    run = {"seed": options.seed, "sample": digest, "sandbox": not options.no_sandbox}
    try:
        results = read_results(options.results, run)
    except ValueError as error:
        parser.error(str(error))
    # Both end the tests and remove the copy; a background job of a shell ignores SIGINT unless it is told not to.
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, signal.default_int_handler)
    try:
        _run_sample(drawn, results, options)
    except KeyboardInterrupt:
        print(
            f"interrupted; the same command goes on after {len(results)} of {len(drawn)} mutants", file=sys.stderr
        )
        return 130
    finished = [results[mutant.id] for mutant in drawn]
    counts, reasons = summary(finished), explained()
    unexplained = [one for one in finished if one.verdict == "survived" and one.line_key not in reasons]
    if options.format == "json":
        document = {"version": 1, "seed": options.seed, "mutants": total, "summary": counts}
        listed = [{**asdict(one), "explained": reasons.get(one.line_key)} for one in finished]
        print(json.dumps({**document, "results": listed}, indent=2))
    else:
        print("\n".join(report(finished, total, reasons)))
    return 1 if unexplained else 3 if counts["unknown"] else 0


def _run_sample(drawn: Sequence[Mutant], results: dict[str, Result], options: argparse.Namespace) -> None:
    """Add the results that are missing, here and in the file."""
    with tempfile.TemporaryDirectory(prefix="gpu-platform-mutation-") as folder:
        copy_tree(ROOT, Path(folder))
        copied = Copy(Path(folder), options.workers)
        for number, mutant in enumerate(drawn, start=1):
            if mutant.id in results:
                continue
            result = copied.evaluate(
                mutant, selections_of(mutant.path, Path(folder), sandbox=not options.no_sandbox)
            )
            results[mutant.id] = result
            with options.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(result)) + "\n")
            what = f"{result.verdict} in {result.seconds} s: {mutant.path}:{mutant.line} ({mutant.operator})"
            print(f"{number}/{len(drawn)} {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
