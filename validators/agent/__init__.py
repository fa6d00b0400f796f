"""The node agent: what NVML says about this node, held against what is expected.

Only the standard library and `pynvml`, Python 3.9 and newer: it runs as a zipapp under a stock Python image.
"""

AGENT_VERSION = "0.1.0"
