"""The command line `gpu-platform`."""

from gpu_platform.cli.app import main

__all__ = ["main"]
