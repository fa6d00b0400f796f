"""Decide the cheapest pools for workloads: machine types and sharing modes, with a bound on the cost."""

from gpu_platform.planning.suggest.suggest import NextBest, SuggestedPool, Suggestion, suggest

__all__ = ["NextBest", "SuggestedPool", "Suggestion", "suggest"]
