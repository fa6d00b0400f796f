"""What the README shows is what the program takes."""

from __future__ import annotations

import re

import yaml

from gpu_platform.catalog import load_catalog
from gpu_platform.paths import PROJECT_ROOT
from gpu_platform.stacks import plan_platform

README = (PROJECT_ROOT / "README.md").read_text("utf-8")


def test_the_stack_file_of_the_readme_plans() -> None:
    block = re.search(r"```yaml\n(.*?)```", README, re.DOTALL)
    assert block is not None
    platform = yaml.safe_load(block[1])["config"]["gpu-platform:platform"]
    plan = plan_platform(platform, "readme")
    assert plan.kind == "environment"
    assert [pool.name for pool in plan.pools] == ["train", "serve", "notebooks"]


def test_the_number_of_machine_types_that_the_readme_gives_is_that_of_the_catalogue() -> None:
    given = re.findall(r"(\d+) machine types", README)
    assert given
    assert set(given) == {str(len(load_catalog().machine_types))}


def test_every_room_that_the_readme_names_is_there() -> None:
    rooms = re.findall(r"^\| `([\w./]+)`", README, re.MULTILINE)
    assert "stacks/" in rooms
    for room in rooms:
        assert (PROJECT_ROOT / room).exists(), room
