"""Which add-ons are installed, which other add-ons they require, and which add-ons a cluster cannot have."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.base.names import HEADROOM_NAMESPACE
from gpu_platform.catalog import load_catalog
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.addons import addon_parts
from gpu_platform.planning.clouds.parts import InstalledPart, PartPlan, part_problems
from gpu_platform.stack.loaded import plan_platform
from tests.stack.field_cases import STACKS
from tests.support.eks_stacks import CREATED, plan_eks


def plan_of(cloud: str, addons: dict[str, Any], **rest: Any) -> EnvironmentPlan:
    plan = plan_platform({**STACKS[cloud], "addons": addons, **rest}, "test")
    assert plan.kind == "environment"
    return plan


def parts_of(addons: dict[str, Any]) -> tuple[PartPlan, ...]:
    return addon_parts(plan_of("existing", addons).addons, load_catalog())


def refused(cloud: str, addons: dict[str, Any], **rest: Any) -> list[str]:
    with pytest.raises(BadInput) as raised:
        plan_of(cloud, addons, **rest)
    return [problem.path for problem in raised.value.problems]


def test_a_stack_without_addons_installs_none() -> None:
    assert plan_of("eks", {}).addons.addons == ()


def test_an_addon_is_planned_with_its_pinned_chart() -> None:
    (keda,) = plan_of("eks", {"keda": "install"}).addons.addons
    assert (keda.repository, keda.chart, keda.version, keda.namespace) == (
        "https://kedacore.github.io/charts",
        "keda",
        "2.20.2",
        "keda",
    )


def test_trainer_installs_jobset_as_a_separate_release() -> None:
    plan = plan_of("eks", {"trainer": "install"})
    assert [addon.name for addon in plan.addons.addons] == ["jobset", "trainer"]
    assert plan.addons.addons[1].values["jobset"] == {"install": False}
    assert [one.why for one in plan.decisions if (one.subject, one.what) == ("addons", "jobset")] == [
        "needed by trainer"
    ]


def test_a_jobset_that_is_present_is_left_alone() -> None:
    plan = plan_of("existing", {"trainer": "install", "jobset": "present"})
    assert [(addon.name, addon.install) for addon in plan.addons.addons] == [("jobset", False), ("trainer", True)]


def test_prometheus_keeps_bounded_metrics_on_its_nodes_disk() -> None:
    plan = plan_of("eks", {"prometheus": "install"})
    spec = plan.addons.addons[0].values["prometheus"]["prometheusSpec"]
    assert (spec["retention"], spec["retentionSize"]) == ("15d", "8GB")
    (kept,) = [one for one in plan.decisions if (one.subject, one.what) == ("addons", "metrics")]
    assert "at most 8GB" in kept.chosen
    assert "storageSpec" in kept.why


def of_volume(storage: str | None, **said: str) -> dict[str, Any]:
    """Return the program's values for a Prometheus with a volume."""
    claim: dict[str, Any] = {} if storage is None else {"resources": {"requests": {"storage": storage}}}
    values = {"prometheus": {"prometheusSpec": {"storageSpec": {"volumeClaimTemplate": {"spec": claim}}, **said}}}
    plan = plan_of("eks", {"prometheus": "install"}, charts={"kube-prometheus-stack": {"values": values}})
    assert "metrics" not in {one.what for one in plan.decisions if one.subject == "addons"}
    return plan.addons.addons[0].values["prometheus"]["prometheusSpec"]


def test_a_volume_of_prometheus_leaves_its_retention_to_the_stack_file() -> None:
    assert not {"retention", "retentionSize"} & of_volume("500Gi", retention="90d", retentionSize="450GB").keys()


def test_prometheus_deletes_old_metrics_before_its_volume_is_full() -> None:
    assert of_volume("500Gi", retention="90d")["retentionSize"] == "409600MB"
    assert of_volume("50G")["retentionSize"] == "38146MB"
    assert "retentionSize" not in of_volume(None)
    assert "retentionSize" not in of_volume("large")


def test_prometheus_with_a_volume_keeps_the_days_that_reports_read() -> None:
    assert of_volume("500Gi")["retention"] == "15d"


def test_pending_headroom_pods_raise_no_alert_of_the_chart() -> None:
    rules = plan_of("eks", {"prometheus": "install"}).addons.addons[0].values["defaultRules"]
    assert (rules.get("appNamespacesOperator"), rules.get("appNamespacesTarget")) == ("!=", HEADROOM_NAMESPACE)


def test_alerts_that_long_jobs_and_full_nodes_raise_are_off() -> None:
    values = plan_of("eks", {"prometheus": "install"}).addons.addons[0].values
    assert values["defaultRules"]["disabled"] == {
        "KubeCPUOvercommit": True,
        "KubeJobNotCompleted": True,
        "KubeMemoryOvercommit": True,
    }


@pytest.mark.parametrize(("cloud", "scraped"), [("gke", False), ("eks", True), ("aks", True), ("existing", True)])
def test_prometheus_scrapes_the_dns_server_only_if_it_has_the_port_of_coredns(cloud: str, scraped: bool) -> None:
    values = plan_of(cloud, {"prometheus": "install"}).addons.addons[0].values
    assert (values.get("coreDns") != {"enabled": False}) is scraped


@pytest.mark.parametrize(
    ("alertmanager", "reminded"),
    [
        ({}, True),
        ({"alertmanagerSpec": {"replicas": 2}}, True),
        ({"alertmanagerSpec": {"configSecret": "receivers"}}, False),
        ({"config": {"route": {"receiver": "team"}}}, False),
        ({"enabled": False}, False),
    ],
)
def test_an_alertmanager_without_receivers_is_named(alertmanager: dict[str, Any], reminded: bool) -> None:
    values = {"alertmanager": alertmanager} if alertmanager else {}
    plan = plan_of("eks", {"prometheus": "install"}, charts={"kube-prometheus-stack": {"values": values}})
    assert ("notifications" in {one.what for one in plan.decisions}) is reminded


DISK = {"volumeClaimTemplate": {"spec": {"storageClassName": "gp3"}}}
SHARED = {"volumeClaimTemplate": {"spec": {"storageClassName": "home"}}}
ZONES = ["us-east-2a", "us-east-2b", "us-east-2c"]
CPU: dict[str, Any] = {"name": "metrics", "machine_type": "m7i.2xlarge", "workload": "general"}
CPU["count"] = {"min": 1, "desired": 1, "max": 2}


def warned(spec: dict[str, Any], create: dict[str, Any], pool: dict[str, Any], chart: str = "prometheus") -> str:
    values = {chart: {f"{chart}Spec": spec}}
    plan = plan_eks(
        {**CPU, **pool},
        cluster={**CREATED, "create": {**CREATED["create"], **create}},
        addons={"prometheus": "install"},
        storage={"home": {"type": "nfs"}},
        charts={"kube-prometheus-stack": {"values": values}},
    )
    return " ".join(one.chosen for one in plan.decisions if one.what == "warning: metrics")


def test_a_volume_with_fewer_system_nodes_than_zones_is_a_warning() -> None:
    taints = {"taints": [{"key": "a", "effect": "NoSchedule"}]}
    assert "system nodes, which are fewer" in warned({"storageSpec": DISK}, {"zones": ZONES}, taints)
    assert "volume of Alertmanager" in warned({"storage": DISK}, {"zones": ZONES}, taints, "alertmanager")
    assert not warned({"storageSpec": SHARED}, {"zones": ZONES}, taints)
    assert not warned({"storageSpec": DISK}, {"zones": ZONES[:2]}, taints)
    assert not warned({"storageSpec": DISK}, {"zones": ZONES, "system": {"desired": 3, "max": 3}}, taints)


@pytest.mark.parametrize(
    ("selector", "warns"),
    [
        ({"kubernetes.io/os": "linux"}, True),
        ({"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}, True),
        ({"kubernetes.io/os": "linux", "gpu-platform.dev/pool": "metrics"}, False),
        ({"topology.kubernetes.io/zone": "us-east-2a"}, False),
    ],
)
def test_a_selector_of_labels_that_all_nodes_have_chooses_no_pool(selector: dict[str, str], warns: bool) -> None:
    spec = {"storageSpec": DISK, "nodeSelector": selector}
    found = warned(spec, {"zones": ZONES}, {"zones": ZONES[:1]})
    assert ("system nodes, which are fewer" in found) is warns
    several = {"storageSpec": DISK, "nodeSelector": {**selector, "gpu-platform.dev/pool": "metrics"}}
    if warns:
        assert "nodes of pool metrics" in warned(several, {"zones": ZONES}, {})


def test_check_warns_of_a_volume_on_a_cpu_pool_in_several_zones() -> None:
    chosen = {"storageSpec": DISK, "nodeSelector": {"gpu-platform.dev/pool": "metrics"}}
    assert "nodes of pool metrics may start in another" in warned(chosen, {"zones": ZONES}, {})
    assert not warned(chosen, {"zones": ZONES}, {"zones": ZONES[:1]})


def test_the_sandbox_installs_no_charts() -> None:
    assert refused("sandbox", {"keda": "install", "gateway": "install"}) == ["addons.keda", "addons.gateway"]
    assert plan_of("sandbox", {"jobset": "present"}).addons.has("jobset")


def new_cluster(cloud: str) -> dict[str, Any]:
    cluster = {**STACKS[cloud]["cluster"]}
    create = {"admins": ["arn:aws:iam::123456789012:role/admin"], "api_access": ["203.0.113.0/24"]}
    return {"cluster": {**cluster, "create": create if cloud == "eks" else {"api_access": ["203.0.113.0/24"]}}}


def test_nothing_is_present_on_a_new_cluster() -> None:
    assert refused("eks", {"kuberay": "present"}, **new_cluster("eks")) == ["addons.kuberay"]


def test_installed_prometheus_scrapes_gpus_but_no_hidden_component() -> None:
    plan = plan_of("eks", {"prometheus": "install"}, **new_cluster("eks"))
    assert plan.monitoring is not None
    assert plan.monitoring.service_monitor
    (prometheus,) = plan.addons.addons
    assert prometheus.values["kubeEtcd"] == {"enabled": False}
    without = plan_of("eks", {}, **new_cluster("eks")).monitoring
    assert without is not None
    assert not without.service_monitor


def test_gke_is_told_which_ports_the_webhooks_need() -> None:
    def ports(cloud: str, addons: dict[str, Any]) -> list[str]:
        return [one.chosen for one in plan_of(cloud, addons).decisions if one.what == "firewall"]

    assert ports("gke", {"trainer": "install", "keda": "install"}) == [
        "TCP 6443, 9443 from the control plane to the nodes"
    ]
    assert ports("gke", {"prometheus": "install", "kuberay": "install"}) == []
    assert ports("eks", {"trainer": "install"}) == []
    queued = plan_of("gke", {}, queueing={}).decisions
    assert [one.chosen for one in queued if one.what == "firewall"] == [
        "TCP 8082 from the control plane to the nodes"
    ]
    own = {**STACKS["eks"]["cluster"], "security_groups": ["sg-0a1b2c3d4e5f60718"]}
    notes = plan_of("eks", {"trainer": "install"}, cluster=own).decisions
    [firewall] = [one for one in notes if one.what == "firewall"]
    assert "sg-0a1b2c3d4e5f60718" in firewall.why


def test_a_created_vpc_of_gke_has_the_rule_for_webhooks() -> None:
    plan = plan_of("gke", {"trainer": "install", "keda": "install"}, **new_cluster("gke"))
    assert not [one for one in plan.decisions if one.what == "firewall"]


def test_an_addon_of_somebody_else_is_not_installed_a_second_time() -> None:
    found = InstalledPart(
        part="keda", kind="Deployment", namespace="scaling", name="keda-operator", version="2.17", release=None
    )
    parts = parts_of({"keda": "install"})
    (problem,) = part_problems(parts, [found], [])
    assert (problem.path, "scaling" in problem.found) == ("addons.keda", True)
    assert part_problems(parts_of({"keda": "present"}), [found], []) == ()


def test_an_addon_that_is_declared_present_and_is_not_installed_is_named() -> None:
    (problem,) = part_problems(parts_of({"kuberay": "present"}), [], [])
    assert problem.path == "addons.kuberay"
