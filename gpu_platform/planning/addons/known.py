"""Facts of each add-on: chart, values, and how to recognise one that is installed.

Values are few: what the charts decide well is left to them. Sources: the charts of catalog/facts/charts.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpu_platform.base import names


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAddon:
    """One add-on. `label`, `image`: see PartPlan."""

    title: str
    chart: str
    label: str
    image: str
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    needs: tuple[str, ...] = ()


PROMETHEUS_KEEPS: Final[Mapping[str, str]] = {"retention": "15d", "retentionSize": "8GB"}
"""What Prometheus keeps on the disk of its node, where its owner gives it no volume: whichever ends first."""
_PROMETHEUS: Final[Mapping[str, Any]] = {
    "fullnameOverride": "prometheus",
    "cleanPrometheusOperatorObjectNames": True,
    # Its administrator's password would be the chart's default, or a secret in the release's values.
    "grafana": {"enabled": False},
    # Without them kube_node_labels has none, and an alert on failed MIG changes is silent.
    "kube-state-metrics": {"metricLabelsAllowlist": [f"nodes=[{names.MIG_STATE_LABEL},{names.POOL_LABEL}]"]},
    "prometheus": {
        "prometheusSpec": {
            # Monitors and rules of every namespace, whatever their labels: those of teams are scraped, too.
            "serviceMonitorSelectorNilUsesHelmValues": False,
            "podMonitorSelectorNilUsesHelmValues": False,
            "ruleSelectorNilUsesHelmValues": False,
            **PROMETHEUS_KEEPS,
            "resources": {"requests": {"cpu": "500m", "memory": "2Gi"}, "limits": {"memory": "4Gi"}},
        }
    },
}

KNOWN: Final[Mapping[str, KnownAddon]] = {
    "jobset": KnownAddon(
        title="JobSet",
        chart="jobset",
        label="jobset",
        image="jobset/jobset",
    ),
    "trainer": KnownAddon(
        title="Kubeflow Trainer",
        chart="kubeflow-trainer",
        label="trainer",
        image="trainer/trainer-controller-manager",
        # JobSet is an add-on of its own; the runtimes of the chart are applied by a Job that downloads kubectl.
        values={"jobset": {"install": False}},
        needs=("jobset",),
    ),
    "kuberay": KnownAddon(
        title="KubeRay",
        chart="kuberay-operator",
        label="kuberay-operator",
        image="kuberay/operator",
    ),
    "leaderworkerset": KnownAddon(
        title="LeaderWorkerSet",
        chart="lws",
        label="lws",
        image="lws/lws",
    ),
    "prometheus": KnownAddon(
        title="Prometheus operator",
        chart="kube-prometheus-stack",
        label="prometheus-operator",
        image="prometheus-operator/prometheus-operator",
        values=_PROMETHEUS,
    ),
    "keda": KnownAddon(
        title="KEDA",
        chart="keda",
        label="keda-operator",
        image="kedacore/keda",
        # ScaledObjects of members outlive the release.
        values={"crds": {"additionalAnnotations": {"helm.sh/resource-policy": "keep"}}},
    ),
    "gateway": KnownAddon(
        title="Envoy Gateway",
        chart="gateway-helm",
        label="gateway-helm",
        image="envoyproxy/gateway",
    ),
}
"""By field of the stack file, in the order of installation."""
GATEWAY_CLASS: Final = "platform"
# Components of the control plane that a managed one does not show.
HIDDEN_CONTROL_PLANE: Final = ("kubeControllerManager", "kubeEtcd", "kubeScheduler", "kubeProxy")
