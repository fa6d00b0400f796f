"""Decide which nodes of an existing cluster belong to a pool.

The program labels the nodes that the stack file names, or selects nodes by their labels. It creates no nodes.
"""
