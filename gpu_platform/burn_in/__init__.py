"""Active checks of idle nodes: the program that runs on the GPUs, its Jobs, and the measured results."""
