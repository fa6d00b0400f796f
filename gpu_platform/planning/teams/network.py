"""Decide whom the pods of a team may reach beyond their namespace, and who may reach them.

A NetworkPolicy allows; the namespace denies everything else. Sources: Kubernetes docs, Network Policies (ipBlock
and its exceptions); IANA IPv4 Special-Purpose Address Registry; RFC 3927 (link-local), where clouds serve
credentials of nodes. Read 2026-11-23.
"""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Final

from gpu_platform.planning.clouds.section import PodEgress
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.teams.section import PodIngress
from gpu_platform.spec.team import Team
from gpu_platform.spec.team_network import Egress

INTERNET: Final = "internet"
_HTTPS: Final = 443
# Of the node or of nobody: an address here is never a service that a team needs.
_FORBIDDEN: Final = ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4")
# Where the nodes, pods and services of a cluster are, and its neighbours.
_PRIVATE: Final = ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16")
_NOT_PUBLIC: Final = tuple(sorted((*_FORBIDDEN, *_PRIVATE, "192.0.0.0/24", "198.18.0.0/15")))


def check_network(team: Team, problems: Problems) -> None:
    """Record what is wrong with egress and ingress of a team; `problems` is at the team."""
    seen: set[str] = set()
    for index, one in enumerate(team.egress):
        here = problems.at("egress").at(f"[{index}]")
        name = INTERNET if isinstance(one, str) else one.cidr
        if name in seen:
            here.add(f"{name} again", "each network once", "remove it, or write all ports into one entry")
        seen.add(name)
        if not isinstance(one, str):
            _check_cidr(one.cidr, here.at("cidr"))
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
            here.add(f"{name} again", "each once", "remove it, or write all ports into one entry")
        sources.add(name)
        if source.namespace == team.name:
            here.at("namespace").add(
                f"{team.name!r}, the team's own", "another namespace: its own pods are admitted", "remove it"
            )


def _check_cidr(cidr: str, here: Problems) -> None:
    network = IPv4Network(cidr)
    held = [one for one in _FORBIDDEN if network.overlaps(IPv4Network(one))]
    if not held:
        return
    everything = network.prefixlen == 0
    here.add(
        cidr,
        f"a network without {', '.join(held)}: nodes have credentials and services of their own there",
        "write internet, which is HTTPS to public addresses" if everything else "name a smaller network",
    )


def plan_egress(team: Team) -> tuple[PodEgress, ...]:
    """Return what the stack file lets pods of the team reach."""
    return tuple(_planned(one) for one in team.egress)


def _planned(one: Egress) -> PodEgress:
    if isinstance(one, str):
        return PodEgress(name=INTERNET, cidr="0.0.0.0/0", ports=((_HTTPS, "TCP"),), but=_NOT_PUBLIC)
    ports = tuple((port, "TCP") for port in sorted(set(one.ports)))
    return PodEgress(name=f"to-{_slug(one.cidr)}", cidr=one.cidr, ports=ports)


def plan_ingress(team: Team) -> tuple[PodIngress, ...]:
    """Return who may reach pods of the team by the stack file."""
    return tuple(
        PodIngress(
            name=f"from-{_slug(source.namespace or source.cidr or '')}",
            namespace=source.namespace,
            cidr=source.cidr,
            ports=tuple(sorted(set(source.ports))),
        )
        for source in team.ingress
    )


def _slug(text: str) -> str:
    return text.replace("/", "-")


def text_of_egress(one: PodEgress) -> str:
    """Return what may be reached as text: `10.0.0.0/8 TCP 443`, `public addresses TCP 443`."""
    ports = ", ".join(f"{protocol} {port}" for port, protocol in one.ports)
    return f"{'public addresses' if one.name == INTERNET else one.cidr} {ports}"


def text_of_ingress(one: PodIngress) -> str:
    """Return who may reach the pods as text: `namespace ingress TCP 8080`."""
    where = one.cidr if one.cidr is not None else f"namespace {one.namespace}"
    return f"{where} " + ", ".join(f"TCP {port}" for port in one.ports)


def network_decisions(team: Team) -> tuple[Decision, ...]:
    """Return what the team chose, and what stays denied."""
    found: list[Decision] = []
    for what, chosen in (
        ("egress", [text_of_egress(one) for one in plan_egress(team)]),
        ("ingress", [text_of_ingress(one) for one in plan_ingress(team)]),
    ):
        if chosen:
            why = f"teams[].{what}; beside its namespace{', DNS and identity' if what == 'egress' else ''}"
            found.append(Decision(subject=f"team {team.name}", what=what, chosen="; ".join(chosen), why=why))
    if team.identity is not None and not team.egress:
        why = "its buckets stay out of reach: write egress: [internet], or the network of the VPC's endpoints"
        found.append(Decision(subject=f"team {team.name}", what="egress", chosen="none", why=why))
    return tuple(found)
