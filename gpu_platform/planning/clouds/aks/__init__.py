"""Plan clusters and pools of Azure Kubernetes Service, with the names of the AKS API."""
