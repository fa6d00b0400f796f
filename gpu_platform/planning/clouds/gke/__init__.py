"""Plan clusters and pools of Google Kubernetes Engine, with the names of the GKE and Compute Engine APIs."""
