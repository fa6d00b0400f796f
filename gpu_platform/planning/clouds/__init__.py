"""Decide how each provider creates or looks up clusters and pools. Each provider has its own subpackage."""
