"""The Pulumi program of a stack, which runs in the same process, and the resources that it registers."""

from gpu_platform.deploy.recorded.record import ResourceRecord
from gpu_platform.program import record_stack

__all__ = [
    "ResourceRecord",
    "record_stack",
]
