"""First stack file of an existing GKE cluster."""

from __future__ import annotations

from typing import Final

from gpu_platform.planning.clouds.first_stack import FirstStack

FIRST_STACK: Final = FirstStack(
    aliases=("gcp", "google"),
    questions=("region", "zone", "project"),
    machine_type="a3-megagpu-8g",
    groups=False,  # GKE authenticates members by their e-mail addresses
    buys_nodes=True,
    cluster=lambda name, answers: {"name": name, "project": answers["project"], "location": answers["region"]},
    pool=lambda answers: {"zones": [answers["zone"]]},
)
