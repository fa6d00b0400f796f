"""Limits for annotations that choose the networks and addresses of pods. The policy pack and the admission rules
both check them.

Network policies apply only to the default network of a pod. Without `namespaceIsolation`, Multus joins a pod to
networks of any namespace.

Sources: Multus CNI docs, "Namespace isolation" (off by default) and "Default network"; Calico docs, "Configure the
Calico CNI plugins"; Cilium docs, "Multi-Pool IPAM". Read 2026-11-30.
"""

from __future__ import annotations

import re
from typing import Final

JOINED_NETWORKS: Final = "k8s.v1.cni.cncf.io/networks"
"""Annotation of Multus that lists additional networks."""
OWN_NETWORKS: Final = "^[A-Za-z0-9._@, -]*$"
"""Pattern (Python and RE2) for names of networks without a namespace, which are in the namespace of the pod."""
NETWORK_ANNOTATIONS: Final = (
    "cni.projectcalico.org/allowedSourcePrefixes",
    "cni.projectcalico.org/floatingIPs",
    "cni.projectcalico.org/ipAddrs",
    "cni.projectcalico.org/ipAddrsNoIpam",
    "cni.projectcalico.org/ipv4pools",
    "cni.projectcalico.org/ipv6pools",
    "ipam.cilium.io/ip-pool",
    "ipam.cilium.io/ipv4-pool",
    "ipam.cilium.io/ipv6-pool",
    JOINED_NETWORKS,
    "v1.multus-cni.io/default-network",
)
"""Annotations that choose networks or addresses. The network plugins write their results to other annotations."""


def chooses_network(annotation: str, value: str) -> bool:
    """Return whether an annotation gives a pod an address of its choice, or a network of another namespace."""
    own = annotation == JOINED_NETWORKS and re.fullmatch(OWN_NETWORKS, value) is not None
    return annotation in NETWORK_ANNOTATIONS and not own
