"""The GPU Operator: release, driver and every value that it gets."""
