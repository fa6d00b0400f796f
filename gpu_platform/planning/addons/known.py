"""Facts about each add-on: its chart, its values, and how to recognise an existing installation.

The program sets few values, and otherwise keeps the charts' defaults. Sources: the charts in
catalog/facts/charts.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.planning.clouds.daemonsets import UPDATE_STRATEGY


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAddon:
    """A known add-on. `label` and `image` have the same meaning as in PartPlan."""

    title: str
    chart: str
    label: str
    image: str
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    needs: tuple[str, ...] = ()


PROMETHEUS_KEEPS: Final[Mapping[str, str]] = {"retention": "15d", "retentionSize": "8GB"}
"""Retention of metrics if Prometheus has no volume and stores them on its node's disk. The limit that is reached
first applies.
"""
_PROMETHEUS: Final[Mapping[str, Any]] = {
    "fullnameOverride": "prometheus",
    "cleanPrometheusOperatorObjectNames": True,
    # Grafana is off, because its password would be the chart's default or stored in the release's values.
    "grafana": {"enabled": False},
    # Without this list, kube_node_labels has no labels, and the alert on failed MIG changes never fires.
    "kube-state-metrics": {"metricLabelsAllowlist": [f"nodes=[{names.MIG_STATE_LABEL},{names.POOL_LABEL}]"]},
    "prometheus-node-exporter": {"updateStrategy": UPDATE_STRATEGY},
    "defaultRules": {
        # These alerts fire for jobs of more than 12 hours, and if the requests of all pods would not fit without
        # the largest node. Training runs for days and fills its nodes, and queues hold other workloads back.
        "disabled": dict.fromkeys(("KubeCPUOvercommit", "KubeJobNotCompleted", "KubeMemoryOvercommit"), True),
        # Headroom pods are pending while the teams' pods use all GPUs of a pool at its maximum size.
        "appNamespacesOperator": "!=",
        "appNamespacesTarget": names.HEADROOM_NAMESPACE,
    },
    "prometheus": {
        "prometheusSpec": {
            # Prometheus selects monitors and rules in every namespace, with any labels.
            # Administrators can then add monitors and rules for teams.
            # Members may not create monitors, because a monitor can select pods of other namespaces.
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
        # JobSet is a separate add-on.
        # The chart's training runtimes stay off, because a Job that downloads kubectl would apply them.
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
        # Keep the CRDs when the release is deleted. Otherwise the teams' ScaledObjects are deleted with them.
        values={"crds": {"additionalAnnotations": {"helm.sh/resource-policy": "keep"}}},
    ),
    "gateway": KnownAddon(
        title="Envoy Gateway",
        chart="gateway-helm",
        label="gateway-helm",
        image="envoyproxy/gateway",
    ),
}
"""Known add-ons in the order of installation. The keys are fields of the stack file."""
GATEWAY_CLASS: Final = "platform"
# Components of the control plane that a managed control plane does not expose.
HIDDEN_CONTROL_PLANE: Final = ("kubeControllerManager", "kubeEtcd", "kubeScheduler", "kubeProxy")
