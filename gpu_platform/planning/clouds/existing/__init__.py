"""Decide which nodes of an existing cluster a pool has: labelled by name or selected by labels, never created."""
