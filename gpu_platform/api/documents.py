"""Input files of commands: strict YAML, models whose errors name the place in the file, and field types."""

from gpu_platform.stack import parse_platform
from gpu_platform.stack._types import (
    Cpu,
    DnsLabel,
    GpuMemory,
    LabelKey,
    LabelValue,
    Memory,
    Quantity,
    SpecModel,
    UsdPerHour,
    Zone,
)
from gpu_platform.stack.environment import Environment
from gpu_platform.stack.load import parse_document, read_yaml_documents, read_yaml_file
from gpu_platform.stack.patterns import worded
from gpu_platform.stack.pool import GpuWorkload
from gpu_platform.stack.positions import Positions
from gpu_platform.stack.problems import found_text
from gpu_platform.stack.project import chosen_backend

__all__ = [
    "Cpu",
    "DnsLabel",
    "Environment",
    "GpuMemory",
    "GpuWorkload",
    "LabelKey",
    "LabelValue",
    "Memory",
    "Positions",
    "Quantity",
    "SpecModel",
    "UsdPerHour",
    "Zone",
    "chosen_backend",
    "found_text",
    "parse_document",
    "parse_platform",
    "read_yaml_documents",
    "read_yaml_file",
    "worded",
]
