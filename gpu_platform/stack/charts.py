"""Stack file field `charts`: settings of the Helm charts that the program installs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, cast

from pydantic import Field

from gpu_platform.stack._types import SpecModel

ChartRepository = Annotated[
    str, Field(pattern=r"^(https|oci)://\S+[^/\s]$", examples=["oci://registry.example.com/charts"])
]


class ChartSettings(SpecModel):
    """Settings of one Helm chart that the program installs."""

    repository: ChartRepository | None = None
    """Repository that contains the chart under the same name and version, such as a mirror. The default is
    `chart_mirror`, or else the chart's original repository.
    """
    values: dict[str, Any] = {}
    """Additional Helm values, merged by key with the values that the program sets. If both set the same key, the
    program's value takes precedence, and `check` reports the conflict.
    """

    def section(self, name: str) -> Mapping[str, Any]:
        """Return the additional values below a key, or an empty mapping if there are none."""
        found = self.values.get(name)
        return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}
