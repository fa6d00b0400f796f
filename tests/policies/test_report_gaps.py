"""How a report lists the values that rules could not check."""

from __future__ import annotations

from policies._evaluate import NotChecked, PolicyReport


def gap(rule: str, subject: str, path: str = "userData") -> NotChecked:
    return NotChecked(rule=rule, resource="urn::shared", subject=subject, path=path, why="not known yet")


def test_a_value_that_several_rules_need_is_named_once_with_the_rules() -> None:
    report = PolicyReport(
        violations=(),
        exempted=(),
        not_checked=(gap("a", "team"), gap("b", "pool"), gap("a", "other"), gap("c", "pool", "amiType")),
    )
    assert report.gaps == (
        ("a, b", "shared: userData: not known yet"),
        ("c", "pool: shared: amiType: not known yet"),
    )
