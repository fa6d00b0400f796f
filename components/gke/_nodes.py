"""Settings that system nodes and GPU nodes of GKE share."""

from __future__ import annotations

# Every API: the IAM roles of the service account decide what nodes may do, as Google recommends.
OAUTH_SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]
# GKE's metadata server: pods get credentials by workload identity, never those of the node.
METADATA_MODE = "GKE_METADATA"
# Records what a node has booted, so that a changed boot chain shows in Cloud Monitoring.
INTEGRITY_MONITORING = True
