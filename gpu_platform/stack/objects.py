"""Stack file field `objects`: labels and annotations of a company on every Kubernetes object."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpu_platform.stack._types import LabelKey, LabelValue, SpecModel


class Objects(SpecModel):
    """Labels and annotations of the company on every Kubernetes object of the program and on its pods.

    Where the program sets the same key, its own value wins. Nodes have those of their pool (`pools[].labels`), and
    objects inside Helm charts those of the chart's values.
    """

    labels: Annotated[dict[LabelKey, LabelValue], Field(max_length=40)] = {}
    annotations: Annotated[dict[LabelKey, str], Field(max_length=40)] = {}
