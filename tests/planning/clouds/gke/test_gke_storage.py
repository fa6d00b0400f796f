"""Storage classes on GKE: how they are planned, and which are refused."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.clouds.gke.plan import GkeClusterPlan
from gpu_platform.planning.clouds.gke.storage import GkeStorage, claim_sizes, filestore_network
from gpu_platform.planning.clouds.storage import StorageClassPlan
from gpu_platform.stack.cluster import GkeCluster
from gpu_platform.stack.loaded import plan_platform
from gpu_platform.stack.storage import NfsStorage
from tests.planning.conftest import environment, team
from tests.support.sold import sold

CLUSTER: dict[str, Any] = {"provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1"}
CREATED: dict[str, Any] = {**CLUSTER, "create": {}}
MEGA: dict[str, Any] = {
    "name": "train",
    "machine_type": "a3-megagpu-8g",
    "count": {"desired": 1},
    "workload": "training",
    "zones": ["us-central1-a"],
}
A4: dict[str, Any] = sold({**MEGA, "name": "big", "machine_type": "a4-highgpu-8g"})
G2: dict[str, Any] = {**MEGA, "name": "serve", "machine_type": "g2-standard-48", "workload": "inference"}

CPU: dict[str, Any] = {**MEGA, "name": "etl", "machine_type": "n2-standard-16", "workload": "general"}


def planned(*pools: dict[str, Any], cluster: dict[str, Any] = CREATED, **storage: Any) -> EnvironmentPlan:
    platform = {"kind": "environment", "cluster": cluster, "pools": list(pools or (MEGA,)), "storage": storage}
    plan = plan_platform(platform, "test")
    assert plan.kind == "environment"
    return plan


def classes(plan: EnvironmentPlan) -> dict[str, StorageClassPlan]:
    return {one.name: one for one in plan.storage.classes}


def refused(*pools: dict[str, Any], cluster: dict[str, Any] = CREATED, **storage: Any) -> dict[str, str]:
    with pytest.raises(BadInput) as caught:
        planned(*pools, cluster=cluster, **storage)
    return {problem.path: str(problem) for problem in caught.value.problems}


def test_nodes_with_only_hyperdisk_get_an_additional_class() -> None:
    plan = planned(MEGA, {**A4, "network": {"rdma": False}})
    [found] = plan.storage.classes
    assert (found.name, found.parameters, found.default) == (
        "hyperdisk-balanced",
        {"type": "hyperdisk-balanced"},
        False,
    )
    [why] = [one.why for one in plan.decisions if one.what == "hyperdisk-balanced"]
    assert why == "the nodes of pool big cannot attach disks of class standard-rwo"


def test_system_nodes_with_only_hyperdisk_have_that_class() -> None:
    create = {**CREATED["create"], "system": {"machine_type": "n4-standard-8"}}
    plan = planned(MEGA, cluster={**CREATED, "create": create}, fast={"type": "disk", "disk": "pd-ssd"})
    assert "hyperdisk-balanced" in classes(plan)
    warnings = {one.what: one.chosen for one in plan.decisions if one.what.startswith("warning: ")}
    assert warnings["warning: fast"] == "pd-ssd on the system nodes"


def test_nodes_with_persistent_disks_need_no_additional_class() -> None:
    assert planned(MEGA).storage.classes == ()


def test_a_disk_class_without_a_type_has_one_that_the_system_nodes_attach_too() -> None:
    assert classes(planned(G2, work={"type": "disk"}))["work"].parameters == {"type": "pd-balanced"}
    assert classes(planned(A4, G2, work={"type": "disk"}))["work"].parameters == {"type": "pd-balanced"}


def test_a_class_that_some_pools_cannot_attach_is_warned_of_by_name() -> None:
    plan = planned(G2, A4, work={"type": "disk", "disk": "pd-ssd"})
    [warning] = [one for one in plan.decisions if one.what == "warning: work"]
    assert warning.chosen == "pd-ssd on big"


def test_a_class_that_no_pool_attaches_is_refused() -> None:
    found = refused(A4, work={"type": "disk", "disk": "pd-balanced"})
    assert "which no pool can attach" in found["storage.work.disk"]
    unset = refused(A4, work={"type": "disk", "default": True})["storage.work.disk"]
    assert "nothing; the default on a new cluster is pd-balanced, which no pool can attach" in unset
    assert "write disk: hyperdisk-balanced" in unset
    assert planned(A4, work={"type": "disk", "disk": "hyperdisk-balanced", "default": True})


def test_filestore_and_lustre_are_in_the_network_of_the_cluster() -> None:
    plan = planned(home={"type": "nfs"}, fast={"type": "lustre", "throughput": 1000})
    assert classes(plan)["home"].parameters == {"tier": "zonal", "network": "ml-us-central1"}
    fast = classes(plan)["fast"]
    assert fast.parameters == {"perUnitStorageThroughput": "1000", "network": "ml-us-central1"}
    assert (fast.zones, fast.topology_key) == (("us-central1-a",), "topology.gke.io/zone")
    cloud = plan.cluster.cloud
    assert isinstance(cloud, GkeClusterPlan)
    assert cloud.create is not None
    assert (cloud.create.nfs_driver, cloud.create.lustre_driver) == (True, True)
    assert plan.storage.cloud == GkeStorage(in_network=(), private_access="ml-us-central1-services")


def test_lustre_in_a_known_zone_is_created_before_its_first_pod() -> None:
    other = {**G2, "zones": ["us-central1-b"]}
    by_zone = {"declared": {"type": "lustre", "zone": "us-central1-a"}, "unset": {"type": "lustre"}}
    bound = {name: (one.binding, one.zones) for name, one in classes(planned(MEGA, other, **by_zone)).items()}
    assert bound["declared"] == ("Immediate", ("us-central1-a",))
    # With two zones, the first pod determines the zone of the volume.
    assert bound["unset"] == ("WaitForFirstConsumer", ())
    assert classes(planned(MEGA, fast={"type": "lustre"}))["fast"].binding == "Immediate"


def test_in_a_vpc_of_another_project_classes_have_its_path_and_the_owner_connects_it() -> None:
    shared = {"project": "host-project", "name": "shared", "subnetwork": "gpu-nodes"}
    where = {**CLUSTER, "create": {"network": shared}}
    pool = {**MEGA, "network": {"rdma": False}}
    plan = planned(pool, cluster=where, fast={"type": "lustre"})
    assert classes(plan)["fast"].parameters["network"] == "projects/host-project/global/networks/shared"
    home = classes(planned(pool, cluster=where, home={"type": "nfs"}))["home"]
    assert home.parameters["connect-mode"] == "PRIVATE_SERVICE_ACCESS"
    assert plan.storage.cloud is None


def test_drivers_are_off_where_no_class_needs_them() -> None:
    cloud = planned(work={"type": "disk"}).cluster.cloud
    assert isinstance(cloud, GkeClusterPlan)
    assert cloud.create is not None
    assert (cloud.create.nfs_driver, cloud.create.lustre_driver) == (False, False)


@pytest.mark.parametrize(
    ("network", "mode"),
    [
        ("ml-vpc", None),
        ("projects/ml-prod/global/networks/ml", None),
        ("projects/host/global/networks/shared", "PRIVATE_SERVICE_ACCESS"),
    ],
)
def test_filestore_joins_a_network_of_another_project_by_private_services_access(
    network: str, mode: str | None
) -> None:
    parameters = filestore_network(network, "ml-prod")
    assert (parameters["network"], parameters.get("connect-mode")) == (network, mode)


@pytest.mark.parametrize(("kubernetes", "smallest"), [(None, "100Gi"), ("1.35", "100Gi"), ("1.32", "1Ti")])
def test_filestore_makes_small_instances_of_basic_hdd_on_newer_gke(kubernetes: str | None, smallest: str) -> None:
    cluster = GkeCluster.model_validate({**CLUSTER, "kubernetes": kubernetes})
    tier = NfsStorage.model_validate({"type": "nfs", "tier": "basic-hdd"})
    assert claim_sizes(tier, cluster).smallest == smallest


def test_an_existing_clusters_network_is_read_and_its_owner_adds_drivers() -> None:
    plan = planned(cluster=CLUSTER, home={"type": "nfs"}, fast={"type": "lustre"})
    assert plan.storage.cloud == GkeStorage(in_network=("home", "fast"), filestore=("home",), private_access=None)
    assert "network" not in classes(plan)["home"].parameters
    [why] = [one.why for one in plan.decisions if (one.subject, one.what) == ("storage", "fast")]
    assert "the cluster's owner must enable the Managed Lustre driver" in why


def test_lustre_is_refused_on_nodes_and_versions_without_its_driver() -> None:
    old = refused(cluster={**CREATED, "kubernetes": "1.32"}, fast={"type": "lustre"})
    assert "GKE 1.33.2-gke.1111000 or newer" in old["storage.fast.type"]
    ubuntu = {**G2, "image": {"family": "ubuntu"}}
    assert "a pool with Container-Optimized OS" in refused(ubuntu, fast={"type": "lustre"})["storage.fast.type"]


UBUNTU: dict[str, Any] = {**G2, "name": "u", "device_plugin": "provider", "image": {"family": "ubuntu"}}
EXISTING_LUSTRE: dict[str, Any] = {
    "type": "existing",
    "system": "managed-lustre",
    "file_system": "us-central1-a/scratch",
    "address": "10.9.0.2",
    "share": "scratch",
}
RUN: dict[str, Any] = {"gpus": 4, "image": "registry.example.com/train:1", "run_as_user": 1000}
RAY: dict[str, Any] = {
    "name": "ray",
    "image": RUN["image"],
    "run_as_user": 1000,
    "version": "2.49.0",
    "head": {},
    "workers": [{"name": "w", "pool": "u", "gpus": 4}],
}


@pytest.mark.parametrize(
    ("field", "entry", "place"),
    [
        (
            "training_jobs",
            {"checkpoints": {"directory": "/c", "storage_class": "fast", "size": "9000Gi"}},
            "checkpoints.storage_class",
        ),
        ("training_jobs", {"checkpoints": {"directory": "/c", "volume": "old"}}, "checkpoints.volume"),
        ("training_jobs", {"volumes": {"old": "/old"}}, "volumes.old"),
        ("batch_jobs", {"volumes": {"old": "/old"}}, "volumes.old"),
        ("inference_services", {"volumes": {"old": "/old"}}, "volumes.old"),
        ("notebooks", {"home": {"directory": "/home/me", "volume": "old"}}, "home.volume"),
        ("ray_clusters", {"volumes": {"old": "/old"}}, "volumes.old"),
    ],
)
def test_lustre_is_refused_for_a_workload_on_ubuntu_nodes(field: str, entry: dict[str, Any], place: str) -> None:
    common = RAY if field == "ray_clusters" else {**RUN, "name": "one", "pool": "u"}
    command = {"command": ["run"]} if field in ("training_jobs", "batch_jobs") else {}
    own = team(
        "vision", quota={"gpus": 8}, members=["user:a@example.com"], **{field: [{**common, **command, **entry}]}
    )
    storage = {"fast": {"type": "lustre", "throughput": 1000}, "old": EXISTING_LUSTRE}
    platform = environment(
        UBUNTU, G2, cluster=CREATED, storage=storage, teams=[own], addons={"kuberay": "install"}
    )
    with pytest.raises(BadInput) as caught:
        plan_platform(platform, "test")
    [problem] = caught.value.problems
    assert problem.path == f"teams[0].{field}[0].{place}"
    assert "driver runs only on Container-Optimized OS" in problem.found


@pytest.mark.parametrize(
    ("replicas", "more", "fix"),
    [
        (1, {}, "write storage_class: standard-rwo"),
        (2, {}, "declare a class of type nfs in storage, and name it"),
        (2, {"home": {"type": "nfs"}}, "write storage_class: home"),
    ],
)
def test_the_proposed_checkpoint_class_is_not_a_disk_class(replicas: int, more: dict[str, Any], fix: str) -> None:
    kept = {"directory": "/c", "storage_class": "fast", "size": "9000Gi"}
    job = {**RUN, "name": "one", "pool": "u", "command": ["run"], "replicas": replicas, "checkpoints": kept}
    own = team("vision", quota={"gpus": 8}, members=["user:a@example.com"], training_jobs=[job])
    storage = {"fast": {"type": "lustre", "throughput": 1000}, **more}
    two = {**UBUNTU, "count": {"desired": 2}}
    with pytest.raises(BadInput) as caught:
        plan_platform(environment(two, G2, cluster=CREATED, storage=storage, teams=[own]), "test")
    assert [problem.fix for problem in caught.value.problems] == [fix]


def test_pools_that_cannot_mount_lustre_get_a_warning() -> None:
    own = team("vision", quota={"gpus": {"u": 4}}, members=["user:a@example.com"])
    storage = {"fast": {"type": "lustre"}, "old": EXISTING_LUSTRE}
    plan = plan_platform(
        environment(UBUNTU, G2, cluster=CREATED, storage=storage, teams=[own], queueing={}), "test"
    )
    assert plan.kind == "environment"
    warned = {one.what: one.chosen for one in plan.decisions if one.subject == "storage"}
    assert warned["warning: fast"] == warned["warning: old"] == "no volume on nodes of these pools: u"
    [training] = [one for one in plan.guides[0].examples if one.kind == "training"]
    assert (training.workload.pool, training.volume, training.storage_class) == ("u", None, None)


def test_lustre_runs_on_arm_nodes_and_grows_from_the_versions_that_support_it() -> None:
    reservation = {"type": "reservation", "reservation": "rack", "zone": "us-central1-a"}
    rack = {**MEGA, "machine_type": "a4x-highgpu-4g", "count": {"desired": 18}, "capacity": reservation}
    for kubernetes, grows in (("1.34", False), ("1.35", True)):
        plan = planned(rack, cluster={**CREATED, "kubernetes": kubernetes}, fast={"type": "lustre"})
        assert classes(plan)["fast"].expandable is grows
    old = refused(
        {**rack, "network": {"rdma": False}}, cluster={**CREATED, "kubernetes": "1.33"}, fast={"type": "lustre"}
    )
    assert "1.34.1-gke.2541000" in old["storage.fast.type"]


def test_mistakes_of_all_classes_are_shown_in_one_run() -> None:
    found = refused(
        a={"type": "disk", "disk": "gp3"},
        b={"type": "disk", "disk": "pd-ssd", "iops": 5000},
        c={"type": "nfs", "tier": "basic-hdd", "kms_key": "projects/p/locations/l/keyRings/r/cryptoKeys/k"},
        d={"type": "lustre", "zone": "europe-west4-a"},
        e={"type": "nfs", "file_system": "fs-0a1b2c3d"},
    )
    assert set(found) >= {
        "storage.a.disk",
        "storage.b.iops",
        "storage.c.kms_key",
        "storage.d.zone",
        "storage.e.file_system",
    }


@pytest.mark.parametrize(("iops", "fix"), [(100, "remove iops"), (256000, "write iops: 160000 or less")])
def test_iops_that_no_hyperdisk_has_are_refused(iops: int, fix: str) -> None:
    """If a disk type does not support the IOPS of a class, claims of the class stay pending forever."""
    hyperdisk = {"type": "disk", "disk": "hyperdisk-balanced", "iops": iops}
    [(place, text)] = refused(A4, fast=hyperdisk).items()
    assert place == "storage.fast.iops"
    assert text.endswith(f"Fix: {fix}")


@pytest.mark.parametrize(
    ("pool", "storage_class", "found"),
    [
        (G2, "fast", "disks of type hyperdisk-balanced"),
        (A4, None, "disks of type pd-balanced"),
        (A4, "fast", None),
        (G2, None, None),
    ],
)
def test_claims_that_the_nodes_of_their_pool_cannot_mount_are_refused(
    pool: dict[str, Any], storage_class: str | None, found: str | None
) -> None:
    storage = {
        "fast": {"type": "disk", "disk": "hyperdisk-balanced"},
        "plain": {"type": "disk", "default": True},
    }
    home = {"directory": "/home/me", "size": "50Gi"} | ({"storage_class": storage_class} if storage_class else {})
    members = {"quota": {"gpus": 8}, "members": ["user:a@example.com"], "priority": "training"}
    own = {
        "name": "vision",
        **members,
        "notebooks": [{"name": "lab", "pool": pool["name"], "gpus": 1, "home": home}],
    }
    platform = {"kind": "environment", "cluster": CREATED, "pools": [A4, G2], "storage": storage, "teams": [own]}
    if found is None:
        assert plan_platform(platform, "test")
        return
    with pytest.raises(BadInput) as caught:
        plan_platform(platform, "test")
    [problem] = caught.value.problems
    assert problem.path == "teams[0].notebooks[0].home.storage_class"
    assert found in problem.found
    needed = "hyperdisk-balanced" if pool is A4 else "pd-"
    assert f"write disk: {needed}" in problem.fix


@pytest.mark.parametrize(
    ("declared", "smallest"),
    [
        ({"type": "nfs", "tier": "zonal"}, "1Ti"),
        ({"type": "nfs", "tier": "basic-ssd"}, "2560Gi"),
        ({"type": "lustre"}, "36000Gi"),
        ({"type": "lustre", "throughput": 1000}, "9000Gi"),
        ({"type": "lustre", "throughput": 500}, "18000Gi"),
        ({"type": "lustre", "throughput": 125}, "72000Gi"),
        ({"type": "disk"}, None),
    ],
)
def test_claims_below_the_smallest_instance_are_refused(declared: dict[str, Any], smallest: str | None) -> None:
    """For a claim of 100Gi, the cloud would create and bill an instance of the smallest size, although the quota
    counts only 100Gi.
    """
    home = {"directory": "/home/me", "size": "100Gi", "storage_class": "kept"}
    lab = {"name": "lab", "pool": "serve", "gpus": 1, "home": home}
    own = team("vision", quota={"gpus": 4}, members=["user:a@example.com"], notebooks=[lab])
    platform = environment(G2, cluster=CREATED, storage={"kept": declared}, teams=[own])
    if smallest is None:
        assert plan_platform(platform, "test")
        return
    with pytest.raises(BadInput) as caught:
        plan_platform(platform, "test")
    [problem] = caught.value.problems
    assert problem.path == "teams[0].notebooks[0].home.size"
    assert f"write size: {smallest}" in problem.fix
    home["size"] = smallest
    assert plan_platform(platform, "test")


def test_guide_examples_claim_volumes_that_nodes_can_mount() -> None:
    def example(**storage: Any) -> tuple[str | None, str]:
        own = team("vision", quota={"gpus": 8}, members=["user:a@example.com"])
        plan = plan_platform(environment(A4, CPU, cluster=CREATED, storage=storage, teams=[own]), "test")
        assert plan.kind == "environment"
        [training] = [one for one in plan.guides[0].examples if one.kind == "training"]
        return training.storage_class, training.smallest_claim

    plain = {"type": "disk", "default": True}
    assert example(plain=plain) == ("hyperdisk-balanced", "")
    assert example(home={"type": "nfs"}) == ("home", "1Ti")
