"""Plan the network interfaces of EKS nodes, and limit the access of pods to the instance metadata.

Sources: EC2 user guide, "Maximize network bandwidth on Amazon EC2 instances with multiple network cards" and
"Elastic Fabric Adapter"; aws/aws-parallelcluster#7143 (p6-b300); read 2026-11-21.
"""

from __future__ import annotations

from typing import Literal

from gpu_platform.catalog import Catalog
from gpu_platform.catalog.models import AwsFamily, MachineType
from gpu_platform.planning.clouds.eks.launch_plan import NetworkInterface
from gpu_platform.planning.kubernetes_versions import minor
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import EksCluster
from gpu_platform.stack.pool import Pool

Layout = Literal["ena-and-efa", "efa-primary"]

DRANET_KUBERNETES = "1.34"
METADATA_HOP_LIMIT = 1
"""With this hop limit, pods without the host network cannot reach IMDS, so they cannot use the node's role.

Pods get roles through EKS Pod Identity. The components on a node that read IMDS (VPC CNI, EFA device plugin, node
monitoring agent) use the host network.
"""


def uses_efa(pool: Pool, machine: MachineType) -> bool:
    """Return whether a pool's nodes get EFA interfaces."""
    if pool.network.rdma is not None:
        return pool.network.rdma
    return pool.workload == "training" and machine.rdma_interfaces > 0


def uses_dranet(pool: Pool, machine: MachineType) -> bool:
    """Return whether pods of a pool claim EFA interfaces, instead of requesting them from the device plugin."""
    return pool.network.via == "dranet" and uses_efa(pool, machine)


def takes_plain_primary(family: AwsFamily) -> bool:
    """Return whether nodes of the family can have all their EFA interfaces and also a primary interface without
    EFA.
    """
    return family.efa_only and (family.efa_only_beside_primary or family.first_efa_card > 0)


def layout_of(pool: Pool, family: AwsFamily) -> Layout:
    """Return the layout of the network interfaces of a pool with EFA."""
    if pool.network.layout is not None:
        return pool.network.layout
    return "ena-and-efa" if takes_plain_primary(family) else "efa-primary"


def interfaces(machine: MachineType, family: AwsFamily, layout: Layout) -> tuple[NetworkInterface, ...]:
    """Return the interfaces of a node, with EFA on every network card that supports it.

    Only the primary interface has IP addresses. Plain `efa` interfaces on other cards would use more addresses,
    and can prevent AL2023 nodes from joining.
    """
    first = family.first_efa_card
    primary_is_efa = layout == "efa-primary" and first == 0
    found = [_interface(0, 0, "efa" if primary_is_efa else "interface")]
    for card in family.efa_cards or range(first, first + machine.rdma_interfaces):
        if card > 0:
            found.append(_interface(card, family.secondary_device_index, "efa-only" if family.efa_only else "efa"))
        elif not primary_is_efa:
            found.append(_interface(0, 1, "efa-only"))
    return tuple(found)


def _interface(card: int, device: int, kind: Literal["interface", "efa", "efa-only"]) -> NetworkInterface:
    return NetworkInterface(network_card_index=card, device_index=device, interface_type=kind)


def _check_via(pool: Pool, machine: MachineType, cluster: EksCluster, here: Problems) -> None:
    """Record a problem if `via` is set on a pool without EFA interfaces, or if it is `dranet` and the Kubernetes
    version is too old.
    """
    via = pool.network.via
    if via not in ("device-plugin", "dranet"):
        return
    if not uses_efa(pool, machine):
        here.add(
            f"{via!r} without EFA interfaces",
            "`via` only on a pool with EFA",
            "remove `via`, or write `rdma: true` on a machine type with EFA",
        )
    elif (
        via == "dranet" and cluster.kubernetes is not None and minor(cluster.kubernetes) < minor(DRANET_KUBERNETES)
    ):
        here.add(
            f"'dranet' on Kubernetes {cluster.kubernetes}",
            f"Kubernetes {DRANET_KUBERNETES} or newer (EKS user guide, Manage EFA devices)",
            "upgrade the cluster, or write via: device-plugin",
        )


def check_network(
    pool: Pool,
    machine: MachineType,
    family: AwsFamily,
    cluster: EksCluster,
    catalog: Catalog,
    problems: Problems,
) -> None:
    """Record problems for network interfaces and layouts that the machine type does not support."""
    here, network = problems.at("network"), pool.network
    _check_via(pool, machine, cluster, here.at("via"))
    if network.rdma and machine.rdma_interfaces == 0:
        larger = [one.name for one in _of_family(machine, catalog) if one.rdma_interfaces > 0]
        here.at("rdma").add(
            f"true on {machine.name}, which has no EFA",
            "true only on machine types with EFA"
            + (f": {', '.join(larger)}" if larger else f"; {family.name} has none"),
            f"use {larger[0]}, or remove rdma" if larger else "remove rdma, or use another machine type",
        )
        return
    if network.layout is None:
        return
    layout = here.at("layout")
    if not uses_efa(pool, machine):
        layout.add(
            f"{network.layout!r} without EFA interfaces",
            "a layout only with EFA: it places the EFA interfaces",
            "remove layout, or write rdma: true on a machine type with EFA",
        )
    elif network.layout == "efa-primary" and family.first_efa_card > 0:
        layout.add(
            f"'efa-primary' on {machine.name}",
            f"ena-and-efa: network card 0 of {family.name} has no EFA ({family.source})",
            "remove layout",
        )
    elif network.layout == "ena-and-efa" and not takes_plain_primary(family):
        layout.add(
            f"'ena-and-efa' on {machine.name}",
            f"efa-primary: card 0 of {family.name} does not support an EFA interface next to a plain interface "
            f"({family.source})",
            "remove layout",
        )


def check_pod_interfaces(
    pool: Pool, machine: MachineType, family: AwsFamily, cluster: EksCluster, problems: Problems
) -> None:
    """Record a problem for nodes without an interface for pods. Pods with separate subnets cannot use the primary
    interface.

    Pods use only interfaces of the default network card. On every machine type, one such interface can have
    prefixes for more pods than the kubelet allows. Nodes whose `default_enis` is not known are not checked.
    Sources: EKS best practices, custom networking; aws/amazon-vpc-cni-k8s, notes of release v1.7.10 (network
    cards); read 2026-11-25.
    """
    if not cluster.has_pod_subnets or machine.default_enis is None:
        return
    taken = [one for one in _interfaces_of(pool, machine, family) if one.network_card_index == 0]
    if machine.default_enis > len(taken):
        return
    if pool.provisioner == "managed" and layout_of(pool, family) == "ena-and-efa" and family.first_efa_card == 0:
        fix = "write layout: efa-primary, which uses only one interface of network card 0"
    else:
        fix = "write rdma: false, or remove the pod subnets of the cluster"
    problems.at("network").at("layout").add(
        f"pod subnets, but no free interface on network card 0 of {machine.name}",
        "a free interface for pods: with pod subnets, pods get no addresses from the primary interface",
        fix,
    )


def _interfaces_of(pool: Pool, machine: MachineType, family: AwsFamily) -> tuple[NetworkInterface, ...]:
    """Return the interfaces that a node has when it starts."""
    if not uses_efa(pool, machine):
        return (_interface(0, 0, "interface"),)
    layout = "ena-and-efa" if pool.provisioner == "karpenter" else layout_of(pool, family)
    return interfaces(machine, family, layout)


def _of_family(machine: MachineType, catalog: Catalog) -> list[MachineType]:
    family = machine.name.partition(".")[0]
    return [one for one in catalog.machine_types.values() if one.name.partition(".")[0] == family]
