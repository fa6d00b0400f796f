"""Stack file field `teams[].routes`: what a team's routes and Services may request from controllers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpu_platform.stack._types import SpecModel
from gpu_platform.stack.patterns import worded

_Host = Annotated[
    str,
    Field(
        pattern=worded(
            r"^(\*|(\*\.)?[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+)$",
            "a host name in lower case with a dot, `*.` and a domain, or `*` for all hosts",
        ),
        max_length=253,
        examples=["vision.example.com"],
    ),
]
_Annotation = Annotated[
    str,
    Field(
        pattern=worded(
            r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$",
            "the key of an annotation: [prefix/]name",
        ),
        max_length=317,
        examples=["external-dns.alpha.kubernetes.io/ttl"],
    ),
]


class TeamRoutes(SpecModel):
    """Hosts and annotations for a team's Ingresses, HTTPRoutes and GRPCRoutes, and annotations for its Services.
    Controllers act on these settings with permissions and network access that the team does not have.
    """

    hosts: Annotated[tuple[_Host, ...], Field(max_length=100, examples=[["vision.example.com"]])] = ()
    """Hosts that routes may name, in addition to the `hostname` of `inference_services`. An entry is a host name,
    `*.` followed by a domain (all names below the domain), or `*` (all hosts, and routes that name no host). No
    other team may have the same host.
    """
    annotations: Annotated[
        tuple[_Annotation, ...], Field(max_length=50, examples=[["alb.ingress.kubernetes.io/group.name"]])
    ] = ()
    """Annotations for controllers that the team may set to any value. Annotations that only affect how traffic
    reaches the team's own pods are always allowed.
    """
