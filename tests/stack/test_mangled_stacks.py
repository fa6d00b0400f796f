"""Any content of a stack file results in a plan or in well-formed errors, never in a crash."""

from __future__ import annotations

import copy
from typing import Any

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpu_platform.base.errors import BadInput, Problem
from gpu_platform.base.paths import STACKS_DIR
from gpu_platform.stack.loaded import plan_platform
from tests.support.size import size

LOCAL = yaml.safe_load((STACKS_DIR / "Pulumi.local.yaml").read_text("utf-8"))["config"]["gpu-platform:platform"]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=12),
    st.sampled_from(["mig", "time-slicing", "existing", "training", "1g.10gb", "p5.48xlarge", "none", "0s"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += _places(inner, (*path, key))
    return found


PLACES = _places(LOCAL)


def _put(platform: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        try:
            platform = platform[key]
        except (KeyError, IndexError, TypeError):
            return  # an earlier change already removed this field
    key = path[-1]
    if isinstance(platform, dict) or (isinstance(platform, list) and isinstance(key, int) and key < len(platform)):
        platform[key] = value


@settings(max_examples=size(50, 1500))
@example([(("pools",), [{"": None}, None])])
@given(st.lists(st.tuples(st.sampled_from(PLACES), VALUES), min_size=1, max_size=3))
def test_a_mangled_stack_gives_a_plan_or_problems_that_name_their_place(
    changes: list[tuple[tuple[Any, ...], Any]],
) -> None:
    platform = copy.deepcopy(LOCAL)
    for path, value in changes:
        _put(platform, path, copy.deepcopy(value))
    for problem in _problems(platform):
        assert problem.path
        assert problem.found
        assert problem.allowed


def _problems(platform: Any) -> tuple[Problem, ...]:
    try:
        plan_platform(platform, "mangled")
    except BadInput as error:
        return error.problems
    return ()
