"""Stack file field `objects`: the company's labels and annotations for every Kubernetes object."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpu_platform.stack._types import LabelKey, LabelValue, SpecModel


class Objects(SpecModel):
    """The company's labels and annotations for every Kubernetes object that the program creates, and for its pods.

    If the program sets the same key, its value takes precedence. Labels of nodes are set per pool
    (`pools[].labels`). Labels of objects in Helm charts are set in the values of the charts.
    """

    labels: Annotated[dict[LabelKey, LabelValue], Field(max_length=40)] = {}
    annotations: Annotated[dict[LabelKey, str], Field(max_length=40)] = {}
