"""Decide on which GPU node each pod runs: one by one as pods arrive, or all at once with a bound."""

from gpu_platform.planning.placement.offline import Packing, pack
from gpu_platform.planning.placement.online import OnlinePlacer
from gpu_platform.planning.placement.shapes import WHOLE_GPU, NodeShape, PodShape

__all__ = ["WHOLE_GPU", "NodeShape", "OnlinePlacer", "Packing", "PodShape", "pack"]
