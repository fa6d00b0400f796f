"""Checks the CEL of a device selector without a cluster: its syntax, names and types. The API server makes the
same checks.

Google's CEL library parses and type-checks the expression with Kubernetes' declarations (`cel_environment`). The
library and protobuf are imported only if a stack file contains a selector. An expression may use an attribute or
capacity that the NVIDIA DRA driver is not known to publish. The expression is valid, so the result is a note and
not a mistake. Sources: Kubernetes 1.36, pkg/apis/resource/validation (validateCELSelector), read 2026-11-22;
kubernetes.io, "Dynamic Resource Allocation"; kubernetes-sigs/dra-driver-nvidia-gpu, resourceslice-attributes, read
2026-11-21.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from gpu_platform.base import names
from gpu_platform.base.errors import did_you_mean

if TYPE_CHECKING:
    from cel_expr_python import cel

    from gpu_platform.planning.dra.cel_ast import Usage

MAX_BYTES: Final = 10 * 1024
"""Maximum length of a selector in bytes: CELSelectorExpressionMaxLength of resource.k8s.io/v1."""

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
_DOMAINS: Final = (
    names.DRA_DRIVER,
    "resource.kubernetes.io",
)  # all drivers have the same attributes in this domain
_NOT_PUBLISHED: Final = "the NVIDIA DRA driver is not known to publish it, and reading a missing value is an error"
_SHOWN: Final = 160  # maximum number of characters to show from the library's message, which quotes the expression
_ALLOWED: Final = "a CEL expression over device that Kubernetes 1.36 accepts"
_LITERALS: Final = {
    "duration": "a duration, for example 90s or 1h30m",
    "find": "an RE2 regular expression",
    "findAll": "an RE2 regular expression",
    "matches": "an RE2 regular expression",
    "timestamp": "an RFC 3339 time, for example 2026-01-31T00:00:00Z",
}
_ERROR: Final = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): (.*)")
_WORDING: Final = (  # pairs of a pattern in the library's message and its replacement
    (r" \(in container ''\)$", ""),
    (r"^Syntax error: token recognition error at: '(.*?)\s*'$", r"an invalid CEL token: \1"),
    (r"^Syntax error: ", ""),
    (r"^found ", ""),
    (r"expecting \{.*", "expecting a value"),
    (r"^mismatched input '?<EOF>'? (expecting .*)", r"unexpected end, \1"),
    (r"^missing (\S+) at '?<EOF>'?", r"missing \1"),
    (r"'?<EOF>'?", "the end"),
    (r"'_([^_']+)_'", r"'\1'"),
    (r" not found in struct 'kubernetes\.DRADevice'", " of device"),
    (r" not found in struct '(\S+)'", r" of \1"),
)
_HINTS: Final = {
    "=": "write ==",
    "&": "write &&",
    "|": "write ||",
    "and": "write &&",
    "or": "write ||",
    "not": "write !",
}
_REFERENCE: Final = "see kubernetes.io, Common Expression Language in Kubernetes"
_QUANTITY_HINT: Final = f"write device.capacity['{names.DRA_DRIVER}'].memory.compareTo(quantity('40Gi')) >= 0"


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in an expression: what was found, what is allowed, and the likely fix."""

    found: str
    allowed: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """A valid but probably unintended part of an expression, with the reason."""

    what: str
    why: str


def check_cel(text: str) -> Mistake | None:
    """Return why the API server would reject a device selector, or None if it would accept the selector."""
    return _checked(text)[0]


def selector_notes(text: str) -> tuple[Note, ...]:
    """Return the probably unintended parts of a device selector. A rejected selector has no notes."""
    return _checked(text)[1]


@lru_cache(maxsize=256)
def _checked(text: str) -> tuple[Mistake | None, tuple[Note, ...]]:
    size = len(text.encode(errors="surrogatepass"))
    if size > MAX_BYTES:
        return Mistake(f"{size} bytes", f"at most {MAX_BYTES}", "shorten it, or split it into two selectors"), ()
    if any("\ud800" <= one <= "\udfff" for one in text):
        return Mistake("half of a surrogate pair", "Unicode text", "remove the escape that produced it"), ()
    from gpu_platform.planning.dra.cel_ast import usage_of
    from gpu_platform.planning.dra.cel_environment import environment

    try:
        parsed = environment(whole_device=False).compile(text, disable_check=True)
        usage = usage_of(parsed.serialize())
        env = environment(whole_device=usage.whole_device)
        result = env.compile(text).return_type()
    except RuntimeError as error:  # the only exception class that the library raises
        return _mistake(text, str(error)), ()
    mistake = _wrong_result(result, usage) or _wrong_constant(usage)
    return mistake, () if mistake else (*_release_notes(text, usage), *_notes(usage))


# -- mistakes ---------------------------------------------------------------------------------------------


def _mistake(text: str, message: str) -> Mistake:
    """Return the first mistake in the library's message."""
    first = _ERROR.search(message)
    if message.startswith("CANCELLED: ") or (first is not None and first[3].startswith("Exceeded max recursion")):
        # The CEL library has a fixed limit of 32 nested levels, and brackets also count as levels.
        # The API server allows 250 nested levels.
        return Mistake("an expression that is nested too deeply", "at most 32 levels", "use fewer brackets")
    if first is None or int(first[1]) < 1:
        return Mistake(_plain(message.partition("\n")[0]), _ALLOWED)
    line, column = int(first[1]), int(first[2])
    before = text.split("\n")[line - 1][: column - 1]
    return Mistake(f"{_plain(first[3])} at line {line}, column {column}", _ALLOWED, _fix(first[3], before))


def _plain(message: str) -> str:
    for pattern, replacement in _WORDING:
        message = re.sub(pattern, replacement, message)
    return _short("".join(one if one.isprintable() else ascii(one)[1:-1] for one in message))


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _fix(message: str, before: str) -> str:
    """Return the likely fix. `before` is the part of the line that precedes the mistake."""
    from gpu_platform.planning.dra.cel_environment import FIELDS, known_names

    quoted = re.search(r"'(''|[^']*)'", message)
    word = quoted[1].strip() if quoted else ""
    if "DRADevice" in message:
        return did_you_mean(word, FIELDS) or "device has " + ", ".join(FIELDS)
    if message.startswith("undeclared reference"):
        known = known_names()
        return did_you_mean(word, known) or did_you_mean(word.split(".")[0], known) or _REFERENCE
    if "kubernetes.Quantity" in message or (before[-1:].isdigit() and re.fullmatch(r"[KMGTPE]i?", word)):
        return _QUANTITY_HINT
    if "token recognition error at: ''" in message or "token recognition error at: '\"" in message:
        return "close the quote"
    return _HINTS.get(word) or _HINTS.get((before.split() or [""])[-1], "")


def _wrong_result(result: cel.Type, usage: Usage) -> Mistake | None:
    from cel_expr_python import cel

    # The type of an attribute is `any`, which the library calls ERROR.
    # Values derived from `device` as a whole have type `dyn`.
    taken = [cel.Type.BOOL, cel.Type.ERROR, *([cel.Type.DYN] if usage.whole_device else [])]
    if result in taken:
        return None
    kind = re.sub(r"\b[A-Z]+\b", lambda name: name[0].lower(), result.name().replace("ERROR", "any"))
    return Mistake(f"an expression of type {kind}", "an expression of type bool", "compare it with a value: ==")


def _wrong_constant(usage: Usage) -> Mistake | None:
    """Return a mistake for a constant that the API server rejects before it evaluates anything."""
    from gpu_platform.planning.dra.cel_environment import literal_error

    for function, text in usage.literals:
        error = literal_error(function, text)
        if error:
            return Mistake(f"{_short(text)!r} in {function}() ({_short(error)})", _LITERALS[function])
    for kinds in usage.mixed:
        found = f"a list or map with constants of several types: {', '.join(kinds)}"
        return Mistake(found, "constants of one type", "write all of them as one type")
    return None


# -- notes ------------------------------------------------------------------------------------------------


def _release_notes(text: str, usage: Usage) -> Iterator[Note]:
    """Yield a note if Kubernetes 1.34 refuses the expression, although newer releases accept it."""
    from gpu_platform.planning.dra.cel_environment import environment

    try:
        environment(whole_device=usage.whole_device, on_oldest=True).compile(text)
    except RuntimeError as error:  # the only exception class that the library raises
        mistake = _mistake(text, str(error))
        yield Note(mistake.found, "Kubernetes 1.34 refuses it, and only newer releases accept it")


def _notes(usage: Usage) -> Iterator[Note]:
    if not any(path[0] == "device" for path in usage.paths):
        yield Note("no mention of device", "the expression is true for all devices or for none")
    if ("device", "allowMultipleAllocations") in usage.paths:
        yield Note("device.allowMultipleAllocations", "by default, only Kubernetes 1.36 and newer have this field")
    for path in usage.paths:
        if path[0] != "device" or len(path) not in (3, 4) or path[1] not in KNOWN:
            continue
        known = KNOWN[path[1]]
        where = _short("".join([f"device.{path[1]}['{path[2]}']", *(f".{name}" for name in path[3:])]))
        if len(path) == 3 and path[2] not in _DOMAINS:
            hint = did_you_mean(path[2], _DOMAINS) or f"its domain is {names.DRA_DRIVER}"
            yield Note(where, f"the NVIDIA DRA driver publishes nothing in that domain; {hint}")
        elif len(path) == 4 and path[2] == names.DRA_DRIVER and path[3] not in known:
            hint = did_you_mean(path[3], known) or "see the devices: kubectl get resourceslices -o yaml"
            yield Note(where, f"{_NOT_PUBLISHED}; {hint}")
