"""Limit hosts and annotations of a team's Ingresses, routes and Services, because their controllers serve all
namespaces.

The limits are in gpu_platform/catalog/route_limits.py, and the rules in gpu_platform/catalog/rules/routes.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu_platform.catalog.admission_rules import Value
from gpu_platform.catalog.route_limits import ANNOTATIONS, EVERY_HOST, HARMLESS_ANNOTATIONS, allows
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.team import Team


def hosts_of(team: Team) -> tuple[str, ...]:
    """Return the hosts that a team's routes may name, from the stack file and its inference services."""
    return tuple(dict.fromkeys(_places_of_hosts(team).values()))


def _places_of_hosts(team: Team) -> dict[str, str]:
    """Return the hosts of a team by their places in its entry of the stack file."""
    services = ((f"inference_services[{index}]", one.route) for index, one in enumerate(team.inference_services))
    return {
        **{f"routes.hosts[{index}]": host for index, host in enumerate(team.routes.hosts)},
        **{
            f"{place}.route.hostname": route.hostname
            for place, route in services
            if route is not None and route.hostname is not None
        },
    }


def _of_all_hosts(team: Team) -> tuple[str, ...]:
    """Return the names of a team's declared routes that match all hosts of their gateway."""
    return tuple(
        one.name for one in team.inference_services if one.route is not None and one.route.hostname is None
    )


def routes_of(teams: Sequence[Team]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the hosts and annotations of all teams, for rules that apply to all teams together."""
    hosts = dict.fromkeys(host for team in teams for host in hosts_of(team))
    if any(_of_all_hosts(team) for team in teams):
        hosts[EVERY_HOST] = None
    return tuple(hosts), tuple(dict.fromkeys(one for team in teams for one in team.routes.annotations))


def check_routes(teams: Sequence[tuple[str, Team]], problems: Problems) -> None:
    """Record a problem for each host that two teams declare, and for services with the same gateway and host.

    Each entry of `teams` is a pair: the team's path in the stack file, and the team.
    """
    first: dict[tuple[str, str], str] = {}
    earlier: list[tuple[str, tuple[str, ...]]] = []
    for path, team in teams:
        for place, host in _places_of_hosts(team).items():
            for other, hosts in earlier:
                taken = next((one for one in hosts if _overlap(host, one)), None)
                if taken is not None:
                    Problems(f"{path}.{place}", problems.found).add(
                        f"{host!r}, which overlaps {taken!r} of team {other}",
                        "hosts of only one team, because the team that owns the route gets the requests",
                        "name a host, or a domain, for each team",
                    )
        earlier.append((team.name, hosts_of(team)))
        for number, service in enumerate(team.inference_services):
            if service.route is None:
                continue
            # Hosts of other teams are compared above.
            host = f"{service.route.hostname} of {team.name}" if service.route.hostname else EVERY_HOST
            name = f"{team.name}/{service.name}"
            same = first.setdefault((service.route.gateway, host), name)
            if same != name:
                Problems(f"{path}.inference_services[{number}].route", problems.found).add(
                    f"the gateway and host of {same}",
                    "one service for each gateway and host, because the older route gets all requests",
                    "write another hostname",
                )


def _overlap(one: str, other: str) -> bool:
    if EVERY_HOST in (one, other):
        return True
    return allows(one, other) or allows(other, one)


def route_values(team: Team) -> Mapping[str, Value]:
    """Return the parameters of the admission rules for a team's Ingresses, HTTPRoutes, GRPCRoutes and Services."""
    hosts = hosts_of(team)
    return {
        "every_host": EVERY_HOST in hosts,
        "route_hosts": [one for one in hosts if not one.startswith("*")],
        "route_domains": [one[1:] for one in hosts if one.startswith("*.")],
        "open_routes": _of_all_hosts(team),
        "route_hosts_text": f"{' or '.join(hosts)}, not other hosts or all hosts" if hosts else "no host",
        "route_annotations": "^(" + "|".join(prefix.replace(".", "[.]") for prefix in ANNOTATIONS) + ")",
        "free_annotations": (*HARMLESS_ANNOTATIONS, *team.routes.annotations),
    }
