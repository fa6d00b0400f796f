"""Plan the simulated GPU nodes of the sandbox, which runs a real control plane on this machine."""
