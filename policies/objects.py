"""Rules about Services and device claims of teams.

In the namespaces of teams, the API server enforces rules with the same ids.

Sources: CVE-2020-8554 (external addresses of Services); Kubernetes docs, Service, "ExternalName" (its warning);
Kubernetes docs, Dynamic Resource Allocation, "Admin access"; resource.k8s.io/v1, v1beta2 and v1beta1. Read
2026-11-25.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpu_platform.base import names
from policies._inputs import Value
from policies._pools import pools
from policies._rule import Breach, Rule, Severity
from policies._stack import ObjectSubject, Stack
from policies.isolation import SystemSettings


@dataclass(frozen=True, slots=True, eq=False)
class Service(ObjectSubject):
    """One Service."""


def services(stack: Stack) -> tuple[Service, ...]:
    """Return every Service."""
    return tuple(Service(resource) for resource in stack.of_kind("core/Service"))


def _external_addresses(_: Stack, service: Service, settings: SystemSettings) -> Iterator[Breach]:
    if (service.resource.inputs.get("metadata", "namespace").text() or "") in settings.system_namespaces:
        return
    addresses = service.resource.inputs.get("spec", "externalIPs")
    if found := addresses.items():
        yield Breach(
            at=addresses,
            found="externalIPs " + ", ".join(one.text() or "?" for one in found),
            allowed="none, because nodes send the traffic for any such address to the Service's pods",
            fix="remove them, and use type: LoadBalancer",
        )


service_external_address = Rule(
    id="service-external-address",
    severity=Severity.HIGH,
    description="A Service does not choose its external addresses. Otherwise it could take traffic of other pods.",
    subjects=lambda stack: stack.view(services),
    check=_external_addresses,
    settings=SystemSettings,
)


def _external_name(_: Stack, service: Service, settings: SystemSettings) -> Iterator[Breach]:
    if (service.resource.inputs.get("metadata", "namespace").text() or "") in settings.system_namespaces:
        return
    kind = service.resource.inputs.get("spec", "type")
    if kind.text() == "ExternalName":
        yield Breach(
            at=kind,
            found="type ExternalName",
            allowed="Services for pods, because an ingress controller contacts the external host from its own "
            "network",
            fix="use the host's name in the pods, or set a selector",
        )


service_external_name = Rule(
    id="service-external-name",
    severity=Severity.HIGH,
    description="A Service selects pods. With an external name, an ingress controller could contact any host for "
    "a team.",
    subjects=lambda stack: stack.view(services),
    check=_external_name,
    settings=SystemSettings,
)


@dataclass(frozen=True, slots=True, eq=False)
class DeviceClaim(ObjectSubject):
    """One device claim, or a template of claims."""

    @property
    def requests(self) -> Iterator[Value]:
        """Requests of the claim, including each alternative of a request. Raises NotVisible."""
        spec = self.resource.inputs.get("spec")
        devices = spec.get("spec", "devices") if spec.get("spec").present else spec.get("devices")
        for request in devices.get("requests").items():
            yield request  # in v1beta1, the request itself contains the fields
            yield request.get("exactly")
            yield from request.get("firstAvailable").items()


def device_claims(stack: Stack) -> tuple[DeviceClaim, ...]:
    """Return every device claim and every claim template."""
    kinds = ("resource.k8s.io/ResourceClaim", "resource.k8s.io/ResourceClaimTemplate")
    return tuple(DeviceClaim(resource) for resource in stack.of_kind(*kinds))


def _claimed_too_much(stack: Stack, claim: DeviceClaim, settings: SystemSettings) -> Iterator[Breach]:
    if (claim.resource.inputs.get("metadata", "namespace").text() or "") in settings.system_namespaces:
        return
    requests = list(claim.requests)
    if not requests:
        yield Breach(
            at=claim.resource.inputs.get("spec"),
            found="a claim without requests",
            allowed="a claim with requests, because its pods run on GPU nodes",
            fix="add a request, or remove the claim",
        )
    for request in requests:
        admin, count = request.get("adminAccess"), request.get("count")
        if admin.truth():
            yield Breach(
                admin,
                "adminAccess: true",
                "only free devices, because admin access includes devices of other pods",
                "remove it",
            )
        tolerations = request.get("tolerations")
        if tolerations.items():
            yield Breach(
                at=tolerations,
                found="tolerations",
                allowed="devices without taints, because drivers taint broken devices",
                fix="remove it",
            )
        if request.get("deviceClassName").text() == names.DOMAIN_DAEMON_CLASS:
            yield Breach(
                at=request.get("deviceClassName"),
                found=names.DOMAIN_DAEMON_CLASS,
                allowed="other classes, because only the daemons of the DRA driver may claim this device",
                fix="create a ComputeDomain, and claim its channel with the template that the driver creates",
            )
        if request.get("deviceClassName").text() != names.GPU_DEVICE_CLASS or (count.whole() or 1) <= 1:
            continue
        sizes = [pool.gpus_per_node for pool in stack.view(pools) if pool.has_gpus]
        if not stack.view(pools):
            sizes = [machine.gpu_count for machine in stack.catalog.machine_types.values()]
        if (count.whole() or 1) > (most := max(sizes, default=0)):
            yield Breach(
                at=count,
                found=f"{count.whole()} of {names.GPU_DEVICE_CLASS} in one request",
                allowed=f"at most {most}, the number of GPUs on a node, because a claim is for one node",
                fix="split the work over several pods",
            )


gpu_claim_requests = Rule(
    id="gpu-claim-requests",
    severity=Severity.CRITICAL,
    description="A claim requests free GPUs, at most as many as a node has. `adminAccess` would include GPUs of "
    "other pods, tolerations would include broken GPUs, and the daemon class of ComputeDomains would give access "
    "to the domains of other teams.",
    subjects=lambda stack: stack.view(device_claims),
    check=_claimed_too_much,
    settings=SystemSettings,
)

RULES = (gpu_claim_requests, service_external_address, service_external_name)
