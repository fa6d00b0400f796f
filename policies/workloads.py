"""Rules about pods that use GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_platform import names
from policies._inputs import NotVisible
from policies._pools import NodeTaint
from policies._rule import Breach, Rule, Settings, Severity
from policies._stack import Stack
from policies._workloads import Workload, workloads

_ANY_GPU_TAINT = NodeTaint(names.GPU_TAINT_KEY, None, "NoSchedule")


def _no_toleration(stack: Stack, workload: Workload, _: Settings) -> Iterator[Breach]:
    if not workload.requests_gpus:
        return
    targets: list[list[NodeTaint]] = []
    unseen: NotVisible | None = None
    for pool in workload.targets(stack):
        try:
            targets.append([taint for taint in pool.taints if taint.keeps_pods_off])
        except NotVisible as gap:
            unseen = gap
    # Without a visible pool, the taint that GPU nodes have by convention must be tolerated.
    missing = [
        [taint for taint in taints if not workload.tolerates(taint)] for taints in targets or [[_ANY_GPU_TAINT]]
    ]
    if not all(missing):
        return
    if unseen is not None and targets:
        raise unseen
    fewest = min(missing, key=len)
    yield Breach(
        at=workload.tolerations,
        found="no toleration of " + ", ".join(str(taint) for taint in fewest),
        allowed="tolerations of all taints of a GPU pool that it can be placed on",
        fix="add "
        + "; ".join(f"{{key: {taint.key}, operator: Exists, effect: {taint.effect}}}" for taint in fewest),
    )


gpu_toleration = Rule(
    id="gpu-toleration",
    severity=Severity.HIGH,
    description="A pod that requests GPUs tolerates the taints of GPU nodes: otherwise it stays pending.",
    subjects=lambda stack: stack.view(workloads),
    check=_no_toleration,
    settings=Settings,
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
                allowed="requests equal to limits: a GPU is not overcommitted",
                fix=f"write {resource} under limits only; the request follows",
            )


gpu_requests_equal_limits = Rule(
    id="gpu-requests-equal-limits",
    severity=Severity.HIGH,
    description="GPU requests equal GPU limits: the API server refuses the pod otherwise.",
    subjects=lambda stack: stack.view(workloads),
    check=_request_is_not_limit,
    settings=Settings,
)

RULES = (gpu_toleration, gpu_requests_equal_limits)
