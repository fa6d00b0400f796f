"""Finds the cheapest pools for workloads: machine types and sharing modes, with a lower bound on the cost."""

from extensions.capacity.suggest.suggest import NextBest, OtherVendor, SuggestedPool, Suggestion, suggest
from extensions.capacity.suggest.throughput import Throughput

__all__ = ["NextBest", "OtherVendor", "SuggestedPool", "Suggestion", "Throughput", "suggest"]
