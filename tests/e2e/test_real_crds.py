"""An optional check that an API server with the real CustomResourceDefinitions accepts all rendered objects.

Run it manually or in CI with a folder of CRDs:  GPU_PLATFORM_CRDS=DIR pytest tests/e2e/test_real_crds.py
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.base.names import GPU_CLUSTER
from gpu_platform.base.progress import Progress
from gpu_platform.cli.render import render_to
from gpu_platform.live.client import KubernetesClient
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, load_stack, plan_platform
from sandbox import control_plane
from tests.support.eks_stacks import EXISTING, record_eks
from tests.support.karpenter_forms import FORMS, TRAIN
from tests.support.racks import rack
from tests.support.recorded import Recorded, record_platform

CRDS = os.environ.get("GPU_PLATFORM_CRDS", "")
NAME = "e2e-crds"

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.xdist_group("e2e-crds"),
    pytest.mark.skipif(not CRDS, reason="GPU_PLATFORM_CRDS is not set to a folder with CRDs"),
]


# API groups of the checked objects.
# These tests do not need the large definitions of other groups.
GROUPS = ("nvidia.com", "resource.nvidia.com", "monitoring.coreos.com", "karpenter.sh", "karpenter.k8s.aws")
FILES = (*(f"{group}_*" for group in GROUPS), "keda.sh_scaledobjects")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesClient]:
    folder = tmp_path_factory.mktemp("crds")
    for name in FILES:
        for file in Path(CRDS).glob(f"{name}.yaml"):
            (folder / file.name).symlink_to(file)
    status = control_plane.up(NAME, crds_dir=folder, progress=Progress(quiet=True))
    yield KubernetesClient(status.kubeconfig)
    control_plane.down(NAME)


@pytest.mark.parametrize("stack", ["local", "dev", "speech"])
def test_every_rendered_object_is_accepted_with_strict_field_validation(
    client: KubernetesClient, tmp_path: Path, stack: str
) -> None:
    render_to(stack, tmp_path / stack)
    manifests = [
        yaml.load(file.read_text("utf-8"), Loader=yaml.CSafeLoader)
        for file in (tmp_path / stack / "manifests").rglob("*.yaml")
    ]
    assert manifests
    for manifest in manifests:
        namespace = manifest["metadata"].get("namespace")
        if namespace and client.get("v1", "Namespace", namespace) is None:
            client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    for manifest in manifests:
        client.apply(manifest, dry_run=True)


def test_a_misspelt_field_of_a_cluster_policy_is_refused(client: KubernetesClient) -> None:
    from gpu_platform.live.client import Refused

    spec = {"devicePlugin": {"config": {"nmae": "x"}}}
    policy = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "typo"}, "spec": spec}
    with pytest.raises(Refused, match="nmae"):
        client.apply(policy, dry_run=True)


def test_what_a_helm_release_hands_to_the_operator_is_a_valid_cluster_policy(client: KubernetesClient) -> None:
    plan = load_stack("dev").plan
    assert plan.kind == "environment"
    spec = dict(plan.operator.cluster_policy)
    policy = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "dev"}, "spec": spec}
    client.apply(policy, dry_run=True)


def test_what_the_operator_is_handed_with_dra_is_a_valid_gpu_cluster(client: KubernetesClient) -> None:
    pools = [
        {
            "name": "big",
            "machine_type": "p5en.48xlarge",
            "count": {"desired": 1},
            "workload": "inference",
            "sharing": {"mode": "dra", "partitions": True},
        }
    ]
    plan = plan_platform({"kind": "environment", "cluster": {"provider": "sandbox"}, "pools": pools}, "dra")
    assert plan.kind == "environment"
    cluster = {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "GPUCluster",
        "metadata": {"name": GPU_CLUSTER},
        "spec": dict(plan.operator.gpu_cluster),
    }
    client.apply(cluster, dry_run=True)
    driver = {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "NVIDIADriver",
        "metadata": {"name": "default"},
        "spec": dict(plan.operator.nvidia_driver),
    }
    client.apply(driver, dry_run=True)


def test_the_compute_domain_of_a_workload_is_accepted_with_strict_field_validation(
    client: KubernetesClient,
) -> None:
    platform = rack("existing")
    loaded = LoadedStack("test", Path("Pulumi.test.yaml"), platform, plan_platform(platform, "test"))
    domain = deepcopy(dict(Recorded(record_stack(loaded)).one("ComputeDomain", "pretrain").inputs))
    domain["metadata"]["namespace"] = "default"
    client.apply(domain, dry_run=True)


MONITORED: dict[str, Any] = {
    "kind": "environment",
    "cluster": {"provider": "existing", "name": "dev", "kubernetes": "1.36"},
    "pools": [
        {
            "name": "serve",
            "machine_type": "g6.12xlarge",
            "count": {"desired": 1},
            "workload": "inference",
            "nodes": {"selector": {"pool": "serve"}},
            "usd_per_hour": 8.0,
        }
    ],
    "addons": {"keda": "present"},
    "budget": {"usd_per_month": 50_000.0},
    "monitoring": {"prometheus_operator": True, "labels": {"release": "prometheus"}},
    "validation": {"metrics": True},
    "teams": [
        {
            "name": "chat",
            "quota": {"gpus": 4, "cpu": 60, "memory": "400Gi"},
            "priority": "inference",
            "members": ["group:chat"],
            "inference_services": [
                {
                    "name": "answers",
                    "pool": "serve",
                    "image": "registry.example.com/answers:1",
                    "gpus": 1,
                    "run_as_user": 1000,
                    "autoscaling": {
                        "max_replicas": 4,
                        "server": "http://prometheus-operated.monitoring:9090",
                        "query": "sum(waiting)",
                        "threshold": 5.0,
                    },
                }
            ],
        }
    ],
}
MONITORS = {"PodMonitor", "PrometheusRule", "ScaledObject", "ServiceMonitor"}


@pytest.fixture(scope="module")
def monitored() -> dict[str, dict[str, Any]]:
    """The monitors, rules and scaled objects of a stack, by kind, in a namespace of the sandbox."""
    found = {
        one.inputs["kind"]: deepcopy(dict(one.inputs))
        for one in record_platform(MONITORED).resources
        if one.inputs.get("kind") in MONITORS
    }
    for manifest in found.values():
        manifest["metadata"]["namespace"] = "default"
    return found


@pytest.mark.parametrize("kind", sorted(MONITORS))
def test_monitors_rules_and_scaled_objects_are_accepted_with_strict_field_validation(
    client: KubernetesClient, monitored: dict[str, dict[str, Any]], kind: str
) -> None:
    client.apply(monitored[kind], dry_run=True)


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("PodMonitor", ("podMetricsEndpoints", 0, "intervall")),
        ("PrometheusRule", ("groups", 0, "rules", 0, "exprs")),
        ("ScaledObject", ("fallback", "replica")),
        ("ServiceMonitor", ("endpoints", 0, "honorLabel")),
    ],
)
def test_a_misspelt_field_of_a_monitor_rule_or_scaled_object_is_refused(
    client: KubernetesClient, monitored: dict[str, dict[str, Any]], kind: str, path: tuple[Any, ...]
) -> None:
    from gpu_platform.live.client import Refused

    manifest = deepcopy(monitored[kind])
    place: Any = manifest["spec"]
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = "30s"
    with pytest.raises(Refused, match=str(path[-1])):
        client.apply(manifest, dry_run=True)


# Example values for fields that only AWS can fill in.
KNOWN_ON_AWS = {
    "role": "ml-karpenter-nodes",
    "subnetSelectorTerms": [{"id": "subnet-0a1b2c3d4e5f60718"}],
    "securityGroupSelectorTerms": [{"id": "sg-0a1b2c3d4e5f60718"}],
}


def karpenter_objects(form: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the NodePool and the EC2NodeClass of a pool, as sent to the API server."""
    recorded = record_eks(form, cluster=EXISTING)
    objects = [deepcopy(dict(one.inputs)) for one in recorded.resources if ":karpenter." in one.type]
    for manifest in objects:
        if manifest["kind"] == "EC2NodeClass":
            manifest["spec"] |= KNOWN_ON_AWS
    return objects


@pytest.mark.parametrize("form", FORMS)
def test_karpenter_objects_of_every_pool_form_pass_strict_validation(client: KubernetesClient, form: str) -> None:
    objects = karpenter_objects(FORMS[form])
    assert {one["kind"] for one in objects} == {"EC2NodeClass", "NodePool"}
    for manifest in objects:
        client.apply(manifest, dry_run=True)


@pytest.mark.parametrize(
    ("kind", "path", "value", "said"),
    [
        ("EC2NodeClass", ("metadataOptions", "httpToken"), "required", "httpToken"),
        ("EC2NodeClass", ("networkInterfaces", 0, "interfaceType"), "efa-only", "primary interface"),
        ("NodePool", ("template", "spec", "startupTaint"), [], "startupTaint"),
        ("NodePool", ("template", "metadata", "labels", "karpenter.sh/x"), "y", "restricted"),
        ("NodePool", ("disruption", "budgets", 0, "reasons"), ["Drift"], "Drift"),
    ],
)
def test_a_wrong_field_of_karpenters_objects_is_refused(
    client: KubernetesClient, kind: str, path: tuple[Any, ...], value: Any, said: str
) -> None:
    from gpu_platform.live.client import Refused

    (manifest,) = [one for one in karpenter_objects(TRAIN) if one["kind"] == kind]
    place: Any = manifest["spec"]
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(Refused, match=said):
        client.apply(manifest, dry_run=True)
