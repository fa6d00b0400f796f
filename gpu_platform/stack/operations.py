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
from gpu_platform.stack.declared import WITH_REMOVABLE_TAINTS
from gpu_platform.stack.patterns import NO_SPACES


class Monitoring(SpecModel):
    """Monitoring in the stack file: DCGM metrics and alerts."""

    enabled: bool = True
    prometheus_operator: bool | None = None
    """Create a ServiceMonitor and PrometheusRules for the Prometheus operator. The operator must be installed in
    the cluster. The default is `false` on a cluster that the program creates, else `true`.
    """
    interval: Annotated[Duration, at_most("2m")] = "15s"
    """Scrape interval. The rules need two samples within 5 minutes, after which Prometheus ignores a sample."""
    temperature_celsius: int | None = Field(default=None, ge=50, le=110)
    """GPU temperature in °C above which an alert fires. The default is the maximum operating temperature that the
    GPU reports, or 85 if the GPU reports none.
    """
    exporter_version: str | None = Field(
        default=None, pattern=r"^(\d+\.\d+\.\d+-)?\d+\.\d+\.\d+$", examples=["4.8.3"]
    )
    """Version of an existing DCGM exporter (`cluster.parts.dcgm_exporter: present`). The names and units of its
    metrics depend on the version. The default is the version in the operator's release.
    """
    dashboards: Literal["config-maps", "grafana-operator", "none"] | None = None
    """Grafana dashboards (Grafana 12 or newer). `config-maps` creates ConfigMaps with the label
    `grafana_dashboard`. The sidecar of Grafana's chart loads them. `grafana-operator` creates GrafanaDashboard
    objects for Grafana instances with the label `dashboards: grafana`. The default is `config-maps` with the
    Prometheus operator, else `none`.
    """
    runbooks: str = Field(
        default="docs/runbooks.md", pattern=NO_SPACES, examples=["https://docs.example.com/runbooks/"]
    )
    """URL of the runbook page. Alerts contain it in `runbook_url`. The default is the page in this repository."""
    labels: dict[LabelKey, LabelValue] = {}
    """Labels of the ServiceMonitor and the PrometheusRules, such as `release: prometheus`. Prometheus selects
    these objects by their labels.
    """


class Budget(SpecModel):
    """Maximum cost of an environment's nodes."""

    usd_per_month: float = Field(gt=0)
    """Budget in USD for 730 hours. The stack is refused if the pools cost more at their desired size. If the
    running GPU nodes cost more, an alert fires.
    """


BurnInMeasure = Literal["host-device", "device-device", "all-reduce", "all-reduce-nodes"]


class BurnIn(SpecModel):
    """Active checks of idle GPU nodes. `gpu-platform burn-in` runs them as Jobs. The checks measure bandwidths,
    compare the products of matrices, and test NCCL within a node and between nodes.

    The teams' pods take precedence, so busy nodes are not checked, and the Jobs have the lowest priority.
    """

    image: Annotated[str, AfterValidator(pinned_image)] | None = None
    """Container image with PyTorch, NCCL and the NCCL plugin of the nodes' network, pinned by a release tag or by
    digest. The default is NVIDIA's PyTorch image in the catalogue.
    """
    matrix: Annotated[Duration, at_least("1s"), at_most("24h")] = "60s"
    """How long all GPUs of a node multiply matrices at full power."""
    timeout: Annotated[Duration, at_most("25h")] = "20m"
    """Maximum duration of each Job, including the time to pull its image."""
    least: dict[BurnInMeasure, Annotated[float, Field(gt=0)]] = {}
    """Minimum bandwidths in GB/s that replace the values in the catalogue, such as `all-reduce: 420`. They apply
    to the nodes of all pools.
    """

    @model_validator(mode="after")
    def _longer_than_matrix(self) -> BurnIn:
        if parse_duration(self.timeout) <= parse_duration(self.matrix):
            raise wrong("a timeout longer than matrix", "write a timeout that is a few minutes longer than matrix")
        return self


class Validation(SpecModel):
    """Validation of every GPU node against the stack file."""

    gate: bool = True
    """Whether `up` waits until all nodes pass validation, and fails if they do not."""
    timeout: Annotated[Duration, at_most("24h")] = "15m"
    """How long `up` waits until all nodes of a pool pass."""
    gate_nodes: Annotated[NodeGate, WITH_REMOVABLE_TAINTS] = "never"
    """When GPU nodes have a taint that keeps teams' pods off. With `startup`, new nodes have the taint until they
    pass validation, including nodes that an autoscaler adds. With `always`, nodes also have a taint whenever they
    fail a check later. `gate_nodes` of a pool overrides this field. If neither field is set, `startup` applies to
    pools in which the MIG manager partitions GPUs, because a new node offers whole GPUs before it is partitioned.
    `never` applies to other pools.
    """
    node_readiness: bool = False
    """With `gate_nodes`, let Kubernetes' Node Readiness Controller remove the taint of new nodes, instead of the
    node agent. The controller must be installed in the cluster. It acts on the condition that the agent sets. The
    taint is then readiness.k8s.io/gpu-platform-validated.
    """
    metrics: bool = False
    """Also serve GPU metrics from the node agent, on port 9401 of its pods, for nodes without DCGM. On nodes
    without DCGM metrics, the recording rules and most alerts and dashboards use these metrics. The alerts about
    XID errors and reduced clock speeds do not.
    """
    host_processes: bool = False
    """Give the node agent access to the host's processes (`hostPID`) on machines with NVLink switches. The agent
    can then detect a fabric manager that has exited. With `true`, the agent's namespace has the Pod Security level
    `privileged`.
    """
    max_held_percent: Annotated[int, Field(ge=1, le=100)] = 25
    """With `gate_nodes: always`, the maximum percentage of a pool's nodes that may be tainted at a time because of
    failing checks. At least one node may always be tainted. The limit does not apply to new nodes that have never
    passed.
    """
    on_failure: Literal["report", "cordon", "replace"] = "report"
    """What the node agent does with a node that has failed a check for `failing_for`. This field only affects
    nodes that are tainted because of `gate_nodes: always`. `cordon` cordons the node until it passes. With
    `replace`, nodes of Karpenter pools are replaced, and nodes of other pools are cordoned. A node that somebody
    else has cordoned is not changed.
    """
    failing_for: Annotated[Duration, at_least("1s"), at_most("168h")] = "30m"
    """How long a node must have failed a check before `on_failure` applies."""
    burn_in: BurnIn | None = None
    """Active checks, which `gpu-platform burn-in` runs on request. If unset, there are no active checks."""


class Cleanup(SpecModel):
    """A CronJob that finds unneeded objects in the namespaces of the stack's teams, and reports them.

    It also finds workloads whose label gpu-platform.dev/expires-on contains a date in the past. It ignores objects
    that the stack file declares, objects with the label `gpu-platform.dev/cleanup: never`, volumes and claims.
    """

    delete: bool = False
    """Delete the unneeded objects. If `false`, they are only reported."""
    schedule: str = Field(default="17 3 * * *", pattern=CRON, examples=["17 3 * * *"])
    """Schedule in UTC: minute, hour, day, month and weekday."""
    finished_after: Duration | None = "168h"
    """Time after which finished Jobs, JobSets, TrainJobs, RayJobs, PyTorchJobs, MPIJobs and standalone pods count
    as unneeded. With `null`, they never count as unneeded.
    """
    idle_after: Annotated[Duration, at_most("168h")] | None = None
    """Time without GPU use after which notebooks count as unneeded. The same applies to other workloads whose pods
    have the label `gpu-platform.dev/ends-when-idle: "true"`. If unset, idle workloads never count as unneeded.
    """
    prometheus: str | None = Field(
        default=None, pattern=r"^https?://[^\s/?#]+(/[^\s?#]*)?$", examples=["http://prometheus.monitoring:9090"]
    )
    """With `idle_after`, the in-cluster address of the Prometheus that has the recording rules."""

    @model_validator(mode="after")
    def _both_or_none(self) -> Cleanup:
        if (self.idle_after is None) != (self.prometheus is None):
            raise wrong(
                "both idle_after and prometheus, whose metrics show which GPUs are idle, or neither",
                "write prometheus, the address at which pods reach it, in addition to idle_after: 2h",
            )
        return self


ModuleName = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$", examples=["acme_rules"])]


def _with_level(value: object) -> object:
    """Return the settings of a rule. If the value is only a level, return settings with this level. The policy
    pack refuses unknown levels.
    """
    return value if value is None or isinstance(value, Mapping) else {"enforcementLevel": value}


RuleSettings = Annotated[dict[str, Any], BeforeValidator(_with_level, json_schema_input_type=str | dict[str, Any])]


class Policy(SpecModel):
    """Configuration of the policy pack for this stack."""

    level: Literal["advisory", "mandatory"] = "mandatory"
    """The maximum level of the rules. With `mandatory`, rules of critical and high severity stop the deployment,
    and rules of medium and low severity warn. With `advisory`, every rule only warns.
    """
    rules: dict[str, RuleSettings] = Field(
        default=dict[str, RuleSettings](), examples=[{"topology-for-multi-gpu": {"enforcementLevel": "mandatory"}}]
    )
    """Level of each rule, or its level and settings, by rule ID. Examples of a value are `advisory` and
    `{enforcementLevel: advisory, exempt: [...]}`.
    """
    own_rules: Annotated[tuple[ModuleName, ...], Field(max_length=20)] = ()
    """Python modules with the company's rules, which are evaluated in addition to the policy pack. A module is
    either installed in the Python environment of gpu-platform or a file in the project's root folder. Each
    module defines RULES, a tuple of policies.api.Rule.
    """
