"""Decide the configuration of the policy pack."""
