"""The HTML pages of commands are single files that support light and dark mode, print and screen readers."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

from gpu_platform.base.pages import render_page
from gpu_platform.base.paths import PROJECT_ROOT
from gpu_platform.catalog import load_catalog
from gpu_platform.cli.validate_page import validation_page
from tests.cli.test_validate_page import FAULTS, TIME, node_report
from tests.support.command_line import Ran
from validators.report import ValidationReport

Run = Callable[..., Ran]
ASSETS = PROJECT_ROOT / "docs" / "assets"
CALLS = {
    "capacity": ["capacity", "local"],
    "cost": ["cost", "local"],
    "guide": ["guide", "local", "vision"],
    "place": ["place", "local", "--workloads", str(ASSETS / "pods.yaml")],
    "rehearse": ["rehearse", "local", "--trace", str(ASSETS / "jobs.csv")],
}
VOID = {"meta", "link", "br", "img", "input", "hr", "wbr", "line", "rect", "path", "circle", "polyline"}


class Page(HTMLParser):
    """Finds external references, scroll areas without keyboard access and images without a label in a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.outside: list[str] = []
        self.unreachable: list[str] = []
        self.unlabelled: list[str] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.style = text.partition("<style>")[2].partition("</style>")[0]
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.outside += [str(given[name]) for name in ("src", "href") if str(given.get(name, "#"))[:1] != "#"]
        if (tag == "pre" or given.get("class") == "scroll") and given.get("tabindex") != "0":
            self.unreachable.append(f"{tag} {given}")
        told = given.get("aria-label") or given.get("aria-hidden") == "true"
        if (tag == "svg" or given.get("role") == "img") and not told:
            self.unlabelled.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        assert self.open, f"</{tag}> closes no open element"
        while self.open[-1] in ("p", "li", "td", "th", "tr", "tbody") and self.open[-1] != tag:
            self.open.pop()
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.mark.parametrize("name", CALLS)
def test_a_page_supports_dark_mode_print_keyboard_and_screen_readers(run: Run, name: str) -> None:
    code, out, err = run(*CALLS[name], "--format", "html")
    assert code in (0, 1), err
    check_frame(out)


def test_the_page_of_a_fleet_has_the_same_frame() -> None:
    report = ValidationReport((node_report("train-1", "p5.48xlarge", *FAULTS["train-1"]),), TIME)
    check_frame(validation_page(report, "prod", load_catalog()))


def check_frame(out: str) -> None:
    assert out.startswith('<!doctype html>\n<html lang="en">')
    page = Page(out)
    assert page.open == []
    assert [one for one in page.outside if not one.startswith("https://")] == []
    assert "<script" not in out
    assert (page.unreachable, page.unlabelled) == ([], [])
    for words in ("prefers-color-scheme:dark", "@media print", ":focus-visible", "color-scheme:light dark"):
        assert words in page.style


def test_the_page_of_cost_has_what_the_text_has(run: Run) -> None:
    _, out, _ = run("cost", "local", "--format", "html")
    text = " ".join(" ".join(Page(out).text).split())
    assert "83.39 USD/h , 60,877.00 USD a month of 730 h" in text
    assert "Not allocated to any team: 7.39 USD/h." in text
    assert "notebooks on-demand 1 27.45 27.45 6.86 unknown unknown" in text
    assert "0.53 USD/h : pool serve: 1 node instead of 2 pools[1].count.desired: 2 → 1" in text
    assert 'aria-label="vision 13.72, search 6.86, no team 6.86 USD/h"' in out


def test_a_page_escapes_its_title() -> None:
    assert "<title>a&amp;b</title>" in render_page("gpu_platform.base", "base.html", title="a&b")


def test_the_page_of_cost_says_what_has_no_price(run: Run, tmp_path: Path) -> None:
    document = yaml.safe_load((PROJECT_ROOT / "stacks" / "Pulumi.local.yaml").read_text("utf-8"))
    platform = document["config"]["gpu-platform:platform"]
    platform["pools"][0]["machine_type"] = "dgx-a100-640gb"
    platform["budget"] = {"usd_per_month": 50000}
    file = tmp_path / "Pulumi.a_b.yaml"
    file.write_text(yaml.safe_dump(document), "utf-8")
    code, out, err = run("cost", str(file), "--format", "html")
    assert code == 0, err
    assert "Not included, because their price is unknown: train." in out
    assert "Budget: 50,000.00 USD a month." in out
    assert "<h1>Cost of stack a_b</h1>" in out
