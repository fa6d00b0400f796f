"""Decide the expected hardware and labels of every node, and the validation gate."""
