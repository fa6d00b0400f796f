"""The node agent, which reads the GPUs of its node through NVML and compares them with the pool's expectations.

It imports only the standard library and `pynvml`. It needs Python 3.9 or newer, because it runs as a zipapp in a
stock Python image.
"""

AGENT_VERSION = "0.2.0"
