"""Names that the plan, the component and the command use for the program that runs the active checks."""

from __future__ import annotations

from importlib import resources
from typing import Final

PROGRAM: Final = "burn_in.py"
PROGRAM_DIRECTORY: Final = "/opt/burn-in"
PROGRAM_CONFIG_MAP: Final = "burn-in-program"
SERVICE_ACCOUNT: Final = "burn-in"
MATRIX_VARIABLE: Final = "BURN_IN_MATRIX_SECONDS"
PART_VARIABLE: Final = "BURN_IN_PART"  # the variable has the value `node` or `nodes`


def program() -> str:
    """Return the source code of the program, which requires PyTorch."""
    return resources.files("gpu_platform.burn_in").joinpath("scripts", PROGRAM).read_text("utf-8")
