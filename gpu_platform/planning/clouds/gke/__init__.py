"""Google Kubernetes Engine: its own decisions, using the names of the GKE and Compute APIs."""
