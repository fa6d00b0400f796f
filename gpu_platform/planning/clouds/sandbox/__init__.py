"""Decide the simulated GPU nodes of the sandbox, a real control plane on this machine."""
