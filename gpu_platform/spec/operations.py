"""`monitoring`, `validation` and `policy`: how the platform is monitored, validated and checked."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from gpu_platform.spec._types import Duration, LabelKey, LabelValue, SpecModel


class Monitoring(SpecModel):
    """DCGM metrics and alerts."""

    enabled: bool = True
    prometheus_operator: bool | None = None
    """The cluster has the Prometheus operator: write a ServiceMonitor and PrometheusRules. Unset: yes, but not on
    a cluster that the program makes, for nobody has installed it there yet."""
    interval: Duration = "15s"
    """Scrape interval."""
    temperature_celsius: int = Field(default=85, ge=50, le=110)
    """Alert above this GPU temperature, °C."""
    labels: dict[LabelKey, LabelValue] = {}
    """Labels by which the Prometheus selects monitors and rules, such as release: prometheus."""


class Validation(SpecModel):
    """Proof on every node that what was declared is what came up."""

    gate: bool = True
    """`up` waits for the proof and fails without it."""
    timeout: Duration = "15m"
    """How long `up` waits for a pool's nodes to pass."""


class Policy(SpecModel):
    """How the policy pack checks this stack."""

    level: Literal["advisory", "mandatory"] = "mandatory"
    """The highest level of the rules. `mandatory`: rules of critical and high severity stop the deploy, rules of
    medium and low severity warn. `advisory`: every rule only warns."""
    rules: dict[str, Annotated[dict[str, Any], Field()]] = {}
    """Settings by rule id, as the policy pack's configuration takes them. `enforcementLevel` sets the level of one
    rule, whatever `level` is: advisory, mandatory or disabled."""
