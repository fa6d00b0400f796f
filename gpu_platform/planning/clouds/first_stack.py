"""The information about a provider that `gpu-platform init` needs to write a first stack file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Answers = Mapping[str, str]
"""Answers to the questions of `init`, by key, such as `region`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstStack:
    """The questions that `init` asks for a provider, and the stack file fields that it writes from the answers.

    `questions` are the keys of the provider's own questions. `new_cluster` contains the keys of the questions
    about a new cluster, or is None if the program creates no clusters for the provider. `machine_type` is the
    default machine type. `groups` is true if a team's members default to a group with the team's name.
    `buys_nodes` is true if the cloud sells the nodes of the pools. `cluster` returns the fields of `cluster` from
    the stack's name and the answers. `pool` returns the pool's fields except name, machine type, count and
    workload.
    """

    questions: tuple[str, ...] = ()
    new_cluster: tuple[str, ...] | None = None
    machine_type: str
    groups: bool = True
    buys_nodes: bool = False
    cluster: Callable[[str, Answers], Mapping[str, Any]]
    pool: Callable[[Answers], Mapping[str, Any]]

    @property
    def asks_nodes(self) -> bool:
        """Whether `init` asks for the number of nodes. A list of node names makes this question unnecessary."""
        return "node_names" not in self.questions
