"""Rules about pods that use GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpu_platform.base import names
from policies._inputs import NotVisible
from policies._node_pool import NodeTaint
from policies._offers import units_per_node
from policies._pools import pools
from policies._rule import Breach, Remedy, Rule, Settings, Severity
from policies._stack import ObjectSubject, Resource, Stack
from policies._workloads import Workload, workloads


@dataclass(frozen=True, slots=True, eq=False)
class HelmRelease(ObjectSubject):
    """A Helm release."""


def helm_releases(stack: Stack) -> tuple[HelmRelease, ...]:
    """Return the Helm releases of the stack."""
    kinds = ("helm.sh/Release", "helm.sh/Chart")
    return tuple(HelmRelease(resource) for resource in stack.of_kind(*kinds))


_ANY_GPU_TAINT = NodeTaint(names.GPU_TAINT_KEY, None, "NoSchedule")


class TolerationSettings(Settings):
    """Namespaces in which the API server adds the toleration of the GPU taint."""

    added_in: tuple[str, ...] = ()
    """Namespaces of teams on Kubernetes 1.36 and newer, whose pods have the toleration by default."""


def _no_toleration(stack: Stack, workload: Workload, settings: TolerationSettings) -> Iterator[Breach]:
    if not workload.requests_gpus:
        return
    targets: list[list[NodeTaint]] = []
    unseen: NotVisible | None = None
    for pool in workload.targets(stack):
        try:
            targets.append([taint for taint in pool.taints if taint.keeps_pods_off])
        except NotVisible as gap:
            unseen = gap
    # Without a visible pool, the pod must tolerate the conventional taint of GPU nodes.
    added = names.GPU_TAINT_KEY if workload.namespace in settings.added_in else None
    missing = [
        [taint for taint in taints if taint.key != added and not workload.tolerates(taint)]
        for taints in targets or [[_ANY_GPU_TAINT]]
    ]
    if not all(missing):
        return
    if unseen is not None and targets:
        raise unseen
    fewest = min(missing, key=len)
    yield Breach(
        at=workload.tolerations,
        found="no toleration of " + ", ".join(str(taint) for taint in fewest),
        allowed="tolerations for all taints of a GPU pool on which the pod can be placed",
        fix="add "
        + "; ".join(f"{{key: {taint.key}, operator: Exists, effect: {taint.effect}}}" for taint in fewest),
    )


gpu_toleration = Rule(
    id="gpu-toleration",
    severity=Severity.HIGH,
    description="A pod that requests GPUs tolerates the taints of GPU nodes. Otherwise it stays pending.",
    subjects=lambda stack: stack.view(workloads),
    check=_no_toleration,
    settings=TolerationSettings,
)


def _request_is_not_limit(_: Stack, workload: Workload, __: Settings) -> Iterator[Breach]:
    for container in workload.containers:
        limits = container.limits
        for resource, request in container.requests.items():
            limit = limits.get(resource)
            if limit is not None and request.quantity() == limit.quantity():
                continue
            yield Breach(
                at=request,
                found=f"a request of {request.see()} "
                + (f"with a limit of {limit.see()}" if limit is not None else "without a limit"),
                allowed="requests equal to limits, because a GPU cannot be overcommitted",
                fix=f"write {resource} only under limits; the request defaults to the limit",
                # If the request and the limit differ, the intended number is not known.
                remedy=Remedy(container.spec.get("resources", "limits", resource), request.see())
                if limit is None
                else None,
            )


gpu_requests_equal_limits = Rule(
    id="gpu-requests-equal-limits",
    severity=Severity.HIGH,
    description="GPU requests equal GPU limits. Otherwise the API server refuses the pod.",
    subjects=lambda stack: stack.view(workloads),
    check=_request_is_not_limit,
    settings=Settings,
    before_only="the API server itself refuses such a pod as invalid",
    remedy="a limit equal to the request, if a container has no limit",
)


def _more_than_a_node_has(stack: Stack, workload: Workload, _: Settings) -> Iterator[Breach]:
    requested = workload.requested
    if not requested:
        return
    offers: list[Mapping[str, int]] = []
    unseen: NotVisible | None = None
    for pool in workload.targets(stack):
        try:
            offers.append(units_per_node(stack, pool))
        except NotVisible as gap:
            unseen = gap
    for resource, amount in requested.items():
        if offers:
            most, where = max(offer.get(resource, 0) for offer in offers), "that its node selector allows"
        elif resource == names.GPU_RESOURCE:
            most, where = (
                max(machine.gpu_count for machine in stack.catalog.machine_types.values()),
                "in the catalogue",
            )
        else:
            continue
        if amount <= most and (offers or unseen is None):
            continue
        if unseen is not None and (offers or amount <= most):
            raise unseen
        yield Breach(
            at=workload.pod_spec.get("containers"),
            found=f"{amount:f} of {resource} in one pod",
            allowed=f"at most {most}, the maximum of a node {where}"
            if most
            else f"a resource of the nodes {where}",
            fix="split the work over several pods, or select another pool" if most else "use a pool that has it",
        )


gpu_max_per_container = Rule(
    id="gpu-max-per-container",
    severity=Severity.HIGH,
    description="A pod requests no more GPUs than one node has. Otherwise the scheduler can never place it.",
    subjects=lambda stack: stack.view(workloads),
    check=_more_than_a_node_has,
    settings=Settings,
)


class TargetingSettings(Settings):
    """Node labels that distinguish GPU models or pools."""

    labels: tuple[str, ...] = (
        names.POOL_LABEL,
        names.WORKLOAD_LABEL,
        names.MACHINE_TYPE_LABEL,
        names.GPU_PRODUCT_LABEL,
        names.INSTANCE_TYPE_LABEL,
        names.GKE_ACCELERATOR_LABEL,
        "cloud.google.com/compute-class",
        "cloud.google.com/gke-nodepool",
        "kubernetes.azure.com/agentpool",
        "eks.amazonaws.com/nodegroup",
        "karpenter.k8s.aws/instance-family",
        "karpenter.k8s.aws/instance-gpu-name",
        "karpenter.sh/nodepool",
    )


def _any_gpu_will_do(stack: Stack, workload: Workload, settings: TargetingSettings) -> Iterator[Breach]:
    # A MIG profile, a claim or a custom resource name already determines the GPUs.
    if not {names.GPU_RESOURCE, names.SHARED_GPU_RESOURCE} & set(workload.requested):
        return
    labels = {*settings.labels, *(key for pool in stack.view(pools) for key in pool.selected_by)}
    for index, term in enumerate(workload.node_terms):
        if any(key in labels and operator in ("In", "Exists") for key, operator, _ in term):
            continue
        models = {gpu.model for pool in workload.targets(stack) for gpu in pool.gpus}
        if len(models) == 1:
            return
        terms = len(workload.node_terms)
        yield Breach(
            at=workload.pod_spec.get("nodeSelector"),
            found="no label that names a GPU or a pool"
            + (f" in alternative {index + 1} of {terms}" if terms > 1 else "")
            + (f", with {', '.join(sorted(models))} in the cluster" if models else ""),
            allowed="a node selector, or a requirement in every term of the affinity (terms are alternatives)",
            fix=f"add nodeSelector {names.POOL_LABEL}, or {names.GPU_PRODUCT_LABEL}",
        )
        return


gpu_node_targeting = Rule(
    id="gpu-node-targeting",
    severity=Severity.MEDIUM,
    description="A pod with GPUs selects a model or pool. Otherwise a small job can take the most expensive GPU.",
    subjects=lambda stack: stack.view(workloads),
    check=_any_gpu_will_do,
    settings=TargetingSettings,
    before_only="advice: the pod may be intended to run on any of the GPUs",
)


_FLOATING_TAGS = frozenset({"latest", "main", "master", "stable", "nightly", "edge", "dev"})


def _floating_image(_: Stack, workload: Workload, __: Settings) -> Iterator[Breach]:
    if not workload.requests_gpus:
        return
    for container in workload.containers:
        image = container.spec.get("image")
        text = image.text() or ""
        tag = text.rpartition("/")[2].partition(":")[2]
        if "@sha256:" not in text and (not tag or tag in _FLOATING_TAGS):
            yield Breach(
                at=image,
                found=f"image {text!r}" if text else "no image",
                allowed="a release tag, or preferably a digest",
                fix="use the tag that was tested, with @sha256: and its digest",
            )


def _floating_chart(_: Stack, release: Resource) -> Iterator[Breach]:
    version = release.inputs.get("version")
    text = version.text() or ""
    if not version.present or not text[-1:].isalnum() or any(sign in text for sign in "*^~<>| x"):
        yield Breach(
            at=version,
            found=f"chart version {text!r}" if text else "no chart version",
            allowed="one version",
            fix="use the version that is installed now, as shown by `helm list`",
        )


def _floating(stack: Stack, subject: Workload | HelmRelease, settings: Settings) -> Iterator[Breach]:
    if isinstance(subject, HelmRelease):
        return _floating_chart(stack, subject.resource)
    return _floating_image(stack, subject, settings)


gpu_image_pinned = Rule(
    id="gpu-image-pinned",
    severity=Severity.MEDIUM,
    description=(
        "Images of pods with GPUs, and Helm charts, have a fixed version. Other versions can change on a restart."
    ),
    subjects=lambda stack: (*stack.view(workloads), *stack.view(helm_releases)),
    check=_floating,
    settings=Settings,
    before_only="advice: a moving tag may be intended while an image is developed",
)

RULES = (gpu_toleration, gpu_requests_equal_limits, gpu_max_per_container, gpu_node_targeting, gpu_image_pinned)
