"""Decide which pools a new plan replaces, rolls or shrinks, compared with the last deployment."""
