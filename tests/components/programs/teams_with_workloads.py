"""Registers two teams, one for each Pod Security level. Each team has a workload that runs as the image's user and
a workload that sets a user id.
"""

from typing import Literal

from components.team_namespace import TeamNamespace, TeamNamespaceArgs
from gpu_platform.planning.teams.section import TeamMember, TeamPlan, WorkloadPlan


def workload(name: str, user: int | None) -> WorkloadPlan:
    return WorkloadPlan(
        name=name,
        pool="train",
        replicas=1,
        image="registry.k8s.io/pause:3.10",
        command=(),
        resource="nvidia.com/gpu",
        units=1,
        cpu="1",
        memory="4Gi",
        priority_class="training",
        node_selector={},
        tolerations=(),
        shared_memory="1024Mi",
        run_as_user=user,
    )


levels: tuple[tuple[str, Literal["restricted", "baseline"]], ...] = (
    ("vision", "restricted"),
    ("legacy", "baseline"),
)
for namespace, level in levels:
    TeamNamespace(
        namespace,
        TeamNamespaceArgs(
            plan=TeamPlan(
                namespace=namespace,
                quota={"requests.nvidia.com/gpu": "8"},
                members=(TeamMember(kind="Group", name=namespace),),
                workloads=(workload("pause", None), workload("own-user", 1000)),
                pod_security=level,
            ),
        ),
    )
