"""The Kubernetes client, and functions that read nodes, pods, usage, versions and node reports from a cluster."""
