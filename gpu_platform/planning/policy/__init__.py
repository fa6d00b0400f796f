"""The policy pack's configuration."""
