"""A CEL expression in a stack file that the API server would refuse is reported before a deployment."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_platform.planning.dra.cel import KNOWN, check_cel, selector_notes
from tests.planning.cel_cases import INVALID, PASSED_BUT_REFUSED, REFUSED_BUT_TAKEN, VALID

ATTRIBUTES = "device.attributes['gpu.nvidia.com']"


@pytest.mark.parametrize("text", VALID, ids=lambda text: text[:60])
def test_a_valid_selector_passes(text: str) -> None:
    assert check_cel(text) is None


@pytest.mark.parametrize("text", INVALID, ids=lambda text: text[:60])
def test_an_invalid_selector_is_refused_with_its_place_and_fix(text: str) -> None:
    found, fix = INVALID[text]
    mistake = check_cel(text)
    assert mistake is not None
    assert found in mistake.found
    assert fix in mistake.fix
    assert mistake.allowed
    assert selector_notes(text) == ()


@pytest.mark.parametrize("text", [*PASSED_BUT_REFUSED, *REFUSED_BUT_TAKEN], ids=lambda text: text[:60])
def test_the_known_differences_to_the_api_server_are_as_written_down(text: str) -> None:
    assert (check_cel(text) is None) == (text in PASSED_BUT_REFUSED)


@pytest.mark.parametrize(
    "text", ["x" * 9000, "device.driver.matches('" + "(" * 9000 + "')"], ids=["name", "constant"]
)
def test_a_long_mistake_is_shortened(text: str) -> None:
    mistake = check_cel(text)
    assert mistake is not None
    assert len(mistake.found) < 400


@pytest.mark.parametrize("text", ["1" + " + 1" * 2000 + " == 1", "device" + ".attributes" * 100])
def test_a_long_chain_is_nested_too_deeply(text: str) -> None:
    mistake = check_cel(text)
    assert mistake is not None
    assert (mistake.found, mistake.allowed) == ("an expression that is nested too deeply", "at most 32 levels")


def test_half_of_a_surrogate_pair_is_refused() -> None:
    mistake = check_cel("device.driver == '\ud800'")
    assert mistake is not None
    assert mistake.found == "half of a surrogate pair"


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, known in KNOWN.items() for name in known])
def test_what_the_driver_publishes_is_no_warning(kind: str, name: str) -> None:
    assert selector_notes(f"has(device.{kind}['gpu.nvidia.com'].{name})") == ()


@pytest.mark.parametrize(
    "text",
    [
        f"{ATTRIBUTES}.product == 'x'",
        f"{ATTRIBUTES}['product'] == 'x'",
        f"has({ATTRIBUTES}.product)",
        f"{ATTRIBUTES}.?product.hasValue()",
        f"{ATTRIBUTES}[?'product'].hasValue()",
        "device.attributes[?'gpu.nvidia.com'].?product.hasValue()",
        f"'product' in {ATTRIBUTES}",
        f"{ATTRIBUTES}.product.startsWith('x')",
        f"[1, 2].exists(one, one == {ATTRIBUTES}.product)",
        f"{{'a': {ATTRIBUTES}.product}}['a'] == 'x'",
        f"[{ATTRIBUTES}.product] == ['x']",
        f"cel.bind(gpu, {ATTRIBUTES}, gpu.product == 'x')",
        "cel.bind(one, device, one.attributes['gpu.nvidia.com'].product == 'x')",
    ],
)
def test_an_attribute_that_the_driver_is_not_known_to_publish_is_a_warning(text: str) -> None:
    assert check_cel(text) is None
    [note] = selector_notes(text)
    assert note.what == "device.attributes['gpu.nvidia.com'].product"
    assert "did you mean 'productName'?" in note.why


@pytest.mark.parametrize(
    ("text", "what", "why"),
    [
        ("has(device.capacity['gpu.nvidia.com'].memry)", "device.capacity['gpu.nvidia.com'].memry", "'memory'"),
        ("has(device.attributes['gpu.nvida.com'].uuid)", "device.attributes['gpu.nvida.com']", "'gpu.nvidia.com'"),
        (
            "has(device.attributes['example.com'].uuid)",
            "device.attributes['example.com']",
            "its domain is gpu.nvidia",
        ),
        ("[1].exists(device, device == 1)", "no mention of device", "all devices or for none"),
        ("device.allowMultipleAllocations", "device.allowMultipleAllocations", "Kubernetes 1.36"),
    ],
)
def test_what_is_legal_but_probably_not_meant_is_a_warning(text: str, what: str, why: str) -> None:
    assert check_cel(text) is None
    [note] = selector_notes(text)
    assert note.what == what
    assert why in note.why


def test_an_attribute_that_kubernetes_defines_causes_no_warning() -> None:
    assert selector_notes("device.attributes['resource.kubernetes.io'].pcieRoot == 'pci0000:00'") == ()


def test_the_cel_library_is_imported_only_for_a_selector() -> None:
    code = (
        "import sys; import gpu_platform.cli.check, gpu_platform.planning.planner;"
        "sys.exit('cel_expr_python' in str(list(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("call", ["flatten", "sort", "distinct"])
def test_a_list_function_of_1_34_has_a_note_because_1_34_refuses_it(call: str) -> None:
    text = f"[device.driver].{call}() == ['gpu.nvidia.com']"
    assert check_cel(text) is None
    (note,) = selector_notes(text)
    assert call in note.what
    assert "Kubernetes 1.34 refuses it" in note.why


def test_a_semantic_version_has_no_note_because_1_34_accepts_it() -> None:
    assert not selector_notes("device.driver == 'gpu.nvidia.com' && semver('1.0.0').major() == 1")


@given(st.text(alphabet="device.attributes['gpu.nvidia.com']()&|=!<>? :,{}\"\\ x1\n\0é", max_size=60))
def test_any_text_gives_an_answer_and_never_a_crash(text: str) -> None:
    mistake = check_cel(text)
    assert mistake is None or (mistake.found and mistake.allowed)
