"""The JSON Schema describes each field with the docstring below it in the model."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from gpu_platform.stack._types import SpecModel
from gpu_platform.stack.docstrings import field_docstrings
from gpu_platform.stack.load import stack_adapter


class Outer(SpecModel):
    """A model with each way to describe a field."""

    plain: int = 1
    """A docstring
    on two lines."""
    silent: int = 2
    named: int = Field(default=3, alias="as")
    """A field with an alias."""
    stated: int = Field(default=4, description="An explicit description.")
    """A docstring that the explicit description replaces."""

    class Inner(SpecModel):
        """A nested model."""

        deep: int = 5
        """A field of the nested model."""

    inner: Inner = Inner()


class Derived(Outer):
    """A model that inherits the fields of another model and declares one of them again."""

    silent: int = 6
    """A docstring of the derived model only."""


def descriptions(model: type[SpecModel]) -> dict[str, str | None]:
    properties: dict[str, Any] = model.model_json_schema()["properties"]
    return {name: shown.get("description") for name, shown in properties.items()}


def test_a_field_is_described_by_its_docstring_unless_it_states_a_description() -> None:
    assert descriptions(Outer) == {
        "plain": "A docstring\non two lines.",
        "silent": None,
        "as": "A field with an alias.",
        "stated": "An explicit description.",
        "inner": None,
    }
    assert descriptions(Outer.Inner) == {"deep": "A field of the nested model."}


def test_a_derived_model_has_the_docstrings_of_its_bases_and_its_own() -> None:
    assert descriptions(Derived) == {
        **descriptions(Outer),
        "silent": "A docstring of the derived model only.",
    }


def test_a_model_in_a_function_is_described_too() -> None:
    class Local(SpecModel):
        """A model that is defined in a function."""

        near: int = 1
        """A field of the local model."""

    assert descriptions(Local) == {"near": "A field of the local model."}


def test_all_docstrings_of_the_stack_file_are_in_its_schema() -> None:
    """The docstrings are equal to the docstrings that pydantic reads from each class's source."""
    found: dict[str, Any] = stack_adapter().json_schema()["$defs"]
    described = {
        (name, field)
        for name, one in found.items()
        for field, shown in one.get("properties", {}).items()
        if "description" in shown
    }
    assert len(described) > 300
    pydantics = _as_pydantic_reads_them()
    assert pydantics
    assert {name: field_docstrings(model) for name, (model, _) in pydantics.items()} == {
        name: docstrings for name, (_, docstrings) in pydantics.items()
    }


def _as_pydantic_reads_them() -> dict[str, tuple[type, dict[str, str]]]:
    from pydantic._internal._docs_extraction import extract_docstrings_from_cls

    def all_of(model: type) -> list[type]:
        return [one for child in model.__subclasses__() for one in (child, *all_of(child))]

    return {
        f"{model.__module__}.{model.__qualname__}": (
            model,
            {
                name: text
                for base in reversed(model.__mro__[:-2])
                if issubclass(base, SpecModel)
                for name, text in extract_docstrings_from_cls(base, use_inspect=True).items()
            },
        )
        for model in all_of(SpecModel)
        if model.__module__.startswith("gpu_platform.")
    }
