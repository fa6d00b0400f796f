"""Register the providers; a new one is a function in a subpackage of its own and a case here.

A provider is imported for its own stacks alone: all of them take a tenth of the start-up time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu_platform.planning.clouds.first_stack import FirstStack
from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.planning.maintenance.section import WindowPlan
from gpu_platform.stack.cluster import Cluster, EksCluster, ExistingCluster, GkeCluster, SandboxCluster
from gpu_platform.stack.pool import Pool
from gpu_platform.stack.storage import StorageClass


def cloud_of(
    cluster: Cluster,
    window: WindowPlan | None = None,
    *,
    storage: Mapping[str, StorageClass] | None = None,
    members: Sequence[str] = (),
    identities: Sequence[str] = (),
    teams: Sequence[str] = (),
    pools: Sequence[Pool] = (),
) -> Cloud:
    """Return the provider of a stack file's cluster.

    `window`: that of `changes`; `storage`: declared classes; `teams`: names of all its teams, `members`: of all of
    them; `identities`: teams that have one; `pools`: all of the stack.
    """
    match cluster:
        case SandboxCluster():
            from gpu_platform.planning.clouds.sandbox.cloud import sandbox

            return sandbox(cluster)
        case ExistingCluster():
            from gpu_platform.planning.clouds.existing.cloud import existing

            return existing(cluster)
        case EksCluster():
            from gpu_platform.planning.clouds.eks.cloud import eks

            return eks(cluster, storage, identities, pools)
        case GkeCluster():
            from gpu_platform.planning.clouds.gke.cloud import gke

            return gke(cluster, window, storage=storage, members=members, identities=identities, teams=teams)


def first_stacks() -> Mapping[str, FirstStack]:
    """Return what `init` needs of each provider, by the provider's name, in the order in which it offers them."""
    from gpu_platform.planning.clouds.eks import first_stack as eks
    from gpu_platform.planning.clouds.existing import first_stack as existing
    from gpu_platform.planning.clouds.gke import first_stack as gke
    from gpu_platform.planning.clouds.sandbox import first_stack as sandbox

    modules = {"sandbox": sandbox, "existing": existing, "eks": eks, "gke": gke}
    return {provider: module.FIRST_STACK for provider, module in modules.items()}
