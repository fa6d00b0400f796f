"""CEL of the file's own: what the scheduler could never take is told before it is deployed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_platform.planning.dra.cel import check_cel

GOOD = [
    "device.driver == 'gpu.nvidia.com'",
    "device.attributes['gpu.nvidia.com'].type == 'gpu' && !(device.driver != \"gpu.nvidia.com\")",
    "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0",
    "device.attributes['gpu.nvidia.com'].productName.lowerAscii().matches('^.*h200.*$')",
    "'memory' in device.capacity['gpu.nvidia.com'] ? true : false",
    "device.attributes['gpu.nvidia.com'].driverVersion.isGreaterThan(semver('580.0.0'))",
    "['Hopper', 'Blackwell'].exists(a, a == device.attributes['gpu.nvidia.com'].architecture)",
    "cel.bind(gpu, device.attributes['gpu.nvidia.com'], gpu.type == 'gpu' && gpu.uuid.startsWith('GPU-'))",
    "device.attributes['example.com'].anything == {'a': 1 + 2 * -3, 'b': [1, 2,],}['a']",
    r"device.attributes['gpu.nvidia.com'].brand != 'it\'s' || device.driver == r'\d'",
]
WRONG = [
    ("device.driver = 'x'", "'=' at character 15", "write =="),
    ("device.driver == 'x' and true", "'and' at character 22", "write &&"),
    ("device.driver == 'x", "a text without end", ""),
    ("(device.driver == 'x'", "the end of the text", ""),
    ("device.driver == 'x')", "')' at character 21", ""),
    ("device.capacity['gpu.nvidia.com'].memory > 40Gi", "'Gi' at character 46", ""),
    ("device.attribute['gpu.nvidia.com'].type == 'gpu'", "a field of device 'attribute'", "'attributes'"),
    ("device.attributes['gpu.nvidia.com'].product == 'x'", "attribute 'product'", "'productName'"),
    ("device.capacity['gpu.nvidia.com'].memry > quantity('1Gi')", "capacity 'memry'", "'memory'"),
    ("devices.driver == 'x'", "a name 'devices'", "'device'"),
    ("device.driver == quantiy('1')", "a function 'quantiy'", "'quantity'"),
    ("1 == 1", "an expression that says nothing of the device", ""),
    ("", "the end of the text", ""),
    ("device.driver == 'x' ? true", "the end of the text", ""),
    ("(" * 5000, "nested too deep", ""),
    ("device.driver == '" + "x" * 11000 + "'", "characters", "shorten it"),
]


@pytest.mark.parametrize("text", GOOD)
def test_what_the_scheduler_takes_is_taken(text: str) -> None:
    assert check_cel(text) is None


@pytest.mark.parametrize(("text", "found", "fix"), WRONG, ids=[found for _, found, _ in WRONG])
def test_a_mistake_is_told_with_its_place_and_fix(text: str, found: str, fix: str) -> None:
    mistake = check_cel(text)
    assert mistake is not None
    assert found in mistake.found
    assert fix in mistake.fix
    assert mistake.allowed


@given(st.text(alphabet="device.attributes['gpu.nvidia.com']()&|=!<>? :,{}\"\\ x1", max_size=60))
def test_any_text_gives_an_answer_and_never_a_crash(text: str) -> None:
    mistake = check_cel(text)
    assert mistake is None or (mistake.found and mistake.allowed)
