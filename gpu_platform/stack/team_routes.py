"""Stack file field `teams[].routes`: what routes and Services of a team may ask of controllers."""

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
    """Hosts and annotations of a team's Ingresses, HTTPRoutes and GRPCRoutes, and annotations of its Services.
    Controllers act on them with rights and networks that the team lacks."""

    hosts: Annotated[tuple[_Host, ...], Field(max_length=100, examples=[["vision.example.com"]])] = ()
    """Hosts that routes may name: a name, `*.` and a domain for all names below it, or `*` for all hosts and for
    routes that name none. Beside the `hostname` of `inference_services`. No other team may have the same."""
    annotations: Annotated[
        tuple[_Annotation, ...], Field(max_length=50, examples=[["alb.ingress.kubernetes.io/group.name"]])
    ] = ()
    """Annotations of controllers that the team may set, with any value, beside those that change nothing but the
    way to its own pods."""
