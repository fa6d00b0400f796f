"""Decide which pools can replace each other in a compute class, and the order in which nodes are added to them."""

from gpu_platform.planning.compute_classes.compute_classes import check, check_offers, decisions

__all__ = ["check", "check_offers", "decisions"]
