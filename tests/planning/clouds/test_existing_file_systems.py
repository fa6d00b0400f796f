"""How each cloud mounts existing file systems as volumes of teams, and which settings are refused."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.planning.clouds.eks.storage import EksStorage
from gpu_platform.planning.clouds.gke.plan import GkeClusterPlan
from gpu_platform.planning.clouds.gke.storage import GkeStorage
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from tests.components.gke.gke_recorded import CREATED as GKE_CREATED
from tests.components.gke.gke_recorded import EXISTING as GKE_EXISTING
from tests.components.gke.gke_recorded import platform_of
from tests.planning.clouds.test_buckets import eks, gke, refused, the
from tests.support.eks_stacks import EXISTING

FSX = {
    "type": "existing",
    "system": "fsx-lustre",
    "file_system": "fs-0a1b2c3d4e5f60718",
    "mount_name": "abcdefgh",
    "directory": "teams/{team}",
}
EFS = {"type": "existing", "system": "efs", "file_system": "fs-0a1b2c3d"}
FILESTORE = {
    "type": "existing",
    "system": "filestore",
    "file_system": "us-central1-a/home",
    "address": "10.0.0.2",
    "share": "vol1",
}
LUSTRE = {
    "type": "existing",
    "system": "managed-lustre",
    "file_system": "other-project/us-central1-a/scratch",
    "address": "10.0.0.3",
    "share": "lfs",
    "directory": "teams/{team}",
}


IN_OWNERS_VPC: dict[str, Any] = {
    **GKE_EXISTING,
    "create": {"network": {"name": "shared", "subnetwork": "gpu-nodes"}},
}


def refused_on_gke(**storage: Any) -> dict[str, str]:
    with pytest.raises(BadInput) as caught:
        gke(**storage)
    return {problem.path: str(problem) for problem in caught.value.problems}


def test_each_team_mounts_its_own_lustre_directory() -> None:
    plan = eks(scratch=FSX).storage
    volume = the(plan, "scratch", "speech")
    assert (volume.driver, volume.handle) == ("fsx.csi.aws.com", "fs-0a1b2c3d4e5f60718:/teams/speech")
    assert volume.attributes == {
        "dnsname": "fs-0a1b2c3d4e5f60718.fsx.us-east-2.amazonaws.com",
        "mountname": "abcdefgh/teams/speech",
    }
    assert the(plan, "scratch").attributes["mountname"] == "abcdefgh/teams/vision"


def test_an_efs_file_system_is_mounted_encrypted_whole_or_by_a_directory() -> None:
    whole, part = eks(data=EFS).storage, eks(data={**EFS, "directory": "shared", "read_only": True}).storage
    assert (the(whole, "data").handle, the(whole, "data").mount_options) == ("fs-0a1b2c3d", ("tls",))
    assert (the(part, "data").handle, the(part, "data").read_only) == ("fs-0a1b2c3d:/shared", True)


@pytest.mark.parametrize("entry", [FSX, EFS, FILESTORE, LUSTRE], ids=lambda one: one["system"])
def test_a_read_only_file_system_is_always_mounted_read_only(
    entry: dict[str, Any],
) -> None:
    make = eks if entry in (FSX, EFS) else gke
    assert "ro" in the(make(data={**entry, "read_only": True}).storage, "data").mount_options
    assert "ro" not in the(make(data=entry).storage, "data").mount_options


@pytest.mark.parametrize("entry", [FSX, EFS], ids=lambda one: one["system"])
def test_read_only_volumes_on_aws_have_a_supported_access_mode(entry: dict[str, Any]) -> None:
    assert the(eks(data={**entry, "read_only": True}).storage, "data").access_mode == "ReadWriteMany"


@pytest.mark.parametrize("entry", [FSX, EFS, LUSTRE], ids=lambda one: one["system"])
def test_no_two_directories_of_a_file_system_have_the_same_handle_in_a_team(entry: dict[str, Any]) -> None:
    make = eks if entry in (FSX, EFS) else gke
    names = {"own": "teams/{team}", "shared": "datasets", "whole": None}
    plan = make(**{name: {**entry, "directory": directory} for name, directory in names.items()})
    assert len({the(plan.storage, name).handle for name in names}) == 3


def test_a_directory_granted_twice_is_refused_unless_kubelet_mounts_it() -> None:
    twice = refused(data=EFS, again={**EFS, "read_only": True}, other={**EFS, "directory": "other"})
    assert list(twice) == ["storage.again.directory"]
    assert "the same directory as storage.data, for team vision" in twice["storage.again.directory"]
    assert list(refused_on_gke(data=LUSTRE, again=LUSTRE)) == ["storage.again.directory"]
    eks(data={**EFS, "teams": ["vision"]}, again={**EFS, "teams": ["speech"]})
    gke(data=FILESTORE, again={**FILESTORE, "read_only": True})


def test_drivers_for_existing_file_systems_alone_may_only_describe() -> None:
    cloud = eks(scratch=FSX, data=EFS).storage.cloud
    assert isinstance(cloud, EksStorage)
    assert [one.name for one in cloud.drivers] == ["aws-efs-csi-driver", "aws-fsx-csi-driver"]
    for driver in cloud.drivers:
        assert driver.managed_policies == ()
        actions = [action for statement in driver.statements for action in statement["Action"]]
        assert actions
        assert all(action.partition(":")[2].startswith("Describe") for action in actions)
    assert eks(EXISTING, scratch=FSX).storage.cloud is None


def test_filestore_is_mounted_by_the_kubelet_and_lustre_by_its_driver() -> None:
    plan = gke(home={**FILESTORE, "directory": "{team}"}, scratch=LUSTRE)
    home, scratch = the(plan.storage, "home"), the(plan.storage, "scratch")
    assert (home.driver, home.handle) == ("nfs", "10.0.0.2:/vol1/vision")
    assert scratch.handle == "other-project/us-central1-a/scratch:teams/vision"
    assert scratch.attributes == {"ip": "10.0.0.3", "filesystem": "lfs", "subPath": "teams/vision"}
    assert not scratch.in_pod
    cloud = plan.cluster.cloud
    assert isinstance(cloud, GkeClusterPlan)
    assert cloud.create is not None
    assert (cloud.create.lustre_driver, cloud.create.nfs_driver) == (True, False)


def on_gke(name: str, cluster: dict[str, Any], **storage: Any) -> tuple[dict[str, str], EnvironmentPlan]:
    """Return the decisions about an entry of `storage`, and the plan."""
    own = {"name": "vision", "quota": {"gpus": 8}, "priority": "training", "members": ["user:a@example.com"]}
    plan = plan_platform(
        {**platform_of({"network": {"rdma": False}}, cluster=cluster), "storage": storage, "teams": [own]}, "test"
    )
    assert plan.kind == "environment"
    found = [one for one in plan.decisions if one.subject == "storage" and one.what.endswith(name)]
    return {one.what: f"{one.chosen}; {one.why}" for one in found}, plan


@pytest.mark.parametrize("instance", [FILESTORE, LUSTRE], ids=["filestore", "lustre"])
def test_check_warns_that_an_instance_must_be_in_the_vpc_that_the_program_creates(
    instance: dict[str, Any],
) -> None:
    of, plan = on_gke("old", GKE_CREATED, old=instance)
    assert "must be in VPC ml-us-central1" in of["warning: old"]
    assert "cluster.create.network" in of["warning: old"]
    assert any(instance["file_system"] in text for text in plan.storage.retained)
    for cluster in (IN_OWNERS_VPC, GKE_EXISTING):
        of, plan = on_gke("old", cluster, old=instance)
        assert "warning: old" not in of
        assert plan.storage.retained == ()


def test_a_created_network_reaches_managed_lustre_in_it() -> None:
    lustre, filestore = (gke(old=one).storage.cloud for one in (LUSTRE, FILESTORE))
    assert isinstance(lustre, GkeStorage)
    assert lustre.private_access == "ml-us-central1-services"
    assert filestore is None  # Filestore has its own peering and does not use private services access


@pytest.mark.parametrize("entry", [LUSTRE, {"type": "lustre"}], ids=["existing", "class"])
def test_check_names_the_firewall_rule_that_lustre_needs_in_the_network_of_an_owner(entry: dict[str, Any]) -> None:
    rule = "a firewall rule for TCP 988 and 6988 from the range for private services access"
    for cluster in (IN_OWNERS_VPC, GKE_EXISTING):
        assert rule in on_gke("old", cluster, old=entry)[0]["old"]
    assert rule not in on_gke("old", GKE_CREATED, old=entry)[0]["old"]


@pytest.mark.parametrize(("project", "needed"), [(None, False), ("my-project", False), ("host-project", True)])
def test_owner_of_a_shared_vpc_enables_private_services_access(project: str | None, needed: bool) -> None:
    network = {**IN_OWNERS_VPC["create"]["network"], "project": project}
    of, _ = on_gke("home", {**IN_OWNERS_VPC, "create": {"network": network}}, home={"type": "nfs"})
    assert ("the network's owner must enable private services access" in of["home"]) is needed


def test_check_names_the_vpc_that_the_file_systems_owner_connects() -> None:
    def why(**rest: Any) -> list[str]:
        plan = eks(**rest, scratch=FSX, data=EFS)
        return [one.why for one in plan.decisions if one.subject == "storage" and one.what in ("scratch", "data")]

    assert all("connects its VPC to the VPC that this stack creates" in one for one in why())
    assert not any("connects its VPC" in one for one in why(cluster=EXISTING))


def test_without_a_directory_teams_share_the_file_system_of_the_clusters_project() -> None:
    volume = the(
        gke(scratch={**LUSTRE, "file_system": "us-central1-a/scratch", "directory": None}).storage, "scratch"
    )
    assert volume.handle.endswith("/us-central1-a/scratch")
    assert "subPath" not in volume.attributes


def test_what_a_file_system_is_mounted_by_must_be_declared() -> None:
    found = refused(
        a={**FSX, "mount_name": None},
        b={**EFS, "mount_name": "abcdefgh"},
        c={**EFS, "file_system": "us-central1-a/home"},
        d={**EFS, "directory": "d", "address": "10.0.0.2"},
        e={**EFS, "system": "filestore"},
    )
    assert set(found) == {
        "storage.a.mount_name",
        "storage.b.mount_name",
        "storage.c.file_system",
        "storage.d.address",
        "storage.e.system",
    }
    on_gke = refused_on_gke(
        a={**FILESTORE, "address": None},
        b={**LUSTRE, "share": None},
        c={**FILESTORE, "file_system": "fs-0a1b2c3d"},
    )
    assert set(on_gke) == {"storage.a.address", "storage.b.share", "storage.c.file_system"}


@pytest.mark.parametrize("directory", ["/teams", "teams/", "{user}", "teams/../x", "a b"])
def test_a_directory_is_a_path_below_the_file_system(directory: str) -> None:
    assert list(refused(scratch={**FSX, "directory": directory})) == ["storage.scratch.directory"]
