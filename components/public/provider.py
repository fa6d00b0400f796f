"""The Pulumi provider of the public components, which `plugin/` serves to programs in any language.

It extends the SDK's provider of packaged components, which infers the schema from the annotations:

- The stack file's models describe the properties.
- An Output is refused if its property needs a plain value. The SDK would otherwise drop the Output.
- Wrong arguments are reported by property, without a traceback.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pulumi
from pulumi.errors import InputPropertiesError
from pulumi.provider import main
from pulumi.provider.experimental.analyzer import PropertyDefinition
from pulumi.provider.experimental.component import ComponentProvider
from pulumi.provider.experimental.util import camel_case
from pulumi.provider.provider import ConstructResult
from pulumi.provider.server import ComponentInitError

from components import mig_guard
from components.public._arguments import is_output, needs_plain_value
from components.public._errors import BadArguments
from components.public._models import MODELS, fields_of
from components.public.gpu_operator import GpuOperator
from components.public.node_pool import GpuNodePool
from components.public.platform import GpuPlatform
from components.public.team import GpuTeam
from components.public.validation import GpuValidation
from gpu_platform.base.errors import Problem
from gpu_platform.stack.project import version

NAME = "gpu-platform"
COMPONENTS: tuple[type[pulumi.ComponentResource], ...] = (
    GpuNodePool,
    GpuOperator,
    GpuPlatform,
    GpuTeam,
    GpuValidation,
)


class GpuPlatformProvider(ComponentProvider):
    """Serves the schema of the public components, and constructs them."""

    def __init__(self, release: str) -> None:
        super().__init__(list(COMPONENTS), NAME, None, release)
        self.schema = json.dumps(_described(json.loads(cast("str", self.schema))))

    def construct(
        self,
        name: str,
        resource_type: str,
        inputs: Mapping[str, Any],
        options: pulumi.ResourceOptions | None = None,
    ) -> ConstructResult:
        """Create a component. Raises InputPropertiesError that lists every problem with its arguments."""
        self.validate_resource_type(self._name, resource_type)
        component = resource_type.rpartition(":")[2]
        properties = self._component_defs[component].inputs
        problems = [
            needs_plain_value(place)
            for key, definition in properties.items()
            for place in self._misplaced_outputs(key, inputs.get(key), definition)
        ]
        if problems:
            raise _property_errors(BadArguments(f"{component} {name}", problems))
        try:
            with mig_guard.without_hooks():
                return super().construct(name, resource_type, inputs, options)
        except ComponentInitError as error:
            if isinstance(error.inner, BadArguments):
                raise _property_errors(error.inner) from None
            raise

    def _misplaced_outputs(self, place: str, value: object, definition: PropertyDefinition) -> Iterator[str]:
        """Yield the places of Outputs for which the schema requires a plain value."""
        if is_output(value):
            if definition.plain:
                yield place
        elif isinstance(value, Mapping):
            fields = cast("Mapping[str, object]", value)
            declared = self._fields(definition)
            for key, each in fields.items():
                below = declared.get(key) or definition.additional_properties or _ANYTHING
                yield from self._misplaced_outputs(f"{place}.{key}", each, below)
        elif isinstance(value, (list, tuple)):
            for index, each in enumerate(cast("Sequence[object]", value)):
                yield from self._misplaced_outputs(f"{place}[{index}]", each, definition.items or _ANYTHING)

    def _fields(self, definition: PropertyDefinition) -> Mapping[str, PropertyDefinition]:
        if definition.ref is None:
            return {}
        declared = self.get_type_definition(definition)
        return declared.properties if declared is not None else {}


def serve() -> None:
    """Serve the components to the engine that started this process. A plugin's `__main__.py` calls it."""
    main(GpuPlatformProvider(version()), sys.argv[1:])


_ANYTHING = PropertyDefinition(plain=True)
# Descriptions of arguments whose types have no description.
_PLAIN_NAMES = {
    "labels": "Labels of the nodes, in addition to the platform's labels.",
    "members": "Who may work in the namespace: user:<name>, group:<name> or serviceaccount:<namespace>/<name>.",
    "admins": "Members who may also delete whole collections and evict pods.",
    "viewers": "Members who can read objects and logs, but neither Secrets nor a shell in a pod.",
    "workloads": "Deployments of the team.",
}


def _property_errors(error: BadArguments) -> InputPropertiesError:
    """Return an error that the engine prints for each property, with names in camel case as in the package's
    schema.
    """
    return InputPropertiesError(
        str(error).partition("\n")[0],
        [
            {"property_path": _in_camel_case(problem), "reason": str(problem).removeprefix(f"{problem.path}: ")}
            for problem in error.problems
        ],
    )


def _in_camel_case(problem: Problem) -> str:
    return ".".join(camel_case(part) for part in problem.path.split("."))


def _described(schema: dict[str, Any]) -> dict[str, Any]:
    """Add descriptions from the stack file's models to the properties without a description."""
    by_name = {name: {camel_case(key): text for key, text in fields_of(name).items()} for name in MODELS}
    pool, team = by_name["Pool"], by_name["Team"]
    types = {f"#/types/{token}": kind["description"] for token, kind in schema["types"].items()}
    for token, kind in schema["types"].items():
        _describe(kind["properties"], by_name.get(token.rpartition(":")[2], {}), types)
    named = {"GpuNodePool": pool, "GpuTeam": team, "GpuValidation": by_name["ValidationSettings"]}
    for token, resource in schema["resources"].items():
        resource["description"] = inspect.cleandoc(resource["description"])
        _describe(resource["inputProperties"], named.get(token.rpartition(":")[2], {}), types)
    return schema


def _describe(
    properties: Mapping[str, dict[str, Any]], texts: Mapping[str, str], types: Mapping[str, str]
) -> None:
    for key, declared in properties.items():
        text = (
            declared.get("description")
            or texts.get(key)
            or types.get(declared.get("$ref", ""), _PLAIN_NAMES.get(key))
        )
        if text:
            declared["description"] = inspect.cleandoc(text)
