"""Decide how each provider creates or looks up clusters and pools; one subpackage per provider."""
