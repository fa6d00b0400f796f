"""Runs a Pulumi program in process with the SDK's own monitor, and records the resources that it registers.

It creates no resources and uses no network, because the monitor answers each registration with the values in the
request. It imports only the Pulumi SDK, so that `render` and `check` start fast.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import runpy
import sys
import uuid
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple, cast

import pulumi
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime import Settings, configure, run_in_stack, set_all_config
from pulumi.runtime.mocks import MockCallArgs, MockMonitor, MockResourceArgs, Mocks
from pulumi.runtime.proto import alias_pb2, callback_pb2, resource_pb2
from pulumi.runtime.settings import SETTINGS

from gpu_platform.base.errors import GpuPlatformError
from gpu_platform.deploy.recorded.properties import UNKNOWN, holds_secret, plain_properties, redact_leaves

STACK_TYPE: Final = "pulumi:pulumi:Stack"
STACK_REFERENCE_TYPE: Final = "pulumi:pulumi:StackReference"
STASH_TYPE: Final = "pulumi:index:Stash"
HELM_RELEASE_TYPE: Final = "kubernetes:helm.sh/v3:Release"
PROVIDER_PREFIX: Final = "pulumi:providers:"
KUBERNETES_PROVIDER_TYPE: Final = f"{PROVIDER_PREFIX}kubernetes"
PULUMI_PREFIX: Final = "pulumi:"  # types that exist only in the state, such as stacks, providers and stashes
KUBERNETES_PREFIX: Final = "kubernetes:"
_FRAMES_READ: Final = 1  # number of stack frames that the SDK reads for each resource; it fails with fewer

StackResolver = Callable[[str], Mapping[str, Any] | None]
"""Returns the outputs of the stack that a stack reference names, or None if they are unknown."""


class ProgramError(GpuPlatformError):
    """The program raised a `pulumi.RunError`, or this engine cannot run the program."""


@dataclass(frozen=True, slots=True)
class ResourceRecord:
    """A resource that a program registered, with the inputs for its provider.

    `inputs` and `outputs` are plain JSON with secrets as `[secret]` and unknown values as `UNKNOWN`. `id` is empty
    if it is unknown until the provider creates the resource.
    """

    urn: str
    type: str
    name: str
    custom: bool
    inputs: Mapping[str, Any]
    parent: str = ""
    dependencies: tuple[str, ...] = ()
    id: str = ""
    outputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    property_dependencies: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    provider: str = ""
    package_version: str = ""
    protect: bool = False
    external: bool = False  # Pulumi reads the resource, but does not manage it
    timeouts: Mapping[str, str] = field(default_factory=dict[str, str])  # timeouts by operation, as Go durations
    ignore_changes: tuple[str, ...] = ()
    replace_on_changes: tuple[str, ...] = ()
    delete_before_replace: bool = False
    aliases: tuple[str, ...] = ()  # URNs that the resource may have in the state of an earlier deployment
    retain_on_delete: bool = False  # a destroy keeps the resource
    deleted_with: str = ""  # URN of the resource whose deletion also deletes this one
    before_update: tuple[str, ...] = ()  # names of resource hooks
    revealed_inputs: Mapping[str, Any] | None = field(default=None, repr=False)  # set only if inputs have secrets

    @property
    def true_inputs(self) -> Mapping[str, Any]:
        """Inputs with secrets in plain text. Never write or print them."""
        return self.inputs if self.revealed_inputs is None else self.revealed_inputs

    def to_json(self) -> dict[str, Any]:
        """Return the entry of this resource in resources.json."""
        return {
            "urn": self.urn,
            "type": self.type,
            "name": self.name,
            "custom": self.custom,
            "inputs": self.inputs,
            "parent": self.parent,
            "dependencies": list(self.dependencies),
        }


@dataclass(frozen=True, slots=True)
class RecordedProgram:
    """Resources that a run of a program registered, in registration order, and its stack outputs."""

    project: str
    stack: str
    resources: tuple[ResourceRecord, ...]
    outputs: Mapping[str, Any]  # secrets are replaced by `[secret]`
    secret_outputs: frozenset[str] = frozenset()  # names of the outputs that contain a secret


def record_program(
    program: Path,
    *,
    project: str,
    stack: str,
    config: Mapping[str, str],
    secret_config: Iterable[str] = (),
    preview: bool = True,
    unknown_outputs: bool | None = None,
    resolve_stack: StackResolver | None = None,
    organization: str = "organization",
) -> RecordedProgram:
    """Run the Pulumi program `program` (its `__main__.py`) and return the resources that it registers.

    `config` maps full keys (`gpu-platform:platform`) to strings, which are JSON for objects. With
    `unknown_outputs` (default: the value of `preview`), some values are unknown, as in a first `pulumi preview`:
    the results of provider functions, and the id and outputs of every resource that is not a Kubernetes object.

    Raises ProgramError for `pulumi.RunError` and for features that this engine does not support. Other exceptions
    of the program are passed on.
    """
    recorder = _Recorder(
        project=project,
        stack=stack,
        unknown_outputs=preview if unknown_outputs is None else unknown_outputs,
        preview=preview,
        resolve_stack=resolve_stack,
    )

    def run() -> None:
        set_all_config(dict(config), list(secret_config))
        # `set_mocks` would close the stack before the program runs, and the program's exports would be lost.
        configure(
            Settings(
                project=project,
                stack=stack,
                monitor=recorder,
                dry_run=preview,
                organization=organization,
                root_directory=str(program.parent),
            )
        )
        with (
            _without_garbage_collection(),
            _short_stack_traces(),
            _event_loop() as loop,
            _first_on_sys_path(program.parent),
        ):
            # pyrefly: ignore[partially-unknown-type] - pyrefly treats the types of a coroutine as unknown
            loop.run_until_complete(run_in_stack(lambda: _run_file(program)))

    # A failed program leaves coroutines that were never awaited. Only the error of the program matters.
    warnings.filterwarnings("ignore", r"coroutine 'Output\.\w+' was never awaited", RuntimeWarning)
    try:
        # Settings, configuration and root stack are context variables, so a copied context isolates them.
        contextvars.copy_context().run(run)
    except pulumi.RunError as error:
        raise ProgramError(str(error)) from error
    return recorder.result()


async def _run_file(program: Path) -> None:
    """Run the program, and wait for its outputs until none is pending or one has failed.

    The SDK waits for all outputs again whenever one of them is done, so the time grows with the square of their
    number. After this function, the SDK finds no pending outputs. Measured on the 138 resources of eks-training:
    0.4 s instead of 0.6 s.
    """
    runpy.run_path(str(program), run_name="__main__")
    # The attribute `outputs` exists only at run time.
    tracked = cast("set[asyncio.Task[object]]", cast("Any", SETTINGS).outputs)
    while pending := {task for task in tracked if not task.done()}:
        # pyrefly: ignore[partially-unknown-type] - pyrefly treats the types of a coroutine as unknown
        done, _ = await asyncio.wait(pending, return_when=asyncio.FIRST_EXCEPTION)
        if any(task.cancelled() or task.exception() for task in done):
            return  # the SDK then raises the error of the failed output


@contextmanager
def _first_on_sys_path(folder: Path) -> Generator[None]:
    """Make modules in the program's folder importable while it runs, as Pulumi's language host does."""
    before = list(sys.path)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path[:] = before


@contextmanager
def _without_garbage_collection() -> Generator[None]:
    """Pause the garbage collector, because almost all objects of a run live until its end.

    Measured with 4,000 resources: 5 s instead of 10 s, 6 % more memory.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def _short_stack_traces() -> Generator[None]:
    """Limit the stack traces of the SDK to the innermost frame.

    The SDK sends the stack with every resource, but nobody reads it. Measured on the 248 resources of
    eks-training: 0.5 s with 12 frames, 0.43 s with one frame.
    """
    before = getattr(sys, "tracebacklimit", None)
    sys.tracebacklimit = _FRAMES_READ
    try:
        yield
    finally:
        if before is None:
            del sys.tracebacklimit
        else:
            sys.tracebacklimit = before


_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")


class _InlineEventLoop(asyncio.SelectorEventLoop):
    """Event loop that runs the SDK's worker-thread calls in place, so that registrations keep their order."""

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*_Arguments], _Result], *args: *_Arguments
    ) -> asyncio.Future[_Result]:
        future: asyncio.Future[_Result] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)  # pyrefly: ignore[partially-unknown-type] - typeshed does not declare its type
        return future


@contextmanager
def _event_loop() -> Generator[asyncio.AbstractEventLoop]:
    """Provide a new event loop, and close it with all its tasks, even after a failed program."""
    loop = _InlineEventLoop()
    # A failed program leaves futures that are never awaited, and asyncio would log each of them.
    loop.set_exception_handler(lambda _loop, _context: None)
    asyncio.set_event_loop(loop)
    try:
        yield loop
    finally:
        leftovers = asyncio.all_tasks(loop)
        for task in leftovers:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*leftovers, return_exceptions=True))
        loop.close()
        asyncio.set_event_loop(None)


class _NoMocks(Mocks):
    """Mocks for MockMonitor's constructor. They are never called, because the recorder answers all requests."""

    def call(self, args: MockCallArgs) -> tuple[dict[str, Any], None]:
        raise NotImplementedError(args.token)

    def new_resource(self, args: MockResourceArgs) -> tuple[str, dict[str, Any]]:
        raise NotImplementedError(args.typ)


class _Registration(Protocol):
    """Common fields of RegisterResourceRequest and ReadResourceRequest."""

    @property
    def type(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def parent(self) -> str: ...
    @property
    def provider(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def dependencies(self) -> Iterable[str]: ...
    @property
    def additionalSecretOutputs(self) -> Iterable[str]: ...  # noqa: N802  # the protocol's name


class _Recorder(MockMonitor):
    """Resource monitor that records each resource registration, and answers it with the values in the request."""

    def __init__(
        self,
        *,
        project: str,
        stack: str,
        unknown_outputs: bool,
        preview: bool,
        resolve_stack: StackResolver | None,
    ) -> None:
        super().__init__(_NoMocks())
        self._project = project
        self._stack = stack
        self._unknown_outputs = unknown_outputs
        self._preview = preview
        self._resolve_stack = resolve_stack
        self._records: dict[str, ResourceRecord] = {}
        self._stack_outputs: Mapping[str, Any] = {}
        self._secret_outputs: frozenset[str] = frozenset()

    def result(self) -> RecordedProgram:
        return RecordedProgram(
            project=self._project,
            stack=self._stack,
            resources=tuple(self._records.values()),
            outputs=self._stack_outputs,
            secret_outputs=self._secret_outputs,
        )

    # -- calls of the resource monitor, as defined in pulumi/resource.proto --------------------------------

    def RegisterResource(  # noqa: N802
        self, request: resource_pb2.RegisterResourceRequest
    ) -> resource_pb2.RegisterResourceResponse:
        if request.transforms:
            raise _unsupported(f"the resource transform on {request.type} {request.name!r}")
        record = self._record(
            request,
            request.object,
            custom=request.custom,
            timeouts={
                operation: text
                for operation in ("create", "update", "delete")
                if (text := str(getattr(request.customTimeouts, operation)))
            },
            property_dependencies={
                key: tuple(sorted(value.urns))
                for key, value in sorted(request.propertyDependencies.items())
                if value.urns
            },
        )
        aliases = cast("Sequence[alias_pb2.Alias]", cast("Any", request).aliases)  # untyped in Pulumi's stubs
        record = replace(
            record,
            id=self._identity(record, request.importId),
            protect=request.protect,
            ignore_changes=tuple(request.ignoreChanges),
            replace_on_changes=tuple(request.replaceOnChanges),
            delete_before_replace=request.deleteBeforeReplace,
            retain_on_delete=request.retainOnDelete,
            deleted_with=request.deletedWith,
            before_update=tuple(request.hooks.before_update),
            aliases=tuple(self._alias(request, alias) for alias in aliases),
        )
        self._records[record.urn] = record
        unknown = record.custom and not record.id
        return resource_pb2.RegisterResourceResponse(
            urn=record.urn,
            id=record.id,
            object=_without_objects(request.object) if unknown else request.object,
            unknown=unknown,
        )

    def ReadResource(  # noqa: N802
        self, request: resource_pb2.ReadResourceRequest
    ) -> resource_pb2.ReadResourceResponse:
        record = self._record(request, request.properties, custom=True, external=True)
        record = replace(record, id=request.id)
        known: struct_pb2.Struct | None = None
        if request.type == STACK_REFERENCE_TYPE:
            known = self._referenced_stack(request.id)
            if known is not None:
                record = replace(record, outputs=plain_properties(known, reveal=False))
        self._records[record.urn] = record
        return resource_pb2.ReadResourceResponse(
            urn=record.urn, id=request.id, properties=known or struct_pb2.Struct(), unknown=known is None
        )

    def RegisterResourceOutputs(  # noqa: N802
        self, request: resource_pb2.RegisterResourceOutputsRequest
    ) -> empty_pb2.Empty:
        outputs = plain_properties(request.outputs, reveal=False)
        record = self._records[request.urn]
        self._records[request.urn] = replace(record, outputs=outputs)
        if record.type == STACK_TYPE:
            self._stack_outputs = outputs
            self._secret_outputs = frozenset(
                name for name, value in request.outputs.fields.items() if holds_secret(value)
            )
        return empty_pb2.Empty()

    def Invoke(  # noqa: N802
        self, request: resource_pb2.ResourceInvokeRequest
    ) -> resource_pb2.ResourceInvokeResponse:
        if not self._unknown_outputs:
            raise _unsupported(f"the provider function {request.tok}")
        return resource_pb2.ResourceInvokeResponse(unknown=True)

    def RegisterStackTransform(self, request: callback_pb2.Callback) -> empty_pb2.Empty:  # noqa: N802
        raise _unsupported("a stack transform")

    # -- answers -------------------------------------------------------------------------------------------

    def _record(
        self,
        request: _Registration,
        properties: struct_pb2.Struct,
        *,
        custom: bool,
        external: bool = False,
        timeouts: Mapping[str, str] | None = None,
        property_dependencies: Mapping[str, tuple[str, ...]] | None = None,
    ) -> ResourceRecord:
        urn = self._urn(request.parent, request.type, request.name)
        if urn in self._records:
            raise ProgramError(
                f"two resources have the type {request.type}, the name {request.name!r} and the same parent; "
                "give one of them a different name"
            )
        inputs = plain_properties(properties, reveal=False)
        revealed: Mapping[str, Any] | None = None
        secret_keys = inputs.keys() & set(request.additionalSecretOutputs)
        if secret_keys or holds_secret(properties):
            revealed = plain_properties(properties, reveal=True)
            inputs |= {key: redact_leaves(inputs[key]) for key in secret_keys}
        return ResourceRecord(
            urn=urn,
            type=request.type,
            name=request.name,
            custom=custom,
            inputs=inputs,
            parent=request.parent,
            dependencies=tuple(sorted(request.dependencies)),
            outputs=inputs if custom else {},
            property_dependencies=property_dependencies or {},
            provider=request.provider,
            package_version=request.version,
            external=external,
            timeouts=timeouts or {},
            revealed_inputs=revealed,
        )

    def _urn(self, parent: str, type_: str, name: str) -> str:
        """Return the URN of a resource as the engine builds it. The mock monitor only uses the direct parent."""
        qualified = type_
        if parent:
            parent_type = parent.split("::", 3)[2]
            if parent_type != STACK_TYPE:
                qualified = f"{parent_type}${type_}"
        return f"urn:pulumi:{self._stack}::{self._project}::{qualified}::{name}"

    def _alias(self, request: _Registration, alias: alias_pb2.Alias) -> str:
        """Return the URN that an alias stands for. Values that the alias omits are taken from the resource."""
        if alias.urn:
            return alias.urn
        spec = alias.spec
        parent = "" if spec.noParent else spec.parentUrn or request.parent
        return self._urn(parent, spec.type or request.type, spec.name or request.name)

    def _identity(self, record: ResourceRecord, import_id: str) -> str:
        """Return the id that the provider would assign, or an empty string if it is unknown."""
        if not record.custom:
            return ""
        if import_id:
            return import_id
        if record.type.startswith(PROVIDER_PREFIX):
            return provider_id(record.urn)
        if record.type.startswith(KUBERNETES_PREFIX):
            return _kubernetes_id(record.true_inputs)
        return "" if self._unknown_outputs else f"{record.name}-id"

    def _referenced_stack(self, name: str) -> struct_pb2.Struct | None:
        outputs = None if self._resolve_stack is None else self._resolve_stack(name)
        if outputs is None:
            if self._preview:
                return None
            stack = name.rsplit("/", 1)[-1]
            raise ProgramError(f"the outputs of stack {stack!r} are unknown; run `gpu-platform up {stack}` first")
        properties = struct_pb2.Struct()
        properties.update({"name": name, "outputs": dict(outputs), "secretOutputNames": []})
        return properties


def _without_objects(properties: struct_pb2.Struct) -> struct_pb2.Struct:
    """Remove the properties whose values are objects. These values are unknown, because a provider adds fields to
    the objects.
    """
    known = struct_pb2.Struct()
    for key, value in properties.fields.items():
        items = value.list_value.values if value.HasField("list_value") else [value]
        if not any(item.HasField("struct_value") for item in items):
            known.fields[key].CopyFrom(value)
    return known


def _unsupported(what: str) -> ProgramError:
    return ProgramError(f"the embedded engine cannot run {what}; use the Pulumi CLI for this stack")


def provider_id(urn: str) -> str:
    """Return a stable id for the provider `urn`, so that two renders of one program are equal."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, urn))


def _kubernetes_id(inputs: Mapping[str, Any]) -> str:
    """Return `namespace/name` (`name` for cluster-scoped objects), or "" if the name is unknown."""
    metadata = inputs.get("metadata")
    if not isinstance(metadata, Mapping):
        return ""
    fields = cast("Mapping[str, Any]", metadata)
    name, namespace = fields.get("name"), fields.get("namespace")
    if not isinstance(name, str) or UNKNOWN in (name, namespace):
        return ""
    return f"{namespace}/{name}" if namespace else name
