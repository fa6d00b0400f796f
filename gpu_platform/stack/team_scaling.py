"""Stack file field `teams[].scaling`: what KEDA may query for a team."""

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
        pattern=worded(r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", "the type of a KEDA trigger, in lower case"),
        max_length=63,
        examples=["aws-sqs-queue"],
    ),
]


class TeamScaling(SpecModel):
    """Servers and trigger types that a team's ScaledObjects and ScaledJobs may use. KEDA sends the queries from
    its own namespace, where the team's network policies do not apply.
    """

    servers: Annotated[
        tuple[_Server, ...], Field(max_length=50, examples=[["http://prometheus.obs.svc:9090"]])
    ] = ()
    """Addresses that triggers of the types `prometheus` and `metrics-api` may query, including all paths below
    these addresses. The Prometheus of `addons` and each `server` in `inference_services` are always allowed.
    """
    triggers: Annotated[tuple[_Trigger, ...], Field(max_length=50, examples=[["aws-sqs-queue"]])] = ()
    """Types of triggers that may query any server. The types `cpu`, `memory`, `cron` and `kubernetes-workload`
    query no server and are always allowed.
    """
