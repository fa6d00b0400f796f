"""Limits for hosts and annotations of teams' routes and Services. The policy pack and the admission rules both
check them.

A controller for Ingresses, Gateways, load balancers or DNS names has permissions and network access that the team
does not have, and acts on the annotations of the team's objects. Each limit is defined only here. The two checks
are separate implementations. A test compares their verdicts.

Sources: AWS Load Balancer Controller docs v2.14, Ingress annotations (group.name: everybody who can create
Ingresses can join any group) and Service annotations; ingress-nginx docs, annotations, and CVE-2021-25742,
CVE-2023-5044, CVE-2025-24514, CVE-2025-1974 (annotations that write configuration); GKE docs, Ingress and
container-native load balancing; ExternalDNS docs, annotations; cert-manager docs, "Supported annotations". Read
2026-11-25. AKS docs, "Set up a custom domain name and SSL certificate with the application routing add-on" (the
add-on copies the certificate that an annotation names from the key vault into a Secret of the namespace);
Application Gateway for Containers; kube-vip docs, Services; AWS Gateway API Controller. Read 2026-12-01.
"""

from __future__ import annotations

from typing import Final

ANNOTATIONS: Final = (
    "acme.cert-manager.io/",
    "alb.ingress.kubernetes.io/",
    "alb.networking.azure.io/",
    "appgw.ingress.kubernetes.io/",
    "application-networking.k8s.aws/",
    "cert-manager.io/",
    "cloud.google.com/",
    "configuration.konghq.com",
    "external-dns.",
    "gateway.envoyproxy.io/",
    "getambassador.io/",
    "haproxy-ingress.github.io/",
    "haproxy.org/",
    "ingress.cilium.io/",
    "ingress.gcp.kubernetes.io/",
    "ingress.kubernetes.io/",
    "io.cilium/",
    "k8s.apisix.apache.org/",
    "konghq.com/",
    "kube-vip.io/",
    "kubernetes.azure.com/",
    "kubernetes.io/ingress.",
    "lbipam.cilium.io/",
    "metallb.",
    "networking.gke.io/",
    "networking.istio.io/",
    "nginx.com/",
    "nginx.ingress.kubernetes.io/",
    "nginx.org/",
    "projectcontour.io/",
    "service.beta.kubernetes.io/",
    "service.cilium.io/",
    "tailscale.com/",
    "traefik.",
)
"""Prefixes of annotations for controllers of routes, load balancers and DNS names."""
HARMLESS_ANNOTATIONS: Final = (
    "alb.ingress.kubernetes.io/backend-protocol",
    "alb.ingress.kubernetes.io/backend-protocol-version",
    "alb.ingress.kubernetes.io/healthcheck-interval-seconds",
    "alb.ingress.kubernetes.io/healthcheck-path",
    "alb.ingress.kubernetes.io/healthcheck-port",
    "alb.ingress.kubernetes.io/healthcheck-protocol",
    "alb.ingress.kubernetes.io/healthcheck-timeout-seconds",
    "alb.ingress.kubernetes.io/healthy-threshold-count",
    "alb.ingress.kubernetes.io/success-codes",
    "alb.ingress.kubernetes.io/target-type",
    "alb.ingress.kubernetes.io/unhealthy-threshold-count",
    "cert-manager.io/cluster-issuer",
    "cert-manager.io/issuer",
    "cloud.google.com/app-protocols",
    "kubernetes.io/ingress.allow-http",
    "nginx.ingress.kubernetes.io/backend-protocol",
    "nginx.ingress.kubernetes.io/force-ssl-redirect",
    "nginx.ingress.kubernetes.io/proxy-body-size",
    "nginx.ingress.kubernetes.io/proxy-buffering",
    "nginx.ingress.kubernetes.io/proxy-connect-timeout",
    "nginx.ingress.kubernetes.io/proxy-read-timeout",
    "nginx.ingress.kubernetes.io/proxy-request-buffering",
    "nginx.ingress.kubernetes.io/proxy-send-timeout",
    "nginx.ingress.kubernetes.io/ssl-redirect",
)
"""Exceptions to `ANNOTATIONS`: annotations that only affect how traffic reaches the team's own pods."""
EVERY_HOST: Final = "*"
"""Entry in a list of hosts that stands for all hosts. It also covers routes that specify no host."""


def allows(host: str, pattern: str) -> bool:
    """Return whether a pattern allows a host of a route. An empty host stands for all hosts of a listener.

    `pattern` is a host name, `*.` followed by a domain (all names below the domain), or `*`.
    """
    if pattern == EVERY_HOST:
        return True
    return host == pattern or (pattern.startswith("*.") and host.endswith(pattern[1:]))
