"""What is read from a running cluster: the client, nodes, pods, usage, versions, reports of nodes."""
