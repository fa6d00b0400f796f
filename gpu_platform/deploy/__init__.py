"""Records the program of a stack, deploys it with the embedded engine (sandboxes) or the Pulumi CLI, and retains
namespaces of teams that leave the stack.
"""
