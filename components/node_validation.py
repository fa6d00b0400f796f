"""`NodeValidation`: the node agent on every node of every pool. An agent's pod is Ready only if its node passes
validation.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi

from components._in_namespace import admit_priority_classes, grant, immutable_config_map, own_namespace, role_ref
from components._kubernetes_object import KubernetesObject, Manifest
from components._options import child_options
from components.agent_admission import AgentAdmission, AgentAdmissionArgs
from components.device_claims import claim_template, every_gpu
from gpu_platform.base import names
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.validation import gate_name
from gpu_platform.planning.validation.section import AgentMetricsPlan, ValidationPlan
from validators.agent.cordon import ACTION_VARIABLE, FAILING_VARIABLE
from validators.agent.fabric import SYSFS_VARIABLE
from validators.agent.hold import HELD_WITH_VARIABLE, MOST_HELD_VARIABLE
from validators.zipapp import build_agent

_ACCOUNT = names.VALIDATION_APP
_AGENT = "agent.pyz"
_AGENT_DIR = "/opt/agent"
_EXPECTATIONS = "expectations.json"
_EXPECTATIONS_DIR = "/etc/gpu-platform"
_DRIVER_DIR = "/usr/local/nvidia"
_SYSFS_DIR = "/host/sys"
# The agent reads only these folders: the links to PCI devices, and the targets of the links.
# A mount of /sys would include the file systems mounted below it (cgroup, bpf, tracefs).
# File systems below /sys would stay writable, because readOnly does not apply to them.
# Source: Kubernetes documentation, Volumes, "Read-only mounts"; read 2026-11-26.
_SYSFS_FOLDERS = {"sysfs-pci": "bus/pci/devices", "sysfs-devices": "devices"}
_PORT = 8080
_METRICS = "gpu-metrics"  # name of the container port for metrics
_CLAIM = "every-gpu"
# The agent publishes its report with server-side apply.
# The ConfigMaps with its program and expectations are immutable, and their names contain a hash of the content.
_AGENT_VERBS = ["create", "patch"]
_EVENTS_NAMESPACE = "default"  # namespace of Events about nodes
# A change to the expectations must reach every node at once, including failing nodes.
_MAX_UNAVAILABLE = "100%"
# `up` waits for nodes to pass, so a passing node must be detected within seconds.
_READY_PERIOD_SECONDS = 5
# The start of Python and the first run of all checks must not count as failures.
_LIVE_DELAY_SECONDS = 60
_LIVE_PERIOD_SECONDS = 30
_PROBE_TIMEOUT_SECONDS = 3
# The agent is one Python process that calls NVML. It has no CPU limit, because throttled probes would time out.
_REQUESTS = {"cpu": "50m", "memory": "64Mi"}
_LIMITS = {"memory": "256Mi"}
_NOBODY = 65534  # user of the container; NVIDIA's device files are accessible to every user
# Provide NVML for every GPU, without allocating a GPU and without CUDA or graphics libraries.
_DRIVER_CAPABILITIES = "utility"
_VISIBLE_DEVICES = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeValidationArgs:
    """Plan for the validation gates, and the pools whose nodes are validated.

    `nodes` maps each pool to the resources that create its nodes. A gate waits only for its own pool, so that a
    pool without nodes does not delay the validation of other pools.
    """

    validation: ValidationPlan
    pools: Sequence[PoolPlan]
    nodes: Mapping[str, Sequence[pulumi.Resource]] = field(default_factory=dict[str, Sequence[pulumi.Resource]])


class NodeValidation(pulumi.ComponentResource):
    """A DaemonSet per pool whose node agents compare the pool's nodes with the plan.

    The agent is a zipapp in a ConfigMap (standard library and nvidia-ml-py) on a stock Python image pinned by
    digest, so there is no image to build. With `gate`, an update waits until every pod is Ready. A pool without
    nodes has no pods to wait for. Its nodes are validated when they are created. A CPU pool has no DaemonSet, so
    `proof` waits for the resources that create the pool's nodes.

    Outputs: `namespace` of the reports. `proof`, a resource that depends on all gates.
    """

    namespace: pulumi.Output[str]
    proof: pulumi.Resource

    def __init__(self, name: str, args: NodeValidationArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:NodeValidation", name, None, opts)
        self._validation = args.validation
        namespace = own_namespace(
            args.validation.namespace,
            args.validation.pod_security,
            child_options(self, opts),
            {names.ADMIN_ACCESS_LABEL: "true"} if args.validation.claims_devices else None,
        )
        self._child = pulumi.ResourceOptions(parent=self, depends_on=[namespace])
        actions = args.validation.on_failure.values()
        self._replaces = "replace" in actions
        admission = AgentAdmission(
            f"{name}-admission",
            AgentAdmissionArgs(cordons=bool(actions), replaces=self._replaces),
            child_options(self, opts),
        )
        account = [
            *self._create_account(),
            *admission.guards,
            self._create_network_policy(),
            admit_priority_classes(args.validation.namespace, args.validation.quota, self._child),
        ]
        if args.validation.claims_devices:
            account.append(
                claim_template(
                    _CLAIM,
                    args.validation.namespace,
                    every_gpu(),
                    self._child,
                    logical_name=f"validate-{_CLAIM}",
                )
            )
        metrics = args.validation.metrics
        program = build_agent(metrics=metrics is not None)
        packed = {_AGENT: base64.b64encode(program).decode()}
        self._agent = immutable_config_map("gpu-node-agent", args.validation.namespace, self._child, binary=packed)
        if metrics is not None:
            self._create_monitor(metrics)
        self._create_readiness_rules()
        # The agent cannot check anything on nodes without GPUs. The report uses only their Node objects.
        proven = [pool for pool in args.pools if pool.expectations.by_agent]
        gates = [self._create_daemon_set(pool, [*account, *args.nodes.get(pool.name, ())]) for pool in proven]
        gates += [one for pool in args.pools if pool not in proven for one in args.nodes.get(pool.name, ())]
        self.proof = self._create_proof(args, gates)
        self.namespace = namespace.metadata["name"]
        self.register_outputs({"namespace": self.namespace})

    def _meta(self, name: str, labels: dict[str, str] | None = None) -> Manifest:
        return {"name": name, "namespace": self._validation.namespace, "labels": labels}

    def _create_account(self) -> list[pulumi.Resource]:
        """Create the agents' service account. It may write reports and Leases in its namespace, patch nodes, and
        create Events.
        """
        account = KubernetesObject(_ACCOUNT, "v1/ServiceAccount", metadata=self._meta(_ACCOUNT), opts=self._child)
        reports = [
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": _AGENT_VERBS},
            # Agents that may no longer taint nodes must still release the Leases of nodes that they have tainted.
            {
                "apiGroups": ["coordination.k8s.io"],
                "resources": ["leases"],
                "verbs": [*_AGENT_VERBS, "list", "delete"],
            },
        ]
        events = [{"apiGroups": [""], "resources": ["events"], "verbs": ["create"]}]
        cluster_role = KubernetesObject(
            _ACCOUNT,
            "rbac.authorization.k8s.io/v1/ClusterRole",
            metadata={"name": _ACCOUNT},
            rules=[
                {"apiGroups": [""], "resources": ["nodes", "nodes/status"], "verbs": ["patch"]},
                *(
                    [{"apiGroups": ["karpenter.sh"], "resources": ["nodeclaims"], "verbs": ["delete"]}]
                    if self._replaces
                    else []
                ),
            ],
            opts=self._child,
        )
        cluster_binding = KubernetesObject(
            _ACCOUNT,
            "rbac.authorization.k8s.io/v1/ClusterRoleBinding",
            metadata={"name": _ACCOUNT},
            roleRef=role_ref("ClusterRole", _ACCOUNT),
            subjects=[self._subject()],
            opts=self._child,
        )
        return [
            account,
            cluster_role,
            cluster_binding,
            *grant(_ACCOUNT, self._subject(), self._validation.namespace, reports, self._child),
            *grant(f"{_ACCOUNT}-{_EVENTS_NAMESPACE}", self._subject(), _EVENTS_NAMESPACE, events, self._child),
        ]

    def _subject(self) -> Manifest:
        return {"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": self._validation.namespace}

    def _create_monitor(self, metrics: AgentMetricsPlan) -> None:
        """Create a monitor that scrapes the agents' metrics and adds the pool as a label."""
        if metrics.pod_monitor:
            pool = "__meta_kubernetes_pod_label_" + re.sub("[^a-zA-Z0-9]", "_", names.POOL_LABEL)
            KubernetesObject(
                f"{_ACCOUNT}-metrics",
                "monitoring.coreos.com/v1/PodMonitor",
                metadata=self._meta(_ACCOUNT, dict(metrics.labels) or None),
                spec={
                    "selector": {"matchLabels": {names.NAME_LABEL: names.VALIDATION_APP}},
                    "podMetricsEndpoints": [
                        {
                            "port": _METRICS,
                            "interval": metrics.interval,
                            "relabelings": [{"sourceLabels": [pool], "targetLabel": "pool"}],
                        }
                    ],
                },
                opts=self._child,
            )
        if metrics.pod_monitoring:
            KubernetesObject(
                f"{_ACCOUNT}-metrics",
                "monitoring.googleapis.com/v1/PodMonitoring",
                metadata=self._meta(_ACCOUNT),
                spec={
                    "selector": {"matchLabels": {names.NAME_LABEL: names.VALIDATION_APP}},
                    "endpoints": [{"port": _METRICS, "interval": metrics.interval}],
                    "targetLabels": {"fromPod": [{"from": names.POOL_LABEL, "to": "pool"}]},
                },
                opts=self._child,
            )

    def _create_readiness_rules(self) -> None:
        """Create rules for the Node Readiness Controller, which removes the taint of new nodes that passed
        validation.

        The rules apply only to new nodes. If nodes fail later, the agents taint a limited number of them. The
        controller does not support such a limit.
        """
        taint = self._validation.readiness_taint
        for pool, labels in self._validation.readiness.items():
            if taint is None:
                continue
            name = f"{_ACCOUNT}-{pool}"
            KubernetesObject(
                name,
                "readiness.node.x-k8s.io/v1alpha1/NodeReadinessRule",
                metadata={"name": name},
                spec={
                    "conditions": [{"type": names.VALIDATED_CONDITION, "requiredStatus": "True"}],
                    "enforcementMode": "bootstrap-only",
                    "nodeSelector": {"matchLabels": dict(labels)},
                    "taint": {"key": taint.key, "value": taint.value, "effect": taint.effect},
                },
                opts=self._child,
            )

    def _create_network_policy(self) -> pulumi.Resource:
        """Deny access to the agents' port. Only pods in namespaces that belong to no team may read metrics.

        Network policies do not apply to probes of the kubelet. The namespace of Prometheus is not known, so it
        cannot be allowed by name.
        """
        metrics = self._validation.metrics
        others = {"matchExpressions": [{"key": names.TEAM_LABEL, "operator": "DoesNotExist"}]}
        return KubernetesObject(
            _ACCOUNT,
            "networking.k8s.io/v1/NetworkPolicy",
            metadata=self._meta(_ACCOUNT),
            spec={
                "podSelector": {"matchLabels": {names.NAME_LABEL: names.VALIDATION_APP}},
                "policyTypes": ["Ingress"],
                "ingress": None
                if metrics is None
                else [
                    {
                        "from": [{"namespaceSelector": others}],
                        "ports": [{"port": metrics.port, "protocol": "TCP"}],
                    }
                ],
            },
            opts=self._child,
        )

    def _create_daemon_set(self, pool: PoolPlan, needed: list[pulumi.Resource]) -> pulumi.Resource:
        name = gate_name(pool.name)
        document = json.dumps(pool.expectations.to_json(), indent=2)
        expectations, expected = immutable_config_map(
            f"{name}-expectations", self._validation.namespace, self._child, text={_EXPECTATIONS: document}
        )
        agent, program = self._agent
        labels = {names.NAME_LABEL: names.VALIDATION_APP, names.POOL_LABEL: pool.name}
        timeout = f"{self._validation.timeout_seconds}s"
        return KubernetesObject(
            name,
            "apps/v1/DaemonSet",
            metadata={
                "name": name,
                "namespace": self._validation.namespace,
                "labels": labels,
                "annotations": None if self._validation.gate else {"pulumi.com/skipAwait": "true"},
            },
            spec={
                "selector": {"matchLabels": labels},
                "updateStrategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxUnavailable": _MAX_UNAVAILABLE},
                },
                "template": {
                    "metadata": {"labels": labels, "annotations": self._scraped()},
                    "spec": self._pod(pool, agent, expectations),
                },
            },
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[program, expected, *needed],
                custom_timeouts=pulumi.CustomTimeouts(create=timeout, update=timeout),
            ),
        )

    def _on_failure(self, pool: PoolPlan) -> list[Manifest]:
        action = self._validation.on_failure.get(pool.name)
        if action is None:
            return []
        return [
            {"name": ACTION_VARIABLE, "value": action},
            {"name": FAILING_VARIABLE, "value": str(self._validation.failing_seconds)},
        ]

    def _scraped(self) -> dict[str, str] | None:
        """Return the annotations that a Prometheus without an operator uses to discover the metrics."""
        metrics = self._validation.metrics
        if metrics is None or metrics.pod_monitor or metrics.pod_monitoring:
            return None
        return {"prometheus.io/scrape": "true", "prometheus.io/port": str(metrics.port)}

    def _create_proof(self, args: NodeValidationArgs, gates: list[pulumi.Resource]) -> pulumi.Resource:
        """Create a ConfigMap after all gates. Resources that need validated nodes depend on it."""
        return KubernetesObject(
            "proven-pools",
            "v1/ConfigMap",
            metadata=self._meta("proven-pools"),
            data={pool.name: pool.expectations.hash for pool in args.pools if pool.expectations.by_agent},
            opts=pulumi.ResourceOptions(parent=self, depends_on=gates),
        )

    def _pod(self, pool: PoolPlan, agent: str, expectations: str) -> Manifest:
        access, metrics = pool.software.gpu_access, self._validation.metrics
        claims = [_CLAIM] if access.claim else []
        driver_volumes, driver_mounts, driver_env = _driver_of_host(access.driver_dir)
        sysfs_volumes, sysfs_mounts, sysfs_env = _sysfs_of_host(pool)
        return {
            "serviceAccountName": _ACCOUNT,
            "priorityClassName": self._validation.priority_class,
            "runtimeClassName": access.runtime_class,
            "hostPID": True if pool.name in self._validation.host_processes else None,
            "resourceClaims": [{"name": claim, "resourceClaimTemplateName": claim} for claim in claims] or None,
            "nodeSelector": pool.node_selector,
            # Tolerate any taint, because broken nodes in particular must be checked.
            "tolerations": [{"operator": "Exists"}],
            "volumes": [
                {"name": "agent", "configMap": {"name": agent}},
                {
                    "name": "expectations",
                    "configMap": {"name": expectations},
                },
                *driver_volumes,
                *sysfs_volumes,
            ],
            "containers": [
                {
                    "name": "agent",
                    "image": self._validation.image,
                    "command": [
                        "python",
                        f"{_AGENT_DIR}/{_AGENT}",
                        "serve",
                        "--expect",
                        f"{_EXPECTATIONS_DIR}/{_EXPECTATIONS}",
                        "--port",
                        str(_PORT),
                        *_metrics_arguments(metrics),
                    ],
                    "ports": None if metrics is None else [{"name": _METRICS, "containerPort": metrics.port}],
                    "env": [
                        {"name": "NVIDIA_VISIBLE_DEVICES", "value": _VISIBLE_DEVICES},
                        {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": _DRIVER_CAPABILITIES},
                        *driver_env,
                        *sysfs_env,
                        # Agents with this variable also taint nodes that have lost their MIG instances.
                        # The variable is therefore set even if the limit is 0.
                        *(
                            {"name": MOST_HELD_VARIABLE, "value": str(most)}
                            for most in (self._validation.most_held.get(pool.name),)
                            if most is not None
                        ),
                        *(
                            {"name": HELD_WITH_VARIABLE, "value": declared}
                            for declared in (self._validation.held_with.get(pool.name),)
                            if declared is not None
                        ),
                        *self._on_failure(pool),
                        _from_field("NODE_NAME", "spec.nodeName"),
                        _from_field("POD_NAME", "metadata.name"),
                        _from_field("POD_UID", "metadata.uid"),
                        _from_field("POD_NAMESPACE", "metadata.namespace"),
                    ],
                    "readinessProbe": {
                        "httpGet": {"path": "/ready", "port": _PORT},
                        "periodSeconds": _READY_PERIOD_SECONDS,
                        "timeoutSeconds": _PROBE_TIMEOUT_SECONDS,
                    },
                    # The probe fails after a driver change, so that a new container loads the new driver library.
                    "livenessProbe": {
                        "httpGet": {"path": "/live", "port": _PORT},
                        "initialDelaySeconds": _LIVE_DELAY_SECONDS,
                        "periodSeconds": _LIVE_PERIOD_SECONDS,
                        "timeoutSeconds": _PROBE_TIMEOUT_SECONDS,
                    },
                    "resources": {
                        "requests": _REQUESTS,
                        "limits": _LIMITS,
                        "claims": [{"name": claim} for claim in claims] or None,
                    },
                    "securityContext": _security(privileged=access.privileged),
                    "volumeMounts": [
                        {"name": "agent", "mountPath": _AGENT_DIR, "readOnly": True},
                        {"name": "expectations", "mountPath": _EXPECTATIONS_DIR, "readOnly": True},
                        *driver_mounts,
                        *sysfs_mounts,
                    ],
                }
            ],
        }


def _metrics_arguments(metrics: AgentMetricsPlan | None) -> list[str]:
    if metrics is None:
        return []
    return ["--metrics-port", str(metrics.port), "--temperature", str(metrics.temperature_celsius)]


def _security(*, privileged: bool) -> Manifest:
    if privileged:
        # The agent must be privileged to access NVML. It has no capabilities, because it does not run as root.
        return {
            "privileged": True,
            "runAsUser": _NOBODY,
            "runAsGroup": _NOBODY,
            "runAsNonRoot": True,
            "readOnlyRootFilesystem": True,
        }
    return {
        "runAsUser": _NOBODY,
        "runAsGroup": _NOBODY,
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _driver_of_host(
    directory: str | None,
) -> tuple[list[Manifest], list[Manifest], list[Manifest]]:
    """Return volumes, mounts and environment for the host's driver library, or empty lists if a container runtime
    provides it.
    """
    if directory is None:
        return [], [], []
    source = {"path": directory, "type": "Directory"}
    return (
        [{"name": "driver", "hostPath": source}],
        [{"name": "driver", "mountPath": _DRIVER_DIR, "readOnly": True}],
        [{"name": "LD_LIBRARY_PATH", "value": f"{_DRIVER_DIR}/lib64"}],
    )


def _sysfs_of_host(
    pool: PoolPlan,
) -> tuple[list[Manifest], list[Manifest], list[Manifest]]:
    """Return volumes, mounts and environment for the host's PCI devices, or empty lists if the pool needs none."""
    if not pool.agent_reads_host:
        return [], [], []
    return (
        [
            {
                "name": name,
                "hostPath": {"path": f"/sys/{folder}", "type": "Directory"},
            }
            for name, folder in _SYSFS_FOLDERS.items()
        ],
        [
            {"name": name, "mountPath": f"{_SYSFS_DIR}/{folder}", "readOnly": True}
            for name, folder in _SYSFS_FOLDERS.items()
        ],
        [{"name": SYSFS_VARIABLE, "value": _SYSFS_DIR}],
    )


def _from_field(name: str, path: str) -> Manifest:
    source = {"fieldRef": {"fieldPath": path}}
    return {"name": name, "valueFrom": source}
