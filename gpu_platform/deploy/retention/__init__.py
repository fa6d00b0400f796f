"""Keeps what members made when their team leaves the stack, and finds stacks of teams on a cluster."""
