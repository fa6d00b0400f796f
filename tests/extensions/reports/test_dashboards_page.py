"""The page of `gpu-platform dashboards`: its panels, and how it shows responses of Prometheus' HTTP API."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest

from extensions.reports.dashboards.units import UNITS, value_text
from gpu_platform.base.paths import PROJECT_ROOT
from tests.cli.test_pages import check_frame
from tests.support.command_line import Ran
from tests.support.prometheus_api import Server

Run = Callable[..., Ran]
BOARDS = PROJECT_ROOT / "gpu_platform" / "planning" / "monitoring" / "dashboards"
NAMES = ("fleet", "team", "node", "workload", "cost")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
EVIL = "<script>alert(1)</script>"


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.stop()


def panels() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each dashboard's name and panel, as sent to Grafana."""
    for name in NAMES:
        for panel in json.loads((BOARDS / f"{name}.json").read_text("utf-8"))["panels"]:
            yield name, panel


def one_line(values: list[float | None], **labels: str) -> Callable[[str], Any]:
    return lambda _: [(labels or {"pool": "train", "namespace": "vision", "node": "train-1"}, values)]


def figure(page: str, title: str) -> str:
    return page.partition(f"<h3>{title}</h3>")[2].partition("</figure>")[0]


def test_each_panel_of_each_dashboard_is_drawn_from_its_own_query(run: Run, server: Server) -> None:
    server.series = one_line([0.25, 0.5, 0.75])
    ran = run("dashboards", "--prometheus", server.address)
    assert ran.code == 0, ran.err
    asked = [(kind, given["query"]) for kind, given in server.asked]
    expected = [
        (
            "query" if panel["type"] == "table" else "query_range",
            re.sub(r"\$\w+", ".*", panel["targets"][0]["expr"]),
        )
        for _, panel in panels()
    ]
    assert asked == expected
    kinds = [panel["type"] for _, panel in panels()]
    assert ran.out.count('<svg class="chart"') == kinds.count("timeseries")
    assert ran.out.count('<svg class="spark"') == ran.out.count('class="big"') == kinds.count("stat")
    shown = [unescape(title) for title in re.findall(r"<h3>([^<]+)</h3>", ran.out)]
    assert shown == [panel["title"] for _, panel in panels()]
    assert [given["title"] for _, given in panels() if given["fieldConfig"]["defaults"]["unit"] not in UNITS] == []
    check_frame(ran.out)


def test_a_line_has_its_values_next_to_it_and_ends_where_samples_are_missing(run: Run, server: Server) -> None:
    server.series = one_line([0.5, 0.25, None, None, 1.0, 0.75], pool="train")
    ran = run("dashboards", "--prometheus", server.address, "--board", "fleet")
    shown = figure(ran.out, "In use by pool")
    assert re.findall(r"<td[^>]*>([^<]*)</td>", shown) == ["75 %", "25 %", "100 %"]
    assert "</svg>train</td>" in shown
    (line,) = re.findall(r'<path d="(M[^"]+)" stroke-linecap', shown)
    assert [part.count("L") for part in line.split("M")[1:]] == [1, 1]
    assert 'aria-label="In use by pool, at the end: train 75 %"' in shown


def test_ratio_scales_are_whole_and_temperature_scales_fit_the_values(run: Run, server: Server) -> None:
    server.series = one_line([61.0, 68.0])
    page = run("dashboards", "--prometheus", server.address, "--board", "node").out
    texts = re.findall(r"<text [^>]*>([^<]+)</text>", figure(page, "Temperature"))
    assert [text for text in texts if "°C" in text] == ["60 °C", "62 °C", "64 °C", "66 °C", "68 °C"]
    texts = re.findall(r"<text [^>]*>([^<]+)</text>", figure(page, "In use"))
    assert [text for text in texts if "%" in text] == ["0 %", "25 %", "50 %", "75 %", "100 %"]


@pytest.mark.parametrize("values", [[0.0, 0.0], [-2.0, -2.0], [7.0], [1e-9, 2e-9], [3e15, 1.0]])
def test_any_finite_values_have_a_chart(run: Run, server: Server, values: list[float | None]) -> None:
    server.series = one_line(values)
    ran = run("dashboards", "--prometheus", server.address, "--board", "node")
    assert ran.code == 0, ran.err
    assert "nan" not in ran.out.partition("</style>")[2]


def test_values_that_are_no_numbers_are_left_out(run: Run, server: Server) -> None:
    server.series = one_line([float("nan"), 0.5, float("inf")], pool="train")
    shown = figure(run("dashboards", "--prometheus", server.address, "--board", "fleet").out, "In use by pool")
    assert re.findall(r"<td[^>]*>([^<]*)</td>", shown) == ["50 %", "50 %", "50 %"]


def test_the_ten_highest_lines_are_drawn_and_the_others_counted(run: Run, server: Server) -> None:
    server.series = lambda _: [({"pool": f"p{n:02}"}, [n / 100]) for n in range(13)]
    shown = figure(run("dashboards", "--prometheus", server.address, "--board", "fleet").out, "In use by pool")
    assert re.findall(r"</svg>(\w+)</td>", shown) == [f"p{n:02}" for n in range(12, 2, -1)]
    assert "3 more, with lower last values, are not drawn" in shown


def test_a_pool_has_the_same_line_in_every_panel(run: Run, server: Server) -> None:
    def answer(query: str) -> list[tuple[Mapping[str, str], list[float | None]]]:
        low, high = ("a", "b") if "sm_active" in query else ("b", "a")
        return [({"pool": low}, [0.1]), ({"pool": high}, [0.9])]

    server.series = answer
    page = run("dashboards", "--prometheus", server.address, "--board", "fleet").out
    lines = [
        dict(re.findall(r'stroke="(#\w+)"[^>]*><title>(\w)', figure(page, title)))
        for title in ("In use by pool", "SM activity by pool")
    ]
    assert lines[0] == lines[1] != {}


def test_a_panel_without_data_says_so_and_a_refused_query_gives_the_reason(run: Run, server: Server) -> None:
    server.refused = {"model:active:ratio": "many-to-many matching not allowed"}
    ran = run("dashboards", "--prometheus", server.address, "--board", "fleet")
    assert ran.code == 0
    assert "no data" in figure(ran.out, "In use by pool")
    assert "none" in figure(ran.out, "XID errors of the last 5 minutes")
    assert "refused the query: many-to-many" in figure(ran.out, "In use by GPU model")


def test_set_narrows_the_queries_and_does_not_interpret_names(run: Run, server: Server) -> None:
    ran = run(
        *("dashboards", "--prometheus", server.address, "--board", "node", "--last", "24h"),
        *("--set", "node=ip-10-0-0-1.ec2", "--set", 'node=a"b'),
    )
    assert {given["query"] for _, given in server.asked if "$" in given["query"]} == set()
    first = server.asked[0][1]
    assert 'node=~"ip-10-0-0-1\\\\.ec2|a\\"b"' in first["query"]
    assert float(first["end"]) - float(first["start"]) == pytest.approx(86400)
    assert float(first["step"]) == 360
    assert "only node ip-10-0-0-1.ec2, a&#34;b" in ran.out


def test_names_of_series_are_text_and_the_password_of_the_address_stays_out(run: Run, server: Server) -> None:
    server.series = lambda _: [({"pool": EVIL, "namespace": EVIL, "node": EVIL, "xid": EVIL}, [0.5, 0.6])]
    address = f"http://reader:secret@{server.host}"
    ran = run("dashboards", "--prometheus", address)
    assert EVIL in unescape(ran.out)
    assert "<script" not in ran.out
    assert "secret" not in ran.out + ran.err
    assert server.logins == {f"Basic {base64.b64encode(b'reader:secret').decode()}"}


def test_the_data_of_the_page_is_printed_as_json(run: Run, server: Server) -> None:
    server.series = one_line([0.25, 0.5], pool="train")
    ran = run("dashboards", "--prometheus", server.address, "--board", "cost", "--format", "json")
    (board,) = json.loads(ran.out)["dashboards"]
    panel = next(one for one in board["panels"] if one["title"] == "Cost by pool")
    (series,) = panel["series"]
    assert series["labels"] == {"pool": "train"}
    assert [value for _, value in series["samples"]] == [0.25, 0.5]
    assert (panel["query"], panel["unit"]) == ('pool:cost:usd_per_hour{pool=~".*"}', "currencyUSD")


def test_every_mistake_of_the_command_line_is_reported_at_once(run: Run) -> None:
    ran = run(
        *("dashboards", "--prometheus", "http://localhost:1", "--board", "flet"),
        *("--set", "zone=a", "--set", "pool", "--last", "1m"),
    )
    assert ran.code == 2
    told = [line.strip() for line in ran.err.splitlines() if line.startswith("  - ")]
    assert [line.split(":")[0] for line in told] == ["- --board", "- --set", "- --set", "- --last"]
    assert "did you mean 'fleet'?" in ran.err
    assert run("dashboards", "--prometheus", "localhost:9090").code == 2


def test_a_prometheus_that_does_not_answer_is_unknown(run: Run, server: Server) -> None:
    server.stop()
    ran = run("dashboards", "--prometheus", server.address)
    assert ran.code == 3
    assert f"Prometheus at {server.address} did not answer a query" in ran.err


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (60, "short", "60"),
        (1234.5, "short", "1,234.5"),
        (0.484, "percentunit", "48 %"),
        (0.0123, "percentunit", "1.23 %"),
        (13_530, "watt", "13.53 kW"),
        (1.98e9, "hertz", "1.98 GHz"),
        (3e11, "Bps", "300 GB/s"),
        (55.038, "currencyUSD", "55.04 USD"),
        (-1.5, "celsius", "-1.5 °C"),
    ],
)
def test_values_are_shown_in_their_unit(value: float, unit: str, text: str) -> None:
    assert value_text(value, unit) == text


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH: apt-get install chromium")
def test_charts_are_shown_at_both_widths_and_nothing_scrolls_sideways(
    run: Run, server: Server, tmp_path: Path
) -> None:
    long = "language-models-research-and-its-very-long-name"
    server.series = lambda _: [
        ({"pool": f"{long}-{n}", "namespace": long, "node": f"n{n}"}, [0.2, 0.4, 0.3]) for n in range(12)
    ]
    page = escape(run("dashboards", "--prometheus", server.address).out, quote=True)
    frames = "".join(f'<iframe width="{width}" height="900" srcdoc="{page}"></iframe>' for width in (420, 1400))
    probe = """
    addEventListener("load", () => {
      const found = [...document.querySelectorAll("iframe")].map(frame => {
        const page = frame.contentDocument, root = page.documentElement;
        const charts = [...page.querySelectorAll("svg.chart")].map(each => each.getBoundingClientRect());
        return {overflow: root.scrollWidth - root.clientWidth, charts: charts.length,
                low: charts.filter(each => each.height < 90 || each.width < 250).length,
                columns: new Set(charts.map(each => Math.round(each.left))).size};
      });
      document.body.innerHTML = "<pre>" + JSON.stringify(found) + "</pre>";
    });
    """
    file = tmp_path / "wrapper.html"
    file.write_text(f"<!doctype html><meta charset=utf-8><body>{frames}<script>{probe}</script>", "utf-8")
    options = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--dump-dom",
        f"--user-data-dir={tmp_path / 'p'}",
    ]
    ran = subprocess.run(
        [str(CHROMIUM), *options, file.as_uri()], capture_output=True, text=True, check=False, timeout=240
    )
    measured = re.search(r"<pre>(\[.*?\])</pre>", ran.stdout)
    assert measured is not None, ran.stderr[-2000:]
    narrow, wide = json.loads(unescape(measured[1]))
    charts = sum(panel["type"] == "timeseries" for _, panel in panels())
    assert narrow == {"overflow": 0, "charts": charts, "low": 0, "columns": 1}
    assert wide == {"overflow": 0, "charts": charts, "low": 0, "columns": 2}
