"""Decide which nodes of an existing cluster belong to a pool.

Nodes are either labelled by name or selected by labels, and never created.
"""
