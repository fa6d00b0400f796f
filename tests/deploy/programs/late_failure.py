"""Registers one object, and then fails in an apply after the last line of the program has run."""

from pulumi_kubernetes.core.v1 import Namespace

from gpu_platform.base.errors import Finding


def refuse(name: str) -> str:
    raise Finding(f"namespace {name} is refused")


Namespace("team", metadata={"name": "team"}).metadata["name"].apply(refuse)
