"""Decide labels, taints, kubelet settings, software and GPUs of nodes, independent of their provider."""
