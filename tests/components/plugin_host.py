"""The Pulumi plugin as the engine runs it, in a separate process that constructs components over gRPC."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import (
    engine_pb2_grpc,
    errors_pb2,
    provider_pb2,
    provider_pb2_grpc,
    resource_pb2_grpc,
    status_pb2,
)

from gpu_platform.base.paths import PROJECT_ROOT
from gpu_platform.deploy.recorded.record import _Recorder
from tests.components.conftest import Recorded

_SIGNATURE = "4dabf18193072939515e22adb298388d"
_OUTPUT = "d0e6a833031e9bbcd3f4e8bde6ca49a4"


def output(value: str | None = None) -> dict[str, Any]:
    """Return an Output as the engine sends it to a plugin. Without `value`, the Output is unknown."""
    known = {} if value is None else {"value": value}
    return {_SIGNATURE: _OUTPUT, "dependencies": ["urn:pulumi:test::mine::aws:iam/role:Role::nodes"], **known}


@dataclass
class Refused(Exception):
    """The error that the engine shows to the user, with a message and the reason for each refused property."""

    message: str
    reasons: Mapping[str, str]


class _Monitor(resource_pb2_grpc.ResourceMonitorServicer):
    """Makes the recorder of the embedded engine available to a program in another process."""

    def __init__(self) -> None:
        self.recorder = _Recorder(
            project="mine", stack="test", unknown_outputs=True, preview=True, resolve_stack=None
        )

    def GetDeploymentInfo(self, request: Any, context: Any) -> Any:
        return self.recorder.GetDeploymentInfo(request)

    def RegisterResource(self, request: Any, context: Any) -> Any:
        return self.recorder.RegisterResource(request)

    def ReadResource(self, request: Any, context: Any) -> Any:
        return self.recorder.ReadResource(request)

    def RegisterResourceOutputs(self, request: Any, context: Any) -> Any:
        return self.recorder.RegisterResourceOutputs(request)


class _Engine(engine_pb2_grpc.EngineServicer):
    """Accepts and discards the plugin's log messages."""

    def Log(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()


@contextmanager
def _served(add: Callable[[Any, Any], None], servicer: Any) -> Generator[str]:
    """Run a gRPC server on this machine, and yield its address."""
    server = grpc.server(ThreadPoolExecutor(4))
    add(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None)


class Plugin:
    """A client of a running plugin process."""

    def __init__(self, port: int) -> None:
        self._stub: Any = provider_pb2_grpc.ResourceProviderStub(grpc.insecure_channel(f"127.0.0.1:{port}"))

    def schema(self) -> str:
        return self._stub.GetSchema(provider_pb2.GetSchemaRequest(), timeout=120).schema

    def construct(self, component: str, name: str, inputs: Mapping[str, Any]) -> tuple[Recorded, dict[str, Any]]:
        """Return the resources that a component registers, and its outputs. Raises Refused."""
        properties = struct_pb2.Struct()
        properties.update(dict(inputs))
        monitor = _Monitor()
        with _served(resource_pb2_grpc.add_ResourceMonitorServicer_to_server, monitor) as address:
            request = provider_pb2.ConstructRequest(
                project="mine",
                stack="test",
                dryRun=True,
                monitorEndpoint=address,
                type=f"gpu-platform:index:{component}",
                name=name,
                inputs=properties,
                accepts_output_values=True,
            )
            try:
                response = self._stub.Construct(request, timeout=120)
            except grpc.RpcError as error:
                raise _refused(error) from None
        return Recorded(monitor.recorder.result()), dict(response.state.items())


def _refused(error: Any) -> Exception:
    metadata = dict(error.trailing_metadata())
    if "grpc-status-details-bin" not in metadata:
        return AssertionError(error.details())
    status = status_pb2.Status.FromString(metadata["grpc-status-details-bin"])
    errors = errors_pb2.InputPropertiesError()
    status.details[0].Unpack(errors)
    return Refused(error.details(), {each.property_path: each.reason for each in errors.errors})


@contextmanager
def running_plugin() -> Generator[Plugin]:
    """Start the plugin in the same way as the language host does, and stop it at the end."""
    with _served(engine_pb2_grpc.add_EngineServicer_to_server, _Engine()) as engine:
        command = [sys.executable, str(PROJECT_ROOT / "plugin"), engine]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                yield Plugin(int(process.stdout.readline()))
            finally:
                process.terminate()
