"""The CEL environment of a device selector: its variables and the functions of Kubernetes.

Source of the variables: k8s.io/dynamic-resource-allocation/cel/compile.go (`device`), v0.36.3, read 2026-11-22.
The API server rejects three kinds of expressions that this module accepts: an expression with an estimated cost
over 1,000,000; a list or map with non-constant values of several types; and an expression that uses `device` as a
whole (`cel.bind(d, device, ...)`) and a capacity with the wrong type. The API server accepts up to 250 nested
levels, and this module only 32.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from cel_expr_python import cel
from google.protobuf import descriptor_pb2, struct_pb2

from gpu_platform.catalog import kubernetes_cel

FIELDS: Final = ("allowMultipleAllocations", "attributes", "capacity", "driver")
"""The fields of `device`."""

_STANDARD: Final = (  # only for suggestions; the library declares these itself
    *("all", "contains", "duration", "endsWith", "exists", "filter", "has", "hasValue", "lowerAscii", "map"),
    *(
        "matches",
        "orValue",
        "replace",
        "size",
        "split",
        "startsWith",
        "string",
        "substring",
        "timestamp",
        "upperAscii",
    ),
)
_DEVICE: Final = "kubernetes.DRADevice"
_OLDEST: Final = 34


def known_names() -> tuple[str, ...]:
    """Return the names that an expression may use, for suggestions."""
    return tuple(
        dict.fromkeys(
            ["device", *_STANDARD, *(row[0] for row in (*kubernetes_cel.GLOBAL, *kubernetes_cel.MEMBER))]
        )
    )


@cache
def environment(*, whole_device: bool, on_oldest: bool = False) -> cel.Env:
    """Return the declarations for a device selector. With `on_oldest`, it has only what the oldest Kubernetes
    release with DRA accepts.

    Attributes and capacities are maps of maps, which a protobuf message cannot have as a field. They are declared
    as separate variables next to the message, unless an expression uses `device` as a whole.
    """
    variables = {"device": cel.Type(_DEVICE)}
    if not whole_device:
        variables["device.attributes"] = cel.Type("map<string,map<string,any>>")
        variables["device.capacity"] = cel.Type(f"map<string,map<string,{kubernetes_cel.QUANTITY}>>")
    minor = _OLDEST if on_oldest else kubernetes_cel.NEWEST
    return kubernetes_cel.environment(variables, [_device()], minor=minor)


def literal_error(function: str, text: str) -> str:
    """Return the reason why a CEL function cannot parse its constant argument, or an empty string if it can.

    The argument of most functions is a regular expression.
    """
    call = f"{function}(text)" if function in {"duration", "timestamp"} else "''.matches(text)"
    # pyrefly: ignore[partially-unknown-type] - incomplete in CEL's stubs
    value = _texts().compile(call).eval(data={"text": text})
    return str(value.value()).removeprefix("INVALID_ARGUMENT: ") if value.type() == cel.Type.ERROR else ""


@cache
def _texts() -> cel.Env:
    return cel.NewEnv(variables={"text": cel.Type.STRING})


def _device() -> descriptor_pb2.FileDescriptorProto:
    field = descriptor_pb2.FieldDescriptorProto
    package, _, message = _DEVICE.rpartition(".")
    file = descriptor_pb2.FileDescriptorProto(
        name=f"cel/{_DEVICE}.proto", package=package, syntax="proto3", dependency=[struct_pb2.DESCRIPTOR.name]
    )
    device = file.message_type.add(name=message)
    device.field.add(name="driver", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    device.field.add(name="allowMultipleAllocations", number=2, type=field.TYPE_BOOL, label=field.LABEL_OPTIONAL)
    for number, name in enumerate(("attributes", "capacity"), start=3):
        entry = device.nested_type.add(name=f"{name.capitalize()}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
        value = entry.field.add(name="value", number=2, type=field.TYPE_MESSAGE, label=field.LABEL_OPTIONAL)
        value.type_name = f".{struct_pb2.Struct.DESCRIPTOR.full_name}"
        made = device.field.add(name=name, number=number, type=field.TYPE_MESSAGE, label=field.LABEL_REPEATED)
        made.type_name = f".{_DEVICE}.{entry.name}"
    return file
