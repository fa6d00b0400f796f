"""Metrics of the dcgm-exporter in a cluster, with the metric names of its version.

The exporter's DaemonSet is privileged, because profiling metrics require it. It sets NODE_NAME, so that the
exporter's host label contains the node's name. A custom CSV replaces the exporter's default CSV. Sources:
NVIDIA/gpu-operator, assets/state-dcgm-exporter and chart values by tag; 2026-11-25.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpu_platform.base import names
from gpu_platform.base.versions import version_numbers
from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.gpu_parts import gpu_parts
from gpu_platform.planning.config_maps import ConfigMapPlan, hashed_config_map
from gpu_platform.planning.context import CompleteContext

METRICS_KEY = "dcgm-metrics.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedMetric:
    """A metric of the exporter: its name, and the factor that converts its unit to the base unit."""

    field: str
    type: str
    help: str
    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporter:
    """The exporter's version, its metrics by the names that the program gives them, and its label for the node's
    name.
    """

    version: str
    metrics: Mapping[str, ExportedMetric]
    node_label: str


def version_key(version: str) -> tuple[int, ...]:
    """Return a version as numbers, such as (4, 8, 3) for `4.8.3` and for `4.6.0-4.8.3`, which starts with DCGM's
    version.
    """
    return version_numbers(version.rpartition("-")[2])


def exporter_of(context: CompleteContext) -> Exporter:
    """Return the exporter of the operator's release, or the exporter that the cluster's owner runs."""
    version = context.environment.monitoring.exporter_version
    if version is None or gpu_parts(context.cloud.cluster).dcgm_exporter == "install":
        version = context.catalog.operator_releases[context.operator.release].dcgm_exporter
    return exporter(version, context.catalog)


def exporter(version: str, catalog: Catalog) -> Exporter:
    """Return the exporter with a version such as `4.8.3`."""
    metrics: dict[str, ExportedMetric] = {}
    node_label = ""
    key = version_key(version)
    for metric in catalog.exporter_metrics.values():
        known = [name for name in metric.names if version_key(name.since) <= key]
        if not known or (metric.until is not None and version_key(metric.until) <= key):
            continue
        if metric.type == "label":
            node_label = known[-1].field
        else:
            metrics[metric.name] = ExportedMetric(
                field=known[-1].field, type=metric.type, help=metric.help, factor=known[-1].factor
            )
    return Exporter(version=version, metrics=metrics, node_label=node_label)


def metrics_config_map(context: CompleteContext) -> ConfigMapPlan | None:
    """Return the exporter's counters as a content-hashed ConfigMap, or None if monitoring is off."""
    if not context.environment.monitoring.enabled:
        return None
    lines = ["# DCGM field, Prometheus type, help", *_lines(exporter_of(context))]
    return hashed_config_map("dcgm-metrics", names.OPERATOR_NAMESPACE, {METRICS_KEY: "\n".join(lines) + "\n"})


def _lines(exporter: Exporter) -> Iterator[str]:
    for metric in exporter.metrics.values():
        # A comma would start another column of the CSV.
        yield ", ".join((metric.field, metric.type, metric.help.replace(",", ";")))
