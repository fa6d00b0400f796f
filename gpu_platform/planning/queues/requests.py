"""Check that declared workloads can start on pools whose nodes are requested for one workload at a time.

A ProvisioningRequest for such nodes may contain only one kind of pod. Kueue adds a PodSet for each kind of pod
that requests resources of the pool, even if these pods run on another pool (kubernetes-sigs/kueue v0.19.2,
requiredPodSets and mergePodSets of pkg/controller/admissionchecks/provisioning, and podSets of
pkg/controller/jobs/leaderworkerset; read 2026-11-29). The rule for members is in
gpu_platform/catalog/rules/queues.yaml.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_platform.planning.problems import Problems
from gpu_platform.planning.teams.available import Available
from gpu_platform.planning.teams.declared_pods import declared_pods
from gpu_platform.planning.teams.quota_of_pods import gpu_pods
from gpu_platform.stack.team import Team


def check_requests(team: Team, available: Available, here: Problems) -> None:
    """Record a problem for each declared workload with several kinds of GPU pods, if one of these kinds runs on a
    pool whose nodes are added only for ProvisioningRequests.
    """
    requested = {
        pool.name: {offer.name for offer in pool.resources}
        for pool in available.pools
        if pool.cloud_nodes.nodes_by_request
    }
    entries: dict[str, list[tuple[str, str]]] = {}
    for entry, pool, resource in _kinds(team, available):
        entries.setdefault(entry, []).append((pool, resource))
    for entry, kinds in entries.items():
        for pool in dict.fromkeys(pool for pool, _ in kinds if pool in requested):
            count = sum(1 for _, resource in kinds if resource in requested[pool])
            if count < 2:
                continue
            one = "declare one group of GPU workers" if entry.startswith("ray_clusters") else "write nodes: 1"
            here.at(entry).add(
                f"{count} kinds of pods with GPUs, and pool {pool} with queued capacity",
                "one kind of pod with GPUs, because nodes of a queued pool are requested only for identical pods",
                f"{one}, or use pools without queued: true",
            )
            break


def _kinds(team: Team, available: Available) -> Iterator[tuple[str, str, str]]:
    """Yield the declared workload, pool and resource of each kind of pod. If a workload uses several nodes, its
    leader is a separate kind of pod.
    """
    for one, resource, units in gpu_pods(team, declared_pods(team, available), available.pools):
        for _ in range(min(one.nodes, 2) if units and one.spec.replicas else 0):
            yield one.path.partition(".")[0], one.spec.pool, resource
