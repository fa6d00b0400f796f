"""The agent, the alerts and the runbooks agree on every Xid code, because they all use the same table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpu_platform.catalog import load_catalog, xid_codes
from gpu_platform.planning.expectations import expected_xids
from gpu_platform.planning.monitoring.alerts import gpu_alerts
from gpu_platform.stack.operations import Monitoring
from validators.agent.xid_check import Xid, XidTable

CATALOG = load_catalog()
TABLE = XidTable(expected_xids(CATALOG).value)
ALERTS = [alert for alert in gpu_alerts(Monitoring(), CATALOG) if alert.alert.startswith("GpuXid")]
BY_TEXT = {code for text in CATALOG.xid_texts.values() for code in xid_codes(text.codes)}
RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks.md"


def severities_of(code: int) -> set[str]:
    """Return the severities of the alerts that an error triggers immediately, according to the alert matchers."""
    found: set[str] = set()
    for alert in ALERTS:
        matchers = re.findall(r'xid(=~|!~)"([^"]*)"', alert.expr)
        if alert.alert != "GpuXidRepeated" and all(
            bool(re.fullmatch(codes, str(code))) == (sign == "=~") for sign, codes in matchers
        ):
            found.add(alert.severity)
    return found


@pytest.mark.parametrize("code", range(1, 200))
def test_an_error_that_fails_the_node_is_critical_and_others_are_not(code: int) -> None:
    fails = TABLE.fails(Xid(code, "GPU 0", 1), [])
    severities = severities_of(code)
    assert len(severities) <= 1
    if code in BY_TEXT:
        assert severities == {"warning"}, "metrics contain no text"
    else:
        assert ("critical" in severities) == fails


@pytest.mark.parametrize("code", [45, 63, 92])
def test_an_error_that_needs_nothing_raises_no_alert(code: int) -> None:
    assert severities_of(code) == set()


def test_runbooks_name_the_codes_of_their_alert() -> None:
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^#|\Z)", RUNBOOKS.read_text("utf-8"), re.M | re.S))
    missing = [
        (one.alert, one.codes)
        for one in CATALOG.xid_classes.values()
        if one.alert and one.codes not in sections[one.alert]
    ]
    assert missing == []
