"""What answers questions beside a plan: commands that the core does not import."""
