"""Compares the software of an existing cluster with the software that `up` would install."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from gpu_platform.catalog import Catalog
from gpu_platform.catalog.models import CrdField
from gpu_platform.online.finding import OnlineFinding, Severity
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.clouds.part_crds import Definitions, crd_problems
from gpu_platform.planning.clouds.parts import PartPlan
from gpu_platform.planning.parts import cluster_parts
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.queues.section import QueuesPlan

SERVICE_MONITORS: Final = "servicemonitors.monitoring.coreos.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A Deployment or DaemonSet.

    `owner` is its Helm release or manager, or empty if it has none. `selective` is true if its pods run only on
    selected nodes.
    """

    kind: str
    namespace: str
    name: str
    images: tuple[str, ...]
    owner: str
    selective: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" + (f" ({self.owner})" if self.owner else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """Installed software of a cluster.

    `deployed` is true if the validation namespace exists, which means that `up` ran before.
    """

    workloads: tuple[Workload, ...]
    crds: Definitions
    admission_policies: tuple[str, ...]
    """Names of the ValidatingAdmissionPolicies."""
    deployed: bool


_Effect = Literal["collides", "disturbs", "beside"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Product:
    """Software that is recognised by its images. `why` describes how the software affects `up`."""

    title: str
    image: str
    effect: _Effect
    why: str
    fix: str = ""
    part: str = ""
    """Name of the software's field in `cluster.parts`."""


# Image names from the projects' charts, without registry or tag. They have not been checked against every release.
_PRODUCTS: Final = (
    _Product(
        title="GPU Operator",
        image=r"/gpu-operator[:@]",
        effect="collides",
        why="a cluster has only one ClusterPolicy, so two operators would replace each other's drivers and labels",
        fix="write cluster.parts.gpu_operator: present, or have its owner remove it",
        part="gpu_operator",
    ),
    _Product(
        title="NVIDIA device plugin",
        image=r"(^|/)k8s-device-plugin[:@]",
        effect="collides",
        why="two device plugins register the same resource, and the kubelet keeps only the last registration",
        fix="write cluster.parts.device_plugin: present, or remove it, because the GPU Operator installs one",
        part="device_plugin",
    ),
    _Product(
        title="Node Feature Discovery",
        image=r"node-feature-discovery[:@]",
        effect="collides",
        why="the GPU Operator installs a second one, and both label the same nodes",
        fix="write cluster.parts.node_feature_discovery: present, or have its owner remove it",
        part="node_feature_discovery",
    ),
    _Product(
        title="DCGM exporter",
        image=r"dcgm-exporter[:@]",
        effect="collides",
        why="metrics of the same GPUs would be collected twice",
        fix="write cluster.parts.dcgm_exporter: present, or exclude the nodes of the pools from it",
        part="dcgm_exporter",
    ),
    _Product(
        title="Karpenter",
        image=r"/karpenter/controller[:@]|/karpenter[:@]",
        effect="beside",
        why="if cluster.parts.karpenter is `present`, pools of this stack can use it; `up` installs no second one",
    ),
    _Product(
        title="Cluster Autoscaler",
        image=r"/cluster-autoscaler[:@]",
        effect="beside",
        why="it finds managed node groups by the tags of EKS; if cluster.parts.cluster_autoscaler is "
        "`present`, `up` installs no second one",
    ),
    _Product(
        title="Kueue", image=r"/kueue[:@]", effect="beside", why="its queues and this program's quotas both apply"
    ),
    _Product(
        title="Kyverno",
        image=r"/kyverno[:@]",
        effect="disturbs",
        why="its policies may refuse privileged pods, which the GPU Operator and the validation need",
        fix="exclude the namespaces of the operator and of the validation",
    ),
    _Product(
        title="Gatekeeper",
        image=r"/gatekeeper[:@]",
        effect="disturbs",
        why="its constraints may refuse privileged pods, which the GPU Operator and the validation need",
        fix="exclude the namespaces of the operator and of the validation",
    ),
)
_TAG: Final = re.compile(r":([^:@/]+)(?:@|$)")
_SEVERITIES: Final[dict[_Effect, Severity]] = {"collides": "stops", "disturbs": "warns", "beside": "fine"}


def compare_installed(plan: EnvironmentPlan, installed: Installed, catalog: Catalog) -> Iterator[OnlineFinding]:
    """Yield findings about installed software that `up` uses, or that conflicts with what `up` installs."""
    own = {plan.operator.namespace} if installed.deployed else set[str]()
    parts = cluster_parts(plan, catalog)
    for product in _PRODUCTS:
        found = [
            one for one in installed.workloads if any(re.search(product.image, image) for image in one.images)
        ]
        yield from _of_product(plan, product, found, own, parts)
    yield from _definitions(plan, installed, parts)
    yield from _monitoring(plan, installed)
    if installed.admission_policies:
        yield OnlineFinding(
            looked_at="admission policies of the cluster",
            severity="warns",
            found=f"ValidatingAdmissionPolicies: {', '.join(installed.admission_policies)}",
            why="a policy may refuse privileged pods, which the GPU Operator and the validation need",
            fix="check whether the policies match the namespaces of the operator and of the validation",
        )


def _of_product(
    plan: EnvironmentPlan,
    product: _Product,
    found: list[Workload],
    own: set[str],
    parts: Sequence[PartPlan],
) -> Iterator[OnlineFinding]:
    looked_at = f"{product.title} in the cluster"
    others = [one for one in found if one.namespace not in own]
    if isinstance(plan.cluster.cloud, EksClusterPlan) and others and not own:
        installed = {part.title: part for part in plan.cluster.cloud.parts if part.install}
        if product.title in installed:
            part = installed[product.title]
            yield OnlineFinding(
                looked_at=looked_at,
                severity="stops",
                found=_listed(others),
                why=part.alone,
                fix=f"write cluster.parts.{part.name}: present, or let its owner remove it",
            )
            return
    if (finding := _too_old(parts, product, others)) is not None:
        yield finding
        return
    if product.title == "Kueue" and plan.queues is not None and (finding := _kueue(plan.queues, others, own)):
        yield finding
        return
    present = product.part and product.part in {part.name for part in plan.operator.parts if not part.install}
    if present and others:
        yield OnlineFinding(
            looked_at=looked_at, severity="fine", found=f"exists already, and is not changed: {_listed(others)}"
        )
    elif present:
        yield OnlineFinding(
            looked_at=looked_at,
            severity="stops",
            found="none",
            why=f"cluster.parts.{product.part} is present, so the program installs none",
            fix="let the owner of the cluster install it, or set the field to `install`",
        )
    elif others:
        # The pods of a DaemonSet with a node selector may not run on the nodes of the pools.
        elsewhere = all(one.kind == "DaemonSet" and one.selective for one in others)
        effect = "disturbs" if product.effect == "collides" and elsewhere else product.effect
        yield OnlineFinding(
            looked_at=looked_at,
            severity=_SEVERITIES[effect],
            found=f"exists already: {_listed(others)}",
            why=product.why,
            fix=product.fix,
        )
    elif product.effect == "collides":
        used = f"this program's: {_listed(found)}" if found else "none"
        yield OnlineFinding(looked_at=looked_at, severity="fine", found=used)


def _too_old(parts: Sequence[PartPlan], product: _Product, others: list[Workload]) -> OnlineFinding | None:
    """Return a finding if a controller of the cluster's owner is too old for the objects that the program creates.

    The image tag of the controller is its release.
    """
    part = next((one for one in parts if one.title == product.title and not one.install), None)
    for one in others if part is not None else ():
        for image in one.images:
            tag = _TAG.search(image)
            if tag is None or part is None or not re.search(product.image, image):
                continue
            if why := part.too_old(tag[1]):
                return OnlineFinding(
                    looked_at=f"{product.title} in the cluster",
                    severity="stops",
                    found=f"{one}, release {tag[1]}",
                    why=why,
                    fix="let its owner upgrade it, with its CRDs and, in a cloud, its IAM policy",
                )
    return None


def _definitions(
    plan: EnvironmentPlan, installed: Installed, parts: Sequence[PartPlan]
) -> Iterator[OnlineFinding]:
    """Yield a finding for each controller whose CRDs would make `up` fail, or lack a field that workloads may
    need.
    """

    def is_needed(one: CrdField) -> bool:
        by_kueue = one.by == "kueue" and plan.queues is not None
        return by_kueue or not one.field or one.crd not in installed.crds

    for part in parts:
        severity: Severity = "stops"
        problems = tuple(crd_problems([part], installed.crds, is_needed))
        if not problems:
            # The plan has no manifests, so it is not known whether a workload sets the field.
            severity = "warns"
            problems = tuple(crd_problems([part], installed.crds, lambda one: one.by == "program"))
        for problem in problems:
            yield OnlineFinding(
                looked_at=f"CRDs of {part.title}",
                severity=severity,
                found=problem.found,
                why=problem.allowed,
                fix=problem.fix.removesuffix("; nothing was changed"),
            )


def _kueue(queues: QueuesPlan, others: list[Workload], own: set[str]) -> OnlineFinding | None:
    """Return a finding if a second Kueue would be installed, or if a Kueue that the stack relies on is missing."""
    looked_at = "Kueue in the cluster"
    if queues.kueue.install == "helm" and others and not own:
        return OnlineFinding(
            looked_at=looked_at,
            severity="stops",
            found=_listed(others),
            why="two installations of Kueue would start and stop the same workloads, and share the CRDs",
            fix="write queueing.kueue: present, or uninstall it first",
        )
    if queues.kueue.install == "present" and not others:
        return OnlineFinding(
            looked_at=looked_at,
            severity="stops",
            found="none",
            why="queueing.kueue is `present`, so the stack relies on the Kueue of the cluster's owner",
            fix="let the owner install it, or set the field to `install`",
        )
    return None


def _monitoring(plan: EnvironmentPlan, installed: Installed) -> Iterator[OnlineFinding]:
    if plan.monitoring is None or not plan.monitoring.service_monitor:
        return
    looked_at = "Prometheus operator in the cluster"
    if SERVICE_MONITORS in installed.crds:
        yield OnlineFinding(looked_at=looked_at, severity="fine", found="its CRDs exist, and `up` uses them")
        return
    yield OnlineFinding(
        looked_at=looked_at,
        severity="stops",
        found=f"no CRD {SERVICE_MONITORS}",
        why="`up` creates a ServiceMonitor, which the API server refuses without the CRD",
        fix="install the Prometheus operator's CRDs, or turn monitoring off in the stack file",
    )


def _listed(workloads: list[Workload]) -> str:
    return ", ".join(str(one) for one in workloads)
