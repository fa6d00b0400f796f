"""Stack file field `addons`: controllers for the workloads of team members."""

from __future__ import annotations

from gpu_platform.stack._types import SpecModel
from gpu_platform.stack.parts import Part


class Addons(SpecModel):
    """Controllers for the workloads of team members. Each is installed from a separate Helm chart. With `install`,
    the program installs the controller, and refuses a cluster that already has it. With `present`, the owner of
    the cluster has installed it. If unset, the cluster does not have the controller, unless another add-on needs
    it. Removing an entry leaves the controller installed, together with all objects that members created.
    """

    jobset: Part | None = None
    """JobSet, which provides groups of Jobs that start, fail and restart together. `trainer` needs JobSet and
    installs it.
    """
    trainer: Part | None = None
    """Kubeflow Trainer, which provides TrainJob for distributed training."""
    kuberay: Part | None = None
    """KubeRay, which provides RayCluster, RayJob and RayService."""
    leaderworkerset: Part | None = None
    """LeaderWorkerSet, which serves models on groups of several nodes."""
    keda: Part | None = None
    """KEDA, which provides ScaledObject. It scales services by GPU and queue metrics."""
    gateway: Part | None = None
    """Gateway API with Envoy Gateway and its GatewayClass `platform`. It routes requests to services by weight and
    header.
    """
    prometheus: Part | None = None
    """Prometheus operator and Prometheus, without Grafana. Prometheus scrapes GPU metrics and the teams' services.
    When this add-on is set, `monitoring.prometheus_operator` defaults to true.
    """
