"""The sandbox: a real control plane on this machine, with simulated GPU nodes that the program creates."""
