"""Node pools: software, labels, taints, kubelet settings and nodes of each pool."""
