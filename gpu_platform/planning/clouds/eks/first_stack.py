"""First stack file of an existing EKS cluster."""

from __future__ import annotations

from typing import Final

from gpu_platform.planning.clouds.first_stack import FirstStack

FIRST_STACK: Final = FirstStack(
    aliases=("aws", "amazon"),
    questions=("region", "zone"),
    machine_type="p5.48xlarge",
    buys_nodes=True,
    cluster=lambda name, answers: {"name": name, "region": answers["region"]},
    pool=lambda answers: {"zones": [answers["zone"]]},
)
