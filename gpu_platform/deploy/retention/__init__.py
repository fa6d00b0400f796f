"""Keeps objects of team members when their team leaves the stack, and finds the team stacks on a cluster."""
