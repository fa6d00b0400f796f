"""Resource records as a deployment creates them, for the policy tests. Each is valid unless a test changes it."""

from __future__ import annotations

import base64
import datetime
import textwrap
from collections.abc import Mapping
from typing import Any

from policies import PolicyReport, Violation, evaluate

TODAY = datetime.date(2026, 11, 21)
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}

Record = dict[str, Any]


def record(type_: str, name: str, inputs: Mapping[str, Any], dependencies: tuple[str, ...] = ()) -> Record:
    return {
        "urn": f"urn:pulumi:prod::ml::{type_}::{name}",
        "type": type_,
        "name": name,
        "custom": True,
        "inputs": inputs,
        "parent": "",
        "dependencies": list(dependencies),
    }


def node(
    name: str = "train-0",
    machine_type: str = "p4de.24xlarge",
    workload: str = "training",
    labels: Mapping[str, Any] | None = None,
    annotations: Mapping[str, Any] | None = None,
    taints: Any = (GPU_TAINT,),
    patch: bool = False,
) -> Record:
    """Return a node. The part of its name before the last hyphen is the name of its pool."""
    pool = name.rpartition("-")[0]
    metadata = {
        "name": name,
        "labels": {
            "gpu-platform.dev/pool": pool,
            "gpu-platform.dev/workload": workload,
            "node.kubernetes.io/instance-type": machine_type,
            "kubernetes.io/hostname": name,
            "nvidia.com/device-plugin.config": pool,
            **(labels or {}),
        },
        "annotations": {"kwok.x-k8s.io/node": "fake", **(annotations or {})},
    }
    spec = {} if taints is None else {"taints": list(taints) if isinstance(taints, tuple) else taints}
    kind = "NodePatch" if patch else "Node"
    return record(
        f"kubernetes:core/v1:{kind}",
        name,
        {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec},
    )


def mig_node(name: str = "notebooks-0", layout: str = "notebooks", **more: Any) -> Record:
    """Return a node of a valid MIG pool."""
    labels = {"nvidia.com/mig.config": layout, "gpu-platform.dev/mig-change": "drain", **more.pop("labels", {})}
    return node(name, workload="development", labels=labels, **more)


def eks_node_group(**inputs: Any) -> Record:
    return record(
        "aws:eks/nodeGroup:NodeGroup",
        "train",
        {
            "nodeGroupName": "train",
            "clusterName": "ml-prod",
            "amiType": "AL2023_x86_64_NVIDIA",
            "instanceTypes": ["p5.48xlarge"],
            "labels": {"gpu-platform.dev/pool": "train", "gpu-platform.dev/workload": "training"},
            "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}],
            **inputs,
        },
        dependencies=("urn:pulumi:prod::ml::aws:ec2/launchTemplate:LaunchTemplate::train",),
    )


def launch_template(**inputs: Any) -> Record:
    return record("aws:ec2/launchTemplate:LaunchTemplate", "train", inputs)


def gke_node_pool(**node_config: Any) -> Record:
    return record(
        "gcp:container/nodePool:NodePool",
        "train",
        {
            "name": "train",
            "cluster": "ml-prod",
            "nodeConfig": {
                "machineType": "a3-highgpu-8g",
                "guestAccelerators": [{"type": "nvidia-h100-80gb", "count": 8}],
                "labels": {
                    "gpu-platform.dev/pool": "train",
                    "gpu-platform.dev/workload": "training",
                    "gke-no-default-nvidia-gpu-device-plugin": "true",
                },
                "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}],
                "kubeletConfig": {
                    "cpuManagerPolicy": "static",
                    "topologyManager": {"policy": "restricted", "scope": "container"},
                },
                **node_config,
            },
        },
    )


def karpenter_node_pool(requirements: list[Any] | None = None, **spec: Any) -> Record:
    default = [{"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["p5"]}]
    return record(
        "kubernetes:karpenter.sh/v1:NodePool",
        "train",
        {
            "metadata": {"name": "train"},
            "spec": {
                "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "10m"},
                "limits": {"nvidia.com/gpu": "32"},
                "template": {
                    "metadata": {"labels": {"gpu-platform.dev/workload": "training"}},
                    "spec": {
                        "requirements": default if requirements is None else requirements,
                        "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
                        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "train"},
                        **spec,
                    },
                },
            },
        },
    )


def ec2_node_class(user_data: str) -> Record:
    inputs = {"metadata": {"name": "train"}, "spec": {"amiFamily": "AL2023", "userData": user_data}}
    return record("kubernetes:karpenter.k8s.aws/v1:EC2NodeClass", "train", inputs)


def bottlerocket(settings: str) -> str:
    """Return user data for Bottlerocket with settings of its device plugin, in TOML."""
    return f"[settings.kubelet-device-plugins.nvidia]\n{settings}"


def bottlerocket_sharing(mode: str = "time-slicing", replicas: int = 4, *, rename: bool = True) -> str:
    """Return user data for Bottlerocket with shared GPUs."""
    block = f"[settings.kubelet-device-plugins.nvidia.{mode}]\nreplicas = {replicas}\n"
    return bottlerocket(f'device-sharing-strategy = "{mode}"\n{block}rename-by-default = {str(rename).lower()}\n')


def bottlerocket_pool(user_data: str) -> tuple[Record, Record]:
    """Return a managed node group with 2 Bottlerocket nodes of 8 GPUs each, and its launch template."""
    group = eks_node_group(
        amiType="BOTTLEROCKET_x86_64_NVIDIA", instanceTypes=["p4d.24xlarge"], scalingConfig={"maxSize": 2}
    )
    return group, launch_template(userData=base64.b64encode(user_data.encode()).decode())


def gke_shares(clients: int = 4, strategy: str = "TIME_SHARING", **accelerator: Any) -> dict[str, Any]:
    """Return the accelerator field of a GKE node pool on which GKE's device plugin shares the GPUs."""
    sharing = {"gpuSharingStrategy": strategy, "maxSharedClientsPerGpu": clients}
    return {
        "guestAccelerators": [{"type": "nvidia-h100-80gb", "count": 8, "gpuSharingConfig": sharing, **accelerator}]
    }


def cluster_policy(**spec: Any) -> Record:
    return record(
        "kubernetes:nvidia.com/v1:ClusterPolicy",
        "cluster-policy",
        {
            "metadata": {"name": "cluster-policy", "labels": {"app.kubernetes.io/version": "v26.7.0"}},
            "spec": {
                "devicePlugin": {
                    "enabled": True,
                    "config": {"name": "device-plugin-config-1a2b", "default": "default"},
                },
                "mig": {},
                "migManager": {"enabled": True, "config": {"name": "mig-parted-config-3c4d"}},
                **spec,
            },
        },
    )


def helm_release(values: Any, chart: str = "gpu-operator") -> Record:
    inputs = {"chart": chart, "version": "v26.7.0", "namespace": "gpu-operator", "values": values}
    return record("kubernetes:helm.sh/v3:Release", "gpu-operator", inputs)


def config_map(name: str, data: Any) -> Record:
    metadata = {"name": name, "namespace": "gpu-operator"}
    return record("kubernetes:core/v1:ConfigMap", name, {"metadata": metadata, "data": data})


def device_plugin_config_map(name: str = "device-plugin-config-1a2b", **configs: str) -> Record:
    """Return a ConfigMap with the device plugin's configs by key. The config `default` offers whole GPUs."""
    data = {"default": "version: v1\nflags: {migStrategy: none}\n", **configs}
    return config_map(name, {key: textwrap.dedent(text) for key, text in data.items()})


def shared(
    mode: str = "timeSlicing", replicas: int = 4, rename: bool = True, resource: str = "nvidia.com/gpu"
) -> str:
    """Return a device plugin config that shares GPUs."""
    return f"""\
        version: v1
        flags:
          migStrategy: none
        sharing:
          {mode}:
            renameByDefault: {str(rename).lower()}
            failRequestsGreaterThanOne: true
            resources:
              - name: {resource}
                replicas: {replicas}
        """


def with_strategy(strategy: str) -> str:
    """Return a device plugin config that sets the MIG strategy."""
    return f"version: v1\nflags:\n  migStrategy: {strategy}\n"


def mig_parted_config_map(layouts: str, name: str = "mig-parted-config-3c4d") -> Record:
    """Return a ConfigMap for mig-parted. `layouts` is the YAML below `mig-configs`."""
    off = "all-disabled:\n  - devices: all\n    mig-enabled: false\n"
    text = "version: v1\nmig-configs:\n" + textwrap.indent(off + textwrap.dedent(layouts), "  ")
    return config_map(name, {"config.yaml": text})


def layout(name: str, **instances: int) -> str:
    """Return a layout with one entry for all GPUs. `g1_10gb` stands for `1g.10gb`."""
    devices = ", ".join(f"{profile[1]}g.{profile[3:]}: {count}" for profile, count in instances.items())
    return f"{name}:\n  - devices: all\n    mig-enabled: true\n    mig-devices: {{{devices}}}\n"


def container(limits: Any = None, requests: Any = None, name: str = "main") -> Record:
    resources = {key: value for key, value in (("limits", limits), ("requests", requests)) if value is not None}
    return {"name": name, "image": "registry.example.com/train@sha256:" + "0" * 64, "resources": resources}


def pod_spec(*containers: Record, tolerations: Any = None, **spec: Any) -> Record:
    tolerate = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    return {
        "containers": list(containers) or [container({"nvidia.com/gpu": "1"})],
        "tolerations": tolerate if tolerations is None else tolerations,
        **spec,
    }


def deployment(spec: Any, name: str = "serve", namespace: str = "vision") -> Record:
    inputs = {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": {"spec": spec}},
    }
    return record("kubernetes:apps/v1:Deployment", name, inputs)


def job(
    spec: Any = None,
    name: str = "pretrain",
    namespace: str = "vision",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **fields: Any,
) -> Record:
    """Return a valid training job on whole nodes. `labels` are on the job, `annotations` on its pods."""
    shm = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}}
    data = {"name": "data", "persistentVolumeClaim": {"claimName": "checkpoints"}}
    main = container({"nvidia.com/gpu": "8"})
    main["volumeMounts"] = [{"name": "shm", "mountPath": "/dev/shm"}]
    healthy = pod_spec(main, volumes=[shm, data], nodeSelector={"gpu-platform.dev/pool": "train"})
    inputs = {
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {})},
        "spec": {
            "activeDeadlineSeconds": 86400,
            "template": {
                "metadata": {"annotations": dict(annotations or {})},
                "spec": healthy if spec is None else spec,
            },
            **fields,
        },
    }
    return record("kubernetes:batch/v1:Job", name, inputs)


def kubernetes(type_: str, name: str, spec: Any = None, namespace: str = "vision", **fields: Any) -> Record:
    """Return a Kubernetes object. `type_` has the form `core/v1:Pod`."""
    inputs = {
        "metadata": {"name": name, "namespace": namespace},
        **({} if spec is None else {"spec": spec}),
        **fields,
    }
    return record(f"kubernetes:{type_}", name, inputs)


def namespace(name: str = "vision", team: str | None = "vision") -> Record:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    if team is not None:
        labels["gpu-platform.dev/team"] = team
    return record("kubernetes:core/v1:Namespace", name, {"metadata": {"name": name, "labels": labels}})


def quota(hard: Any, namespace: str = "vision", **spec: Any) -> Record:
    inputs = {"metadata": {"name": "gpu-quota", "namespace": namespace}, "spec": {"hard": hard, **spec}}
    return record("kubernetes:core/v1:ResourceQuota", f"{namespace}-quota-{len(spec)}", inputs)


def report_of(rule: str, *records: Record, **settings: Any) -> PolicyReport:
    """Evaluate only one rule on a stack of these records, and return the report."""
    config = {"all": "disabled", rule: {"enforcementLevel": "mandatory", **settings}}
    return evaluate(records, config, TODAY)


def violations(rule: str, *records: Record, **settings: Any) -> list[Violation]:
    """Return the violations of one rule. Fail if the rule could not check a value."""
    found = report_of(rule, *records, **settings)
    assert not found.not_checked, found.not_checked
    return list(found.violations)


def only(found: list[Violation]) -> Violation:
    assert len(found) == 1, [str(violation) for violation in found]
    return found[0]


def not_checked(rule: str, *records: Record, **settings: Any) -> str:
    """Return why a rule could not check its only subject. Fail if the rule found a violation."""
    found = report_of(rule, *records, **settings)
    assert not found.violations, [str(violation) for violation in found.violations]
    assert len(found.not_checked) == 1, found.not_checked
    return str(found.not_checked[0])
