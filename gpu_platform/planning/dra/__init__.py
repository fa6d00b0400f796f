"""Decide device classes and claims of Dynamic Resource Allocation, and check what the DRA driver requires."""
