"""Runs the Pulumi program in process and reads what it registers: resources, Kubernetes objects and files."""
