"""Drives the Pulumi CLI: finds it, runs it through the Automation API and reads its output."""
