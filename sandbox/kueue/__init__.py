"""Kueue in a sandbox: its real controller, which runs outside the cluster with the configuration that the stack
writes.

go.mod pins the version. The CRDs and webhooks come from the same Go module.
"""
