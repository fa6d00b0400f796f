"""Suggests pools for workloads: the cheapest mix of machine types and sharing modes, with a bound."""

from gpu_platform.planning.suggest.suggest import NextBest, SuggestedPool, Suggestion, suggest

__all__ = ["NextBest", "SuggestedPool", "Suggestion", "suggest"]
