"""GPU metrics for Prometheus on nodes without DCGM, from the same NVML readings as the checks.

Compared with the node agent, the exporter needs only one more library, prometheus_client.
"""
