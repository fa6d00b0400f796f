"""Stack file fields `monitoring`, `validation`, `cleanup` and `policy`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from gpu_platform.base.quantity import parse_duration
from gpu_platform.stack._types import (
    CRON,
    Duration,
    LabelKey,
    LabelValue,
    NodeGate,
    SpecModel,
    at_least,
    at_most,
    pinned_image,
    wrong,
)
from gpu_platform.stack.patterns import NO_SPACES


class Monitoring(SpecModel):
    """Monitoring in the stack file: DCGM metrics and alerts."""

    enabled: bool = True
    prometheus_operator: bool | None = None
    """Create a ServiceMonitor and PrometheusRules for the Prometheus operator, which must be installed in the
    cluster. Unset: no on a cluster that the program creates, else yes."""
    interval: Annotated[Duration, at_most("1h")] = "15s"
    """Scrape interval."""
    temperature_celsius: int | None = Field(default=None, ge=50, le=110)
    """GPU temperature in °C above which an alert fires. Unset: the highest operating temperature that the GPU
    itself reports, or 85."""
    exporter_version: str | None = Field(
        default=None, pattern=r"^(\d+\.\d+\.\d+-)?\d+\.\d+\.\d+$", examples=["4.8.3"]
    )
    """Version of the DCGM exporter of the owner (`cluster.parts.dcgm_exporter: present`): names and units of its
    metrics depend on it. Unset: that of the operator's release."""
    dashboards: Literal["config-maps", "grafana-operator", "none"] | None = None
    """Grafana dashboards (Grafana 12 or newer): ConfigMaps with the label grafana_dashboard, which the sidecar of
    Grafana's chart loads, or GrafanaDashboard objects for Grafanas with the label dashboards: grafana. Unset:
    config-maps with the Prometheus operator, else none."""
    runbooks: str = Field(
        default="docs/runbooks.md", pattern=NO_SPACES, examples=["https://docs.example.com/runbooks/"]
    )
    """Address of the page of runbooks, which alerts name in `runbook_url`. Unset: its place in this repository."""
    labels: dict[LabelKey, LabelValue] = {}
    """Labels of the ServiceMonitor and the PrometheusRules by which Prometheus selects them, such as
    release: prometheus."""


class Budget(SpecModel):
    """What the nodes of an environment may cost."""

    usd_per_month: float = Field(gt=0)
    """For 730 hours. Pools that cost more at their desired size are refused; an alert fires where the GPU nodes
    that run cost more."""


BurnInMeasure = Literal["host-device", "device-device", "all-reduce", "all-reduce-nodes"]


class BurnIn(SpecModel):
    """Active checks of idle GPU nodes, which `gpu-platform burn-in` runs as Jobs: bandwidths, products of matrices
    that must be equal, NCCL in a node and between nodes.

    Pods of teams come first: a busy node is left alone, and the Jobs have the lowest priority.
    """

    image: Annotated[str, AfterValidator(pinned_image)] | None = None
    """Container image with PyTorch, NCCL and the NCCL plugin of the nodes' network, pinned by the tag of a release
    or by digest. Unset: NVIDIA's, that of the guide."""
    matrix: Annotated[Duration, at_least("1s"), at_most("24h")] = "60s"
    """How long all GPUs of a node multiply matrices, at full power."""
    timeout: Annotated[Duration, at_most("25h")] = "20m"
    """Maximum time of each Job, with the pull of its image."""
    least: dict[BurnInMeasure, Annotated[float, Field(gt=0)]] = {}
    """Least bandwidths in GB/s that replace those of the catalogue, such as all-reduce: 420, on nodes of all
    pools."""

    @model_validator(mode="after")
    def _longer_than_matrix(self) -> BurnIn:
        if parse_duration(self.timeout) <= parse_duration(self.matrix):
            raise wrong("a timeout longer than matrix", "write timeout: a few minutes more than matrix")
        return self


class Validation(SpecModel):
    """Validation of every GPU node against the stack file."""

    gate: bool = True
    """`up` waits until all nodes pass validation, and fails if they do not."""
    timeout: Annotated[Duration, at_most("24h")] = "15m"
    """Maximum time that `up` waits until all nodes of a pool pass."""
    gate_nodes: NodeGate = "never"
    """When GPU nodes are tainted so that no pod of a team starts on them. `startup`: new nodes, also those that an
    autoscaler adds, until they pass validation. `always`: also later, while a check fails. `gate_nodes` of a pool
    overrides it. Unset: `startup` for pools whose GPUs the MIG manager partitions, because a new node offers whole
    GPUs before that, and `never` for others."""
    node_readiness: bool = False
    """With gate_nodes: Kubernetes' Node Readiness Controller, which must be installed, removes the taint of new
    nodes by the agent's condition, instead of the agent. It is readiness.k8s.io/gpu-platform-validated."""
    metrics: bool = False
    """The node agent also serves metrics of GPUs, on port 9401 of its pods: for nodes where DCGM does not run. The
    recording rules, and with them most alerts and dashboards, use them on nodes without metrics of DCGM; not the
    alerts on XID errors and lowered clocks."""
    host_processes: bool = False
    """The node agent sees the processes of its host (`hostPID`) on machines with NVLink switches, and finds a
    fabric manager that has ended. The agents' namespace then has the Pod Security level privileged."""
    max_held_percent: Annotated[int, Field(ge=1, le=100)] = 25
    """With `gate_nodes: always`: the largest part of a pool's nodes that failing checks may hold back at a time,
    but one node at least. It does not limit new nodes, which have never passed."""
    on_failure: Literal["report", "cordon", "replace"] = "report"
    """What the node agent does with a node that a check has failed for `failing_for`, of those that it holds back
    with `gate_nodes: always`. `cordon`: cordons it, until it passes. `replace`: also has it replaced, in pools of
    Karpenter; other nodes are cordoned alone. A node that somebody else has cordoned is left as it is."""
    failing_for: Annotated[Duration, at_least("1s"), at_most("168h")] = "30m"
    """With on_failure: how long a node must have failed."""
    burn_in: BurnIn | None = None
    """Active checks on request, by `gpu-platform burn-in`. Unset: none."""


class Cleanup(SpecModel):
    """A CronJob that finds what nobody needs any more in the namespaces of the stack's teams, and reports it.

    Also found: workloads whose label gpu-platform.dev/expires-on names a day that is over. Never found: what the
    stack file declares, what has the label `gpu-platform.dev/cleanup: never`, volumes and claims.
    """

    delete: bool = False
    """Delete what is found. Unset: it is only reported."""
    schedule: str = Field(default="17 3 * * *", pattern=CRON, examples=["17 3 * * *"])
    """Minute, hour, day, month and weekday, in UTC."""
    finished_after: Duration | None = "168h"
    """Age of the end of a Job, JobSet, TrainJob, RayJob or pod of its own from which it is found; null: never."""
    idle_after: Annotated[Duration, at_most("168h")] | None = None
    """Notebooks, and what else has the label `gpu-platform.dev/ends-when-idle: "true"` on its pods, are found when
    they have not used their GPUs for this long. Unset: never."""
    prometheus: str | None = Field(
        default=None, pattern=r"^https?://[^\s/?#]+(/[^\s?#]*)?$", examples=["http://prometheus.monitoring:9090"]
    )
    """With idle_after: address of the Prometheus that has the recording rules, as pods reach it."""

    @model_validator(mode="after")
    def _both_or_none(self) -> Cleanup:
        if (self.idle_after is None) != (self.prometheus is None):
            raise wrong(
                "idle_after and prometheus, which knows what GPUs do, or neither",
                "write prometheus, the address at which pods reach it, beside idle_after: 2h",
            )
        return self


ModuleName = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$", examples=["acme_rules"])]


def _with_level(value: object) -> object:
    """Return the settings of a rule of which only the level is written. The pack refuses what is no level."""
    return value if value is None or isinstance(value, Mapping) else {"enforcementLevel": value}


RuleSettings = Annotated[dict[str, Any], BeforeValidator(_with_level, json_schema_input_type=str | dict[str, Any])]


class Policy(SpecModel):
    """Configuration of the policy pack for this stack."""

    level: Literal["advisory", "mandatory"] = "mandatory"
    """The highest level of the rules. `mandatory`: rules of critical and high severity stop the deploy, rules of
    medium and low severity warn. `advisory`: every rule only warns."""
    rules: dict[str, RuleSettings] = Field(
        default=dict[str, RuleSettings](), examples=[{"topology-for-multi-gpu": {"enforcementLevel": "mandatory"}}]
    )
    """Level, or level and settings, by rule id: `advisory`, or `{enforcementLevel: advisory, exempt: [...]}`."""
    own_rules: Annotated[tuple[ModuleName, ...], Field(max_length=20)] = ()
    """Python modules with rules of the company, evaluated beside the pack: installed with gpu-platform, or files
    in the project's root folder. Each has RULES, a tuple of policies.api.Rule."""
