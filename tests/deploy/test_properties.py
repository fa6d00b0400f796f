"""Special values of Pulumi, such as resource references, secrets and assets, as a provider receives them."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import struct_pb2
from pulumi.asset import StringAsset
from pulumi.runtime import rpc

from gpu_platform.deploy.recorded.properties import REDACTED, UNKNOWN, holds_secret, plain_properties

URN = "urn:pulumi:test::gpu-platform::gpu-platform:index:GpuNodePool::train"


def properties(**values: Any) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    struct.update(values)
    return struct


def reference(**fields: str) -> dict[str, str]:
    """Return the SDK's reference to a resource. A component has only a URN, a custom resource also has an id."""
    return {rpc._special_sig_key: rpc._special_resource_sig, "urn": URN, **fields}


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        (reference(id="i-0a1b2c3d"), "i-0a1b2c3d"),
        (reference(id=""), UNKNOWN),  # a custom resource that has not been created yet
        (reference(), URN),
    ],
)
def test_a_reference_is_a_custom_resources_id_and_a_components_urn(sent: dict[str, str], received: str) -> None:
    assert plain_properties(properties(one=sent, many=[sent]), reveal=False) == {
        "one": received,
        "many": [received],
    }


@pytest.mark.parametrize(("reveal", "received"), [(False, REDACTED), (True, {"token": "hunter2"})])
def test_a_secret_shows_only_where_it_is_revealed(reveal: bool, received: Any) -> None:
    secret = {rpc._special_sig_key: rpc._special_secret_sig, "value": {"token": "hunter2"}}
    struct = properties(outer=[{"inner": secret}])
    assert holds_secret(struct)
    assert plain_properties(struct, reveal=reveal) == {"outer": [{"inner": received}]}


def test_an_asset_keeps_what_it_holds_without_its_signature() -> None:
    sent = {rpc._special_sig_key: rpc._special_asset_sig, "text": StringAsset("hello").text}
    assert plain_properties(properties(file=sent), reveal=False) == {"file": {"asset": {"text": "hello"}}}
    assert not holds_secret(properties(file=sent))
