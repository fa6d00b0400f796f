"""Type of what `gpu-platform init` needs of a provider to write a first stack file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Answers = Mapping[str, str]
"""Answers to the questions of `init`, by key, such as `region`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstStack:
    """What `init` asks for a provider, and the fields that it writes from the answers.

    `aliases`: other names that users type for the provider; `questions`: keys of its own questions;
    `machine_type`: the default; `groups`: whether a team's members default to a group with the team's name;
    `new_cluster`: keys of the questions about a cluster that the program creates, or None if it creates none;
    `buys_nodes`: whether the cloud sells the nodes of its pools;
    `cluster`: fields of `cluster`, from the stack's name and the answers; `pool`: fields of the pool besides name,
    machine type, count and workload.
    """

    aliases: tuple[str, ...]
    questions: tuple[str, ...] = ()
    new_cluster: tuple[str, ...] | None = None
    machine_type: str
    groups: bool = True
    buys_nodes: bool = False
    cluster: Callable[[str, Answers], Mapping[str, Any]]
    pool: Callable[[Answers], Mapping[str, Any]]

    @property
    def asks_nodes(self) -> bool:
        """Whether the number of nodes is asked: names of nodes have it."""
        return "node_names" not in self.questions
