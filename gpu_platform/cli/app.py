"""All commands of `gpu-platform`. Sets the exit code and prints an error message when a command fails or is
interrupted.

The commands are declared in `gpu_platform/cli/commands/`. Exit codes: 0 success, 1 finding, 2 bad input, 3 unknown
outcome.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.main import get_command

from gpu_platform.base import garbage, interruption
from gpu_platform.base.errors import BadInput, ExitCode, GpuPlatformError, Problem
from gpu_platform.cli import extensions
from gpu_platform.cli.commands import capacity, deployment, lookup, mig, nodes, sandbox, stack_files
from gpu_platform.cli.options import CONTEXT, CommandGroup, command_name
from gpu_platform.stack.project import check_project, version

_INTERRUPTED = 130  # Typer's exit code for every KeyboardInterrupt


class _Commands(CommandGroup):
    """All commands. Errors about option values are shown without pydantic's prefix."""

    def sections(self) -> Mapping[str, Sequence[str]]:
        """Return the command names, grouped by task."""
        sections = {
            task: [one[0] if isinstance(one, tuple) else command_name(one) for one in commands]
            for task, commands in _TASKS.items()
        }
        for command in extensions.commands():
            if not command.group:
                sections.setdefault(command.task, []).append(command.name)
        last = sections.pop(_LAST_TASK)
        return {**sections, _LAST_TASK: last}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - Typer's own copy of Click
        """Find a command. If a subcommand is called without its group, the error suggests the group."""
        if args and args[0] not in self.commands and (missing := extensions.missing(args[0])):
            ctx.fail(missing)
        groups = {name: getattr(one, "commands", {}) for name, one in self.commands.items()}
        if args and args[0] not in self.commands:
            meant = [f"{group} {args[0]}" for group, commands in groups.items() if args[0] in commands]
            if meant:
                ctx.fail(f"No such command {args[0]!r}. Did you mean {' or '.join(map(repr, meant))}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - Typer's own copy of Click
        """Run a command, and remove pydantic's prefix from the message of a typer.BadParameter."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


app = typer.Typer(
    name="gpu-platform",
    cls=_Commands,
    no_args_is_help=True,
    context_settings=CONTEXT,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
_LAST_TASK: Final = "Sandbox and single nodes"
_TASKS: Final[Mapping[str, tuple[Callable[..., None] | tuple[str, typer.Typer], ...]]] = {
    "Write and check a stack file": (
        stack_files.init,
        stack_files.check,
        ("policies", lookup.policies_app),
        stack_files.review,
        stack_files.render,
        stack_files.images,
        stack_files.schema,
    ),
    "Deploy and change": (
        deployment.doctor,
        deployment.preview,
        deployment.up,
        stack_files.upgrade,
        deployment.destroy,
        ("team", deployment.team_app),
    ),
    "Operate": (nodes.validate, nodes.burn_in, stack_files.guide),
    "Capacity and cost": (
        ("machines", lookup.machines_app),
        ("mig", mig.mig_app),
        ("capacity", capacity.capacity_app),
        capacity.cost,
    ),
    _LAST_TASK: (("sandbox", sandbox.sandbox_app), nodes.node_check, nodes.node_metrics),
}
"""Commands and groups of commands by task, in the order of --help.

The function `node_check` becomes the command `node-check`. Extensions add commands to these tasks, and may add
tasks.
"""
_GROUPS: Final = {one[0]: one[1] for one in itertools.chain(*_TASKS.values()) if isinstance(one, tuple)}
for _one in itertools.chain(*_TASKS.values()):
    if isinstance(_one, tuple):
        app.add_typer(_one[1], name=_one[0])
    else:
        app.command()(_one)
for _added in extensions.commands():
    (_GROUPS[_added.group] if _added.group else app).command()(_added.function)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(version())
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Deploy a GPU platform on Kubernetes from a stack file, and validate its nodes."""
    interruption.begin()
    check_project()


def main(arguments: list[str] | None = None) -> None:
    """Run the command line. A GpuPlatformError is printed as one message and sets the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if arguments is None:
        garbage.collect_seldom()
        _run(given)
    else:
        with garbage.restored():
            _run(given)


def _run(given: list[str]) -> None:
    try:
        with _output_written():
            _run_command(given)
    except SystemExit as stop:
        if stop.code == _INTERRUPTED:
            _leave_interrupted()
        raise
    except KeyboardInterrupt:
        _leave_interrupted()


@contextlib.contextmanager
def _output_written() -> Generator[None]:
    """Flush standard output at the end. If it cannot be written, print a one-line message and exit with code 3."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError as error:  # the reader closed the pipe
        _discard_output()
        if isinstance(stop := error.__context__, SystemExit):
            raise stop from None
    except OSError as error:
        try:
            print(flush=True)  # raises the error again if standard output cannot be written
        except OSError:
            _discard_output()
            print(f"error: cannot write to standard output: {error.strerror}", file=sys.stderr)
            sys.exit(int(ExitCode.UNKNOWN))
        raise


def _discard_output() -> None:
    """Redirect standard output to /dev/null, so that Python does not report the failed write again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run_command(given: list[str]) -> None:
    try:
        _command()(given, prog_name="gpu-platform")
    except GpuPlatformError as error:
        _show(_located(error), to_json=_wants_json(given))
        sys.exit(int(error.exit_code))
    except OSError:
        raise
    except Exception:
        # Compiled code, such as pydantic's, can replace a KeyboardInterrupt with its own exception.
        if interruption.was_raised():
            _leave_interrupted()
        raise


@functools.cache
def _command() -> Callable[..., object]:
    """Return the command line with all options.

    It is built only once, because building it takes 16 ms and tests run hundreds of commands.
    """
    return get_command(app)


def _leave_interrupted() -> NoReturn:
    interruption.ignore()
    text = interruption.explanation() or "interrupted: run the same command again to continue"
    print(text, file=sys.stderr)
    sys.exit(interruption.exit_code())


def _wants_json(arguments: list[str]) -> bool:
    return "--format=json" in arguments or "json" in [
        value for flag, value in itertools.pairwise(arguments) if flag == "--format"
    ]


def _located(error: GpuPlatformError) -> GpuPlatformError:
    from gpu_platform.stack.positions import located

    return located(error) if isinstance(error, BadInput) else error


def _problem_document(problem: Problem) -> dict[str, Any]:
    place = {"line": problem.line, "column": problem.column} if problem.line else {}
    return {
        "path": problem.path,
        **place,
        "found": problem.found,
        "allowed": problem.allowed,
        "fix": problem.fix,
    }


def _show(error: GpuPlatformError, *, to_json: bool) -> None:
    if to_json:
        problems = error.problems if isinstance(error, BadInput) else ()
        document = {
            "version": 1,
            "error": str(error).splitlines()[0],
            "problems": [_problem_document(problem) for problem in problems],
        }
        print(json.dumps(document, indent=2))
    print(f"error: {error}", file=sys.stderr)
