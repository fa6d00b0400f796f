"""Declare the CEL environment of a device selector: variables, functions, extensions.

Those of Kubernetes 1.36 with its default feature gates: k8s.io/dynamic-resource-allocation/cel/compile.go
(`device`), k8s.io/apiserver/pkg/cel/environment/base.go (extensions) and pkg/cel/library (functions); v0.36.3,
read 2026-11-22. The functions of `authorizer` are left out: a device selector has no such variable.

The API server refuses more in three cases: an expression whose estimated cost is over 1,000,000; a list or map
whose values have several types and are no constants; an expression that uses `device` as a whole
(`cel.bind(d, device, ...)`) and a capacity in a wrong way. It accepts more in one case: 250 nested levels, not 32.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import groupby
from typing import Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_strings
from google.protobuf import descriptor_pb2, descriptor_pool, struct_pb2

FIELDS: Final = ("allowMultipleAllocations", "attributes", "capacity", "driver")
"""Fields of `device`."""

_QUANTITY: Final = "kubernetes.Quantity"
_SEMVER: Final = "kubernetes.Semver"
_URL: Final = "kubernetes.URL"
_FORMAT: Final = "kubernetes.NamedFormat"
_IP: Final = "net.IP"
_CIDR: Final = "net.CIDR"
_FORMATS: Final = (
    *("dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix"),
    *("dns1123SubdomainPrefix", "dns1035LabelPrefix", "labelValue", "uri", "uuid", "byte", "date", "datetime"),
)
_SUMMABLE: Final = ("int", "uint", "double", "duration")
_COMPARABLE: Final = (*_SUMMABLE, "bool", "timestamp", "string", "bytes")

# Name, type of the result, types of the arguments.
_GLOBAL: Final = (
    ("cidr", _CIDR, "string"),
    ("format.named", f"optional_type<{_FORMAT}>", "string"),
    ("ip", _IP, "string"),
    ("ip.isCanonical", "bool", "string"),
    ("isCIDR", "bool", "string"),
    ("isIP", "bool", "string"),
    ("isQuantity", "bool", "string"),
    ("isSemver", "bool", "string"),
    ("isSemver", "bool", "string", "bool"),
    ("isURL", "bool", "string"),
    ("quantity", _QUANTITY, "string"),
    ("semver", _SEMVER, "string"),
    ("semver", _SEMVER, "string", "bool"),
    ("sign", "int", _QUANTITY),
    ("string", "string", _CIDR),
    ("string", "string", _IP),
    ("url", _URL, "string"),
    *((f"format.{name}", _FORMAT) for name in _FORMATS),
)
# Name, type of the result, type of the receiver, types of the arguments.
_MEMBER: Final = (
    ("add", _QUANTITY, _QUANTITY, _QUANTITY),
    ("add", _QUANTITY, _QUANTITY, "int"),
    ("asApproximateFloat", "double", _QUANTITY),
    ("asInteger", "int", _QUANTITY),
    ("compareTo", "int", _QUANTITY, _QUANTITY),
    ("compareTo", "int", _SEMVER, _SEMVER),
    ("containsCIDR", "bool", _CIDR, "string"),
    ("containsCIDR", "bool", _CIDR, _CIDR),
    ("containsIP", "bool", _CIDR, "string"),
    ("containsIP", "bool", _CIDR, _IP),
    ("family", "int", _IP),
    ("find", "string", "string", "string"),
    ("findAll", "list<string>", "string", "string"),
    ("findAll", "list<string>", "string", "string", "int"),
    ("getEscapedPath", "string", _URL),
    ("getHost", "string", _URL),
    ("getHostname", "string", _URL),
    ("getPort", "string", _URL),
    ("getQuery", "map<string,list<string>>", _URL),
    ("getScheme", "string", _URL),
    ("indexOf", "int", "list<~A>", "~A"),
    ("ip", _IP, _CIDR),
    ("isGlobalUnicast", "bool", _IP),
    ("isGreaterThan", "bool", _QUANTITY, _QUANTITY),
    ("isGreaterThan", "bool", _SEMVER, _SEMVER),
    ("isInteger", "bool", _QUANTITY),
    ("isLessThan", "bool", _QUANTITY, _QUANTITY),
    ("isLessThan", "bool", _SEMVER, _SEMVER),
    ("isLinkLocalMulticast", "bool", _IP),
    ("isLinkLocalUnicast", "bool", _IP),
    ("isLoopback", "bool", _IP),
    *(("isSorted", "bool", f"list<{kind}>") for kind in _COMPARABLE),
    ("isUnspecified", "bool", _IP),
    ("lastIndexOf", "int", "list<~A>", "~A"),
    ("major", "int", _SEMVER),
    ("masked", _CIDR, _CIDR),
    *(("max", kind, f"list<{kind}>") for kind in _COMPARABLE),
    *(("min", kind, f"list<{kind}>") for kind in _COMPARABLE),
    ("minor", "int", _SEMVER),
    ("patch", "int", _SEMVER),
    ("prefixLength", "int", _CIDR),
    ("sub", _QUANTITY, _QUANTITY, _QUANTITY),
    ("sub", _QUANTITY, _QUANTITY, "int"),
    *(("sum", kind, f"list<{kind}>") for kind in _SUMMABLE),
    ("validate", "optional_type<list<string>>", _FORMAT, "string"),
)
_STANDARD: Final = (  # for suggestions only: the library declares these itself
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
_EXTENSIONS: Final = """
extensions:
  - {name: bindings}
  - {name: lists}
  - {name: optional}
  - {name: sets}
  - {name: two-var-comprehensions}
"""
_DEVICE: Final = "kubernetes.DRADevice"


def known_names() -> tuple[str, ...]:
    """Return what an expression may call or name, for suggestions."""
    return tuple(dict.fromkeys(["device", *_STANDARD, *(row[0] for row in (*_GLOBAL, *_MEMBER))]))


@cache
def environment(*, whole_device: bool) -> cel.Env:
    """Return the declarations of a device selector.

    Attributes and capacities are maps of maps, which no protobuf message can have as a field. They are declared as
    variables of those names beside the message, except where an expression uses `device` as a whole.
    """
    variables = {"device": cel.Type(_DEVICE)}
    if not whole_device:
        variables["device.attributes"] = cel.Type("map<string,map<string,any>>")
        variables["device.capacity"] = cel.Type(f"map<string,map<string,{_QUANTITY}>>")
    kubernetes = [*_declared(_GLOBAL, is_member=False), *_declared(_MEMBER, is_member=True)]
    return cel.NewEnv(
        descriptor_pool=_messages(),
        config=cel.NewEnvConfigFromYaml(_EXTENSIONS),
        variables=variables,
        # In this order: Kubernetes adds an overload to indexOf and lastIndexOf of the strings.
        extensions=[ext_strings.ExtStrings(2), cel.CelExtension("kubernetes", kubernetes)],
    )


def literal_error(function: str, text: str) -> str:
    """Return why a function cannot parse a constant, or an empty string; most parse regular expressions."""
    call = f"{function}(text)" if function in {"duration", "timestamp"} else "''.matches(text)"
    # pyrefly: ignore[partially-unknown-type] - incomplete in CEL's stubs
    value = _texts().compile(call).eval(data={"text": text})
    return str(value.value()).removeprefix("INVALID_ARGUMENT: ") if value.type() == cel.Type.ERROR else ""


@cache
def _texts() -> cel.Env:
    return cel.NewEnv(variables={"text": cel.Type.STRING})


def _declared(rows: Iterable[tuple[str, ...]], *, is_member: bool) -> Iterator[cel.FunctionDecl]:
    for name, overloads in groupby(sorted(rows), key=lambda row: row[0]):
        yield cel.FunctionDecl(
            name,
            [
                cel.Overload(
                    id="_".join(row) + ("_member" if is_member else ""),
                    return_type=cel.Type(row[1]),
                    parameters=[cel.Type(kind) for kind in row[2:]],
                    is_member=is_member,
                )
                for row in overloads
            ],
        )


@cache
def _messages() -> descriptor_pool.DescriptorPool:
    """Return the types of Kubernetes: `device` with its fields, and those that only functions take."""
    pool = descriptor_pool.DescriptorPool()
    # pyrefly: ignore[partially-unknown-type] - incomplete in protobuf's stubs
    pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
    for name in (_QUANTITY, _SEMVER, _URL, _FORMAT, _IP, _CIDR):
        package, _, message = name.rpartition(".")
        empty = descriptor_pb2.FileDescriptorProto(name=f"cel/{name}.proto", package=package, syntax="proto3")
        empty.message_type.add(name=message)
        pool.Add(empty)  # pyrefly: ignore[partially-unknown-type] - incomplete in protobuf's stubs
    pool.Add(_device())  # pyrefly: ignore[partially-unknown-type] - incomplete in protobuf's stubs
    return pool


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
