"""Maximum number of EBS volumes for claims that can be attached to a node."""

from __future__ import annotations

from collections.abc import Iterable

from gpu_platform.catalog import Catalog
from gpu_platform.stack.cluster import EksCluster


def claim_volumes(
    types: Iterable[str], cluster: EksCluster, catalog: Catalog, *, disks: int, interfaces: int
) -> int | None:
    """Return the maximum number of EBS volumes for claims that a node of any of these machine types can attach, or
    None if this number is not known.

    `disks` is the number of the node's system volumes. `interfaces` is the number of network interfaces that the
    node has at launch. EC2 counts the system volumes, and for some types also the interfaces after the first. The
    VPC CNI attaches one more interface if pods have separate subnets, and on clusters without prefix delegation.
    Existing clusters are assumed to have no prefix delegation.

    Sources: kubernetes-sigs/aws-ebs-csi-driver v1.63.1, pkg/driver/node.go: getVolumesLimit; amazon-vpc-cni-k8s,
    README (WARM_ENI_TARGET, WARM_PREFIX_TARGET); read 2026-11-30.
    """
    added = 1 if cluster.create is None or cluster.has_pod_subnets else 0
    free: list[int] = []
    for machine in map(catalog.machine_types.get, types):
        if machine is None or machine.ebs_volumes is None:
            return None
        shared = max(interfaces, 1) - 1 + added if machine.ebs_limit == "shared" else 0
        free.append(max(machine.ebs_volumes - disks - shared, 1))
    return min(free, default=None)
