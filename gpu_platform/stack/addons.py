"""Stack file field `addons`: controllers of what members run."""

from __future__ import annotations

from gpu_platform.stack._types import SpecModel
from gpu_platform.stack.parts import Part


class Addons(SpecModel):
    """Controllers of what members run, from their own Helm charts. `install`: the program installs it, and refuses
    to beside another one; `present`: the owner of the cluster has installed it. Unset: the cluster has none, but
    for what another add-on needs. A removed entry leaves its controller installed, with all that members made."""

    jobset: Part | None = None
    """JobSet: groups of Jobs that start, fail and restart together. `trainer` needs it, and installs it."""
    trainer: Part | None = None
    """Kubeflow Trainer: TrainJob, for distributed training."""
    kuberay: Part | None = None
    """KubeRay: RayCluster, RayJob and RayService."""
    leaderworkerset: Part | None = None
    """LeaderWorkerSet: models that are served by several nodes together."""
    keda: Part | None = None
    """KEDA: ScaledObject, which scales services by metrics of GPUs and of queues."""
    gateway: Part | None = None
    """Gateway API with Envoy Gateway and its class `platform`: routes of services by weight and header."""
    prometheus: Part | None = None
    """Prometheus operator and Prometheus, which scrape GPUs and the services of teams; without Grafana. With it
    `monitoring.prometheus_operator` is true unless it says otherwise."""
