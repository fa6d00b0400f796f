"""Stack file field `teams[].scaling`: what KEDA may ask for a team."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpu_platform.stack._types import SpecModel
from gpu_platform.stack.patterns import worded

_Server = Annotated[
    str,
    Field(
        pattern=worded(
            r"^https?://[A-Za-z0-9.:\[\]-]+(/[^\s?#]*)?$", "an address with http:// or https://, without a query"
        ),
        max_length=500,
        examples=["http://prometheus.obs.svc:9090"],
    ),
]
_Trigger = Annotated[
    str,
    Field(
        pattern=worded(r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", "the type of a trigger of KEDA, in lower case"),
        max_length=63,
        examples=["aws-sqs-queue"],
    ),
]


class TeamScaling(SpecModel):
    """What triggers of a team's ScaledObjects and ScaledJobs may ask. KEDA asks from its own namespace, past the
    network policies of the team."""

    servers: Annotated[
        tuple[_Server, ...], Field(max_length=50, examples=[["http://prometheus.obs.svc:9090"]])
    ] = ()
    """Addresses that triggers of types `prometheus` and `metrics-api` may ask, with all paths below them; beside
    the Prometheus of `addons` and the `server` of `inference_services`."""
    triggers: Annotated[tuple[_Trigger, ...], Field(max_length=50, examples=[["aws-sqs-queue"]])] = ()
    """Types of triggers that may ask any server, beside `cpu`, `memory`, `cron` and `kubernetes-workload`, which
    ask none."""
