"""Checks with the API server whether all pods of a node can be evicted, before the first pod is evicted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpu_platform.live.client import KubernetesClient, Refused
from gpu_platform.live.disruption import guarded_pod, read_budgets
from gpu_platform.live.pods import daemon_gpu_pods, daemon_set_of, eviction_action, pod_name
from gpu_platform.planning.changes.budgets import Block, DisruptionBudget, block_of, daemon_block, merged

Pod = Mapping[str, Any]


def evicted_pods(pods: Sequence[Pod]) -> list[Pod]:
    """Return the pods that a drain must evict. Pods that are already being deleted are left out."""
    return [pod for pod in pods if eviction_action(pod) != "keep" and "deletionTimestamp" not in pod["metadata"]]


def blocks_of(pods: Sequence[Pod], budgets: Sequence[DisruptionBudget]) -> tuple[Block, ...]:
    """Return the reasons why pods of a node cannot be evicted, according to the status of the budgets."""
    found = (block_of(guarded_pod(pod), budgets) for pod in evicted_pods(pods))
    return merged([*_of_daemons(pods), *(block for block in found if block is not None)])


def ask_evictions(client: KubernetesClient, pods: Sequence[Pod]) -> tuple[Block, ...]:
    """Return the reasons why pods of a node cannot be evicted, according to a dry run of each eviction."""
    return merged([*_of_daemons(pods), *_asked(client, evicted_pods(pods))])


def _of_daemons(pods: Sequence[Pod]) -> Iterator[Block]:
    """For each DaemonSet pod with GPUs, yield the reason why a drain does not evict the pod."""
    for pod in daemon_gpu_pods(pods):
        yield daemon_block(pod_name(pod), daemon_set_of(pod))


def _asked(client: KubernetesClient, pods: Sequence[Pod]) -> Iterator[Block]:
    budgets: Sequence[DisruptionBudget] | None = None
    for pod in pods:
        try:
            client.evict(pod, dry_run=True)
        except Refused as refusal:
            budgets = read_budgets(client) if budgets is None else budgets
            block = block_of(guarded_pod(pod), budgets)
            if block is not None:
                yield block
            elif not _has_no_dry_run(refusal):
                yield _of_refusal(pod, refusal)


def _has_no_dry_run(refusal: Refused) -> bool:
    """Return whether an admission webhook does not support dry runs. In that case, only the budgets decide."""
    return refusal.status == 400 and "does not support dry run" in refusal.message


def _of_refusal(pod: Pod, refusal: Refused) -> Block:
    forever = refusal.status == 403 and "webhook" not in refusal.message
    fix = "allow this user to create pods/eviction" if forever else ""
    return Block(pods=(pod_name(pod),), budgets=(), forever=forever, why=refusal.message, fix=fix)
