"""Stack file fields `teams[].egress` and `teams[].ingress`: the network access of a team's pods."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpu_platform.stack._types import Cidr, DnsLabel, HostName, SpecModel
from gpu_platform.stack.declared import On

Ports = Annotated[tuple[Annotated[int, Field(ge=1, le=65535)], ...], Field(min_length=1, max_length=50)]


class Destination(SpecModel):
    """Destination outside the namespace that the team's pods may reach over TCP: a network, or hosts given by
    name.
    """

    cidr: Cidr | None = None
    """A network, such as the network of a database or of VPC endpoints. Link-local addresses are refused, because
    nodes obtain their credentials from such addresses.
    """
    fqdn: Annotated[
        HostName | None,
        On(("gke", "existing"), "a NetworkPolicy supports only addresses", fix="set cidr, or write internet"),
    ] = None
    """A host name, or `*.` followed by a domain, for all hosts that are one label below the domain. It is
    supported on GKE with `cluster.fqdn_policies`, and on an existing cluster with `network_policies: cilium`. GKE
    tracks at most 50 addresses per name at a time.
    """
    ports: Ports = (443,)
    """TCP ports of the destination."""


Egress = Literal["internet", "cloud-apis"] | Destination


class Source(SpecModel):
    """Source that may open TCP connections to pods of the team: the pods in a namespace, or addresses."""

    namespace: DnsLabel | None = None
    """Name of a namespace, such as the namespace of an ingress controller. All its pods may connect."""
    cidr: Cidr | None = None
    """A network outside the cluster, such as the network of load balancers."""
    ports: Ports
    """TCP ports of the pods, not of a Service."""
