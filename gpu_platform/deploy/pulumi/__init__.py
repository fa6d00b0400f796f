"""Drives the Pulumi CLI: finds it, runs it through the Automation API, reads its output."""
