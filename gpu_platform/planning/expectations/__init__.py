"""Decide the expected hardware and labels of every node."""

from gpu_platform.planning.expectations.hardware import DeclaredNode, expectations_for_machine, expected_xids
from gpu_platform.planning.expectations.nodes import plan
from gpu_platform.planning.expectations.topology import expected_matrix

__all__ = ["DeclaredNode", "expectations_for_machine", "expected_matrix", "expected_xids", "plan"]
