"""The dashboards: fleet, team, node, workload and cost. Their queries use only recorded metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

_SOURCE: Final = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
_WIDTH: Final = 24
_TIME_SERIES_HEIGHT: Final = 8
_STAT_HEIGHT: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel: its title, its query, and the label that names its series."""

    title: str
    expr: str
    unit: str = "short"
    legend: str = ""
    kind: str = "series"  # series, stat or table
    span: int = 12
    highest: float | None = None
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One dashboard. `variables` maps names to the queries for their values."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    variables: Mapping[str, str]


def _ratio(title: str, expr: str, legend: str, **rest: Any) -> Panel:  # noqa: ANN401 - fields of Panel
    return Panel(title=title, expr=expr, unit="percentunit", legend=legend, highest=1, **rest)


_OF_NODE: Final = 'node=~"$node"'
_OF_TEAM: Final = 'namespace=~"$team"'
_OF_POOL: Final = 'pool=~"$pool"'

BOARDS: Final = (
    Board(
        name="fleet",
        title="GPU fleet",
        variables={"pool": "label_values(pool:gpus:count, pool)"},
        panels=(
            Panel(title="GPUs", expr=f"sum(pool:gpus:count{{{_OF_POOL}}})", kind="stat", span=6),
            Panel(title="GPUs held by pods", expr=f"sum(pool:gpus_held:count{{{_OF_POOL}}})", kind="stat", span=6),
            Panel(title="Nodes", expr=f"sum(pool:nodes:count{{{_OF_POOL}}})", kind="stat", span=6),
            Panel(
                title="Alerts that fire",
                # The chart's alerts Watchdog and InfoInhibitor do not report a fault.
                expr='count(ALERTS{alertstate="firing", alertname!~"Watchdog|InfoInhibitor"}) or vector(0)',
                kind="stat",
                span=6,
            ),
            _ratio("In use by pool", f"pool:active:ratio{{{_OF_POOL}}}", "{{pool}}"),
            _ratio("SM activity by pool", f"pool:sm_active:ratio{{{_OF_POOL}}}", "{{pool}}"),
            _ratio("In use by GPU model", "model:active:ratio", "{{modelName}}"),
            _ratio("Memory used by pool", f"pool:memory_used:ratio{{{_OF_POOL}}}", "{{pool}}"),
            Panel(title="GPUs held by team", expr="namespace:gpus_held:count", legend="{{namespace}}"),
            Panel(title="Power by pool", expr=f"pool:power:watts{{{_OF_POOL}}}", unit="watt", legend="{{pool}}"),
            Panel(
                title="XID errors of the last 5 minutes",
                expr=f'max by (node, gpu, xid) (gpu:xid_errors:count5m{{xid!="", {_OF_POOL}}}) > 0',
                kind="table",
            ),
            Panel(
                title="Hottest GPUs",
                expr=f"topk(10, max by (node, gpu) (gpu:temperature:celsius{{{_OF_POOL}}}))",
                unit="celsius",
                kind="table",
            ),
        ),
    ),
    Board(
        name="team",
        title="GPUs of a team",
        variables={"team": "label_values(namespace:gpus_held:count, namespace)"},
        panels=(
            Panel(title="GPUs held", expr=f"sum(namespace:gpus_held:count{{{_OF_TEAM}}})", kind="stat", span=8),
            Panel(
                title="In use",
                expr=f"avg(namespace:active:ratio{{{_OF_TEAM}}})",
                unit="percentunit",
                kind="stat",
                span=8,
            ),
            Panel(
                title="Cost",
                expr=f"sum(namespace:cost:usd_per_hour{{{_OF_TEAM}}})",
                unit="currencyUSD",
                kind="stat",
                span=8,
                description="cost of the whole GPUs that pods hold, in USD/h at the plan's prices",
            ),
            _ratio("In use by workload", f"workload:active:ratio{{{_OF_TEAM}}}", "{{namespace}} {{workload}}"),
            _ratio(
                "Memory used by workload",
                f"workload:memory_used:ratio{{{_OF_TEAM}}}",
                "{{namespace}} {{workload}}",
            ),
            Panel(
                title="GPUs held by workload",
                expr=f"workload:gpus_held:count{{{_OF_TEAM}}}",
                legend="{{namespace}} {{workload}}",
            ),
            _ratio("Tensor activity", f"namespace:tensor_active:ratio{{{_OF_TEAM}}}", "{{namespace}}"),
            Panel(
                title="Pods that use less than 5 % of their GPU",
                expr=f'max by (namespace, pod) (gpu:active:ratio{{pod!="", {_OF_TEAM}}} '
                "unless on (namespace, pod) pod:ended:info) < 0.05",
                unit="percentunit",
                kind="table",
                span=24,
            ),
        ),
    ),
    Board(
        name="node",
        title="GPUs of a node",
        variables={"node": "label_values(gpu:temperature:celsius, node)"},
        panels=(
            _ratio(
                "In use",
                f"max by (node, gpu, GPU_I_ID) (gpu:active:ratio{{{_OF_NODE}}})",
                "{{node}} {{gpu}} {{GPU_I_ID}}",
            ),
            _ratio(
                "Memory used",
                f"max by (node, gpu, GPU_I_ID) (gpu:memory_used:ratio{{{_OF_NODE}}})",
                "{{node}} {{gpu}} {{GPU_I_ID}}",
            ),
            Panel(
                title="Temperature",
                expr=f"max by (node, gpu) (gpu:temperature:celsius{{{_OF_NODE}}})",
                unit="celsius",
                legend="{{node}} {{gpu}}",
            ),
            Panel(
                title="Power",
                expr=f"max by (node, gpu) (gpu:power:watts{{{_OF_NODE}}})",
                unit="watt",
                legend="{{node}} {{gpu}}",
            ),
            Panel(
                title="SM clock",
                expr=f"max by (node, gpu) (gpu:sm_clock:hertz{{{_OF_NODE}}})",
                unit="hertz",
                legend="{{node}} {{gpu}}",
            ),
            Panel(
                title="Samples with lowered clocks in 5 minutes",
                expr=f'max by (node, gpu, clock_event) (gpu:clock_events:count5m{{clock_event!="", {_OF_NODE}}})',
                legend="{{node}} {{gpu}} {{clock_event}}",
            ),
            Panel(
                title="NVLink",
                expr=f"max by (node, gpu) (gpu:nvlink:bytes_per_second{{{_OF_NODE}}})",
                unit="Bps",
                legend="{{node}} {{gpu}}",
            ),
            Panel(
                title="PCIe",
                expr=f"max by (node, gpu) (gpu:pcie:bytes_per_second{{{_OF_NODE}}})",
                unit="Bps",
                legend="{{node}} {{gpu}}",
            ),
            Panel(
                title="Between nodes (EFA, InfiniBand, RoCE): sent",
                expr=f"node:fabric_transmitted:bytes_per_second{{{_OF_NODE}}}",
                unit="Bps",
                legend="{{node}}",
            ),
            Panel(
                title="Between nodes: received",
                expr=f"node:fabric_received:bytes_per_second{{{_OF_NODE}}}",
                unit="Bps",
                legend="{{node}}",
            ),
            Panel(
                title="Uncorrectable ECC errors",
                expr=f"max by (node, gpu) (gpu:ecc_uncorrectable:total{{{_OF_NODE}}})",
                legend="{{node}} {{gpu}}",
            ),
            Panel(
                title="Remapped rows",
                expr=f"max by (node, gpu) (gpu:rows_remapped:total{{{_OF_NODE}}})",
                legend="{{node}} {{gpu}}",
            ),
        ),
    ),
    Board(
        name="workload",
        title="GPUs of a workload",
        variables={
            "team": "label_values(workload:gpus_held:count, namespace)",
            "workload": 'label_values(workload:gpus_held:count{namespace=~"$team"}, workload)',
        },
        panels=tuple(
            _ratio(
                title,
                f"max by (pod, node, gpu) (gpu:{metric}:ratio{{{_OF_TEAM}}} "
                "* on (namespace, pod) group_left (workload) "
                f'pod:workload:info{{{_OF_TEAM}, workload=~"$workload"}})',
                "{{pod}} {{node}} {{gpu}}",
            )
            for title, metric in (
                ("In use", "active"),
                ("SM activity", "sm_active"),
                ("Tensor activity", "tensor_active"),
                ("Memory interface", "dram_active"),
                ("Memory used", "memory_used"),
            )
        ),
    ),
    Board(
        name="cost",
        title="GPU cost",
        variables={"pool": "label_values(pool:cost:usd_per_hour, pool)"},
        panels=(
            Panel(
                title="Cost an hour",
                expr=f"sum(pool:cost:usd_per_hour{{{_OF_POOL}}})",
                unit="currencyUSD",
                kind="stat",
            ),
            Panel(
                title="Idle an hour",
                expr=f"sum(pool:idle_cost:usd_per_hour{{{_OF_POOL}}})",
                unit="currencyUSD",
                kind="stat",
                description="cost of the GPUs' idle time, only for pools with whole GPUs",
            ),
            Panel(
                title="Cost by pool",
                expr=f"pool:cost:usd_per_hour{{{_OF_POOL}}}",
                unit="currencyUSD",
                legend="{{pool}}",
            ),
            Panel(
                title="Idle by pool",
                expr=f"pool:idle_cost:usd_per_hour{{{_OF_POOL}}}",
                unit="currencyUSD",
                legend="{{pool}}",
            ),
            Panel(
                title="Cost by team",
                expr="namespace:cost:usd_per_hour",
                unit="currencyUSD",
                legend="{{namespace}}",
            ),
            Panel(
                title="Cost of a team's use",
                expr="namespace:cost:usd_per_hour * on (namespace) namespace:active:ratio",
                unit="currencyUSD",
                legend="{{namespace}}",
                description="cost of the team's GPUs, times the share of time in which they are active",
            ),
        ),
    ),
)


def build(board: Board) -> Any:  # noqa: ANN401 - a model of the SDK
    """Return a dashboard as a model of Grafana's SDK, which encodes itself as JSON."""
    builder: Any = (
        dashboard.Dashboard(board.title)
        .uid(f"gpu-platform-{board.name}")
        .tags(["gpu-platform"])
        .refresh("1m")
        .time("now-6h", "now")
        .readonly()
        .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    )
    for name, query in board.variables.items():
        builder = builder.with_variable(
            dashboard.QueryVariable(name)
            .query(query)
            .datasource(_SOURCE)
            .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
            .multi(True)
            .include_all(True)
            .all_value(".*")
        )
    for panel in _placed(board.panels):
        builder = builder.with_panel(panel)
    return builder.build()


_KINDS: Final[Mapping[str, Callable[[], Any]]] = {
    "series": timeseries.Panel,
    "stat": stat.Panel,
    "table": table.Panel,
}


def _placed(panels: tuple[Panel, ...]) -> Iterator[Any]:
    """Yield the panels in rows, each row as wide as the dashboard."""
    x = y = tallest = 0
    for panel in panels:
        height = _STAT_HEIGHT if panel.kind == "stat" else _TIME_SERIES_HEIGHT
        if x + panel.span > _WIDTH:
            x, y, tallest = 0, y + tallest, 0
        yield _panel(panel).grid_pos(models.GridPos(x=x, y=y, w=panel.span, h=height))
        x, tallest = x + panel.span, max(tallest, height)


def _panel(panel: Panel) -> Any:  # noqa: ANN401 - a builder of the SDK
    query = prometheus.Dataquery().expr(panel.expr).datasource(_SOURCE).ref_id("A")
    if panel.legend:
        query = query.legend_format(panel.legend)
    if panel.kind == "table":
        query = query.instant().format(PromQueryFormat.TABLE)
    builder: Any = _KINDS[panel.kind]().title(panel.title).unit(panel.unit).datasource(_SOURCE).with_target(query)
    if panel.kind == "stat":
        builder = builder.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    if panel.description:
        builder = builder.description(panel.description)
    if panel.highest is not None:
        builder = builder.min(0).max(panel.highest)
    return builder
