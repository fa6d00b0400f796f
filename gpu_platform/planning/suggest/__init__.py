"""Decide the cheapest pools for workloads: machine types and sharing modes, with a bound on the cost."""

from gpu_platform.planning.suggest.suggest import NextBest, OtherVendor, SuggestedPool, Suggestion, suggest

__all__ = ["NextBest", "OtherVendor", "SuggestedPool", "Suggestion", "suggest"]
