"""Converts pydantic's validation errors into problems with their place in the YAML file and the likely fix.

Each problem has the path in the file (`pools[2].sharing.replicas`), the value found, what is allowed (from the
models' JSON Schema) and the likely fix, with a suggestion for misspelt names.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence, Set, Sized
from functools import cache
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from gpu_platform.base.errors import Problem, did_you_mean, suggestion
from gpu_platform.catalog.zones import region_of
from gpu_platform.stack.declared import EXAMPLES_BY_PROVIDER, PROVIDER_ALIASES, PROVIDER_NAMES, supporting
from gpu_platform.stack.patterns import in_words
from gpu_platform.stack.secret_names import names_secret

Schema = Mapping[str, Any]

_ARTICLES = {
    "integer": "a whole number",
    "number": "a number",
    "string": "a text",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}
_FOUND_LIMIT = 80
_TEXT, _KEY = "TEXT", "KEY"  # placeholders in examples
_TIME = "2026-12-14T11:30:00Z"
NEAREST = r"write (-?\d+), the (?:minimum|maximum), or"
"""Pattern that matches the fix for a whole number that is out of range. The fix contains the nearest allowed
number.
"""
UNKNOWN_KEY = "unknown key"
"""Beginning of `found` in a problem whose path ends with a key that is not allowed."""


def path_text(parts: Iterable[str | int]) -> str:
    """Return keys and indexes as a path: `pools[2].sharing.replicas`."""
    text = ""
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text or "(the whole file)"


def found_text(value: object) -> str:
    """Return a value of the file as JSON text, shortened if it is long."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _FOUND_LIMIT else text[: _FOUND_LIMIT - 1] + "…"


def problems_of(error: ValidationError, data: object, adapter: TypeAdapter[Any]) -> list[Problem]:
    """Return every problem that the validation of `data` with `adapter` found, in the order of the file."""
    schema = _schema(adapter, _provider(data))
    errors = error.errors(include_url=False)
    others = _of_other_branches(errors)
    found = [
        _problem(details, data, schema)
        for index, details in enumerate(errors)
        if index not in others and not _follows_from_items(details)
    ]
    return _without_misspelt_twice(found)


def _without_misspelt_twice(found: list[Problem]) -> list[Problem]:
    """Return the problems. Omit the problem of a missing key if the same mapping contains a misspelling of that
    key. The problem about the misspelling remains.
    """
    meant = {
        problem.path.removesuffix(last) + (suggestion(problem.fix) or "")
        for problem in found
        if problem.found.startswith(UNKNOWN_KEY)
        for last in [problem.found.removeprefix(UNKNOWN_KEY).strip(" '")]
    }
    return [problem for problem in found if problem.found != "nothing" or problem.path not in meant]


def _follows_from_items(details: ErrorDetails) -> bool:
    """Return whether an error only follows from other errors. Pydantic reports a list with invalid items as too
    short.
    """
    context: Mapping[str, Any] = details.get("ctx", {})
    return details["type"] == "too_short" and len(details["input"]) >= context["min_length"]


def _of_other_branches(errors: Sequence[ErrorDetails]) -> Set[int]:
    """Return the indexes of errors from union branches that do not fit the type of the value. Such an error
    reports that a mapping is not a literal, or that a string is not a mapping.
    """
    words = {one["loc"][:-1] for one in errors if one["type"] == "literal_error"}
    mappings = {
        one["loc"][:depth] for one in errors if one["type"] != "literal_error" for depth in range(len(one["loc"]))
    }
    found: set[int] = set()
    for index, one in enumerate(errors):
        union, value = one["loc"][:-1], one["input"]
        if (one["type"] == "literal_error" and isinstance(value, Mapping) and union in mappings) or (
            one["type"] == "model_type" and isinstance(value, str) and union in words
        ):
            found.add(index)
    return found


@cache  # creating the schema takes 30 ms, and the models never change
def _schema(adapter: TypeAdapter[Any], provider: str) -> Schema:
    return _with_examples_of(provider, adapter.json_schema(mode="validation"))


def _with_examples_of(provider: str, schema: Any) -> Any:  # noqa: ANN401 - a part of a JSON Schema
    """Return a schema that contains only the provider's example if a field has an example for each provider."""
    if isinstance(schema, list):
        return [_with_examples_of(provider, each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    parts = cast("dict[str, Any]", schema)
    example = parts.get(EXAMPLES_BY_PROVIDER, {}).get(provider)
    examples = {} if example is None else {"examples": [example]}
    return {key: _with_examples_of(provider, each) for key, each in parts.items()} | examples


def _provider(data: object) -> str:
    """Return the provider in a stack file, or an empty string."""
    cluster: object = cast("Mapping[str, object]", data).get("cluster") if isinstance(data, Mapping) else None
    provider = cast("Mapping[str, object]", cluster).get("provider") if isinstance(cluster, Mapping) else None
    return provider if isinstance(provider, str) else ""


def _problem(details: ErrorDetails, data: object, root: Schema) -> Problem:
    parts, value = _locate(details, data, root)
    if details["loc"][-1:] == ("[key]",):
        value = details["input"]  # the key is wrong, not its value
    elif "env" in map(str, parts[:-1]) and names_secret(str(parts[-1])):
        value = "a value that is not shown"
    path = path_text(parts)
    kind = details["type"]
    context: Mapping[str, Any] = details.get("ctx", {})
    if kind == "missing":
        owner = _schema_at(parts[:-1], data, root)
        key = str(parts[-1])
        wanted = _select(_property(owner, key, root), None, root)
        return Problem(path, "nothing", _described(wanted, root), f"add {_example_of(key, wanted, root)}")
    if kind == "extra_forbidden":
        key = str(parts[-1])
        allowed = list(cast("Mapping[str, Any]", _schema_at(parts[:-1], data, root).get("properties", {})))
        fix = _fix_of_key(parts, allowed, data, root)
        return Problem(path, f"{UNKNOWN_KEY} {key!r}", "one of " + ", ".join(allowed), fix)
    if kind in {"union_tag_invalid", "union_tag_not_found"}:
        discriminator = str(context["discriminator"]).strip("'")
        tags = [tag.strip(" '") for tag in str(context.get("expected_tags", "")).split(",") if tag.strip()]
        tags = tags or _tags(_schema_at(parts, data, root))
        tag: object = cast("Mapping[str, Any]", value).get(discriminator) if isinstance(value, Mapping) else None
        allowed = "one of " + ", ".join(tags)
        if tag is None:
            keys = [str(key) for key in cast("Mapping[Any, Any]", value)] if isinstance(value, Mapping) else []
            branches = _branches(_schema_at(parts, data, root), root)
            known = {name for branch in branches for name in branch.get("properties", {})}
            if misspelt := [key for key in keys if key not in known and did_you_mean(key, [discriminator])]:
                found = f"{UNKNOWN_KEY} {misspelt[0]!r}"
                fix = did_you_mean(misspelt[0], [discriminator])
                return Problem(path_text([*parts, misspelt[0]]), found, f"{discriminator}: {allowed}", fix)
            return Problem(path_text([*parts, discriminator]), "nothing", allowed, f"add {discriminator}:")
        fix = meant_option(tag, tags) or f"write {tags[0]}, or another of these"
        return Problem(path_text([*parts, discriminator]), found_text(tag), allowed, fix)
    if kind == "gpu_platform":
        return Problem(path, found_text(value), str(context["allowed"]), str(context["fix"]))
    if refused := _unsupported(parts, data, root):
        return refused
    if kind in {"string_too_long", "too_long"} and isinstance(value, str):
        most = context["max_length"]
        return Problem(path, found_text(value), f"at most {most} characters", f"shorten it to {most} characters")
    if kind == "too_long" and isinstance(value, Sized):
        most = context["max_length"]
        return Problem(
            path, f"{len(value):,} entries", f"at most {most:,} entries", f"remove {len(value) - most:,} of them"
        )
    if details["loc"][-1:] == ("[key]",) and "pattern" in context:
        pattern, key = str(context["pattern"]), str(value)
        meant = [one for one in _similar_keys(key) if re.fullmatch(pattern, one)]
        fix = f"rename it, for example to {meant[0]!r}" if meant else "rename it"
        return Problem(path, f"the key {key!r}", in_words(pattern), fix)
    schema = _schema_at(parts, data, root)
    described = _described(schema, root)
    if kind in {"literal_error", "enum"}:
        options = [option.strip(" '") for option in str(context["expected"]).replace(" or ", ", ").split(",")]
        fix = meant_option(value, options) or f"write {options[0]}, or another of these"
        return Problem(path, found_text(value), "one of " + ", ".join(options), fix)
    if kind == "invalid_key":
        return Problem(path, found_text(value), "text keys", "quote the key")
    is_required = bool(parts) and parts[-1] in _schema_at(parts[:-1], data, root).get("required", ())
    fix = _fix(parts, value, described, schema, root, is_required=is_required)
    return Problem(path, found_text(value), described or details["msg"], fix)


def _unsupported(parts: Sequence[str | int], data: object, root: Schema) -> Problem | None:
    """Return a problem if the stack's provider does not support the field or an object that contains it, else
    None.
    """
    provider = _provider(data)
    name = next((text for one, text in PROVIDER_NAMES.items() if one == provider), None)
    for depth, key in enumerate(parts):
        if isinstance(key, str) and name is not None:
            field = _property(_schema_at(parts[:depth], data, root), key, root)
            others = supporting(str(field.get("description", "")))
            if others and name not in others:
                place = path_text(parts[: depth + 1])
                return Problem(place, f"{key} on provider {provider}", f"{key} only on {others}", f"remove {key}")
    return None


def _similar_keys(key: str) -> tuple[str, ...]:
    """Return a key in its original case and in lower case, with hyphens in place of all special characters."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", key).strip("-")
    return plain, plain.casefold()


def _example_of(name: str, schema: Schema, root: Schema) -> str:
    """Return a key with a value that its schema allows, if such a value is known."""
    if example := re.search(rf"\b{re.escape(name)}: .+", _shape(name, schema, root)):
        return example[0].split(", with quotes")[0]
    example = _example(schema, root)
    return f"{name}: {example}" if not re.search(rf"\b({_TEXT}|{_KEY})\b", example) else f"{name}: and its value"


# Names that other tools use for a value, by the value's name in the stack file.
_OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    **PROVIDER_ALIASES,
    "advisory": ("warn", "warning", "info", "audit"),
    "mandatory": ("error", "deny", "enforce", "strict", "true"),
    "disabled": ("off", "false", "none", "no", "ignore"),  # because YAML reads `off` as false
    "on-demand": ("ondemand", "standard", "regular"),
    "spot": ("preemptible",),
    "training": ("train", "batch"),
    "inference": ("serve", "serving", "online"),
    "development": ("dev", "notebook", "notebooks", "interactive"),
    "general": ("cpu", "system"),
}


def meant_option(value: object, options: Sequence[str]) -> str:
    """Return `did you mean 'x'?` for an option that is similar to `value`, or that other tools call `value`."""
    word = str(value).casefold()
    meant = [option for option in options if word in _OTHER_NAMES.get(option, ())]
    several = [option for option in options if word in option.split("-")]
    if len(several) > 1 and word not in options:  # `lustre` is part of two options
        return f"write {' or '.join(several)}"
    return f"did you mean {meant[0]!r}?" if meant else did_you_mean(word, options)


# Names that other tools use for a key, by the key's name in the stack file.
_OTHER_KEYS: Mapping[str, tuple[str, ...]] = {
    "region": ("location", "zone"),
    "location": ("region", "zone", "zones"),
    "zones": ("zone", "availability_zones", "azs", "locations"),
    "account": ("account_id", "aws_account"),
    "project": ("project_id", "gcp_project"),
    "kubernetes": ("version", "k8s", "kubernetes_version", "cluster_version"),
    "machine_type": ("instance_type", "instance", "instance_types", "instances", "type", "flavor", "vm_size"),
    "count": ("nodes", "size", "node_count", "scaling", "autoscaling"),
    "desired": ("desired_size", "initial", "initial_node_count", "size"),
    "min": ("min_size", "minimum", "min_node_count"),
    "max": ("max_size", "maximum", "max_node_count"),
    "workload": ("purpose", "role", "use"),
    "family": ("type", "ami_type", "image_type", "os"),
    "capacity": ("capacity_type", "spot", "lifecycle", "purchase"),
    "rdma": ("efa", "infiniband", "roce", "gpudirect", "enable_efa"),
    "sharing": ("time_slicing", "timeslicing", "mig", "mps", "partitioning", "gpu_sharing"),
    "layout": ("profile", "profiles", "mig_profile", "geometry", "mig_config", "partitions"),
    "replicas": ("max_shared_clients", "slices", "shares", "clients"),
    "gpus": ("nvidia.com/gpu", "gpu", "gpu_count", "requests.nvidia.com/gpu"),
    "shared": ("nvidia.com/gpu.shared", "requests.nvidia.com/gpu.shared"),
    "cpu": ("cpus", "requests.cpu", "limits.cpu", "vcpu"),
    "memory": ("ram", "mem", "requests.memory", "limits.memory"),
    "members": ("users", "groups", "subjects"),
    "priority": ("priority_class", "priorityclassname"),
    "quota": ("resources", "resource_quota", "limits", "hard"),
    "labels": ("node_labels",),
    "taints": ("node_taints",),
    "enforcementLevel": ("level", "severity", "enabled", "enforce"),
    "level": ("enforcementLevel", "enforcement", "mode"),
    "exempt": ("ignore", "exclude", "except", "skip", "exceptions"),
    "maxTimeSlicingReplicas": ("maxReplicas",),
    "release": ("version", "chart_version"),
    "image": ("container_image",),
    "command": ("cmd", "entrypoint"),
}


_TYPO = 0.8  # from this similarity on, a key is a misspelling even if another object allows the key


def _fix_of_key(parts: Sequence[str | int], allowed: Sequence[str], data: object, root: Schema) -> str:
    """Return the fix for a key that an object does not allow: the key that was probably meant, an object that
    allows the key, or the removal of the key.
    """
    *owner, last = parts
    key, present = str(last), _value_at(owner, data)
    others = [one for one in allowed if one not in present]
    plain = _plain(key)
    value, fields = present[key], cast("Mapping[str, Schema]", _schema_at(owner, data, root).get("properties", {}))
    meant = [
        one
        for one, names in _OTHER_KEYS.items()
        # The value of `enabled` is not compared, because `enabled` can stand for a key with different values.
        if plain in map(_plain, names)
        and (plain == "enabled" or not _lists_others(value, fields.get(one, {}), root))
    ]
    if (here := [one for one in meant if one in allowed]) and len(here) == 1:
        return f"did you mean {here[0]!r}?" if here[0] in others else "remove it"
    if typo := did_you_mean(key, allowed, _TYPO):
        return typo if suggestion(typo) in others else "remove it"
    if branch := _branch_with(key, owner, data, root):
        return f"remove it, or write {branch}"
    if place := _nearest_object(key, value, owner, data, root):
        return f"move it to {place}"
    for name in meant:
        if place := _nearest_object(name, value, owner, data, root):
            return f"write {name} in {place}"
    return did_you_mean(key, others) or "remove it"


def _branch_with(key: str, owner: Sequence[str | int], data: object, root: Schema) -> str:
    """Return the setting with which an object would allow a key, such as `mode: mig`, or an empty string."""
    here = _nullable(root, root, data)
    value = data
    for part in owner:
        here = _select(here, value, root)
        if isinstance(part, int):
            here, value = cast("Schema", here.get("items", {})), cast("Sequence[object]", value)[part]
        else:
            here, value = _property(here, part, root), cast("Mapping[str, object]", value)[part]
        here = _nullable(here, root, value)
    by_tag = cast("Mapping[str, str]", here.get("discriminator", {}).get("mapping", {}))
    tags = [
        tag
        for tag, reference in by_tag.items()
        if key in _resolve({"$ref": reference}, root).get("properties", {})
    ]
    name = here["discriminator"]["propertyName"] if tags else ""
    return f"{name}: {tags[0]}" if name in _WAYS else ""


_WAYS = {"mode", "type", "policy"}
"""Keys that select a variant of a setting. `provider` and `kind` are excluded, because they change the whole file.
"""


def _plain(key: str) -> str:
    return re.sub(r"[-_ ]", "", key).casefold()


def _nearest_object(key: str, value: object, owner: Sequence[str | int], data: object, root: Schema) -> str:
    """Return the path of the nearest object that allows a key with its value, or the paths of the two nearest
    objects.

    Return an empty string if no such object is near. If the key is inside a list entry, other entries of that list
    are ignored.
    """

    def distance(place: Sequence[str | int]) -> int:
        pairs = enumerate(zip(place, owner, strict=False))
        shared = next((index for index, (left, right) in pairs if left != right), min(len(place), len(owner)))
        return len(place) + len(owner) - 2 * shared

    found = [
        place
        for place, schema in dict(_objects_with(key, data, root, root, ())).items()
        if place != tuple(owner) and not _leaves_entry(place, owner) and _may_be(value, schema, root)
    ]
    nearest = [place for place in found if distance(place) == min(map(distance, found))]
    if len(nearest) not in {1, 2} or distance(nearest[0]) > len(
        owner
    ):  # a distant object only happens to allow a key with the same name
        return ""
    return " or ".join(path_text(place) if place else "the top level, next to kind" for place in nearest)


def _leaves_entry(place: Sequence[str | int], owner: Sequence[str | int]) -> bool:
    """Return whether a place is outside the innermost list entry that contains `owner`.

    Return False for a place that itself contains this list entry.
    """
    entry = next((at for at in range(len(owner), 0, -1) if isinstance(owner[at - 1], int)), 0)
    shared = next((at for at, (left, right) in enumerate(zip(place, owner, strict=False)) if left != right), None)
    return shared is not None and shared < entry


def _may_be(value: object, schema: Schema, root: Schema) -> bool:
    """Return whether a schema allows values of this value's type. If the schema lists its values, `value` must be
    one of them.
    """
    if isinstance(value, str):
        kind: object = "string"
    elif isinstance(value, bool):
        kind = "boolean"
    elif isinstance(value, int | float):
        kind = "number"
    else:
        kind = "array" if isinstance(value, list) else "object" if isinstance(value, Mapping) else "null"
    for branch in _flat(schema, root):
        allowed = "object" if "discriminator" in branch else branch.get("type")
        if ("number" if allowed == "integer" else allowed) == kind and value in branch.get(
            "enum", (branch.get("const", value),)
        ):
            return True
    return False


def _lists_others(value: object, schema: Schema, root: Schema) -> bool:
    """Return whether a schema lists its allowed values and the value is not among them."""
    branches = [branch for branch in _flat(schema, root) if branch.get("type") != "null"]
    return all(value not in branch.get("enum", (value,)) for branch in branches)


def _flat(schema: Schema, root: Schema) -> Iterable[Schema]:
    """Yield the branches of a union, including the branches of nested unions."""
    schema = _resolve(schema, root)
    if "discriminator" in schema:
        yield schema
        return
    for branch in _branches(schema, root):
        if branch is schema or branch == schema:
            yield branch
        else:
            yield from _flat(branch, root)


def _objects_with(
    key: str, value: object, schema: Schema, root: Schema, path: tuple[str | int, ...]
) -> Iterable[tuple[tuple[str | int, ...], Schema]]:
    """Yield the path of each object that allows a key but does not contain it, and the schema of the key. Objects
    that the file omits are included.
    """
    if isinstance(value, list):
        entries = cast("list[object]", value)
        items = cast("Schema", _select(schema, entries, root).get("items", {}))
        for index, item in enumerate(entries):
            yield from _objects_with(key, item, items, root, (*path, index))
    elif value is None or isinstance(value, Mapping):
        here = cast("Mapping[str, object]", value or {})
        for branch in _objects(schema, here or None, root):
            fields = cast("Mapping[str, Schema]", branch.get("properties", {}))
            if key in fields and key not in here:
                yield path, fields[key]
            for name, below in fields.items():
                yield from _objects_with(key, here.get(name), below, root, (*path, name))


def _objects(schema: Schema, value: object, root: Schema) -> list[Schema]:
    """Return the union branches that a value may match. For a mapping with a discriminator, return only the
    selected branch.
    """
    schema = _select(schema, value, root)
    if references := schema.get("discriminator", {}).get("mapping"):
        return [_resolve({"$ref": reference}, root) for reference in references.values()]
    branches = _branches(schema, root)
    return branches if branches == [schema] else [one for each in branches for one in _objects(each, value, root)]


def _value_at(parts: Sequence[str | int], data: object) -> Mapping[str, object]:
    """Return the mapping at a path in the file."""
    here: Any = data
    for part in parts:
        here = here[part]
    return cast("Mapping[str, object]", here)


# Fixes for fields whose value must be a mapping or a list but is something else.
_SHAPES: Mapping[str, str] = {
    "count": "write count: {desired: 2}",  # if the file contains a number, it replaces the 2
    "cluster": "write cluster: {provider: sandbox}",
    "sharing": "for example, write sharing: {mode: time-slicing, replicas: 4}",
    "layout": "for example, write layout: {1g.10gb: 7}",
    "capacity": "for example, write capacity: {type: spot}",
    "topology": "for example, write topology: {policy: restricted}",
    "placement": "for example, write placement: {type: cluster}",
    "quota": "for example, write quota: {gpus: 8}",
    "gpus": "write a number, or units by pool such as gpus: {train: 8}",
    "shared": "write a number, or units by pool such as shared: {serve: 8}",
    "reserve": "for example, write reserve: {gpus: 8}",
    "borrow": "for example, write borrow: {gpus: 8}",
    "lend": "for example, write lend: {gpus: 8}",
    "nodes": "write nodes: {names: [gpu-0, gpu-1]}",
    "members": 'write members: ["group:vision"], with quotes because of the colon',
    "pools": "write a list in which each pool starts with a dash",
    "teams": "write a list in which each team starts with a dash",
    "operator": "write operator: {release: v26.7.0}",
    "environment": "write environment: {stack: prod}",
}


# Descriptions of fields with shares from 0 to 1. A common mistake is to write such a share in percent.
_SHARES = ("a number from 0 to 1", "a number above 0, at most 1")


def _fix(
    parts: Sequence[str | int], value: object, described: str, schema: Schema, root: Schema, *, is_required: bool
) -> str:
    if isinstance(value, list) and (missing := schema.get("minItems", 0) - len(cast("list[object]", value))) > 0:
        return f"add {_entries(missing)}"
    text = schema.get("type") == "string" or (described.startswith("a text") and "mapping" not in described)
    example = next(iter(schema.get("examples", ())), None)
    if isinstance(value, str) and described.startswith(("a whole number", "a number")):
        digits = re.fullmatch(r"-?\d+(\.\d+)?", value.strip())
        return f"write {value.strip()} without quotes" if digits else "write a number"
    if isinstance(value, bool | int | float) and text:
        written = json.dumps(value)
        allowed = schema.get("pattern", ".*" if example is None else re.escape(str(example)))
        # YAML reads 1.30 as 1.3.
        meant = next((one for one in (written, f"{written}0") if re.fullmatch(allowed, one)), None)
        if meant is None:
            return f"for example, write {example!r}"
        return f'write "{meant}" in quotes: without quotes, YAML reads it as a number or boolean, not as a string'
    if value is None:
        return "set a value" if is_required else "set a value, or remove it"
    if described.startswith("true or false"):
        return f"write {'true' if str(value).casefold() in _YES else 'false'}"
    if isinstance(value, int | float) and 1 < value <= 100 and described in _SHARES:
        return f"write {value / 100:g} for {value:g} %"
    if isinstance(value, int | float) and not isinstance(value, bool) and (bound := _bound(value, schema)):
        return bound
    if isinstance(value, str) and schema.get("format") == "date":
        numbers = re.fullmatch(r"(\d{1,2})[./](\d{1,2})[./](\d{4})", value.strip())
        day, month, year = map(int, numbers.groups()) if numbers is not None else (0, 0, 0)
        if "." in value and 0 < month <= 12:  # with slashes, either number may be the day
            return f"write {year}-{month:02}-{day:02}"
    region = region_of(value) if isinstance(value, str) and text else ""
    if region and re.fullmatch(schema.get("pattern", "(?!)"), region):
        return f"write {region}"
    if isinstance(value, str) and text and example is not None:
        return f"for example, write {example!r}"
    if isinstance(value, Mapping) and text and len(pair := cast("Mapping[str, object]", value)) == 1:
        return 'write "{}:{}", in quotes, because a colon and a space make a mapping'.format(
            *next(iter(pair.items()))
        )
    name = next((part for part in reversed(parts) if isinstance(part, str)), "")
    key = f"{name}: " if parts and parts[-1] == name else ""
    items = _select(cast("Schema", schema.get("items", {})), value, root)
    if isinstance(value, str) and value and items.get("type") == "string":
        return f"write {key}{_as_list(name, value)}"
    if meant := _meant_mapping(name, value, schema, root):
        return f"write {key}{meant}"
    if shape := _shape(name, schema, root):
        return shape
    return f"for example, write {key}{_example(schema, root)}"


def _shape(name: str, schema: Schema, root: Schema) -> str:
    """Return the fix for a field in `_SHAPES`, if the field's schema allows the kind of value in the fix."""
    shape = _SHAPES.get(name, "")
    written = re.search(rf"\b{re.escape(name)}: ([{{\[])", shape)
    value: object = {} if written is not None and written[1] == "{" else []
    return shape if shape and _may_be(value, schema, root) else ""


def _meant_mapping(name: str, value: object, schema: Schema, root: Schema) -> str:
    """Return the mapping that a number or a string was meant to be, in one line, or an empty string if it is
    unknown.
    """
    fields = cast("Mapping[str, Schema]", schema.get("properties", {}))
    if name == "count" and "desired" in fields and isinstance(value, int) and not isinstance(value, bool):
        return f"{{desired: {value}}}"
    if not isinstance(value, str):
        return ""
    if name == "environment" and "stack" in fields and re.fullmatch(r"[\w.-]+", value):
        return f"{{stack: {_in_line(value)}}}"
    if fields.keys() >= {"key", "effect"} and (taint := re.fullmatch(r"([^=:\s]+)(?:=([^=:\s]*))?:(\w+)", value)):
        key, of_taint, effect = taint.groups()
        return (
            f"{{key: {_in_line(key)}, "
            + (f"value: {_in_line(of_taint)}, " if of_taint else "")
            + (f"effect: {_in_line(effect)}}}")
        )
    tags = _tags(schema)
    option = suggestion(meant_option(value, tags)) if tags else None
    if option is None:
        return ""
    branch = _resolve({"$ref": schema["discriminator"]["mapping"][option]}, root)
    discriminator = schema["discriminator"]["propertyName"]
    required = [one for one in branch.get("required", ()) if one != discriminator]
    others = "".join(f", {one}: {_example(_property(branch, one, root), root)}" for one in required)
    return f"{{{discriminator}: {option}{others}}}"


def _as_list(name: str, value: str) -> str:
    """Return the list that a string was meant to be. A command is split into words as in a shell."""
    if name not in {"command", "args"}:
        return f"[{json.dumps(value)}]"
    try:
        words = shlex.split(value)
    except ValueError:  # a quotation mark that is not closed
        words = [value]
    return f"[{', '.join(map(_in_line, words))}]"


def _example(schema: Schema, root: Schema) -> str:
    """Return a value that a schema allows, as YAML in one line. Names in capitals are placeholders."""
    schema = _select(schema, None, root)
    values: list[object] = [
        *schema.get("examples", ()),
        *([schema["default"]] if isinstance(schema.get("default"), str | int | float) else ()),
        *schema.get("enum", ()),
        *([schema["const"]] if "const" in schema else ()),
    ]
    if values:
        return _in_line(values[0])
    if schema.get("format") == "date-time":
        return _TIME
    if len(branches := _branches(schema, root)) > 1:
        return _example(branches[0], root)
    match schema.get("type"):
        case "array":
            return f"[{_example(cast('Schema', schema.get('items', {})), root)}]"
        case "object":
            required = cast("Sequence[str]", schema.get("required", ()))
            named = required or list(cast("Schema", schema.get("properties", {})))[:1]
            fields = {name: _example(_property(schema, name, root), root) for name in named}
            if not fields and isinstance(schema.get("additionalProperties"), Mapping):
                fields = {_KEY: _example(schema["additionalProperties"], root)}
            return "{" + ", ".join(f"{name}: {text}" for name, text in fields.items()) + "}"
        case "integer" | "number":
            return f"{schema.get('minimum', schema.get('maximum', 1)):g}"
        case "boolean":
            return "true"
        case _:
            return _TEXT


def _in_line(value: object) -> str:
    """Return a value as YAML in one line. The format is JSON, but without quotes around strings that need none."""
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z][A-Za-z0-9./_-]*", value)
    return value if plain and value.casefold() not in _YES | _NO else json.dumps(value)


def _entries(count: int) -> str:
    return "one entry" if count == 1 else f"{count} entries"


_YES = {"yes", "y", "yep", "on", "1", "true", "enabled"}
_NO = {"no", "n", "off", "false", "null"}


def _bound(value: float, schema: Schema) -> str:
    """Return the fix for a number that is out of range. The fix contains the nearest allowed value."""
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and value < low:
        return f"write {low:g}, the minimum, or more"
    if high is not None and value > high:
        return f"write {high}, the maximum, or less"
    return ""


def _locate(details: ErrorDetails, data: object, root: Schema) -> tuple[list[str | int], object]:
    """Return the path of an error in the file and the value there. The path does not contain the tags of
    pydantic's unions.
    """
    parts: list[str | int] = []
    here = data
    schema = _nullable(root, root, data)
    loc = details["loc"]
    for index, part in enumerate(loc):
        tagged: Mapping[str, str] = schema.get("discriminator", {}).get("mapping", {})
        if part in tagged:
            schema = _resolve({"$ref": tagged[str(part)]}, root)
            continue
        if isinstance(here, Mapping):
            mapping = cast("Mapping[Any, object]", here)
            if part not in mapping and not (index == len(loc) - 1 and details["type"] == "missing"):
                continue
            here = mapping.get(part)
            schema = _nullable(_property(schema, str(part), root), root, here)
        elif isinstance(here, (list, tuple)) and isinstance(part, int):
            sequence = cast("Sequence[object]", here)
            here = sequence[part] if part < len(sequence) else None
            schema = _nullable(cast("Schema", schema.get("items", {})), root, here)
        else:
            continue
        parts.append(part)
    return parts, cast("object", here)


def _nullable(schema: Schema, root: Schema, value: object) -> Schema:
    """Return a schema without the null branch of its union, without choosing a branch of a tagged union."""
    schema = _resolve(schema, root)
    branches = _meant(schema, value, root)
    if "discriminator" not in schema and len(branches) == 1 and branches[0] is not schema:
        return _nullable(branches[0], root, value)
    return schema


def _meant(schema: Schema, value: object, root: Schema) -> list[Schema]:
    """Return the branches of a union that are not null. If some of them are mappings, return only the branches
    that match the type of `value`.
    """
    branches = [branch for branch in _branches(schema, root) if branch.get("type") != "null"]
    kinds = ["object" if "discriminator" in branch else branch.get("type") for branch in branches]
    if len(branches) < 2 or "object" not in kinds:
        return branches
    wanted = "object" if isinstance(value, Mapping) else "string" if isinstance(value, str) else "integer"
    of_kind = [branch for branch, kind in zip(branches, kinds, strict=True) if kind == wanted]
    plain = [branch for branch, kind in zip(branches, kinds, strict=True) if kind != "object"]
    return of_kind or (plain if isinstance(value, str) else branches)


def _resolve(schema: Schema, root: Schema) -> Schema:
    while "$ref" in schema:
        name = str(schema["$ref"]).rsplit("/", 1)[-1]
        schema = {**root["$defs"][name], **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema


def _branches(schema: Schema, root: Schema) -> list[Schema]:
    options = schema.get("oneOf") or schema.get("anyOf")
    return [_resolve(option, root) for option in options] if options else [schema]


def _tags(schema: Schema) -> list[str]:
    return list(schema.get("discriminator", {}).get("mapping", {}))


def _select(schema: Schema, value: object, root: Schema) -> Schema:
    """Return the branch of a union for `value`: the branch that its discriminator selects, or the only branch that
    is not null.
    """
    schema = _resolve(schema, root)
    discriminator = schema.get("discriminator")
    if discriminator and isinstance(value, Mapping):
        tag = cast("Mapping[str, object]", value).get(discriminator["propertyName"])
        reference = discriminator["mapping"].get(tag)
        if reference:
            return _resolve({"$ref": reference}, root)
        return schema
    branches = _meant(schema, value, root)
    if len(branches) == 1 and branches[0] is not schema:
        merged = {**branches[0], **{key: schema[key] for key in ("description", "examples") if key in schema}}
        return _select(merged, value, root)
    return schema


def _property(owner: Schema, name: str, root: Schema) -> Schema:
    found = owner.get("properties", {}).get(name)
    if found is None:
        found = owner.get("additionalProperties")
    return cast("Schema", found) if isinstance(found, Mapping) else {}


def _schema_at(parts: Sequence[str | int], data: object, root: Schema) -> Schema:
    schema = _select(root, data, root)
    here = data
    for part in parts:
        if isinstance(part, int):
            schema = cast("Schema", schema.get("items", {}))
            sequence: Sequence[object] = cast("Sequence[object]", here) if isinstance(here, (list, tuple)) else ()
            here = sequence[part] if part < len(sequence) else None
        else:
            schema = _property(schema, part, root)
            here = cast("Mapping[str, object]", here).get(part) if isinstance(here, Mapping) else None
        schema = _select(schema, here, root)
    return schema


def _described(schema: Schema, root: Schema) -> str:
    """Return a description of the values that a schema allows."""
    schema = _select(schema, None, root)
    if "const" in schema:
        return repr(schema["const"])
    if "enum" in schema:
        return "one of " + ", ".join(str(option) for option in schema["enum"])
    if schema.get("format") == "date":
        return "a day such as 2026-12-31"
    if schema.get("format") == "date-time":
        return f"a time with its time zone, such as {_TIME}"
    if tags := _tags(schema):
        name = schema["discriminator"]["propertyName"]
        return f"a mapping with {name}: one of " + ", ".join(tags)
    kinds = ("object" if "discriminator" in branch else branch.get("type") for branch in _branches(schema, root))
    types = [_ARTICLES[kind] for kind in kinds if kind in _ARTICLES and kind != "null"]
    text = " or ".join(dict.fromkeys(types))
    low, high, above = schema.get("minimum"), schema.get("maximum"), schema.get("exclusiveMinimum")
    if above is not None:
        text += f" above {above}" + (f", at most {high}" if high is not None else "")
    elif low is not None and high is not None:
        text += f" from {low} to {high}"
    elif low is not None:
        text += f" of {low} or more"
    elif high is not None:
        text += f" of {high} or less"
    if least := schema.get("minItems") or schema.get("minProperties"):
        text += f" with at least {_entries(least)}"
    if words := in_words(schema.get("pattern", "")):
        text = words
    if (examples := schema.get("examples")) and " such as " not in text:
        text += f"{',' if words else ''} such as {examples[0]!r}"
    if schema.get("type") == "object" and schema.get("properties"):
        text += " with " + ", ".join(schema["properties"])
    return text
