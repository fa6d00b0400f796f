"""Node agent: reads the GPUs of this node by NVML and compares them with the expectations of its pool.

It imports only the standard library and `pynvml` and needs Python 3.9 or newer, because it runs as a zipapp in a
stock Python image.
"""

AGENT_VERSION = "0.2.0"
