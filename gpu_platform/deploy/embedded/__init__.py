"""Deploys a recorded program to a sandbox without the Pulumi CLI, through server-side apply, prune and wait."""
