"""Decide software, labels, taints, kubelet settings and nodes of each pool."""
