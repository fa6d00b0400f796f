"""The Pulumi program of a stack and the resources that it registers. The program runs in the process of the
command.
"""

from gpu_platform.deploy.recorded.record import ResourceRecord
from gpu_platform.program import record_stack

__all__ = [
    "ResourceRecord",
    "record_stack",
]
