"""The stack file that `init` writes for each provider."""

from __future__ import annotations

from typing import get_args

from gpu_platform.planning.clouds.registry import first_stacks
from gpu_platform.stack.cluster import Cluster
from gpu_platform.stack.declared import PROVIDER_ALIASES


def test_init_can_write_a_first_stack_of_each_provider_of_the_stack_file() -> None:
    union, *_ = get_args(Cluster)
    declared = {get_args(model.model_fields["provider"].annotation)[0] for model in get_args(union)}

    assert set(first_stacks()) == declared


def test_no_alias_of_a_provider_is_another_ones_name_or_alias() -> None:
    known = first_stacks()
    names = [*known, *(alias for aliases in PROVIDER_ALIASES.values() for alias in aliases)]

    assert len(names) == len(set(names))
