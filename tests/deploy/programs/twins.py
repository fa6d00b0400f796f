"""Registers two resources with the same URN."""

from pulumi_kubernetes.core.v1 import Namespace

Namespace("team", metadata={"name": "one"})
Namespace("team", metadata={"name": "two"})
