"""Admission rules of a team's Ingresses, Gateway routes and Services, whose controllers serve all namespaces.

What is limited: gpu_platform/catalog/route_limits.py. The ids are those of the policy pack.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpu_platform.catalog.route_limits import ANNOTATIONS, EVERY_HOST, HARMLESS_ANNOTATIONS, allows
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.teams.admission_rule import PodRule
from gpu_platform.planning.teams.cel import text, texts
from gpu_platform.stack.team import Team

ROUTE_CHANGES: Final = (
    "request.operation == 'CREATE' || object.spec != oldObject.spec || "
    "object.metadata.?annotations.orValue({}) != oldObject.metadata.?annotations.orValue({})"
)
"""That a request changes what controllers read, as CEL: what is older than a rule can be deleted."""
_SPEC: Final = "dyn(object.spec)"


def hosts_of(team: Team) -> tuple[str, ...]:
    """Return the hosts that routes of a team may name: those of the stack file, and of its inference services."""
    declared = (one.route.hostname for one in team.inference_services if one.route is not None)
    return tuple(dict.fromkeys((*team.routes.hosts, *(one for one in declared if one is not None))))


def _of_all_hosts(team: Team) -> tuple[str, ...]:
    """Return the names of the declared routes that are for all hosts of their gateway."""
    return tuple(
        one.name for one in team.inference_services if one.route is not None and one.route.hostname is None
    )


def routes_of(teams: Sequence[Team]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the hosts and annotations of any team, for rules that are not specific to a team."""
    hosts = dict.fromkeys(host for team in teams for host in hosts_of(team))
    if any(_of_all_hosts(team) for team in teams):
        hosts[EVERY_HOST] = None
    return tuple(hosts), tuple(dict.fromkeys(one for team in teams for one in team.routes.annotations))


def check_routes(teams: Sequence[tuple[str, Team]], problems: Problems) -> None:
    """Record hosts of one team that another one has, too. `teams`: place in the file, team."""
    for index, (path, team) in enumerate(teams):
        for number, host in enumerate(team.routes.hosts):
            for other in (team for _, team in teams[:index]):
                taken = next((one for one in hosts_of(other) if _overlap(host, one)), None)
                if taken is not None:
                    Problems(f"{path}.routes.hosts[{number}]", problems.found).add(
                        f"{host!r}, which overlaps {taken!r} of team {other.name}",
                        "hosts of one team only: the owner of the route gets the requests",
                        "name a host, or a domain, for each team",
                    )


def _overlap(one: str, other: str) -> bool:
    if EVERY_HOST in (one, other):
        return True
    return allows(one, other) or allows(other, one)


def route_rules(team: Team) -> tuple[PodRule, ...]:
    """Return the rules of a team's Ingresses, HTTPRoutes, GRPCRoutes and Services."""
    return (_host_rule(team), _annotation_rule(team))


def _host_rule(team: Team) -> PodRule:
    hosts, declared = hosts_of(team), _of_all_hosts(team)
    named = texts(one for one in hosts if not one.startswith("*"))
    below = texts(one[1:] for one in hosts if one.startswith("*."))
    may = f"(HOST in {named} || {below}.exists(domain, HOST.endsWith(domain)))"

    def each(items: str, host: str) -> str:
        return f"{items}.orValue([]).all(one, {may.replace('HOST', host)})"

    # A rule without a host and a default backend take all hosts that nobody else has.
    ingress = (
        f"!has({_SPEC}.defaultBackend) && {each(f'{_SPEC}.?rules', 'one.?host.orValue(' + repr('') + ')')} && "
        f"{_SPEC}.?tls.orValue([]).all(each, {each('each.?hosts', 'one')})"
    )
    route = f"{_SPEC}.?hostnames.orValue([]).size() > 0 && {each(f'{_SPEC}.?hostnames', 'one')}"
    if declared:
        route = f"object.metadata.name in {texts(declared)} || ({route})"
    return PodRule(
        id="route-host",
        expression="true"
        if EVERY_HOST in hosts
        else f"object.kind == 'Service' || (object.kind == 'Ingress' ? {ingress} : {route})",
        message=f"Ingresses and routes of this namespace name {' or '.join(hosts) or 'no host'}"
        + (", and no other or all hosts" if hosts else "")
        + ": they would take requests of others; an administrator adds hosts in teams[].routes of the stack file",
    )


def _annotation_rule(team: Team) -> PodRule:
    free = (*HARMLESS_ANNOTATIONS, *team.routes.annotations)
    # One call for each annotation: CEL's time grows with the square of the operators in a loop.
    read = "^(" + "|".join(prefix.replace(".", "[.]") for prefix in ANNOTATIONS) + ")"
    return PodRule(
        id="route-annotation",
        expression=f"object.metadata.?annotations.orValue({{}}).filter(key, key.matches({text(read)}))"
        f".all(key, key in {texts(free)})",
        message="controllers read this annotation and act with rights that the team lacks: remove it; an "
        "administrator adds annotations in teams[].routes of the stack file",
    )
