"""Rules about Karpenter's limits, its disruption of training, and device claims.

Sources: Karpenter docs, NodePools (limits), Disruption, Settings (enableDRA). Read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpu_platform.base import names
from gpu_platform.catalog.pod_limits import KEEP_FROM_KARPENTER
from policies._eks_pools import KarpenterNodePool
from policies._pools import pools
from policies._rule import Breach, Rule, Settings, Severity
from policies._stack import Stack
from policies._workloads import Workload, workloads

_LIMITS: Final = (names.GPU_RESOURCE, "nodes", "cpu", "memory")


def _pools(stack: Stack) -> tuple[KarpenterNodePool, ...]:
    return tuple(pool for pool in stack.view(pools) if isinstance(pool, KarpenterNodePool))


def _no_limits(_: Stack, pool: KarpenterNodePool, __: Settings) -> Iterator[Breach]:
    limits = pool.resource.inputs.get("spec", "limits")
    if pool.has_gpus and not any(limits.get(key).present for key in _LIMITS):
        yield Breach(
            at=limits,
            found=f"no limits on GPU NodePool {pool.name!r}",
            allowed="a limit for nvidia.com/gpu, nodes, cpu or memory",
            fix='add spec.limits, such as {nvidia.com/gpu: "16"}; otherwise a loop can create nodes without end',
        )


karpenter_gpu_limits = Rule(
    id="karpenter-gpu-limits",
    severity=Severity.CRITICAL,
    description="NodePools with GPUs have limits. Otherwise pending pods could create machines without limit.",
    subjects=lambda stack: stack.view(_pools),
    check=_no_limits,
    settings=Settings,
)


def _consolidates_training(_: Stack, pool: KarpenterNodePool, __: Settings) -> Iterator[Breach]:
    policy = pool.resource.inputs.get("spec", "disruption", "consolidationPolicy")
    if pool.workload == "training" and policy.text() in (None, "WhenEmptyOrUnderutilized"):
        yield Breach(
            at=policy,
            found=f"consolidationPolicy {policy.text() or 'WhenEmptyOrUnderutilized (default)'} for training",
            allowed="WhenEmpty",
            fix="set spec.disruption.consolidationPolicy: WhenEmpty, with a consolidateAfter",
        )


karpenter_consolidation = Rule(
    id="karpenter-consolidation",
    severity=Severity.MEDIUM,
    description="Training pools are consolidated only when empty. Other consolidation evicts running jobs.",
    subjects=lambda stack: stack.view(_pools),
    check=_consolidates_training,
    settings=Settings,
)


def _may_be_evicted(stack: Stack, workload: Workload, _: Settings) -> Iterator[Breach]:
    if not workload.ends or not workload.trains(stack):
        return
    targets = [pool.name for pool in workload.targets(stack) if isinstance(pool, KarpenterNodePool)]
    annotation = workload.annotations.get(KEEP_FROM_KARPENTER)
    if targets and annotation.text() != "true":
        yield Breach(
            at=annotation,
            found=f"training pods that Karpenter may evict from its nodes ({', '.join(dict.fromkeys(targets))})",
            allowed=f'the annotation {KEEP_FROM_KARPENTER}: "true" on the pods',
            fix="add it to the pod template; the annotation no longer applies when the job ends",
        )


karpenter_do_not_disrupt = Rule(
    id="karpenter-do-not-disrupt",
    severity=Severity.HIGH,
    description="Training pods on Karpenter's nodes have the annotation against disruption. Otherwise drift or "
    "consolidation evicts them.",
    subjects=lambda stack: stack.view(workloads),
    check=_may_be_evicted,
    settings=Settings,
    before_only="depends on the NodePool; at admission, `node-keeping` limits how long a pod may keep its node",
)


def _claims_not_simulated(stack: Stack, workload: Workload, _: Settings) -> Iterator[Breach]:
    claims = workload.pod_spec.get("resourceClaims")
    if not claims.items():
        return
    targets = workload.targets(stack)
    if not targets or not all(isinstance(pool, KarpenterNodePool) for pool in targets):
        return
    for release in stack.of_kind("helm.sh/Release", "helm.sh/Chart"):
        if (release.inputs.get("chart").text() or "").rstrip("/").rpartition("/")[2] != "karpenter":
            continue
        if release.inputs.get("values", "settings", "enableDRA").truth():
            return
    yield Breach(
        at=claims,
        found="device claims on nodes that only Karpenter creates",
        allowed="Karpenter with settings.enableDRA, or a pool of another provisioner",
        fix="set enableDRA; otherwise Karpenter ignores the claim and creates no node for the pod",
    )


dra_with_karpenter = Rule(
    id="dra-with-karpenter",
    severity=Severity.HIGH,
    description="Device claims need a Karpenter that supports them. Otherwise it creates no nodes for such pods.",
    subjects=lambda stack: stack.view(workloads),
    check=_claims_not_simulated,
    settings=Settings,
    before_only="depends on the installed Karpenter and its pools, and a team's manifests contain neither",
)

RULES = (karpenter_gpu_limits, karpenter_consolidation, karpenter_do_not_disrupt, dra_with_karpenter)
