"""The six functions that tests substitute in Pulumi's SDK return the same results as the originals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Optional, Union, cast

import pulumi
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pulumi import _types
from pulumi.output import Unknown
from pulumi.runtime import resource as runtime_resource
from pulumi.runtime import resource_cycle_breaker, rpc, settings

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


class Resource:
    """A fake resource with the only attribute that `_reachable` reads."""

    def __init__(self, *dependencies: Resource) -> None:
        self._direct_computed_dependencies = set(dependencies)


def told(output: pulumi.Output[Any], loop: asyncio.AbstractEventLoop) -> Any:
    data = loop.run_until_complete(output._data)
    return data.value, data.is_known, data.is_secret, data.resources


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    loop.close()
    asyncio.set_event_loop(None)


FUNCTIONS = pytest.mark.parametrize("functions", [pulumi_sdk.THE_SDKS, vars(pulumi_sdk)], ids=["sdk", "ours"])


@FUNCTIONS
@pytest.mark.parametrize(
    ("value", "is_known", "known"),
    [("here", True, True), (None, False, False), ([Unknown()], True, False)],
    ids=["known", "unknown", "known-but-for-a-part"],
)
def test_a_property_depends_on_its_resource_and_is_known_as_a_whole(
    functions: Mapping[str, Any], value: Any, is_known: bool, known: bool, loop: asyncio.AbstractEventLoop
) -> None:
    async def transfer() -> dict[str, Callable[..., None]]:
        return functions["transfer_properties"](resource, {"urn": 1, "id": 2, "image": 3}, custom)

    for custom in (True, False):
        resource, other = Resource(), Resource()
        resolvers = loop.run_until_complete(transfer())
        assert set(resolvers) == {"image"} | (set() if custom else {"id"})
        resolvers["image"](value, is_known, True, {other}, None)
        assert told(vars(resource)["image"], loop) == (value, known, True, {resource, other})


@FUNCTIONS
def test_a_property_has_the_error_of_its_resource(
    functions: Mapping[str, Any], loop: asyncio.AbstractEventLoop
) -> None:
    async def transfer() -> dict[str, Callable[..., None]]:
        return functions["transfer_properties"](resource, {"image": 3}, True)

    resource = Resource()
    loop.run_until_complete(transfer())["image"](None, False, False, None, ValueError("refused"))
    with pytest.raises(ValueError, match="refused"):
        told(vars(resource)["image"], loop)


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "aws:eks:NodeGroup"),
        ("train", "aws:eks:NodeGroup", None, "mine", "prod"),
        ("train", "aws:eks:NodeGroup", "urn:pulumi:prod::mine::a:b:Pool::here"),
        ("train", "aws:eks:NodeGroup", "urn:pulumi:prod::mine::a:b:Pool::here", "mine", "prod"),
    ],
    ids=["root", "root-of-a-project", "below", "below-of-a-project"],
)
def test_a_urn_is_put_together_as_the_sdk_does(
    arguments: tuple[Any, ...], loop: asyncio.AbstractEventLoop
) -> None:
    async def urns(create: Callable[..., pulumi.Output[str]]) -> list[Any]:
        known = create(*arguments)
        later = create(pulumi.Output.from_input(arguments[0]), *arguments[1:])
        return [await known._data, await later._data]

    found = loop.run_until_complete(urns(pulumi_sdk.create_urn))
    assert found == loop.run_until_complete(urns(pulumi_sdk.THE_SDKS["create_urn"]))
    assert found[0].value.endswith("aws:eks:NodeGroup::train")


def test_a_resource_depends_on_what_its_dependencies_depend_on() -> None:
    network = Resource()
    cluster, role = Resource(network), Resource()
    pool = Resource(cluster, role)
    network._direct_computed_dependencies.add(role)
    found = {
        (first, second): pulumi_sdk._reachable(cast("Any", first), cast("Any", second))
        for first in (network, cluster, role, pool)
        for second in (network, cluster, role, pool)
    }
    assert found == {pair: pulumi_sdk.THE_SDKS["_reachable"](*pair) for pair in found}
    assert found[pool, network]
    assert not found[network, pool]


@pytest.mark.parametrize("track", [pulumi_sdk.THE_SDKS["_track"], pulumi_sdk._track], ids=["sdk", "ours"])
def test_an_output_is_waited_for_until_it_is_there_and_always_if_it_failed(
    track: Callable[[pulumi.Output[Any]], None], loop: asyncio.AbstractEventLoop
) -> None:
    async def run() -> None:
        of_run: Any = settings.SETTINGS  # the attribute exists only at run time
        outputs = of_run.outputs
        pending, failing, failed = (loop.create_future() for _ in range(3))
        failed.set_exception(ValueError("refused"))
        for data in (pending, failing, failed):
            output = object.__new__(pulumi.Output)
            output._data = data
            track(output)
        assert {pending, failing, failed} <= outputs
        pending.set_result(None)
        failing.set_exception(ValueError("refused"))
        await asyncio.sleep(0)
        assert {pending, failing, failed} & outputs == {failing, failed}
        outputs -= {failing, failed}

    loop.run_until_complete(run())


def test_the_sdk_uses_them() -> None:
    assert vars(rpc)["contains_unknowns"] is pulumi_sdk.contains_unknowns
    assert vars(_types)["unwrap_type"] is pulumi_sdk.unwrap_type
    assert vars(rpc)["transfer_properties"] is pulumi_sdk.transfer_properties
    assert vars(runtime_resource)["create_urn"] is pulumi_sdk.create_urn
    assert vars(resource_cycle_breaker)["_reachable"] is pulumi_sdk._reachable
    assert vars(pulumi.Output)["_track"] is pulumi_sdk._track
