"""Determine the allowed egress and ingress of a team's pods: addresses, hosts and namespaces.

A NetworkPolicy allows these connections. The namespace denies all other connections. Sources: Kubernetes docs,
Network Policies (ipBlock and its exceptions); IANA IPv4 Special-Purpose Address Registry; RFC 3927 (link-local),
where clouds serve node credentials. Read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network
from typing import Final

from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.planning.clouds.section import PodEgress
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.pools.declared_fields import check_declared_fields
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.teams.section import HostEgress, PodIngress
from gpu_platform.stack.team import Team
from gpu_platform.stack.team_network import Destination, Egress

INTERNET: Final = "internet"
CLOUD_APIS: Final = "cloud-apis"
_HTTPS: Final = 443
# Addresses that belong to the node itself or to no host. A team's service never has such an address.
_FORBIDDEN: Final = ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4")
# At this address, the host of an Azure VM serves the VM's settings and certificates, on ports other than 443.
_AZURE_HOST: Final = "168.63.129.16/32"
# Address ranges that a cluster may use for its nodes, pods and services, or that neighbouring networks may use.
_PRIVATE: Final = ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16")
# Domains of the cluster and the node. A host rule must not allow the addresses that these names resolve to.
_OF_THE_CLUSTER: Final = ("cluster.local", "google.internal")
_NOT_PUBLIC: Final = tuple(sorted((*_FORBIDDEN, *_PRIVATE, "192.0.0.0/24", "198.18.0.0/15")))
# Add-ons whose controllers connect to pods of teams: title, chart, and the effect of a refused connection.
_CALLERS: Final = {
    "kuberay": ("KubeRay", "kuberay-operator", "RayJobs never end and RayServices never become ready"),
}


def check_network(team: Team, cloud: Cloud, problems: Problems) -> None:
    """Record problems with the egress and ingress rules of a team. `problems` points to the team."""
    _check_egress(team.egress, cloud, problems.at("egress"))
    sources: set[str] = set()
    for index, source in enumerate(team.ingress):
        here = problems.at("ingress").at(f"[{index}]")
        if (source.namespace is None) == (source.cidr is None):
            here.add(
                "neither namespace nor cidr" if source.cidr is None else "namespace and cidr",
                "one of them",
                "write namespace for pods of the cluster, or cidr for addresses outside it",
            )
            continue
        name = source.namespace or source.cidr or ""
        if name in sources:
            here.add(f"{name} again", "each once", "remove it, or put all ports into one entry")
        sources.add(name)
        if source.namespace == team.name:
            here.at("namespace").add(
                f"{team.name!r}, the team's own",
                "another namespace, because the team's own pods are always admitted",
                "remove it",
            )


def _check_egress(egress: tuple[Egress, ...], cloud: Cloud, problems: Problems) -> None:
    seen: set[str] = set()
    for index, one in enumerate(egress):
        here = problems.at(f"[{index}]")
        if isinstance(one, str):
            name = one
            if one == CLOUD_APIS:
                cloud.network.check_apis(cloud.cluster.provider, here)
        elif (one.cidr is None) == (one.fqdn is None):
            here.add(
                "neither cidr nor fqdn" if one.cidr is None else "cidr and fqdn",
                "one of them",
                "set cidr for a network, or fqdn for hosts by name",
            )
            continue
        else:
            name = one.cidr or one.fqdn or ""
            check_declared_fields(one, cloud.cluster.provider, here)
            _check_destination(one, cloud, here)
        if name in seen:
            here.add(f"{name} again", "each once", "remove it, or put all ports into one entry")
        seen.add(name)


def _check_destination(one: Destination, cloud: Cloud, here: Problems) -> None:
    if one.cidr is not None:
        _check_cidr(one.cidr, here.at("cidr"))
    if one.fqdn is not None:
        cloud.network.check_hosts(here.at("fqdn"))
        if any(f".{one.fqdn}".endswith(f".{domain}") for domain in _OF_THE_CLUSTER):
            here.at("fqdn").add(
                f"{one.fqdn!r}, a name of the cluster or of its nodes",
                "the name of a host outside the cluster",
                "remove it; DNS and identity are allowed, and other namespaces allow connections with `ingress`",
            )


def _check_cidr(cidr: str, here: Problems) -> None:
    network = IPv4Network(cidr)
    held = [one for one in (*_FORBIDDEN, _AZURE_HOST) if network.overlaps(IPv4Network(one))]
    if not held:
        return
    everything = network.prefixlen == 0
    here.add(
        cidr,
        f"a network without {', '.join(held)}, because node credentials and services are reachable at these "
        "addresses",
        "write internet, which is HTTPS to public addresses" if everything else "name a smaller network",
    )


def plan_egress(team: Team, cloud: Cloud) -> tuple[PodEgress, ...]:
    """Return the addresses that the stack file allows the team's pods to connect to."""
    apis = cloud.network.api_egress
    found: list[PodEgress] = []
    for one in team.egress:
        if one == INTERNET:
            found.append(PodEgress(name=INTERNET, cidr="0.0.0.0/0", ports=((_HTTPS, "TCP"),), but=_NOT_PUBLIC))
        elif one == CLOUD_APIS and apis is not None:
            found.append(apis)
        elif isinstance(one, Destination) and one.cidr is not None:
            ports = tuple((port, "TCP") for port in sorted(set(one.ports)))
            found.append(PodEgress(name=one.cidr, cidr=one.cidr, ports=ports))
    return tuple(found)


def plan_hosts(team: Team) -> tuple[HostEgress, ...]:
    """Return the hosts that the stack file allows the team's pods to connect to by name."""
    return tuple(
        HostEgress(host=one.fqdn, ports=tuple(sorted(set(one.ports))))
        for one in team.egress
        if isinstance(one, Destination) and one.fqdn is not None
    )


def plan_ingress(team: Team, addons: Mapping[str, str], catalog: Catalog) -> tuple[PodIngress, ...]:
    """Return the sources that may connect to the team's pods: the sources in the stack file, and the controllers
    that the program installs. `addons` contains the environment's add-ons, and whether each is installed or
    present.
    """
    return (*_declared_ingress(team), *(source for _, source in _controllers(addons, catalog)))


def _declared_ingress(team: Team) -> tuple[PodIngress, ...]:
    return tuple(
        PodIngress(
            namespace=source.namespace,
            cidr=source.cidr,
            ports=tuple(sorted(set(source.ports))),
        )
        for source in team.ingress
    )


def _controllers(addons: Mapping[str, str], catalog: Catalog) -> Iterator[tuple[str, PodIngress]]:
    """Yield each installed add-on whose controller connects to pods of teams, with its namespace and ports."""
    for name, (_, chart, _) in _CALLERS.items():
        if addons.get(name) == "install":
            one = catalog.charts[chart]
            yield name, PodIngress(namespace=one.namespace, cidr=None, ports=one.pod_ports)


def text_of_egress(one: PodEgress | HostEgress) -> str:
    """Return an egress rule as text, such as `10.0.0.0/8 TCP 443` or `public addresses TCP 443`."""
    if isinstance(one, HostEgress):
        return f"{one.host} " + ", ".join(f"TCP {port}" for port in one.ports)
    ports = ", ".join(f"{protocol} {port}" for port, protocol in one.ports)
    where = {INTERNET: "public addresses", CLOUD_APIS: f"APIs of the cloud ({one.cidr})"}.get(one.name, one.cidr)
    return f"{where} {ports}"


def text_of_ingress(one: PodIngress) -> str:
    """Return an ingress rule as text, such as `namespace ingress TCP 8080`."""
    where = one.cidr if one.cidr is not None else f"namespace {one.namespace}"
    return f"{where} " + ", ".join(f"TCP {port}" for port in one.ports)


def _controller_decisions(team: Team, addons: Mapping[str, str], catalog: Catalog) -> Iterator[Decision]:
    subject = f"team {team.name}"
    for name, source in _controllers(addons, catalog):
        why = f"addons.{name}: its controller reads the state of members' workloads from their pods"
        yield Decision(subject=subject, what="ingress", chosen=text_of_ingress(source), why=why)
    for name, (title, chart, effect) in _CALLERS.items():
        ports = catalog.charts[chart].pod_ports
        if addons.get(name) == "present" and not any({*ports} <= {*one.ports} for one in team.ingress):
            yield Decision(
                subject=subject,
                what=f"warning: {title}",
                chosen="its controller is not allowed to connect to the pods of the team",
                why=f"{effect}; write ingress: [{{namespace: NAMESPACE, ports: {list(ports)}}}] in the team, with "
                f"the namespace of {title}",
            )


def network_decisions(
    team: Team, cloud: Cloud, addons: Mapping[str, str], catalog: Catalog
) -> tuple[Decision, ...]:
    """Return the decisions about the egress and ingress of a team.

    If the team cannot reach its cloud resources, one decision explains why. `addons` contains the environment's
    add-ons.
    """
    found: list[Decision] = []
    subject = f"team {team.name}"
    for what, chosen, beside in (
        (
            "egress",
            [text_of_egress(one) for one in (*plan_egress(team, cloud), *plan_hosts(team))],
            ", DNS and identity",
        ),
        ("ingress", [text_of_ingress(one) for one in _declared_ingress(team)], ""),
    ):
        if chosen:
            why = f"teams[].{what}; in addition to the namespace of the team{beside}"
            found.append(Decision(subject=subject, what=what, chosen="; ".join(chosen), why=why))
    found += _controller_decisions(team, addons, catalog)
    if cloud.network.host_policy == "CiliumNetworkPolicy":
        hosts = ", ".join(one.host for one in plan_hosts(team)) or "none"
        why = "cluster.network_policies is Cilium, which enforces host names; the team has one CiliumNetworkPolicy"
        found.append(Decision(subject=subject, what="hosts by name", chosen=hosts, why=why))
    if CLOUD_APIS in team.egress:
        address = cloud.network.api_egress
        if address is not None:
            why = cloud.network.api_egress_note
            found.append(Decision(subject=subject, what="cloud-apis", chosen=address.cidr, why=why))
    if team.identity is not None and not team.egress:
        unreachable = "buckets" if team.identity.buckets else "cloud resources"
        why = (
            f"pods cannot reach the {unreachable} of the identity: write egress: [internet], or the network of "
            "the VPC's endpoints"
        )
        found.append(Decision(subject=subject, what="egress", chosen="none", why=why))
    return tuple(found)
