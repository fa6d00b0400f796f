"""The resources of one stack, as rules check them, with cached views."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from gpu_platform.catalog import Catalog
from policies._inputs import NotVisible, Value
from policies._pod_templates import KINDS

ViewT = TypeVar("ViewT")
AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """One resource, with its Pulumi identity and its inputs as the provider receives them."""

    urn: str
    type: str
    name: str
    inputs: Value
    dependencies: tuple[str, ...] = ()

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Resource:
        """Create the resource of a record (`urn`, `type`, `name`, `inputs`, `dependencies`)."""
        urn = _text(record.get("urn"))
        dependencies: object = record.get("dependencies")
        listed = cast("list[object]", dependencies) if isinstance(dependencies, list) else []
        return cls(
            urn=urn,
            type=_text(record.get("type")),
            name=_text(record.get("name")) or urn.rpartition("::")[2],
            inputs=Value(urn, "", record.get("inputs")),
            dependencies=tuple(_text(item) for item in listed),
        )

    def unwrapped(self) -> tuple[Resource, ...]:
        """Return the objects of a list such as `DeploymentList`, or the resource itself if it is not a list."""
        if not self.kind.endswith("List"):
            return (self,)
        try:
            return tuple(
                replace(self, type=self._type_of(one), inputs=one) for one in self.inputs.get("items").items()
            )
        except NotVisible:
            return (self,)

    def _type_of(self, item: Value) -> str:
        """Return the type of an item of this list. Items of a mixed list name their kind."""
        api, kind = item.get("apiVersion").text(), item.get("kind").text()
        if api is None or kind is None:
            return self.type.removesuffix("List")
        return f"kubernetes:{api if '/' in api else f'core/{api}'}:{kind}"

    @property
    def kind(self) -> str:
        """Kubernetes group and kind, such as `apps/Deployment`. Empty for any other resource.

        A patch of a kind with pods, such as `DeploymentPatch`, is treated as the kind that it changes.
        """
        package, _, rest = self.type.partition(":")
        api, _, kind = rest.partition(":")
        if kind.endswith("Patch") and f"{api.partition('/')[0]}/{kind.removesuffix('Patch')}" in KINDS:
            kind = kind.removesuffix("Patch")
        return f"{api.partition('/')[0]}/{kind}" if package == "kubernetes" and kind else ""

    @property
    def object_name(self) -> str:
        """Name of the Kubernetes object if it is visible, or else the name of the resource."""
        return self._metadata("name") or self.name

    @property
    def namespace(self) -> str:
        """Namespace of the Kubernetes object. Empty if it has none or if the namespace is not visible."""
        return self._metadata("namespace")

    def seen_namespace(self) -> str:
        """Return the namespace, or an empty string if the object has none. Raises NotVisible."""
        return self.inputs.get("metadata", "namespace").text() or ""

    def _metadata(self, key: str) -> str:
        try:
            return self.inputs.get("metadata", key).text() or ""
        except NotVisible:
            return ""


class Stack:
    """The resources of a stack in the order of registration, and the catalogue of machine types."""

    def __init__(self, resources: Sequence[Resource], catalog: Catalog) -> None:
        self.resources = tuple(resources)
        self.catalog = catalog
        self._by_urn = {resource.urn: resource for resource in self.resources}
        self._views: dict[Callable[[Stack], object], object] = {}
        self._answers: dict[Hashable, object] = {}
        self._places: dict[str, list[int]] = {}
        for place, resource in enumerate(self.resources):
            self._places.setdefault(resource.kind, []).append(place)

    @classmethod
    def from_records(cls, records: Iterable[object], catalog: Catalog) -> Stack:
        """Return the stack that resource records describe. Values that are not records are ignored."""
        mappings = [cast("Mapping[str, Any]", record) for record in records if isinstance(record, Mapping)]
        return cls([one for record in mappings for one in Resource.from_record(record).unwrapped()], catalog)

    def of_kind(self, *kinds: str) -> tuple[Resource, ...]:
        """Return the Kubernetes objects of these kinds (`core/Node`)."""
        places = sorted(place for kind in {*kinds} for place in self._places.get(kind, ()))
        return tuple(self.resources[place] for place in places)

    def in_namespace(self, kind: str, namespace: str) -> tuple[Resource, ...]:
        """Return the objects of a kind in a namespace. Raises NotVisible if the namespace of any object is not
        visible.
        """
        return self.once(("in_namespace", kind), lambda: _by_namespace(self.of_kind(kind))).get(namespace, ())

    def find(self, urn: str) -> Resource | None:
        """Return the resource with the given URN."""
        return self._by_urn.get(urn)

    def view(self, build: Callable[[Stack], ViewT]) -> ViewT:
        """Return `build(self)` from a cache. Building a view never raises, but reading the view's values may raise
        NotVisible.
        """
        if build not in self._views:
            self._views[build] = build(self)
        return cast("ViewT", self._views[build])

    def once(self, key: Hashable, answer: Callable[[], AnswerT]) -> AnswerT:
        """Return `answer()`, cached by `key`. If it raises NotVisible, the error is cached and raised again for
        the same key.
        """
        if key not in self._answers:
            try:
                self._answers[key] = answer()
            except NotVisible as gap:
                self._answers[key] = gap
        found = self._answers[key]
        if isinstance(found, NotVisible):
            raise NotVisible(found.owner, found.path, found.why)
        return cast("AnswerT", found)


@dataclass(frozen=True, slots=True, eq=False)
class ObjectSubject:
    """A single object as the subject of a rule."""

    resource: Resource

    @property
    def name(self) -> str:
        """Name of the object."""
        return self.resource.object_name

    @property
    def group(self) -> str:
        """Key of the object, so that every object is reported separately."""
        return self.resource.urn


def _by_namespace(objects: Iterable[Resource]) -> Mapping[str, tuple[Resource, ...]]:
    found: dict[str, list[Resource]] = {}
    for one in objects:
        found.setdefault(one.seen_namespace(), []).append(one)
    return {namespace: tuple(those) for namespace, those in found.items()}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
