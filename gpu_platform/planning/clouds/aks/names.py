"""Names of networks and agent pools. AKS limits those of agent pools to 12 lower-case letters and digits.

Source: AKS docs, "Quotas, virtual machine size restrictions, and region availability", read 2026-11-30.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from gpu_platform.planning.clouds.aks.plan import ROTATION_POOL, SYSTEM_POOL

LONGEST: Final = 12
SUBNET: Final = "nodes"
"""Name of the subnet in the virtual network of a new cluster."""
_LONGEST_PREFIX: Final = 54
_HASH: Final = 4


def network_name(cluster: str) -> str:
    """Return the name of the virtual network of a new cluster."""
    return f"{cluster}-network"


def dns_prefix(cluster: str) -> str:
    """Return the start of the API server's host name, which allows fewer characters than a cluster's name."""
    return cluster.replace("_", "-")[:_LONGEST_PREFIX].rstrip("-")


def agent_pool_name(pool: str) -> str:
    """Return the name of the agent pool for a pool.

    A pool's name is used unchanged if AKS allows it and no other pool can have the same. Otherwise, it is
    shortened and ends in a hash of the whole name.
    """
    if re.fullmatch(r"[a-z][a-z0-9]{0,11}", pool) and pool not in (SYSTEM_POOL, ROTATION_POOL):
        return pool
    letters = re.sub(r"[^a-z0-9]", "", pool)
    start = letters if letters[:1].isalpha() else f"p{letters}"
    return start[: LONGEST - _HASH] + hashlib.sha256(pool.encode()).hexdigest()[:_HASH]
