"""Check workloads whose pods share GPU memory over NVLink with a ComputeDomain.

Source: kubernetes-sigs/dra-driver-nvidia-gpu, docs/install.md and the CRD ComputeDomain, read 2026-11-23.
"""

from __future__ import annotations

from typing import Final

from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.teams.available import Available
from gpu_platform.stack.team import Team, Workload

_SUFFIX: Final = "-channel"
# The pod's claim is named after its template, and the name must be a DNS label.
_LONGEST: Final = 63 - len(_SUFFIX)


def channel_of(name: str) -> str:
    """Return the name of the ResourceClaimTemplate that the DRA driver creates for the ComputeDomain `name`."""
    return f"{name}{_SUFFIX}"


def check_compute_domain(
    workload: Workload, team: Team, pool: PoolPlan, available: Available, problems: Problems
) -> None:
    """Record a problem for a ComputeDomain on a pool without NVLink between nodes, or with a name that is too long
    for its template.
    """
    if pool.nvlink_domain is None or pool.nodes.ownership == "created":
        racks = [one.name for one in available.pools if one.nvlink_domain is not None]
        found = "created in the sandbox" if pool.nvlink_domain is not None else f"of {pool.machine_type}"
        problems.at("compute_domain").add(
            f"true on pool {pool.name}, whose nodes are {found}",
            "a pool of real nodes that NVLink connects"
            + (f": {', '.join(racks)}" if racks else ", but there is no such pool"),
            "remove compute_domain",
        )
        return
    if len(workload.name) > _LONGEST:
        problems.at("name").add(
            f"{len(workload.name)} characters with compute_domain",
            f"at most {_LONGEST}, because its claim is named {channel_of(workload.name)}",
            "shorten it",
        )
