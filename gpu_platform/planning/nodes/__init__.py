"""What a node offers to pods: CPU and memory after the kubelet's reservations."""
