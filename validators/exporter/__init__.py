"""GPU metrics for Prometheus on nodes without DCGM, from the same NVML readings as the checks.

The exporter adds only prometheus_client to the node agent. The agent itself does not need this library.
"""
