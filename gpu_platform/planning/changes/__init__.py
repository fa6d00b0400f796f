"""What a new plan changes about the pools of the last deployment."""
