"""Readers for the job traces that `gpu-platform rehearse` replays."""

from extensions.capacity.trace_sources.read import read_trace

__all__ = ["read_trace"]
