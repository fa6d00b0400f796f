"""Plan the network policies on GKE that allow pods to reach only Google's APIs or only named hosts.

Sources: Google Cloud docs, "Configure Private Google Access" (private.googleapis.com is 199.36.153.8/30; a private
zone googleapis.com with a CNAME for all names) and "Control Pod egress traffic using FQDN network policies"
(Dataplane V2; enabled for the cluster; on an existing cluster anetd must be restarted); read 2026-11-25.
"""

from __future__ import annotations

from typing import Final

from gpu_platform.planning.clouds.section import PodEgress
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import GkeCluster

API_DOMAIN: Final = "googleapis.com."
API_HOST: Final = "private.googleapis.com."
API_ADDRESSES: Final = ("199.36.153.8", "199.36.153.9", "199.36.153.10", "199.36.153.11")
API_EGRESS: Final = PodEgress(name="cloud-apis", cidr="199.36.153.8/30", ports=((443, "TCP"),))


_METADATA: Final = "169.254.169.254/32"
_IDENTITY: Final = PodEgress(name="identity", cidr=_METADATA, ports=((80, "TCP"),))
_DNS: Final = PodEgress(name="cloud-dns", cidr=_METADATA, ports=((53, "UDP"), (53, "TCP")))
# Without Dataplane V2, network policies apply after the node has translated the metadata server's address.
_IDENTITY_WITHOUT_V2: Final = PodEgress(
    name="identity-without-v2", cidr="169.254.169.252/32", ports=((987, "TCP"), (988, "TCP"))
)


def pod_egress(cluster: GkeCluster, *, identity: bool) -> tuple[PodEgress, ...]:
    """Return the addresses of GKE's metadata server and Cloud DNS for a team with or without a cloud identity.

    A new cluster has Dataplane V2, which evaluates the address before translation, and its nodes conceal their
    credentials. Neither fact is known about an existing cluster before a deployment. Therefore only teams with an
    identity may reach the addresses for clusters with and without Dataplane V2, and `require_fit` refuses node
    pools that do not conceal their credentials. Port 8080 of the metadata server is only for ALTS, and tokens need
    port 80. Sources: Google Cloud docs, "Authenticate to Google Cloud APIs from GKE workloads" (network policies);
    gke-labs/kube-agents#777 and #805; read 2026-11-26.
    """
    if cluster.create is not None:
        return (_IDENTITY, _DNS)
    return (_IDENTITY, _IDENTITY_WITHOUT_V2, _DNS) if identity else (_DNS,)


def check_host_egress(cluster: GkeCluster, problems: Problems) -> None:
    """Record a problem if the cluster's network policies do not support host names. `problems` points to the host
    name.
    """
    if not cluster.fqdn_policies:
        problems.add(
            "a host name without cluster.fqdn_policies",
            "fqdn only with cluster.fqdn_policies in the environment",
            "write fqdn_policies: true in cluster of the environment, "
            "or set cidr, or write internet instead of fqdn",
        )


def check_api_egress(cluster: GkeCluster, problems: Problems) -> None:
    """Record a problem if the VPC does not resolve the names of Google's APIs to private.googleapis.com.

    `problems` points to the egress entry.
    """
    create = cluster.create
    if create is not None and create.network is None and not create.private_apis:
        problems.add(
            "cloud-apis without cluster.create.private_apis",
            "cloud-apis only if the names of Google's APIs resolve to dedicated addresses",
            "write private_apis: true in cluster.create of the environment, or write internet instead",
        )


def api_egress_note(cluster: GkeCluster) -> str:
    """Return who ensures that the names of Google's APIs resolve to their dedicated addresses."""
    create = cluster.create
    if create is not None and create.private_apis:
        return "cluster.create.private_apis resolves *.googleapis.com to these addresses"
    return "the owner of the VPC must resolve *.googleapis.com to these addresses in a private DNS zone"
