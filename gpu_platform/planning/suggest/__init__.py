"""Decide the cheapest pools for workloads: machine types and sharing modes, with a bound on the cost."""

from gpu_platform.planning.suggest.suggest import NextBest, OtherVendor, SuggestedPool, Suggestion, suggest
from gpu_platform.planning.suggest.throughput import Throughput

__all__ = ["NextBest", "OtherVendor", "SuggestedPool", "Suggestion", "Throughput", "suggest"]
