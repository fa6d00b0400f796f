"""Strict models of the stack file's `gpu-platform:platform` object, and the functions that read it."""

from gpu_platform.stack.environment import Environment, Stack, TeamStack
from gpu_platform.stack.load import (
    CONFIG_KEY,
    StackFile,
    find_stack_file,
    parse_platform,
    read_stack_file,
    stack_adapter,
    stack_name,
)
from gpu_platform.stack.pool import Pool
from gpu_platform.stack.team import Team

__all__ = [
    "CONFIG_KEY",
    "Environment",
    "Pool",
    "Stack",
    "StackFile",
    "Team",
    "TeamStack",
    "find_stack_file",
    "parse_platform",
    "read_stack_file",
    "stack_adapter",
    "stack_name",
]
