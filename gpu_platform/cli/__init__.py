"""The `gpu-platform` command line."""

from __future__ import annotations

from gpu_platform.base import interruption


def main(arguments: list[str] | None = None) -> None:
    """Run the command line with `arguments` (default: the arguments of the process), then raise SystemExit.

    The commands are imported here, after the signal handlers are set. The import takes a few tenths of a second,
    and a signal may arrive in that time.
    """
    with interruption.handled(restore=arguments is not None):
        from gpu_platform.cli.app import main as run

        try:
            run(arguments)
        finally:
            if arguments is None:
                interruption.ignore()  # otherwise a late signal would kill Python while it exits


__all__ = ["main"]
