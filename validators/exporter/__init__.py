"""GPU metrics for Prometheus, of the same reading of NVML as the checks, on nodes where DCGM does not run.

It adds prometheus_client to the node agent, and nothing else; the agent itself does not need it.
"""
