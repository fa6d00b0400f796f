"""The page of a validation report in a real browser (Debian package `chromium`), in a wide and a narrow frame."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.catalog import load_catalog
from gpu_platform.cli.validate_page import validation_page
from tests.cli.test_validate_page import fleet

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH: apt-get install chromium")
WIDTHS = (420, 1400)
# The page is loaded in frames, because a browser window cannot be narrower than a minimum width.
PROBE = """
addEventListener("load", () => {
  const found = {};
  for (const frame of document.querySelectorAll("iframe")) {
    const page = frame.contentDocument, root = page.documentElement;
    const scrolled = [...page.querySelectorAll(".scroll")];
    found[frame.width] = {
      overflow: root.scrollWidth - root.clientWidth,
      cells: page.querySelectorAll(".map td").length,
      shown: [...page.querySelectorAll(".map td.fail")].every(cell => cell.getBoundingClientRect().width > 10),
      colour: getComputedStyle(page.querySelector(".map td.fail")).backgroundColor,
      drawings: [...page.querySelectorAll("svg")].every(svg => svg.getBoundingClientRect().height > 50),
      unreached: scrolled.filter(each => each.scrollWidth > each.clientWidth).filter(each => {
        each.focus();
        return page.activeElement !== each || each.tabIndex < 0; // some browsers focus scrollers unasked
      }).length,
      regions: scrolled.filter(each => each.scrollWidth > each.clientWidth).length,
    };
  }
  const shown = document.createElement("pre");
  shown.textContent = JSON.stringify(found);
  document.body.append(shown);
});
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """Return the measurements for each frame width, and the browser's standard error."""
    assert CHROMIUM is not None
    folder: Path = tmp_path_factory.mktemp("browser")
    page = escape(validation_page(fleet(), "prod", load_catalog()), quote=True)
    frames = "".join(f'<iframe width="{width}" height="900" srcdoc="{page}"></iframe>' for width in WIDTHS)
    wrapper = folder / "wrapper.html"
    wrapper.write_text(f"<!doctype html><meta charset=utf-8><body>{frames}<script>{PROBE}</script>", "utf-8")
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]
    profile = f"--user-data-dir={folder / 'profile'}"
    ran = subprocess.run(
        [CHROMIUM, *options, profile, wrapper.as_uri()], capture_output=True, text=True, check=False, timeout=240
    )
    found = re.search(r"<pre>(\{.*?\})</pre>", ran.stdout)
    assert found is not None, ran.stderr[-2000:]
    return json.loads(unescape(found[1])), ran.stderr


def test_the_heat_map_and_the_drawings_are_shown_at_both_widths(seen: tuple[dict[str, Any], str]) -> None:
    for width in WIDTHS:
        found = seen[0][str(width)]
        assert found["cells"] > 100
        assert found["shown"]
        assert found["drawings"]
        assert found["colour"] == "rgb(198, 47, 59)"


def test_nothing_but_the_tables_scrolls_sideways_on_a_phone(seen: tuple[dict[str, Any], str]) -> None:
    assert {width: seen[0][str(width)]["overflow"] for width in WIDTHS} == {420: 0, 1400: 0}


def test_each_table_that_scrolls_is_reached_by_keyboard(seen: tuple[dict[str, Any], str]) -> None:
    assert seen[0]["420"]["regions"] >= 2
    assert seen[0]["420"]["unreached"] == 0


def test_the_console_has_no_errors(seen: tuple[dict[str, Any], str]) -> None:
    assert [line for line in seen[1].splitlines() if "CONSOLE" in line] == []
