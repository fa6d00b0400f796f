"""Components for programs of your own: arguments named as in the stack file, planned by the same functions."""
