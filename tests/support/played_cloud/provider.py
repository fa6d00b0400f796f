"""The gRPC protocol between the Pulumi engine and the simulated cloud."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf import any_pb2, empty_pb2
from google.rpc import status_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from tests.support.played_cloud import values
from tests.support.played_cloud.account import Failed, Refused, Store
from tests.support.played_cloud.kinds import Kind, kinds
from tests.support.played_cloud.services import Services

VERSION_VARIABLE: Final = "PLAYED_VERSION"
"""Environment variable with the version of the simulated provider."""
_DEFAULTS: Final = "__defaults"
_MESSAGE_BYTES: Final = 400 * 1024 * 1024
Diff = provider_pb2.PropertyDiff


class Provider(provider_pb2_grpc.ResourceProviderServicer):
    """Simulates the providers `aws`, `azure` and `gcp`.

    `kinds.yaml` defines which changes update or replace a resource. `Services` applies the effects of the changes.
    """

    def __init__(self, store: Store, version: str) -> None:
        self._store = store
        self._version = version
        self._services = Services(store)

    # -- the provider itself -------------------------------------------------------------------------------

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version=self._version)

    def CheckConfig(self, request: Any, context: Any) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: Any) -> Any:
        # A changed configuration never replaces the AWS provider: its provider.go has no ForceNew.
        same = values.read(request.olds) == values.read(request.news)
        changes = provider_pb2.DiffResponse.DIFF_NONE if same else provider_pb2.DiffResponse.DIFF_SOME
        return provider_pb2.DiffResponse(changes=changes)

    def Configure(self, request: Any, context: Any) -> Any:
        features = values.read(request.args).get("features", {})
        known = json.loads(features) if isinstance(features, str) else features
        self._services.remembers_failed = bool(known.get("persistIdOnCreateBeforePollingForCompletion"))
        return provider_pb2.ConfigureResponse(supportsPreview=True)

    def Cancel(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def Invoke(self, request: Any, context: Any) -> Any:
        found = _answer(context, lambda: self._services.look_up(request.tok, values.read(request.args)))
        response = provider_pb2.InvokeResponse()
        getattr(response, "return").CopyFrom(values.write(found))  # `return` is a Python keyword
        return response

    # -- resources -----------------------------------------------------------------------------------------

    def Check(self, request: Any, context: Any) -> Any:
        kind, inputs, olds = _kind(request.urn, context), values.read(request.news), values.read(request.olds)
        inputs.pop(_DEFAULTS, None)
        if kind.name is not None and kind.name not in inputs:
            seed = bytes(request.randomSeed) + request.urn.encode()
            suffix = hashlib.sha256(seed).hexdigest()[:7]
            inputs[kind.name] = olds.get(kind.name) or f"{request.urn.rpartition('::')[2]}-{suffix}"
            inputs[_DEFAULTS] = [kind.name]
        return provider_pb2.CheckResponse(inputs=values.write(inputs))

    def Diff(self, request: Any, context: Any) -> Any:
        kind = _kind(request.urn, context)
        old, new = values.read(request.old_inputs), values.read(request.news)
        own_name = kind.name is not None and kind.name not in new.get(_DEFAULTS, ())
        changed = list(values.changed_paths(_without_defaults(old), _without_defaults(new)))
        replaces = [path for path in changed if _replaces(kind, path)]
        response = provider_pb2.DiffResponse(
            changes=provider_pb2.DiffResponse.DIFF_SOME if changed else provider_pb2.DiffResponse.DIFF_NONE,
            diffs=sorted({path.partition(".")[0] for path in changed}),
            replaces=replaces,
            deleteBeforeReplace=bool(replaces) and own_name and kind.name not in replaces,
            hasDetailedDiff=True,
        )
        for path in changed:
            one = Diff.UPDATE_REPLACE if path in replaces else Diff.UPDATE
            response.detailedDiff[path].kind = one
            response.detailedDiff[path].inputDiff = True
        return response

    def Create(self, request: Any, context: Any) -> Any:
        kind, type_ = _kind(request.urn, context), _type(request.urn)
        inputs = _without_defaults(values.read(request.properties))
        if request.preview:
            unknown = dict.fromkeys(kind.outputs, values.UNKNOWN)
            outputs = {**unknown, **inputs, **self._services.unknown(type_, inputs)}
            return provider_pb2.CreateResponse(id="", properties=values.write(outputs))
        own_id, outputs = _answer(context, lambda: self._services.create(type_, inputs))
        return provider_pb2.CreateResponse(id=own_id, properties=values.write({**outputs, "id": own_id}))

    def Update(self, request: Any, context: Any) -> Any:
        kind, type_ = _kind(request.urn, context), _type(request.urn)
        old, new = (_without_defaults(values.read(one)) for one in (request.old_inputs, request.news))
        if request.preview:
            outputs = {**values.read(request.olds), **_planned(self._services, type_, request, new)}
            changed = {path.partition(".")[0] for path in values.changed_paths(old, new)}
            if changed - set(kind.recomputed.get("except", ())):
                outputs |= dict.fromkeys(kind.recomputed.get("properties", ()), values.UNKNOWN)
            return provider_pb2.UpdateResponse(properties=values.write(outputs))
        outputs = _answer(context, lambda: self._services.update(type_, request.id, old, new))
        return provider_pb2.UpdateResponse(properties=values.write(outputs))

    def Delete(self, request: Any, context: Any) -> Any:
        _answer(context, lambda: self._services.delete(_type(request.urn), request.id))
        return empty_pb2.Empty()

    def Read(self, request: Any, context: Any) -> Any:
        found = self._services.read(_type(request.urn), request.id)
        if found is None:
            return provider_pb2.ReadResponse()
        inputs, outputs = found
        if defaults := values.read(request.inputs).get(_DEFAULTS):
            inputs = {**inputs, _DEFAULTS: defaults}
        return provider_pb2.ReadResponse(
            id=request.id, properties=values.write(outputs), inputs=values.write(inputs)
        )


def serve(folder: Path) -> grpc.Server:
    """Start the provider for the account in a folder, and print its port, as the engine expects."""
    options = [
        ("grpc.max_receive_message_length", _MESSAGE_BYTES),
        ("grpc.max_send_message_length", _MESSAGE_BYTES),
    ]
    server = grpc.server(ThreadPoolExecutor(max_workers=32), options=options)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(
        Provider(Store(folder), os.environ[VERSION_VARIABLE]), server
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    return server


def _planned(services: Services, type_: str, request: Any, new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the planned outputs of an update: its inputs, and the nested values that the cloud has set."""
    known = values.read(request.olds)
    return {
        name: {**known.get(name, {}), **value}
        if isinstance(value, dict) and name in services.unknown(type_, new) and isinstance(known.get(name), dict)
        else value
        for name, value in new.items()
    }


def _answer(context: Any, ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except Refused as refusal:
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(refusal))
    except Failed as failure:
        if failure.remembered:
            _attach(context, failure)
        context.abort(grpc.StatusCode.UNKNOWN, str(failure))


def _attach(context: Any, failure: Failed) -> None:
    """Attach the resource whose creation failed to an error, as Pulumi's bridge does if the resource has an id."""
    outputs = {**failure.outputs, "id": failure.own_id}
    partial = provider_pb2.ErrorResourceInitFailed(
        id=failure.own_id,
        properties=values.write(outputs),
        inputs=values.write(failure.inputs),
        reasons=[str(failure)],
    )
    detail = any_pb2.Any()
    detail.Pack(partial)
    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=str(failure), details=[detail])
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))


def _type(urn: str) -> str:
    return urn.split("::")[2].rpartition("$")[2]


def _kind(urn: str, context: Any) -> Kind:
    type_ = _type(urn)
    if type_ not in kinds():
        context.abort(grpc.StatusCode.UNIMPLEMENTED, f"the simulated cloud has no {type_}: add it to kinds.yaml")
    return kinds()[type_]


def _replaces(kind: Kind, path: str) -> bool:
    return any(path == one or path.startswith(f"{one}.") or one.startswith(f"{path}.") for one in kind.replaces)


def _without_defaults(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in properties.items() if name != _DEFAULTS}
