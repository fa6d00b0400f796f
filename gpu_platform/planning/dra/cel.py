"""A CEL expression's syntax and names, as far as they can be judged without devices.

The grammar is that of the CEL language definition (google/cel-spec, doc/langdef.md); what the Kubernetes scheduler
offers to a device selector is `device` with driver, attributes and capacity, and the functions of its CEL library.
Attributes and capacities are those that the NVIDIA DRA driver publishes. Sources: kubernetes.io, "Common
Expression Language in Kubernetes" and "Dynamic Resource Allocation"; kubernetes-sigs/dra-driver-nvidia-gpu,
resourceslice-attributes; read 2026-11-21.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpu_platform.errors import did_you_mean

DRIVER: Final = "gpu.nvidia.com"
MAX_LENGTH: Final = 10 * 1024

KNOWN: Final = {
    "attributes": (
        "addressingMode",
        "architecture",
        "brand",
        "cudaComputeCapability",
        "cudaDriverVersion",
        "driverVersion",
        "parentUUID",
        "productName",
        "profile",
        "type",
        "uuid",
    ),
    "capacity": (
        "copyEngines",
        "decoders",
        "encoders",
        "jpegEngines",
        "memory",
        "multiprocessors",
        "ofaEngines",
    ),
}
_FIELDS: Final = ("allowMultipleAllocations", "attributes", "capacity", "driver")
_FUNCTIONS: Final = (
    "bool",
    "bytes",
    "double",
    "duration",
    "dyn",
    "has",
    "int",
    "isQuantity",
    "isSemver",
    "quantity",
    "semver",
    "size",
    "string",
    "timestamp",
    "type",
    "uint",
)
_BINDING: Final = ("all", "bind", "exists", "exists_one", "filter", "map")
_TOKEN: Final = re.compile(
    r"""\s+|(?P<string>[rRbB]{0,2}(?:"{3}.*?"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))"""
    r"""|(?P<number>0x[0-9a-fA-F]+u?|\d+\.\d*(?:[eE][+-]?\d+)?|\.?\d+(?:[eE][+-]?\d+)?u?)"""
    r"""|(?P<name>[A-Za-z_]\w*)|(?P<operator>\|\||&&|[=!<>]=|[-+*/%!<>?:.,()\[\]{}])""",
    re.DOTALL,
)
_HINTS: Final = {
    "=": "write ==",
    "&": "write &&",
    "|": "write ||",
    "and": "write &&",
    "or": "write ||",
    "not": "write !",
}


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong with an expression: what was found, what is allowed, the likely fix."""

    found: str
    allowed: str
    fix: str = ""


class _Wrong(Exception):
    def __init__(self, mistake: Mistake) -> None:
        super().__init__(mistake.found)
        self.mistake = mistake


def check_cel(text: str) -> Mistake | None:
    """Return what is wrong with a device selector, or None where nothing can be seen."""
    if len(text) > MAX_LENGTH:
        return Mistake(f"{len(text)} characters", f"at most {MAX_LENGTH}", "shorten it")
    try:
        parser = _Parser(list(_tokens(text)))
        parser.expression()
        parser.end()
    except _Wrong as wrong:
        return wrong.mistake
    except RecursionError:
        return Mistake("an expression that is nested too deep", "fewer brackets")
    if "device" not in parser.names:
        return Mistake(
            "an expression that says nothing of the device", "one about device", f"see {_example('memory')}"
        )
    return None


def _example(name: str) -> str:
    return f"device.capacity['{DRIVER}'].{name}"


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            what = "a text without end" if text[at] in "\"'" else repr(text[at])
            raise _Wrong(Mistake(f"{what} at character {at + 1}", "a CEL expression", _HINTS.get(text[at], "")))
        if match.lastgroup is not None:
            yield match.lastgroup, match[0], at
        at = match.end()


class _Parser:
    """Recursive descent over the tokens; `names`: the free names that were seen."""

    def __init__(self, tokens: list[tuple[str, str, int]]) -> None:
        self._tokens = tokens
        self._at = 0
        self._bound: list[str] = []
        self.names: set[str] = set()

    def end(self) -> None:
        if self._at < len(self._tokens):
            self._fail()

    def expression(self) -> None:
        self._operators(("||",), ("&&",), ("==", "!=", "<", "<=", ">", ">=", "in"), ("+", "-"), ("*", "/", "%"))
        if self._take("?"):
            self.expression()
            self._need(":")
            self.expression()

    def _operators(self, *levels: tuple[str, ...]) -> None:
        if not levels:
            self._unary()
            return
        self._operators(*levels[1:])
        while self._next() in levels[0]:
            self._at += 1
            self._operators(*levels[1:])

    def _unary(self) -> None:
        while self._take("!") or self._take("-"):
            pass
        self._member()

    def _member(self) -> None:
        path = self._primary()
        while True:
            if self._take("."):
                name = self._name()
                if self._take("("):
                    self._arguments(binds=name in _BINDING)
                    path = []
                else:
                    path.append(name)
            elif self._take("["):
                kind, text, _ = self._peek()
                self.expression()
                self._need("]")
                path.append(text[1:-1] if kind == "string" else "[]")
            else:
                return
            self._check(path)

    def _primary(self) -> list[str]:
        kind, text, _ = self._peek()
        if kind in ("string", "number"):
            self._at += 1
            return []
        if self._take("("):
            self.expression()
            self._need(")")
            return []
        if self._take("["):
            self._list("]")
            return []
        if self._take("{"):
            self._map()
            return []
        if kind != "name" or text in ("in", "and", "or", "not"):
            self._fail()
        self._at += 1
        if text in ("true", "false", "null"):
            return []
        if self._take("("):
            self._known(text, _FUNCTIONS, "a function")
            self._arguments(binds=False)
            return []
        if text not in self._bound:
            self._known(text, ("device", "cel", "math", "optional", "sets"), "a name")
            self.names.add(text)
        return [text]

    def _arguments(self, *, binds: bool) -> None:
        kind, text, _ = self._peek()
        variable = text if binds and kind == "name" else None
        if variable is not None:
            self._bound.append(variable)
        self._list(")")
        if variable is not None:
            self._bound.pop()

    def _list(self, closing: str) -> None:
        while not self._take(closing):
            self.expression()
            if not self._take(","):
                self._need(closing)
                return

    def _map(self) -> None:
        while not self._take("}"):
            self.expression()
            self._need(":")
            self.expression()
            if not self._take(","):
                self._need("}")
                return

    def _check(self, path: list[str]) -> None:
        """Check what an access to the device means: `device.attributes['gpu.nvidia.com'].productName`."""
        if len(path) == 2 and path[0] == "device":
            self._known(path[1], _FIELDS, "a field of device")
        elif len(path) == 4 and path[0] == "device" and path[2] == DRIVER:
            known = KNOWN.get(path[1], ())
            if path[3] not in known:
                what = "attribute" if path[1] == "attributes" else "capacity"
                fix = did_you_mean(path[3], known) or "see the devices: kubectl get resourceslices -o yaml"
                raise _Wrong(Mistake(f"{what} {path[3]!r}", f"one of {', '.join(known)}", fix))

    def _known(self, name: str, known: tuple[str, ...], what: str) -> None:
        if name not in known:
            fix = _HINTS.get(name) or did_you_mean(name, known) or f"see {_example('memory')}"
            raise _Wrong(Mistake(f"{what} {name!r}", f"one of {', '.join(known)}", fix))

    def _name(self) -> str:
        kind, text, _ = self._peek()
        if kind != "name":
            self._fail()
        self._at += 1
        return text

    def _next(self) -> str:
        kind, text, _ = self._peek()
        return text if kind in ("operator", "name") else ""

    def _peek(self) -> tuple[str, str, int]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("end", "the end", -1)

    def _take(self, operator: str) -> bool:
        kind, text, _ = self._peek()
        if kind != "operator" or text != operator:
            return False
        self._at += 1
        return True

    def _need(self, operator: str) -> None:
        if not self._take(operator):
            self._fail(f"{operator!r}")

    def _fail(self, wanted: str = "a CEL expression") -> None:
        _, text, place = self._peek()
        where = f"{text!r} at character {place + 1}" if place >= 0 else "the end of the text"
        raise _Wrong(Mistake(where, f"{wanted} there", _HINTS.get(text, "")))
