"""What the nodes cost, and the share that is not allocated to any team."""
