"""HTML pages that commands print. Each page is a single file without external links, and is rendered from Jinja2
templates.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle
from typing import Final

from gpu_platform.base.quantity import counted

COLOURS: Final = (
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee8866", "#44bb99", "#99ddff", "#bbcc33",
)  # fmt: skip
"""Colours that people with colour blindness can tell apart (Paul Tol's bright and light schemes)."""
HATCHED: Final = "repeating-linear-gradient(45deg,#8888,#8888 3px,#8883 3px,#8883 7px)"
"""Hatched background for the part of a bar that is not allocated to any team. Other parts have plain colours."""


def colours_of(names: Iterable[str]) -> dict[str, str]:
    """Return a colour for each name. The colours repeat if there are more names than colours."""
    return dict(zip(dict.fromkeys(names), cycle(COLOURS), strict=False))


def render_page(package: str, template: str, **context: object) -> str:
    """Return the page for a template that is in a package's folder and extends base.html.

    Every value is escaped. A template variable that is missing from the context is an error.
    """
    # Imported only here, because few commands need it.
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package, ""), PackageLoader("gpu_platform.base", "")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(context, counted=counted)
