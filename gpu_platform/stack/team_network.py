"""Stack file fields `teams[].egress` and `teams[].ingress`: the network of a team's pods."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpu_platform.stack._types import Cidr, DnsLabel, HostName, SpecModel
from gpu_platform.stack.declared import On

Ports = Annotated[tuple[Annotated[int, Field(ge=1, le=65535)], ...], Field(min_length=1, max_length=50)]


class Destination(SpecModel):
    """What pods of the team may reach by TCP outside its namespace: a network, or hosts by name."""

    cidr: Cidr | None = None
    """A network such as that of a database or of VPC endpoints; not link-local addresses, behind which nodes have
    credentials of their own."""
    fqdn: Annotated[
        HostName | None,
        On(("gke", "existing"), "a NetworkPolicy supports only addresses", fix="write cidr, or internet"),
    ] = None
    """The name of a host, or `*.` and a domain for all hosts one label below it: on GKE with
    `cluster.fqdn_policies`, where at most 50 addresses of it are known at a time, and on an existing cluster with
    `network_policies: cilium`."""
    ports: Ports = (443,)
    """TCP ports."""


Egress = Literal["internet", "cloud-apis"] | Destination


class Source(SpecModel):
    """Who may open TCP connections to pods of the team: the pods of a namespace, or addresses."""

    namespace: DnsLabel | None = None
    """Name of a namespace, such as that of an ingress controller: all its pods."""
    cidr: Cidr | None = None
    """A network outside the cluster, such as that of load balancers."""
    ports: Ports
    """TCP ports of the pods, not those of a Service."""
