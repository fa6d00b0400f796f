"""The command line `gpu-platform`."""

from __future__ import annotations

from gpu_platform.base import interruption


def main(arguments: list[str] | None = None) -> None:
    """Run the command line with `arguments`, by default the arguments of the process. Ends with SystemExit.

    The commands are imported here, after the signal handlers are set, because the import takes some tenths of a
    second, during which a signal may arrive.
    """
    with interruption.handled(restore=arguments is not None):
        from gpu_platform.cli.app import main as run

        try:
            run(arguments)
        finally:
            if arguments is None:
                interruption.ignore()  # the command has ended, and a signal would kill Python while it exits


__all__ = ["main"]
