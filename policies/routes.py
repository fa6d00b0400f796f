"""Rules about Ingresses, Gateway routes and Services of teams. The controllers of these objects serve all
namespaces.

In the namespaces of teams, the API server enforces rules with the same ids. Sources:
gpu_platform/catalog/route_limits.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpu_platform.catalog.route_limits import ANNOTATIONS, HARMLESS_ANNOTATIONS, allows
from policies._inputs import Value
from policies._rule import Breach, Rule, Severity
from policies._stack import ObjectSubject, Stack
from policies.isolation import SystemSettings

_ROUTES: Final = (
    "networking.k8s.io/Ingress",
    "gateway.networking.k8s.io/HTTPRoute",
    "gateway.networking.k8s.io/GRPCRoute",
)


@dataclass(frozen=True, slots=True, eq=False)
class Route(ObjectSubject):
    """One Ingress, HTTPRoute or GRPCRoute."""

    @property
    def hosts(self) -> Iterator[tuple[Value, str]]:
        """Hosts of the route, each with its path. A host is empty if the route is for all hosts. Raises
        NotVisible.
        """
        spec = self.resource.inputs.get("spec")
        if self.resource.kind != _ROUTES[0]:
            names = spec.get("hostnames").items()
            yield from ((one, one.text() or "") for one in names)
            if not names:
                yield spec, ""
            return
        if spec.get("defaultBackend").present:
            yield spec.get("defaultBackend"), ""
        for rule in spec.get("rules").items():
            yield rule, rule.get("host").text() or ""
        for certificate in spec.get("tls").items():
            yield from ((one, one.text() or "") for one in certificate.get("hosts").items())


def routes(stack: Stack) -> tuple[Route, ...]:
    """Return every route."""
    return tuple(Route(resource) for resource in stack.of_kind(*_ROUTES))


class RouteHostSettings(SystemSettings):
    """Hosts that routes may name."""

    hosts: tuple[str, ...] = ()
    """Hosts that routes may name. `*.` and a domain allow all names below the domain. `*` allows all hosts, and
    routes without a host.
    """


def _takes_hosts(_: Stack, route: Route, settings: RouteHostSettings) -> Iterator[Breach]:
    if route.resource.seen_namespace() in settings.system_namespaces:
        return
    for at, host in route.hosts:
        if any(allows(host, pattern) for pattern in settings.hosts):
            continue
        yield Breach(
            at=at,
            found=f"host {host}" if host else "a route for all hosts",
            allowed=", ".join(settings.hosts)
            or "no host, because the owner of a route receives all requests for its host",
            fix="use a host of the team, or add the host to teams[].routes of the stack file",
        )


route_host = Rule(
    id="route-host",
    severity=Severity.HIGH,
    description="Routes of a team use only hosts that the stack file assigns to it. Otherwise they could "
    "take the requests of other teams.",
    subjects=lambda stack: stack.view(routes),
    check=_takes_hosts,
    settings=RouteHostSettings,
)


@dataclass(frozen=True, slots=True, eq=False)
class Exposed(ObjectSubject):
    """One route or Service."""


def exposed(stack: Stack) -> tuple[Exposed, ...]:
    """Return every route and Service."""
    return tuple(Exposed(resource) for resource in stack.of_kind(*_ROUTES, "core/Service"))


class AnnotationSettings(SystemSettings):
    """Annotations of controllers that routes and Services may have."""

    annotations: tuple[str, ...] = ()
    """Additional allowed annotations. Annotations that only affect traffic to the team's own pods are always
    allowed.
    """


def _asks_controllers(_: Stack, one: Exposed, settings: AnnotationSettings) -> Iterator[Breach]:
    if one.resource.seen_namespace() in settings.system_namespaces:
        return
    free = (*HARMLESS_ANNOTATIONS, *settings.annotations)
    for key, value in one.resource.inputs.get("metadata", "annotations").entries():
        if key.startswith(ANNOTATIONS) and key not in free:
            yield Breach(
                at=value,
                found=f"annotation {key}",
                allowed="annotations that only affect traffic to the team's own pods",
                fix="remove it, or add it to teams[].routes of the stack file",
            )


route_annotation = Rule(
    id="route-annotation",
    severity=Severity.HIGH,
    description="Annotations of routes and Services are limited: controllers act on them with permissions that "
    "teams lack.",
    subjects=lambda stack: stack.view(exposed),
    check=_asks_controllers,
    settings=AnnotationSettings,
)

RULES = (route_annotation, route_host)
