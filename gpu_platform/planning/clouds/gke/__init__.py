"""Decide clusters and pools of Google Kubernetes Engine, using the names of the GKE and Compute APIs."""
