"""Reads a stack file as strict YAML and validates it with the models. A single error reports every mistake in the
file.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import yaml
from pydantic import TypeAdapter, ValidationError

from gpu_platform.base.errors import BadInput, Problem, did_you_mean, suggestion
from gpu_platform.base.paths import stacks_dir
from gpu_platform.stack.bounds import out_of_bounds, place_of, read_text
from gpu_platform.stack.environment import Environment, Stack, TeamStack
from gpu_platform.stack.problems import path_text, problems_of

CONFIG_KEY = "gpu-platform:platform"
# Unicode categories of invisible characters and line separators, such as U+0000, U+202E, U+2028.
_INVISIBLE: Final = ("Cc", "Cf", "Zl", "Zp")
_MERGE_TAG: Final = "tag:yaml.org,2002:merge"
_BOOL_TAG: Final = "tag:yaml.org,2002:bool"
_OF_YAML_1_1: Final = (_BOOL_TAG, "tag:yaml.org,2002:value")
_Model = TypeVar("_Model")
_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class StackFile:
    """A stack file that was read: the name of the stack, the path, and the platform object before validation.

    `problems` are mistakes in the YAML that do not prevent validation, such as duplicate keys, or unclear numbers
    such as 010 and 1e5.
    """

    stack: str
    path: Path
    platform: object
    problems: tuple[Problem, ...] = ()


class _StrictLoader(yaml.CSafeLoader):
    """Safe YAML loader that records duplicate keys and uses the first value of each. PyYAML would silently use the
    last value.

    Without quotes, only forms of `true` and `false` are booleans, as for the Pulumi CLI. PyYAML follows YAML 1.1,
    in which `no` and `on` are booleans, too.
    """

    twice: list[Problem]
    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in _OF_YAML_1_1]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }


def _mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Hashable, Any]:
    own = [pair for pair in node.value if pair[0].tag != _MERGE_TAG]
    for again, _ in [pair for pair in node.value if pair[0].tag == _MERGE_TAG][1:]:
        fix = "merge several mappings with one key: <<: [*a, *b]"
        loader.twice.append(Problem(place_of(again.start_mark), "the key '<<' twice", "each key once", fix))
    loader.flatten_mapping(node)  # inserts merged entries before the mapping's own entries
    # pyrefly: ignore[partially-unknown-type] - incomplete in PyYAML's stubs
    construct: Callable[..., object] = loader.construct_object
    seen: dict[Hashable, Any] = {}
    merged = {
        construct(key, deep=True): construct(value, deep=True) for key, value in node.value[: -len(own) or None]
    }
    for key_node, value_node in own:
        key = construct(key_node, deep=True)
        if not isinstance(key, str | int | float):
            kind = "null or a date" if isinstance(key, Hashable) else "a list or a mapping"
            problem = f"{kind} is used as a key; quote it if it is meant as a string"
            raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
        if key in seen:
            found, fix = f"the key {key!r} twice", "remove it here, or above"
            loader.twice.append(Problem(place_of(key_node.start_mark), found, "each key once", fix))
        else:
            seen[key] = construct(value_node, deep=True)
    return {**merged, **seen}


def _number(loader: _StrictLoader, node: yaml.ScalarNode) -> object:
    """Return a number. A value such as `22:00` is returned as a string, because only YAML 1.1 treats it as a
    base-60 number. Pulumi also reads it as a string.
    """
    read = loader.construct_yaml_float if node.tag.endswith(":float") else loader.construct_yaml_int
    return node.value if ":" in node.value else read(node)


# pyrefly: ignore[partially-unknown-type] - incomplete in PyYAML's stubs
_StrictLoader.add_implicit_resolver(_BOOL_TAG, re.compile(r"(true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
_StrictLoader.add_constructor("tag:yaml.org,2002:int", _number)
_StrictLoader.add_constructor("tag:yaml.org,2002:float", _number)


@cache
def stack_adapter() -> TypeAdapter[Environment | TeamStack]:
    """Return the validator for the platform object."""
    return TypeAdapter(Stack)


def find_stack_file(stack: str) -> Path:
    """Return the path of the stack file for a stack. `stack` is a name such as `local`, or a path. Raises BadInput
    if no such file exists.
    """
    folder = stacks_dir()
    known = sorted(stack_name(file) for file in folder.glob("Pulumi.*.yaml"))
    by_path = stack.endswith((".yaml", ".yml")) or "/" in stack
    path = Path(stack) if by_path else folder / f"Pulumi.{stack}.yaml"
    if path.is_file():
        return path
    found, meant = repr(stack), stack_name(path)
    if Path(stack).is_file():
        found += ", which is a different kind of file"
    if by_path:
        found += ", which is not a file" + ("" if path.is_absolute() else f" in {Path.cwd()}")
    allowed = (
        f"the path of a stack file, or the name of a stack in {folder}: {', '.join(known) or 'none is there'}"
    )
    raise BadInput(stack, [Problem("STACK", found, allowed, _other_stack(stack, meant, path, known))])


def _other_stack(stack: str, meant: str, path: Path, known: Sequence[str]) -> str:
    """Return the fix for an unknown stack: the file that was probably meant, or how to write a new file."""
    if Path(stack).is_dir():
        files = sorted(Path(stack).glob("Pulumi.*.yaml"))
        return f"give the path of a file: {files[0]}" if files else "give the path of a file, or a name"
    beside = [path.with_name(f"Pulumi.{meant}.yaml"), Path(f"Pulumi.{meant}.yaml")]
    if file := next((one for one in beside if one.is_file()), None):
        return f"give the path: {file if len(file.parts) > 1 else f'./{file}'}"
    if meant in known:
        return f"give the name {meant!r} for {stacks_dir() / f'Pulumi.{meant}.yaml'}"
    if Path(stack).is_file():
        return "give the path of a file whose name ends with .yaml, or a name"
    name = re.sub("[^a-z0-9-]+", "-", meant.casefold()).strip("-")[:63] or "mine"
    new = f"`gpu-platform init {name}` writes {stacks_dir() / f'Pulumi.{name}.yaml'}"
    return did_you_mean(meant, known) or new


def stack_name(path: Path) -> str:
    """Return the name of the stack in a stack file, such as `local` for `Pulumi.local.yaml`."""
    return path.name.removeprefix("Pulumi.").rsplit(".", 1)[0]


def read_yaml_file(path: Path) -> object:
    """Read a YAML file.

    Raises BadInput if the file is not readable or not valid YAML, is too large (see bounds.py), or has a duplicate
    key.
    """
    value, problems = _read(path, _construct)
    if problems:
        raise BadInput(str(path), problems)
    return value


def read_yaml_documents(path: Path) -> list[object]:
    """Read a YAML file with any number of documents, such as Kubernetes manifests, in which a file mode may be an
    octal number. Raises BadInput like `read_yaml_file`.
    """
    values, problems = _read(path, _construct_all, are_manifests=True)
    if problems:
        raise BadInput(str(path), problems)
    return values


def _construct(text: str, twice: list[Problem]) -> object:
    loader = _StrictLoader(text)
    loader.twice = twice
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def _construct_all(text: str, twice: list[Problem]) -> list[object]:
    loader = _StrictLoader(text)
    loader.twice = twice
    values: list[object] = []
    try:
        while loader.check_data():  # pyrefly: ignore[partially-unknown-type] - incomplete in PyYAML's stubs
            values.append(cast("object", loader.get_data()))
    finally:
        loader.dispose()
    return values


def _read(
    path: Path, construct: Callable[[str, list[Problem]], _Read], *, are_manifests: bool = False
) -> tuple[_Read, list[Problem]]:
    """Return the parsed content of a file, and the mistakes in it that parsing can tolerate."""
    text = read_text(path)
    if isinstance(text, Problem):
        raise BadInput(str(path), [text])
    problems: list[Problem] = []
    try:
        if problem := out_of_bounds(text, None if are_manifests else problems):
            raise BadInput(str(path), [problem])
        return construct(text, problems), problems
    except yaml.MarkedYAMLError as error:
        raise BadInput(str(path), [*problems, _invalid_yaml(error, text)]) from None
    except RecursionError:
        raise BadInput(
            str(path), [Problem("(the whole file)", "nesting that is too deep or recursive", "valid YAML")]
        ) from None
    except (yaml.YAMLError, ValueError) as error:
        raise BadInput(str(path), [Problem("(the whole file)", str(error), "valid YAML")]) from None


_NO_ENTRY: Final = "did not find expected '-' indicator"
# For each message of the parser about a common mistake: the value found, the allowed value, and the fix.
_YAML_MISTAKES: Final[Mapping[str, tuple[str, str, str]]] = {
    "mapping values are not allowed in this context": (
        "a second `key: value` on one line",
        "one key per line, and quotes around text that contains a colon and a space",
        "put the value in quotes, or write each key on a separate line",
    ),
    _NO_ENTRY: (
        "a line whose indentation matches neither the list entries nor the keys of an entry",
        "list entries below each other, with their keys two columns further right",
        "indent the line like the keys of its entry",
    ),
    "did not find expected key": (
        "a line with an indentation that differs from the keys above it, or a quote or bracket that is not closed",
        "keys of a mapping in the same column",
        "indent the line like the other keys of its mapping, or close the quote or bracket",
    ),
    "did not find expected ',' or ']'": ("a list that is not closed", "[a, b]", "close the bracket"),
    "did not find expected ',' or '}'": ("a mapping that is not closed", "{a: 1, b: 2}", "close the brace"),
    "found undefined alias": (
        "a value that begins with *, which YAML reads as an alias",
        "an alias for an anchor that is defined above it",
        "put the value in quotes",
    ),
    "found unexpected end of stream": (
        "a quote that is not closed",
        "text with a closing quote",
        "close the quote",
    ),
}


def _invalid_yaml(error: yaml.MarkedYAMLError, text: str) -> Problem:
    """Return the problem with a text that is not YAML, in plain words instead of the parser's message."""
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return Problem("(the whole file)", "something that is not YAML", "valid YAML")
    if strange := _not_yaml(text, mark.line):
        return strange
    place = place_of(mark)
    line = (text.split("\n")[mark.line : mark.line + 1] or [""])[0]
    if error.problem == "found character that cannot start any token":
        sign = line[mark.column : mark.column + 1]
        if sign == "\t":
            return Problem(
                place, "a tab", "spaces instead of tabs before a key", "write spaces instead of the tab"
            )
        return Problem(
            place, f"a value that begins with {sign}", "quotes around such a value", "put the value in quotes"
        )
    known = _YAML_MISTAKES.get(str(error.problem))
    if known is not None:
        found, allowed, fix = known
        if error.problem == _NO_ENTRY and (column := _column_of_keys(text, mark.line, mark.column)):
            fix = f"start the line at column {column}, like the keys of its entry"
        return Problem(place, found, allowed, fix)
    found = f"invalid YAML: {error.problem}" if error.problem else "something that is not YAML"
    return Problem(place, found, "valid YAML", "correct that line")


def _not_yaml(text: str, line: int) -> Problem | None:
    """Return the problem with text that git or an editor has inserted, or None. The parser reports the place at
    which it fails, which may be one of the next lines. `line` is this place, counted from 0.
    """
    for number, written in enumerate(text.split("\n")):
        if re.match("<{7} |={7}\r?$|>{7} ", written):
            place = f"line {number + 1}, column 1"
            return Problem(place, "a conflict marker of git", "the text of one side", "resolve the merge conflict")
        space = re.search("[\u00a0\u2000-\u200a\u202f\u3000]", written.partition("#")[0])
        if space is not None and line - 1 <= number <= line:
            place = f"line {number + 1}, column {space.start() + 1}"
            return Problem(place, f"the space {space[0]!a}", "ordinary spaces", "type a space")
    return None


def _column_of_keys(text: str, line: int, column: int) -> int:
    """Return the column, counted from 1, of the keys in the list entry above a line. Returns 0 if all of these
    keys begin to the right of `column`.
    """
    for above in reversed(text.split("\n")[:line]):
        entry = re.match(r"( *)- +(?=\S)", above)
        if entry is not None and len(entry[1]) <= column:
            return len(entry[0]) + 1
    return 0


def read_stack_file(path: Path) -> StackFile:
    """Read the YAML of a stack file. Raises BadInput if it has no platform object."""
    document, mistakes = _read(path, _construct)
    config = cast("Mapping[str, object]", document).get("config") if isinstance(document, Mapping) else None
    if not isinstance(config, Mapping):
        problem = Problem(
            "config",
            "nothing",
            f"a mapping with {CONFIG_KEY}",
            f"start the file with config: and {CONFIG_KEY}:",
        )
        raise BadInput(str(path), [*mistakes, problem])
    keys = cast("Mapping[str, object]", config)
    if CONFIG_KEY not in keys:
        raise BadInput(str(path), [*mistakes, _without_platform(keys, cast("Mapping[str, object]", document))])
    return StackFile(stack_name(path), path, keys[CONFIG_KEY], tuple(mistakes))


def _without_platform(keys: Mapping[str, object], document: Mapping[str, object]) -> Problem:
    """Return the problem with a file whose `config` does not contain a platform object."""
    found = f"keys {', '.join(map(str, keys))}" if keys else "nothing"
    meant = suggestion(did_you_mean(CONFIG_KEY, map(str, keys)))
    fix = f"rename {meant!r} to {CONFIG_KEY!r}" if meant else ""
    if not fix and "environment" in document:
        found += ", and `environment` of Pulumi ESC, which only the Pulumi CLI reads"
        fix = f"write {CONFIG_KEY} into this file, because it contains no secrets"
    return Problem(f"config.{CONFIG_KEY}", found, "the platform object", fix)


def parse_platform(platform: object, source: str) -> Environment | TeamStack:
    """Validate a platform object. Raises BadInput that lists every problem with its place in the file."""
    return parse_document(platform, source, stack_adapter())


def parse_document(document: object, source: str, adapter: TypeAdapter[_Model]) -> _Model:
    """Validate a document with the models of `adapter`. Raises BadInput that lists every problem with its place in
    the file.
    """
    text = to_json(document)
    plain: object = json.loads(text)
    unreadable = tuple(_unreadable(plain, ()))
    try:
        parsed = adapter.validate_json(text)
    except ValidationError as error:
        places = tuple(problem.path for problem in unreadable)
        below = tuple(f"{place}." for place in places)
        others = [
            one
            for one in problems_of(error, plain, adapter)
            if one.path not in places and not one.path.startswith(below) and path_text(()) not in places
        ]
        raise BadInput(source, [*unreadable, *others]) from None
    if unreadable:
        raise BadInput(source, unreadable)
    return parsed


def _unreadable(value: object, path: tuple[str | int, ...]) -> Iterator[Problem]:
    """Yield a problem for each value that Pulumi encrypted, and for each string with characters that hide or
    reorder text.
    """
    if isinstance(value, dict) and cast("dict[str, object]", value).keys() == {"secure"}:
        yield Problem(
            path_text(path),
            "a value that Pulumi encrypted (secure)",
            "plain text, because a stack file contains no secrets",
            "write the value itself, and set it without --secret",
        )
    elif isinstance(value, str):
        hidden = [one for one in value if unicodedata.category(one) in _INVISIBLE and one not in "\t\n\r"]
        if hidden:
            yield Problem(
                path_text(path), ascii(value[:80]), "text without invisible characters", f"remove {hidden[0]!a}"
            )
    elif isinstance(value, dict):
        for key, item in cast("dict[str, object]", value).items():
            yield from _unreadable(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(cast("list[object]", value)):
            yield from _unreadable(item, (*path, index))


def to_json(platform: object) -> str:
    """Return YAML values as JSON text. Strict models accept lists as tuples and strings as dates only in JSON."""
    return json.dumps(platform, default=str, allow_nan=True)
