"""Deploys a recorded program: the embedded engine (server-side apply), and the driver of the Pulumi CLI."""
