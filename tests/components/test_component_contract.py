"""Every component in the folder `components` has the signature `(name, args, opts)` and registers its outputs."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pulumi
import pytest

import components

_CONTRACT = ["self", "name", "args", "opts"]


def _classes() -> Iterator[type[pulumi.ComponentResource]]:
    for module in pkgutil.walk_packages(components.__path__, "components."):
        for name, found in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            own = found.__module__ == module.name and not name.startswith("_")
            if own and issubclass(found, pulumi.ComponentResource):
                yield found


CLASSES = sorted(_classes(), key=lambda found: (found.__module__, found.__name__))


def test_the_components_are_found() -> None:
    assert {"Environment", "Team", "TeamNamespace", "EksNodePool", "GkeNodePool", "GpuPlatform"} <= {
        found.__name__ for found in CLASSES
    }


@pytest.mark.parametrize("component", CLASSES, ids=lambda found: f"{found.__module__}.{found.__name__}")
def test_a_component_takes_only_name_args_and_options(component: type[pulumi.ComponentResource]) -> None:
    assert list(inspect.signature(component.__init__).parameters) == _CONTRACT


@pytest.mark.parametrize("component", CLASSES, ids=lambda found: f"{found.__module__}.{found.__name__}")
def test_a_component_registers_its_outputs(component: type[pulumi.ComponentResource]) -> None:
    own = component.__mro__[: component.__mro__.index(pulumi.ComponentResource)]
    assert any("self.register_outputs(" in inspect.getsource(found) for found in own)
