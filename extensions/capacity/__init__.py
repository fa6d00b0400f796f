"""Commands about capacity: where pods would run, how long jobs would wait, and which pools are cheapest."""
