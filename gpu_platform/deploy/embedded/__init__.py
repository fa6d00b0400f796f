"""Deploys a recorded program to a sandbox without the Pulumi CLI: server-side apply, prune, wait."""
