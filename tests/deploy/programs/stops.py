"""Stops with a message for the user."""

import pulumi

raise pulumi.RunError("pools[0].count: the pool has no nodes")
