"""Annotated types of single values in the stack file (DNS label, duration, quantity, zone), each with its
validator.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Final, Literal, cast

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler
from pydantic import BaseModel as _PydanticModel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from gpu_platform.base import names
from gpu_platform.base.errors import did_you_mean, suggestion
from gpu_platform.base.quantity import counted, parse_duration, parse_memory_mib, parse_quantity
from gpu_platform.catalog.zones import is_zone, zone_examples
from gpu_platform.stack.declared import described
from gpu_platform.stack.docstrings import field_description
from gpu_platform.stack.patterns import worded

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_EKS_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}")  # EKS API reference, CreateCluster; read 2026-11-28
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_MIG_PROFILE = re.compile(r"[1-9]g\.\d+gb(\+me(\.all)?|-me|\+gfx)?")
_MIG_LAYOUT = re.compile(r"all-(balanced|[1-9]g\.\d+gb([+.-][a-z]+)*)")
_VERSION = re.compile(r"v\d+\.\d+\.\d+")
_YEAR = 8760 * 3600
# The limit exceeds the total number of CPUs in 200 pools with 1,000 nodes each.
# Larger numbers are mistakes and would make sums meaningless.
_MAX_CPUS = 100_000_000
_MAX_MEMORY = 2**60
_MIN_MEMORY = 2**20
# Names for "everybody" in clouds and clients. The names of Kubernetes' own groups and users begin with "system:".
_EVERYBODY = {"*", "allUsers", "allAuthenticatedUsers"}
_MEMBER = re.compile(r"(user|group):\S+|serviceaccount:[a-z0-9-]+/[a-z0-9.-]+")


_CRON_FIELD = r"(\*|\d{1,2}(-\d{1,2})?)(/\d{1,2})?(,(\*|\d{1,2}(-\d{1,2})?)(/\d{1,2})?)*"
CRON = worded(
    rf"^{_CRON_FIELD}( {_CRON_FIELD}){{4}}$",
    "five cron fields separated by spaces: minute, hour, day, month, weekday",
)
"""Pattern of a cron schedule with the fields minute, hour, day, month and weekday."""

NodeGate = Literal["never", "startup", "always"]


class SpecModel(_PydanticModel):
    """Base class of all stack-file models. Instances are immutable, types are strict, and unknown keys are
    refused.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", strict=True)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the JSON Schema. A field's description is its docstring, followed by the providers that support
        the field.
        """
        schema = super().__get_pydantic_json_schema__(core_schema, handler)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, field in cls.model_fields.items():
            key = field.alias or name
            if text := " ".join(filter(None, [field_description(cls, name), described(field)])):
                # Insert `title` last, because pydantic does not sort the schema of a field named `default`.
                title = {"title": shown.pop("title")} if "title" in (shown := properties[key]) else {}
                shown.update({"description": text, **title})
        return schema


def wrong(allowed: str, fix: str = "") -> PydanticCustomError:
    """Return the error for a validator to raise, with the allowed values and the likely fix."""
    return PydanticCustomError("gpu_platform", "{allowed}", {"allowed": allowed, "fix": fix})


def plain_or_mapping(value: object) -> str:
    """Return the tag of a value: "mapping" for a mapping, or "plain" for any other value."""
    return "mapping" if isinstance(value, Mapping) else "plain"


def order_fix(low: int, desired: int, high: int | None) -> str:
    """Return the fix for node counts that are out of order, with the numbers from the file."""
    if desired < low:
        fix = f"write min: {desired} or desired: {low}"
        fix = fix if high is None or low <= high else f"{fix} and max: {low}"
        return f"{fix}, because the minimum is above the desired number"
    return f"write max: {desired} or desired: {high}, because the desired number is above the maximum"


def _dns_label(value: str) -> str:
    if not _DNS_LABEL.fullmatch(value):
        raise wrong(
            "a DNS label: 1 to 63 characters of a-z, 0-9 and -, starting and ending with a letter or digit",
            f"for example {re.sub('[^a-z0-9-]+', '-', value.casefold()).strip('-')[:63] or 'train'!r}",
        )
    return value


def _eks_name(value: str) -> str:
    if not _EKS_NAME.fullmatch(value):
        raise wrong(
            "the name of an EKS cluster: 1 to 100 characters of A-Z, a-z, 0-9, - and _, starting with a letter or "
            "digit",
            f"for example {re.sub('[^0-9A-Za-z_-]+', '-', value).strip('-_')[:100] or 'ml-prod'!r}",
        )
    return value


def is_label_value(value: str) -> bool:
    """Return whether a string is a valid value of a Kubernetes label."""
    return _LABEL_VALUE.fullmatch(value) is not None


def _label_key(value: str) -> str:
    if not _LABEL_KEY.fullmatch(value):
        raise wrong("a Kubernetes label key: [prefix/]name", "for example 'example.com/tier'")
    return value


def _label_value(value: str) -> str:
    if not is_label_value(value):
        raise wrong("a Kubernetes label value: up to 63 letters, digits, - _ .", "shorten or change it")
    return value


_DURATION: Final = "a duration above zero such as 90s, 15m or 1h30m"


def _has_unit(value: object) -> object:
    number = value if isinstance(value, str) or type(value) is int else ""
    if str(number).isdecimal() and int(number) > 0:
        raise wrong(_DURATION, f"write {number}s, {number}m or {number}h")
    return value


def _duration(value: str) -> str:
    try:
        seconds = parse_duration(value)
    except ValueError:
        seconds = 0
    if seconds <= 0:
        days = re.fullmatch(r"(\d{1,3})d", value)
        raise wrong(
            _DURATION, f"write {int(days[1]) * 24}h" if days and int(days[1]) else "for example, write 15m"
        )
    if seconds > _YEAR:
        raise wrong("a duration of at most a year (8760h)", "for example, write 24h")
    return value


_FLOATING_TAGS: Final = frozenset({"latest", "main", "master", "stable", "nightly", "edge", "dev"})
_DIGEST: Final = re.compile(r"@sha256:[0-9a-f]{64}$")


def pinned_image(reference: str) -> str:
    """Return an image reference that has a release tag or a digest. Raises PydanticCustomError for any other
    reference.
    """
    tag = reference.rpartition("/")[2].partition("@")[0].partition(":")[2]
    pinned = _DIGEST.search(reference) if "@" in reference else tag and tag not in _FLOATING_TAGS
    if not pinned or not reference.strip() or any(sign.isspace() for sign in reference):
        raise wrong(
            "an image with the tag of a release, or with @sha256: and 64 hexadecimal digits", "pin the image"
        )
    return reference


def at_least(limit: str) -> AfterValidator:
    """Return a validator of durations that are at least `limit`."""
    least = parse_duration(limit)

    def check(value: str) -> str:
        if parse_duration(value) < least:
            raise wrong(f"a duration of at least {limit}", f"write {limit}, or more")
        return value

    return AfterValidator(check)


def at_most(limit: str) -> AfterValidator:
    """Return a validator of durations that are at most `limit`."""
    most = parse_duration(limit)

    def check(value: str) -> str:
        if parse_duration(value) > most:
            raise wrong(f"a duration of at most {limit}", f"write {limit}, or less")
        return value

    return AfterValidator(check)


def _quantity(value: Any, example: str) -> Any:  # noqa: ANN401 - YAML gives a number or a string
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise wrong("a Kubernetes quantity", f"for example {example}")
    try:
        if parse_quantity(value) < 0:
            raise wrong("a quantity of zero or more", f"write {str(value).lstrip('-')}, without the minus sign")
    except ValueError:
        without = re.sub(r"(?i)\s|b$", "", str(value))
        meant = next((one for one in (without, without.replace("K", "k")) if _is_quantity(one)), None)
        if meant is None or meant == value:
            raise wrong("a Kubernetes quantity", f"for example, write {example}") from None
        raise wrong(
            "a Kubernetes quantity, whose units are k, M, G, T, Ki, Mi, Gi, Ti", f"write {meant}"
        ) from None
    return str(value)


def _quantity_such_as(example: str) -> BeforeValidator:
    return BeforeValidator(partial(_quantity, example=example), json_schema_input_type=str | int | float)


def _is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except ValueError:
        return False
    return True


def _cpu(value: str) -> str:
    if parse_quantity(value) > _MAX_CPUS:
        raise wrong(f"at most {_MAX_CPUS:,} CPUs", "for example, write 200, or 500m for half a CPU")
    return value


def _memory(value: str) -> str:
    size = parse_quantity(value)
    if size > _MAX_MEMORY:
        raise wrong("at most 1Ei", "for example, write 2Ti")
    if 0 < size < _MIN_MEMORY:
        raise wrong(
            f"an amount of memory with a unit, at least 1Mi; without a unit it is {counted(int(size), 'byte')}",
            f"write {value}Gi" if value.isdigit() else "for example, write 4Gi",
        )
    return value


def separate_words(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command if its first entry is a single word. Raises PydanticCustomError if the first entry also
    contains arguments, as a shell command does.
    """
    if command and len(words := command[0].split()) > 1:
        written = json.dumps([*words, *command[1:]])
        raise wrong(
            "the program, followed by each of its arguments as a separate entry", f"write command: {written}"
        )
    return command


_GPU_MEMORY: Final = "an amount of memory above zero, with a unit"


def _has_memory_unit(value: object) -> object:
    if type(value) in (int, float) or (isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?", value)):
        positive = float(cast("str | float", value)) > 0
        raise wrong(_GPU_MEMORY, f"write {value}Gi" if positive else "for example, write 10Gi")
    return value


def _gpu_memory(value: str) -> str:
    try:
        if parse_memory_mib(value) > 0:
            return value
    except ValueError:
        pass
    raise wrong(_GPU_MEMORY, "for example, write 10Gi")


def _mig_profile(value: str) -> str:
    if not _MIG_PROFILE.fullmatch(value):
        raise wrong(
            "a MIG profile name such as 1g.10gb or 1g.10gb+me",
            "`gpu-platform mig list --gpu MODEL` lists the profiles of a model",
        )
    return value


def _mig_layout(value: str) -> str:
    if not _MIG_LAYOUT.fullmatch(value):
        raise wrong(
            "the count of each profile such as {1g.10gb: 7}, or all-balanced, or all-<profile> such as "
            "all-1g.10gb",
            "write mode: none for whole GPUs" if value == "all-disabled" else "for example, write all-balanced",
        )
    return value


def _release(value: str) -> str:
    if not _VERSION.fullmatch(value):
        fix = f"did you mean 'v{value}'?" if _VERSION.fullmatch(f"v{value}") else "for example, write v26.7.0"
        raise wrong("a GPU Operator release such as v26.7.0", fix)
    return value


def _member(value: str) -> str:
    if not _MEMBER.fullmatch(value):
        raise wrong("user:<name>, group:<name> or serviceaccount:<namespace>/<name>", _meant_member(value))
    kind, _, name = value.partition(":")
    account = name.removeprefix("system:serviceaccount:")
    if kind == "user" and account != name and account.count(":") == 1:
        raise wrong(
            "a service account as serviceaccount:<namespace>/<name>",
            f"write 'serviceaccount:{account.replace(':', '/')}'",
        )
    is_system = kind == "serviceaccount" and names.is_platform_namespace(name.partition("/")[0])
    if name.startswith("system:") or name in _EVERYBODY or is_system:
        raise wrong(
            "a user, a group or a service account, but no group of all users and no system account",
            "name the team's own group, for example 'group:vision'",
        )
    return value


def _meant_member(value: str) -> str:
    """Return the fix for an invalid member: how to correct its format, or how to write several members as separate
    entries.
    """
    entries = [one for part in value.split(",") if (one := part.strip())]
    if len(entries) > 1:
        return "write each as a separate entry: " + ", ".join(f"'{one}'" for one in entries)
    kind, colon, name = (part.strip() for part in value.partition(":"))
    name = re.sub(r"\s+", "-", name if colon else kind) or "vision"
    known = {"sa": "serviceaccount", "account": "serviceaccount"}
    meant = known.get(kind.casefold()) or suggestion(did_you_mean(kind, ("user", "group", "serviceaccount")))
    if not colon or meant is None:
        meant = "user" if "@" in name else "group"
    if meant == "serviceaccount" and "/" not in name:
        return f"add the namespace: 'serviceaccount:<namespace>/{name}'"
    return f"for example '{meant}:{name}'"


def _path(value: str) -> str:
    if not value.strip() or "\n" in value or "apiVersion" in value or "{" in value:
        raise wrong("the path of a kubeconfig file, not its content", "for example ~/.kube/config")
    return value


def _node_name(value: str) -> str:
    if len(value) > 253 or not all(_DNS_LABEL.fullmatch(part) for part in value.split(".")):
        raise wrong("the name of a node: DNS labels separated by dots", "see kubectl get nodes")
    return value


def _secret_name(value: str) -> str:
    if len(value) > 253 or not all(_DNS_LABEL.fullmatch(part) for part in value.split(".")):
        raise wrong(
            "the name of a Secret, never its content: DNS labels separated by dots",
            "create the Secret in the team's namespace, and write its name, for example 'registry'",
        )
    return value


def _host_name(value: str) -> str:
    domain = value.removeprefix("*.")
    labels = domain.split(".")
    if len(value) > 253 or len(labels) < 2 or labels[-1].isdigit() or not all(map(_DNS_LABEL.fullmatch, labels)):
        raise wrong(
            "a host name in lower case, or `*.` and a domain with at least two labels",
            "for example 'huggingface.co' or '*.huggingface.co'; for addresses, set cidr",
        )
    return value


def _zone(value: str) -> str:
    if not is_zone(value):
        raise wrong("a zone, not a region", f"for example, write {zone_examples(value)}")
    return value


def _cidr(value: str) -> str:
    try:
        return str(ipaddress.IPv4Network(value))
    except ValueError:
        pass
    try:
        meant = f"write {ipaddress.IPv4Network(value, strict=False)}"
    except ValueError:
        meant = "for example, write 10.0.0.0/16"
    raise wrong("an IPv4 CIDR block without host bits", meant)


Zone = Annotated[str, AfterValidator(_zone)]
Cidr = Annotated[str, AfterValidator(_cidr)]
HostName = Annotated[str, AfterValidator(_host_name)]
NodeName = Annotated[str, AfterValidator(_node_name)]
SecretName = Annotated[str, AfterValidator(_secret_name)]
DnsLabel = Annotated[str, AfterValidator(_dns_label)]
EksName = Annotated[str, AfterValidator(_eks_name)]
KubernetesVersion = Annotated[str, Field(pattern=r"^1\.\d{2}$", examples=["1.36"])]
LabelKey = Annotated[str, AfterValidator(_label_key)]
LabelValue = Annotated[str, AfterValidator(_label_value)]
Duration = Annotated[str, BeforeValidator(_has_unit), AfterValidator(_duration), Field(examples=["15m"])]
Quantity = Annotated[str, _quantity_such_as("200, 500m or 2Ti")]
Cpu = Annotated[str, _quantity_such_as("200, or 500m for half a CPU"), AfterValidator(_cpu)]
"""CPUs of a pod, a quota or a limit."""
Memory = Annotated[str, _quantity_such_as("2Ti"), AfterValidator(_memory)]
"""Memory or storage of a pod, a quota or a limit."""
OptionalCommand = Annotated[tuple[str, ...], Field(max_length=200), AfterValidator(separate_words)]
GpuMemory = Annotated[str, BeforeValidator(_has_memory_unit), AfterValidator(_gpu_memory)]
MigProfileName = Annotated[str, AfterValidator(_mig_profile)]
MigLayoutName = Annotated[str, AfterValidator(_mig_layout)]
OperatorVersion = Annotated[str, AfterValidator(_release)]
KubeconfigPath = Annotated[str, AfterValidator(_path)]
Member = Annotated[str, AfterValidator(_member)]
UsdPerHour = Annotated[float, Field(gt=0, le=100_000)]
"""Price of one node in USD/h. The upper bound excludes infinity, which JSON and sums cannot represent."""
_AWS_TAG_SIGNS = "letters, digits, spaces and _ . : / = + @ -"
_AWS_TAG_KEY = worded(r"^[A-Za-z0-9_ .:/=+@-]+$", f"a key of an AWS tag: {_AWS_TAG_SIGNS}")
_AWS_TAG_VALUE = worded(r"^[A-Za-z0-9_ .:/=+@-]*$", f"a value of an AWS tag: {_AWS_TAG_SIGNS}")
AwsTagKey = Annotated[str, Field(min_length=1, max_length=128, pattern=_AWS_TAG_KEY, examples=["cost-center"])]
AwsTagValue = Annotated[str, Field(max_length=256, pattern=_AWS_TAG_VALUE, examples=["ml-4711"])]
GCP_LABEL_KEY = worded(
    r"^[a-z][a-z0-9_-]{0,62}$",
    "a key of a Google Cloud label: up to 63 characters of a-z, 0-9, _ and -, starting with a letter",
)
GCP_LABEL_VALUE = worded(
    r"^[a-z0-9_-]{0,63}$", "a value of a Google Cloud label: up to 63 characters of a-z, 0-9, _ and -"
)
GcpLabelKey = Annotated[str, Field(pattern=GCP_LABEL_KEY, examples=["cost-center"])]
GcpLabelValue = Annotated[str, Field(pattern=GCP_LABEL_VALUE, examples=["ml-4711"])]
