"""What a pool's nodes must be, whichever provider creates them: labels, taints, kubelet, software, GPUs."""
