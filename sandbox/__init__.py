"""The sandbox: a Kubernetes control plane on this machine, with simulated GPU nodes and a simulated NVML."""
