"""Decide the release, the driver and every value of the GPU Operator."""
