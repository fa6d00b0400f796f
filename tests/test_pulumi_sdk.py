"""What tests put in the place of two functions of Pulumi's SDK answers as they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

import pulumi
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pulumi import _types
from pulumi.output import Unknown
from pulumi.runtime import rpc

from tests.support import pulumi_sdk

VALUES = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(), st.builds(Unknown)),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner), st.tuples(inner)),
    max_leaves=8,
)


@given(VALUES)
def test_a_value_contains_what_is_unknown_where_the_sdk_finds_it(value: Any) -> None:
    assert pulumi_sdk.contains_unknowns(value) == pulumi_sdk.THE_SDKS["contains_unknowns"](value)


def test_a_value_that_contains_itself_is_searched_once() -> None:
    itself: list[Any] = [1]
    itself.append(itself)
    assert not pulumi_sdk.contains_unknowns(itself)
    itself.append(Unknown())
    assert pulumi_sdk.contains_unknowns(itself)


@pytest.mark.parametrize(
    "wrapped",
    [
        str,
        Optional[str],  # noqa: UP045  # generated SDKs have both forms
        str | None,
        pulumi.Input[str],
        pulumi.Output[str],
        Optional[pulumi.Input[Mapping[str, pulumi.Input[int]]]],  # noqa: UP045
        pulumi.Input[Sequence[pulumi.Input[str]]] | None,
        Union[str, int],  # noqa: UP007
    ],
    ids=str,
)
def test_a_type_is_unwrapped_as_the_sdk_does(wrapped: Any) -> None:
    assert pulumi_sdk.unwrap_type(wrapped) == pulumi_sdk.THE_SDKS["unwrap_type"](wrapped)


def test_the_sdk_uses_them() -> None:
    assert vars(rpc)["contains_unknowns"] is pulumi_sdk.contains_unknowns
    assert vars(_types)["unwrap_type"] is pulumi_sdk.unwrap_type
