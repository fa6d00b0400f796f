"""Deletes load balancers, and waits until volumes are deleted, before the cluster itself is deleted. The cloud
would otherwise keep them.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpu_platform.base.progress import Progress
from gpu_platform.base.quantity import counted
from gpu_platform.deploy.embedded.applyset import ApplySet
from gpu_platform.deploy.embedded.wait import DEFAULT_TIMEOUT_SECONDS, Waiter
from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.cloud_objects import CloudVolume, load_balancer_objects


def delete_load_balancers(
    client: KubernetesClient, stack: str, progress: Progress, timeout: float = DEFAULT_TIMEOUT_SECONDS
) -> None:
    """Delete all Gateways, Ingresses and Services with load balancers, and wait until the cloud has deleted the
    load balancers.

    A finalizer keeps each object until its load balancer is deleted. Raises NotReady with the objects and
    finalizers that are left after `timeout` seconds.
    """
    waiter = Waiter(client, ApplySet(client, stack), progress)
    for lives in load_balancer_objects(client):
        if not lives:
            continue
        with progress.step(f"deleting {counted(len(lives), lives[0]['kind'])} with load balancers"):
            for live in lives:
                client.delete(live)
            waiter.until_deleted(lives, timeout)


def wait_for_volumes(
    client: KubernetesClient,
    stack: str,
    volumes: Sequence[CloudVolume],
    progress: Progress,
    timeout: float = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Wait until the cloud has deleted the volumes of deleted claims.

    Raises NotReady for volumes that are left after `timeout` seconds.
    """
    if volumes:
        waiter = Waiter(client, ApplySet(client, stack), progress)
        with progress.step(f"deleting {counted(len(volumes), 'volume')} of claims"):
            waiter.until_deleted([volume.live for volume in volumes], timeout)
