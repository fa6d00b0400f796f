"""Applies chart repositories, additional values and the memory of large clusters to Helm releases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi

from gpu_platform.planning.charts.section import ChartsPlan, merged

_RELEASE = "kubernetes:helm.sh/v3:Release"


def with_chart_settings(opts: pulumi.ResourceOptions | None, charts: ChartsPlan) -> pulumi.ResourceOptions | None:
    """Return options for a component that apply the chart settings to all Helm releases below the component, at
    any depth.
    """
    if charts.is_default:
        return opts

    def transform(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        if args.type_ != _RELEASE:
            return None
        props: dict[str, Any] = dict(args.props)
        chart = str(props["chart"]).rsplit("/", 1)[-1]
        repository = charts.repository_of(chart)
        if repository is not None:
            oci = repository.startswith("oci://")
            props["chart"] = f"{repository}/{chart}" if oci else chart
            props["repository_opts"] = None if oci else {"repo": repository}
        if added := charts.added(chart):
            own: Mapping[str, Any] = props.get("values") or {}
            props["values"] = merged(own, added)
        return pulumi.ResourceTransformationResult(props, args.opts)

    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(transformations=[transform]))
