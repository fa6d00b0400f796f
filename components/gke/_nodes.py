"""Settings that GKE system nodes and GPU nodes share."""

from __future__ import annotations

# Allow all APIs, as Google recommends. The IAM roles of the service account determine what nodes may do.
OAUTH_SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]
# With GKE's metadata server, pods obtain credentials through workload identity, not the node's credentials.
METADATA_MODE = "GKE_METADATA"
# Record what a node has booted, so that Cloud Monitoring shows changes to the boot chain.
INTEGRITY_MONITORING = True
