"""Plans device classes and claims for Dynamic Resource Allocation, and checks the requirements of the DRA driver.
"""

from gpu_platform.planning.dra.checks import check
from gpu_platform.planning.dra.claims import plan

__all__ = ["check", "plan"]
