"""CEL functions and extensions that the API server supports, for Google's CEL library.

They are the functions of Kubernetes 1.36 with its default feature gates. Admission policies must also compile on
the oldest supported release, 1.33. In a new or changed expression, an API server accepts only functions that its
previous release supports as well, so release 1.34 refuses the lists of 1.34, such as `flatten`. Sources:
k8s.io/apiserver/pkg/cel/environment/base.go (extensions, DefaultCompatibilityVersion) and pkg/cel/library
(functions); v0.33.4, v0.34.2 and v0.36.3, read 2026-11-30.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_strings
from google.protobuf import descriptor_pb2, descriptor_pool, struct_pb2

QUANTITY: Final = "kubernetes.Quantity"
_SEMVER: Final = "kubernetes.Semver"
_URL: Final = "kubernetes.URL"
_FORMAT: Final = "kubernetes.NamedFormat"
_IP: Final = "net.IP"
_CIDR: Final = "net.CIDR"
_AUTHORIZER: Final = "kubernetes.authorization.Authorizer"
_GROUP: Final = "kubernetes.authorization.GroupCheck"
_RESOURCES: Final = "kubernetes.authorization.ResourceCheck"
_DECISION: Final = "kubernetes.authorization.Decision"
_FORMATS: Final = (
    *("dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix"),
    *("dns1123SubdomainPrefix", "dns1035LabelPrefix", "labelValue", "uri", "uuid", "byte", "date", "datetime"),
)
_SUMMABLE: Final = ("int", "uint", "double", "duration")
_COMPARABLE: Final = (*_SUMMABLE, "bool", "timestamp", "string", "bytes")

# Each entry contains the name, result type and argument types of a function.
GLOBAL: Final = (
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
    ("quantity", QUANTITY, "string"),
    ("semver", _SEMVER, "string"),
    ("semver", _SEMVER, "string", "bool"),
    ("sign", "int", QUANTITY),
    ("string", "string", _CIDR),
    ("string", "string", _IP),
    ("url", _URL, "string"),
    *((f"format.{name}", _FORMAT) for name in _FORMATS),
)
# Each entry contains the name, result type, receiver type and argument types of a member function.
MEMBER: Final = (
    ("add", QUANTITY, QUANTITY, QUANTITY),
    ("add", QUANTITY, QUANTITY, "int"),
    ("asApproximateFloat", "double", QUANTITY),
    ("asInteger", "int", QUANTITY),
    ("compareTo", "int", QUANTITY, QUANTITY),
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
    ("isGreaterThan", "bool", QUANTITY, QUANTITY),
    ("isGreaterThan", "bool", _SEMVER, _SEMVER),
    ("isInteger", "bool", QUANTITY),
    ("isLessThan", "bool", QUANTITY, QUANTITY),
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
    ("sub", QUANTITY, QUANTITY, QUANTITY),
    ("sub", QUANTITY, QUANTITY, "int"),
    *(("sum", kind, f"list<{kind}>") for kind in _SUMMABLE),
    ("validate", "optional_type<list<string>>", _FORMAT, "string"),
)
_OF_AUTHORIZER: Final = (
    ("allowed", "bool", _DECISION),
    ("check", _DECISION, _RESOURCES, "string"),
    ("group", _GROUP, _AUTHORIZER, "string"),
    ("namespace", _RESOURCES, _RESOURCES, "string"),
    ("resource", _RESOURCES, _GROUP, "string"),
    ("subresource", _RESOURCES, _RESOURCES, "string"),
)
_EXTENSIONS: Final = {"bindings": 0, "optional": 0, "sets": 0, "two-var-comprehensions": 0, "lists": 35}
"""Extensions, each with the first minor release that accepts it in new expressions."""
_SEMVER_FROM: Final = 34
_OLDEST: Final = 33
NEWEST: Final = 36


def environment(
    variables: Mapping[str, cel.Type],
    messages: Iterable[descriptor_pb2.FileDescriptorProto] = (),
    members: Iterable[tuple[str, ...]] = (),
    *,
    minor: int = NEWEST,
) -> cel.Env:
    """Return the environment for expressions with these variables.

    `messages` and `members` are types and member functions that exist only in these expressions. The environment
    has what Kubernetes 1.`minor` accepts in new expressions.
    """
    known = [
        [row for row in rows if _SEMVER not in row or minor >= _SEMVER_FROM]
        for rows in (GLOBAL, (*MEMBER, *members))
    ]
    kubernetes = [*_declared(known[0], is_member=False), *_declared(known[1], is_member=True)]
    names = ", ".join(f"{{name: {one}}}" for one, first in _EXTENSIONS.items() if minor >= first)
    return cel.NewEnv(
        descriptor_pool=_messages(messages),
        config=cel.NewEnvConfigFromYaml(f"extensions: [{names}]"),
        variables=variables,
        # The order matters, because Kubernetes adds overloads to indexOf and lastIndexOf of the string extension.
        extensions=[ext_strings.ExtStrings(2), cel.CelExtension("kubernetes", kubernetes)],
    )


def admission_environment(variables: Mapping[str, cel.Type]) -> cel.Env:
    """Return the environment for admission policies on all supported releases of Kubernetes. `variables` are the
    types of `variables.NAME`, by name.
    """
    return environment(
        {
            **dict.fromkeys(("object", "oldObject", "request", "namespaceObject"), cel.Type.DYN),
            "authorizer": cel.Type(_AUTHORIZER),
            **{f"variables.{name}": kind for name, kind in variables.items()},
        },
        members=_OF_AUTHORIZER,
        minor=_OLDEST,
    )


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


def _messages(more: Iterable[descriptor_pb2.FileDescriptorProto]) -> descriptor_pool.DescriptorPool:
    """Return the pool of message types for expressions: Kubernetes' types and the types in `more`. Types that are
    only passed to functions have no fields.
    """
    pool = descriptor_pool.DescriptorPool()
    # pyrefly: ignore[partially-unknown-type] - incomplete in protobuf's stubs
    pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
    for name in (QUANTITY, _SEMVER, _URL, _FORMAT, _IP, _CIDR, _AUTHORIZER, _GROUP, _RESOURCES, _DECISION):
        package, _, message = name.rpartition(".")
        empty = descriptor_pb2.FileDescriptorProto(name=f"cel/{name}.proto", package=package, syntax="proto3")
        empty.message_type.add(name=message)
        pool.Add(empty)  # pyrefly: ignore[partially-unknown-type] - incomplete in protobuf's stubs
    for file in more:
        pool.Add(file)  # pyrefly: ignore[partially-unknown-type] - incomplete in protobuf's stubs
    return pool
