"""Reads from a running cluster: the client, nodes, pods, usage, versions and node reports."""
