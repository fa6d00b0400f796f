"""Stack file field `charts`: settings of the Helm charts that the program installs."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from gpu_platform.stack._types import SpecModel

ChartRepository = Annotated[
    str, Field(pattern=r"^(https|oci)://\S+[^/\s]$", examples=["oci://registry.example.com/charts"])
]


class ChartSettings(SpecModel):
    """Settings of one Helm chart that the program installs, by its name."""

    repository: ChartRepository | None = None
    """Repository that has the chart under the same name and version, such as a mirror; unset: that of
    `chart_mirror`, else the chart's own."""
    values: dict[str, Any] = {}
    """Helm values beside those that the program sets, merged by key; where both set one, that of the program wins,
    and `check` says so."""
