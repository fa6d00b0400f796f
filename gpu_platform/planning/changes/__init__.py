"""Decide which pools a new plan replaces, shrinks or changes by a rolling update, compared with the last
deployment.
"""

from gpu_platform.planning.changes.classify import classify
from gpu_platform.planning.changes.cluster_impacts import cluster_facts, resizes_system_nodes, retained_resources
from gpu_platform.planning.changes.deployed import software_facts, team_facts
from gpu_platform.planning.changes.effects import Effect
from gpu_platform.planning.changes.impact import Impact
from gpu_platform.planning.changes.node_impacts import impacts_of_replaced_nodes
from gpu_platform.planning.changes.pool_facts import pool_facts, protected, protection_changes
from gpu_platform.planning.changes.pools import PoolChange, pool_changes, resized_node_groups, resized_pools
from gpu_platform.planning.changes.team_impacts import leaving_teams

__all__ = [
    "Effect",
    "Impact",
    "PoolChange",
    "classify",
    "cluster_facts",
    "impacts_of_replaced_nodes",
    "leaving_teams",
    "pool_changes",
    "pool_facts",
    "protected",
    "protection_changes",
    "resized_node_groups",
    "resized_pools",
    "resizes_system_nodes",
    "retained_resources",
    "software_facts",
    "team_facts",
]
