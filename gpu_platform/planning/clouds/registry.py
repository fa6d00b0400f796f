"""Register the providers. A new provider is a function in its own subpackage and a new case in this module.

Only the provider of the stack is imported, because importing all of them takes a tenth of the start-up time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu_platform.planning.clouds.first_stack import FirstStack
from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.planning.maintenance.section import WindowPlan
from gpu_platform.stack.cluster import AksCluster, Cluster, EksCluster, ExistingCluster, GkeCluster, SandboxCluster
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

    `window` is the maintenance window in `changes`. `storage` contains the declared storage classes. `teams` are
    the names of all teams, `members` the members of all teams, and `identities` the teams with an identity.
    `pools` are all pools of the stack.
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
        case AksCluster():
            from gpu_platform.planning.clouds.aks.cloud import aks

            return aks(cluster, storage=storage, members=members, identities=identities, teams=teams)


def first_stacks() -> Mapping[str, FirstStack]:
    """Return the settings of `init` by the provider's name, in the order in which `init` offers the providers."""
    from gpu_platform.planning.clouds.aks import first_stack as aks
    from gpu_platform.planning.clouds.eks import first_stack as eks
    from gpu_platform.planning.clouds.existing import first_stack as existing
    from gpu_platform.planning.clouds.gke import first_stack as gke
    from gpu_platform.planning.clouds.sandbox import first_stack as sandbox

    modules = {"sandbox": sandbox, "existing": existing, "eks": eks, "gke": gke, "aks": aks}
    return {provider: module.FIRST_STACK for provider, module in modules.items()}
