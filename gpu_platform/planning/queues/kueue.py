"""Plan the configuration of Kueue's controller and the values of its chart.

Sources: kubernetes-sigs/kueue v0.19.2, apis/config/v1beta2/configuration_types.go, charts/kueue/values.yaml and
templates/webhook/manifests.yaml; read 2026-11-23. For failed requests for nodes: syncCheckStates of
pkg/controller/admissionchecks/provisioning/controller.go, and kubernetes-sigs/kueue#5129. For the strategy of fair
sharing: kubernetes-sigs/kueue#14543, and pkg/scheduler/preemption/preemption.go (fairPreemptions and
fillBackWorkloads). Read 2026-11-30.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.base.quantity import parse_duration
from gpu_platform.catalog import Catalog
from gpu_platform.catalog.template_kinds import STARTED_KINDS
from gpu_platform.planning.clouds.parts import PartPlan
from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.queues.section import CHART, KueuePlan, QueuesPlan, RetryPlan
from gpu_platform.planning.teams.available import Available
from gpu_platform.stack.queueing import Queueing

MAX_DEVICE_CLASSES: Final = 16
"""Maximum number of device classes that Kueue maps to quotas (validateDeviceClassMappings of Kueue)."""

# If a framework's CRD is absent, Kueue starts to watch the kind when the CRD is installed.
# Kueue's StatefulSet integration rejects changes to the size of a StatefulSet.
# Pods of Deployments and StatefulSets are therefore queued as single pods.
_FRAMEWORKS: Final = (
    *(str(kind.integration) for kind in STARTED_KINDS),
    "trainer.kubeflow.org/trainjob",
    "pod",
)
# GKE's firewall lets the control plane reach ports 443 and 10250 of private nodes. Kueue's default is 9443.
_WEBHOOK_PORT: Final = 10250
# Oldest Kueue release for the TrainJobs that the program writes, which need Trainer 2.2.
# Sources: kubernetes-sigs/kueue#10127 (release v0.17.0) and #11931; read 2026-11-30.
_WITH_TRAINER: Final = (
    "0.17.0",
    "it starts TrainJobs with runtimePatches; older releases write podTemplateOverrides, which Trainer supports "
    "only before 2.2",
)
# Number of replicas. With two, webhooks for team namespaces still respond while one replica restarts.
_REPLICAS: Final = 2
# By default, Kueue also uses the strategy LessThanInitialShare.
# With both strategies, workloads of borrowing teams can preempt each other endlessly.
# Kueue's choice assumes that workloads of a lower class in the waiting team are preempted too.
# Kueue then keeps the workloads of the waiting team running.
_FAIR_STRATEGIES: Final = ("LessThanOrEqualToFinalShare",)
_RETRY_SECONDS: Final = 60
_MOST_RETRY_SECONDS: Final = 3600
# Kueue must retry a workload until it starts, because a deactivated workload never starts again.
# By default, waitForPodsReady does not limit the retries, but a ProvisioningRequestConfig allows only 3.
PROVISIONING_RETRY: Final = RetryPlan(base_seconds=_RETRY_SECONDS, max_seconds=1800, limit=2**31 - 1)
"""How Kueue requests nodes again after the cloud has refused a request. `limit` is the maximum int32 value."""


def plan_kueue(queueing: Queueing, cloud: Cloud, available: Available, catalog: Catalog) -> KueuePlan:
    """Return the plan for Kueue's controller, from the declared queues and the resources of the pools."""
    chart = catalog.charts[CHART]
    config = _config(queueing, cloud, available)
    install = "present" if queueing.kueue == "present" else "config" if cloud.runs_kueue else "helm"
    return KueuePlan(
        install=install,
        repository=chart.repository,
        version=chart.version,
        namespace=chart.namespace,
        config=config,
        values=_values(config) if install == "helm" else {},
    )


def queue_parts(queues: QueuesPlan | None, catalog: Catalog, *, trainer: bool) -> tuple[PartPlan, ...]:
    """Return Kueue as a controller that must not be installed twice in a cluster. Return an empty tuple in the
    sandbox, which runs Kueue itself.

    `trainer` is true if Kueue starts TrainJobs.
    """
    if queues is None or queues.kueue.install == "config":
        return ()
    part = PartPlan(
        name=CHART,
        field="queueing.kueue",
        title="Kueue",
        install=queues.kueue.install == "helm",
        kind="Deployment",
        label="kueue",
        image="kueue/kueue",
        alone="two controllers would start and stop the same workloads and share the CRDs",
        least=_WITH_TRAINER if trainer else None,
        chart=catalog.charts[CHART],
    )
    return (part,)


def _config(queueing: Queueing, cloud: Cloud, available: Available) -> Mapping[str, Any]:
    timeout = f"{parse_duration(queueing.pods_ready_timeout)}s"
    config: dict[str, Any] = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": ":8081"},
        "metrics": {"bindAddress": ":8443", "enableClusterQueueResources": True},
        "webhook": {"port": _WEBHOOK_PORT},
        "leaderElection": {"leaderElect": True, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
        "clientConnection": {"qps": 300, "burst": 500},
        "waitForPodsReady": {
            "timeout": timeout,
            "recoveryTimeout": timeout,
            "blockAdmission": False,
            "requeuingStrategy": {
                "timestamp": "Eviction",
                "backoffBaseSeconds": _RETRY_SECONDS,
                "backoffMaxSeconds": _MOST_RETRY_SECONDS,
            },
        },
        # A JobSet that restarts runs its ended Jobs again, without the quota that Kueue has returned for them.
        # Kueue 0.19 then fails to lower the returned quota, and can neither stop nor start the JobSet.
        # Source: kubernetes-sigs/kueue#14811; v0.19.2, pkg/controller/jobframework/reconciler.go (step 4) and
        # pkg/webhooks/workload_webhook.go (validateReclaimablePodsUpdate). Read 2026-11-30.
        "featureGates": {"ReclaimablePods": False},
        "manageJobsWithoutQueueName": True,
        # The chart also uses this selector for webhooks, so that other namespaces do not wait for Kueue.
        "managedJobsNamespaceSelector": {"matchExpressions": [{"key": names.TEAM_LABEL, "operator": "Exists"}]},
        "integrations": {"frameworks": list(_FRAMEWORKS)},
        "resources": _resources(cloud, available),
    }
    if queueing.fair_sharing:
        config["fairSharing"] = {"preemptionStrategies": list(_FAIR_STRATEGIES)}
    return config


def _resources(cloud: Cloud, available: Available) -> Mapping[str, Any]:
    """Return the resources that queues do not limit, and the names of the resources that pods claim through
    DRA.
    """
    networks = {*cloud.added_resources, *_network_resources(available.pools)}
    excluded = ["ephemeral-storage", "hugepages-", *sorted(networks)]
    resources: dict[str, Any] = {"excludeResourcePrefixes": excluded}
    if classes := device_classes(available):
        resources["deviceClassMappings"] = [{"name": name, "deviceClassNames": [name]} for name in classes]
    return resources


def device_classes(available: Available) -> Sequence[str]:
    """Return every device class that pods may claim. The list must be complete, because Kueue never starts a
    workload with any other class.
    """
    return [*(name for name in available.limited if "/" not in name), *available.claimed_with_gpus]


def _network_resources(pools: Sequence[PoolPlan]) -> set[str]:
    return {name for pool in pools for name in pool.cloud_nodes.nic_resources}


def _values(config: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "controllerManager": {
            "replicas": _REPLICAS,
            "podDisruptionBudget": {"enabled": True, "minAvailable": 1},
        },
        "webhookService": {"ports": [{"port": 443, "protocol": "TCP", "targetPort": _WEBHOOK_PORT}]},
        "managerConfig": {"controllerManagerConfigYaml": json.dumps(config, sort_keys=True)},  # JSON is YAML
    }
