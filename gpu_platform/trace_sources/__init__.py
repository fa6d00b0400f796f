"""Reads traces of jobs that `gpu-platform rehearse` replays."""

from gpu_platform.trace_sources.read import read_trace

__all__ = ["read_trace"]
