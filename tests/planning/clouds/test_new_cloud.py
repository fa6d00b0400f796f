"""A provider that is not part of the program is planned with the functions of its `Cloud` object."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput, Problem
from gpu_platform.catalog import Catalog, MachineType, load_catalog
from gpu_platform.planning import EnvironmentPlan, plan_environment, planner
from gpu_platform.planning.changes.pool_facts import platform_of, pool_facts, protected
from gpu_platform.planning.clouds.nodes import nodes_plan
from gpu_platform.planning.clouds.parts import PartPlan
from gpu_platform.planning.clouds.protocol import (
    Cloud,
    CloudControlPlane,
    CloudPools,
    CloudSoftware,
    OperatorSettings,
)
from gpu_platform.planning.clouds.section import (
    CloudCluster,
    CloudNodes,
    CloudPool,
    CloudPrerequisites,
    CreatedCluster,
    Timeouts,
)
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.nodes.section import Taint
from gpu_platform.planning.nodes.software import NodeSoftware
from gpu_platform.planning.prerequisites import gpu_quotas
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.requirements.section import NodeRequirements
from gpu_platform.program import record_stack
from gpu_platform.stack import parse_platform
from gpu_platform.stack.cluster import ExistingCluster
from gpu_platform.stack.environment import Environment
from gpu_platform.stack.loaded import LoadedStack, plan_platform
from gpu_platform.stack.pool import Pool
from tests.planning.conftest import environment, pool, team
from tests.support.recorded import Recorded

SPOT_TAINT = Taint(key="kubernetes.azure.com/scalesetpriority", value="spot", effect="NoSchedule")
_LIMITS = Timeouts(update=3600)


@dataclass(frozen=True)
class AzurePool:
    labels: Mapping[str, str]


@dataclass(frozen=True)
class AzureCluster:
    name: str
    kind: str = "azure"
    region: str = "westeurope"
    kubernetes: str | None = "1.35"
    known_zones: tuple[str, ...] = ()
    protect: bool = True
    retained: tuple[str, ...] = ()
    create: CreatedCluster | None = None
    timeouts: Timeouts = _LIMITS
    platforms: tuple[str, ...] = ("azure",)

    first_up_problem: Problem | None = None
    parts: tuple[PartPlan, ...] = ()

    @property
    def releases(self) -> dict[str, dict[str, object]]:
        return {}

    @property
    def pool_timeouts(self) -> Mapping[str, Timeouts]:
        return {"azure": _LIMITS}

    def kubernetes_problem(self, running: str) -> Problem | None:
        return None


def prerequisites(cluster: CloudCluster, resource_types: Iterable[str]) -> CloudPrerequisites:
    return CloudPrerequisites(
        cloud="Azure",
        command="kubelogin",
        install="install kubelogin",
        owner="subscription",
        login="run az login",
        quota_console="Quotas",
        all_regions_quota=None,
        permissions="Contributor",
        permissions_fix="see az role assignment list",
        apis=None,
    )


def azure(cluster: ExistingCluster) -> Cloud:
    return Cloud(
        cluster=cluster,
        access="outputs",
        kubernetes="1.35",
        creates_nodes=True,
        no_gpu_cluster="eks, existing or sandbox",
        pools=CloudPools(
            nodes=lambda pool, named: nodes_plan(pool, "cloud"),
            plan=plan_pool,
            added_taints=lambda pool, machine: {SPOT_TAINT: "AKS adds it to spot nodes"},
            properties=lambda pool, cluster: {"vm_size": pool.machine_type, "cluster": cluster.name},
            check=check_pool,
        ),
        software=CloudSoftware(
            owners=lambda pool, operator, catalog: NodeSoftware(
                driver="image", toolkit="operator", device_plugin="operator"
            ),
            operator_settings=lambda pools: OperatorSettings(toolkit_dir="/opt/nvidia"),
        ),
        control_plane=CloudControlPlane(
            plan=lambda stack, pools, release, catalog: Decided(AzureCluster(name=cluster.name)),
            prerequisites=prerequisites,
        ),
    )


def check_pool(pool: Pool, machine: MachineType, catalog: Catalog, problems: Problems) -> None:
    if pool.name == "windows":
        problems.at("name").add("'windows'", "any other name", "rename it")


def plan_pool(
    pool: Pool, machine: MachineType, requirements: NodeRequirements, catalog: Catalog
) -> Decided[CloudPool]:
    why = "nodes close together"
    decision = Decision(subject=f"pool {pool.name}", what="placement", chosen="proximity", why=why)
    nodes = CloudNodes(platform="azure", protect=True, placement="proximity", network_requests={"rdma/hca": "8"})
    return Decided(CloudPool(plan=AzurePool(labels=requirements.labels), nodes=nodes), (decision,))


def on_existing_nodes(cluster: ExistingCluster) -> Cloud:
    """Return a fake cloud for nodes that somebody else creates, so the cloud needs no components."""
    cloud = azure(cluster)
    by_name = CloudPools(
        nodes=lambda pool, named: nodes_plan(pool, "labelled", ("gpu-0",)), added_taints=cloud.pools.added_taints
    )
    return replace(cloud, access="kubeconfig", pools=by_name, control_plane=CloudControlPlane())


def platform(name: str = "train") -> dict[str, Any]:
    workload = {"name": "job", "pool": name, "replicas": 1, "gpus": 8, "image": "example.com/job:1"}
    quota = {"gpus": 8}
    return environment(
        pool(name), cluster={"provider": "existing"}, teams=[team(quota=quota, workloads=[workload])]
    )


def planned(monkeypatch: pytest.MonkeyPatch, name: str = "train") -> EnvironmentPlan:
    monkeypatch.setattr(planner, "cloud_of", lambda cluster, *_, **__: azure(cluster))
    spec = parse_platform(platform(name), "test")
    assert isinstance(spec, Environment)
    return plan_environment(spec, "test", load_catalog())


def test_a_new_cloud_is_planned_by_its_protocol(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = planned(monkeypatch)
    [train] = plan.pools
    assert (train.nodes.ownership, train.placement, train.added_taints) == ("cloud", "proximity", (SPOT_TAINT,))
    assert plan.operator.helm_values["toolkit"]["installDir"] == "/opt/nvidia"
    assert plan.operator.install == "helm"
    [job] = plan.teams[0].workloads
    assert job.requests["rdma/hca"] == "8"
    assert SPOT_TAINT in job.tolerations
    assert (plan.cluster.access, plan.cluster.kubernetes) == ("outputs", "1.35")
    assert ("placement", "proximity") in [(one.what, one.chosen) for one in plan.decisions]


def test_changes_and_quotas_of_a_new_cloud_come_from_its_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(monkeypatch)
    assert platform_of(plan.pools[0]) == "azure"
    assert pool_facts(plan)["train"]["properties"] == {"vm_size": "p4de.24xlarge", "cluster": "existing"}
    assert protected(plan) == ("cluster existing", "pool train")
    assert [quota.region for quota in gpu_quotas(plan, load_catalog())] == ["westeurope"]


def test_a_new_cloud_refuses_its_pools_by_its_own_check(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match=r"pools\[0\].name: found 'windows'"):
        planned(monkeypatch, "windows")


def test_a_new_cloud_with_existing_nodes_is_rendered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(planner, "cloud_of", lambda cluster, *_, **__: on_existing_nodes(cluster))
    plan = plan_platform(platform(), "test")
    found = Recorded(record_stack(LoadedStack("test", tmp_path / "Pulumi.test.yaml", platform(), plan)))
    assert found.one("Release", "gpu-operator").inputs["values"]["toolkit"]["installDir"] == "/opt/nvidia"
    assert found.has("Namespace")
    job = next(one for one in found.resources if one.name.endswith("job"))
    assert SPOT_TAINT.key in json.dumps(job.inputs)
