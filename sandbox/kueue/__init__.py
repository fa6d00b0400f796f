"""Kueue in a sandbox: its own controller, run beside the cluster with the configuration that the stack writes.

go.mod pins the program. Its CRDs and webhooks are those of the same Go module.
"""
