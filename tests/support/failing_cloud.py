"""A provider for `aws` whose node groups exist even if their creation failed, as on EKS.

`python -m tests.support.failing_cloud` serves the cloud in the folder that FAILING_CLOUD names. The file `error`
there contains the error of the next creations of the node group `train`. The file `requests` lists each creation,
update and deletion.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

import tests.support.protobuf  # noqa: F401 - must precede the SDK

from google.protobuf import any_pb2, empty_pb2  # isort: skip
from google.rpc import status_pb2  # isort: skip
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc  # isort: skip


class Provider(provider_pb2_grpc.ResourceProviderServicer):
    """Serves node groups. The provider returns an InitError for a failed creation, as Pulumi's bridge does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version=os.environ["PLAYED_VERSION"])

    def CheckConfig(self, request: Any, context: Any) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: Any) -> Any:
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    def Configure(self, request: Any, context: Any) -> Any:
        return provider_pb2.ConfigureResponse(supportsPreview=True)

    def Check(self, request: Any, context: Any) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def Diff(self, request: Any, context: Any) -> Any:
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    def Create(self, request: Any, context: Any) -> Any:
        name = request.urn.rpartition("::")[2]
        if request.preview:
            return provider_pb2.CreateResponse(id="", properties=request.properties)
        self._record(f"create {name}")
        error = self._folder / "error"
        if name == "train" and error.exists() and (text := error.read_text("utf-8")):
            partial = provider_pb2.ErrorResourceInitFailed(
                id=name, properties=request.properties, inputs=request.properties, reasons=[text]
            )
            detail = any_pb2.Any()
            detail.Pack(partial)
            status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=text, details=[detail])
            context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
            context.abort(grpc.StatusCode.UNKNOWN, text)
        return provider_pb2.CreateResponse(id=name, properties=request.properties)

    def Update(self, request: Any, context: Any) -> Any:
        # The bridge sends no request to the cloud if nothing changed.
        return provider_pb2.UpdateResponse(properties=request.news)

    def Delete(self, request: Any, context: Any) -> Any:
        self._record(f"delete {request.id}")
        return empty_pb2.Empty()

    def Read(self, request: Any, context: Any) -> Any:
        return provider_pb2.ReadResponse(id=request.id, properties=request.properties, inputs=request.inputs)

    def _record(self, what: str) -> None:
        with (self._folder / "requests").open("a", encoding="utf-8") as file:
            file.write(f"{what}\n")


def main() -> None:
    """Serve the provider, and print its port, as the engine expects."""
    server = grpc.server(ThreadPoolExecutor(max_workers=8))
    provider = Provider(Path(os.environ["FAILING_CLOUD"]))
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server)
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    sys.stdin.read()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
