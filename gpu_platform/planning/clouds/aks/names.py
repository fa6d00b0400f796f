"""Names of networks, identities, proximity placement groups and agent pools. AKS limits names of agent pools to 12
lower-case letters and digits.

Sources: AKS docs, "Quotas, virtual machine size restrictions, and region availability"; Azure docs, "Naming rules
and restrictions for Azure resources"; read 2026-11-30.
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


_CONTROL_PLANE: Final = "-cluster"
OF_CLUSTER: Final = (_CONTROL_PLANE, "-agentpool")
"""Suffixes of the managed identities of a cluster: one for its control plane, and one that AKS creates for its
kubelets.
"""
# A federated identity credential has at most 120 characters, and a managed identity has at most 128.
# Source: Azure REST API, Microsoft.ManagedIdentity; read 2026-11-30.
_LONGEST_IDENTITY: Final = 120
_LONGEST_NETWORK: Final = 64
_LONGEST_PROXIMITY_GROUP: Final = 80


def control_plane_identity(cluster: str) -> str:
    """Return the name of the managed identity of a new cluster's control plane."""
    return f"{cluster}{_CONTROL_PLANE}"


def team_identity_name(cluster: str, team: str) -> str:
    """Return the name of a team's managed identity. A long name is shortened and ends in a hash."""
    return _shortened(f"{cluster}-team-{team}", _LONGEST_IDENTITY)


def network_name(cluster: str) -> str:
    """Return the name of the virtual network of a new cluster. A long name is shortened and ends in a hash."""
    return _shortened(f"{cluster}-network", _LONGEST_NETWORK)


def proximity_group_name(cluster: str, pool: str) -> str:
    """Return the name of the proximity placement group of a pool. A long name is shortened and ends in a hash."""
    return _shortened(f"{cluster}-{pool}", _LONGEST_PROXIMITY_GROUP)


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
    return start[: LONGEST - _HASH] + _hash(pool)


def update_command(subscription: str, group: str, cluster: str, options: str) -> str:
    """Return the command that changes an existing cluster, whichever subscription the Azure CLI uses."""
    return f"az aks update --subscription {subscription} --resource-group {group} --name {cluster} {options}"


def _shortened(name: str, longest: int) -> str:
    return name if len(name) <= longest else name[: longest - _HASH] + _hash(name)


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:_HASH]
