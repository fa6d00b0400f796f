"""The node versions that GKE pools declare or require, conflicts between them, and the versions of live nodes."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from gpu_platform.planning.changes import pool_changes, pool_facts
from gpu_platform.planning.clouds.gke.existing_cluster import require_fit, require_version
from gpu_platform.planning.clouds.gke.plan import GkeClusterPlan, GkePoolPlan
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from tests.planning.clouds.gke.test_cluster import cluster, found, on
from tests.planning.conftest import environment

HIGH = "a3-highgpu-8g"
GIVEN: dict[str, Any] = {"kubernetes": "1.35"}


def planned(machine: str, where: dict[str, Any] | None = None, **pool: Any) -> EnvironmentPlan:
    made = plan_platform(environment(on(machine, **pool), cluster=cluster(**(where or GIVEN))), "test")
    assert isinstance(made, EnvironmentPlan)
    return made


def cloud(machine: str, where: dict[str, Any] | None = None, **pool: Any) -> GkeClusterPlan:
    made = planned(machine, where, **pool).cluster.cloud
    assert isinstance(made, GkeClusterPlan)
    return made


def nodes(machine: str, **pool: Any) -> GkePoolPlan:
    made = planned(machine, **pool).pools[0].cloud
    assert isinstance(made, GkePoolPlan)
    return made


def refused(machine: str, where: dict[str, Any] | None = None, **pool: Any) -> dict[str, str]:
    with pytest.raises(BadInput) as caught:
        planned(machine, where, **pool)
    return {problem.path: str(problem) for problem in caught.value.problems}


@pytest.mark.parametrize(
    "where",
    [{"kubernetes": "1.34"}, {"kubernetes": "1.35"}, {"create": {}}, {"kubernetes": "1.34", "create": {}}],
)
def test_the_gpu_nics_of_a3_high_are_refused_on_versions_that_break_gpudirect_tcpx(where: dict[str, Any]) -> None:
    problems = refused(HIGH, where, image={})
    assert problems.keys() == {"pools[0].network.rdma"}
    text = problems["pools[0].network.rdma"]
    assert "before GKE 1.34.1-gke.1431000" in text
    assert "a version of 1.33" in text
    assert "network: {rdma: false}" in text


@pytest.mark.parametrize(
    ("where", "pool"),
    [
        ({"kubernetes": "1.35"}, {"image": {"release": "1.33.5-gke.2392000"}}),
        ({"kubernetes": "1.35"}, {"image": {}, "network": {"rdma": False}}),
        ({"kubernetes": "1.35"}, {"image": {}, "workload": "inference"}),
        ({"kubernetes": "1.33"}, {"image": {}}),
        ({"kubernetes": "1.33", "create": {"release_channel": "extended"}}, {"image": {}}),
        ({}, {"image": {}}),
    ],
)
def test_a3_high_is_taken_on_older_nodes_and_without_its_gpu_nics(
    where: dict[str, Any], pool: dict[str, Any]
) -> None:
    assert planned(HIGH, where or {"production": True}, **pool)


def test_other_machine_types_use_their_gpu_nics_on_new_versions() -> None:
    assert cloud("a3-megagpu-8g").broken_from == {}


def test_a_cluster_too_new_for_a3_high_is_refused() -> None:
    plan = cloud(HIGH, {"production": True}, image={})
    require_fit(plan, found(version="1.34.1-gke.1430999"))
    with pytest.raises(BadInput, match=r"GPU NICs of pools train.*before GKE 1\.34\.1-gke\.1431000"):
        require_fit(plan, found(version="1.34.1-gke.1431000"))
    require_fit(cloud(HIGH, {"production": True}), found(version="1.34.1-gke.1431000"))


@pytest.mark.parametrize("version", ["1.32.9-gke.1", "1.37.1-gke.5"])
def test_a_known_version_that_the_operator_lacks_is_refused(version: str) -> None:
    made = cloud("g2-standard-48", {"create": {}})
    with pytest.raises(BadInput, match=r"1\.33 to 1\.36, the range that GPU Operator v26\.7\.0 supports"):
        require_version(made, version)
    with pytest.raises(BadInput, match="the range that GPU Operator"):
        require_fit(cloud("g2-standard-48", {"production": True}), found(version=version))


@pytest.mark.parametrize(
    ("release", "words"),
    [
        ("1.35", "a GKE version with its build"),
        ("v20260714", "a GKE version with its build"),
        ("1.36.0-gke.100", "a version from 1.33 to the version of the control plane"),
        ("1.32.9-gke.100", "a version from 1.33"),
    ],
)
def test_a_version_of_nodes_that_the_cluster_cannot_have_is_refused(release: str, words: str) -> None:
    problems = refused("g2-standard-48", image={"release": release})
    assert words in problems["pools[0].image.release"]


@pytest.mark.parametrize(
    ("machine", "pool", "release", "needed"),
    [
        ("g4-standard-48", {"workload": "inference"}, "1.33.9-gke.1", "1.34.0-gke.1662000"),
        ("a3-ultragpu-8g", {}, "1.34.1-gke.1829000", "1.34.1-gke.1829001"),
        (HIGH, {}, "1.34.1-gke.1431000", "before GKE 1.34.1-gke.1431000"),
    ],
)
def test_a_version_of_nodes_that_does_not_fit_the_pool_is_refused(
    machine: str, pool: dict[str, Any], release: str, needed: str
) -> None:
    assert needed in refused(machine, image={"release": release}, **pool)["pools[0].image.release"]


def test_a_declared_version_is_compared_with_the_live_control_plane() -> None:
    plan = cloud("g2-standard-48", {"production": True}, image={"release": "1.35.1-gke.1396000"})
    require_fit(plan, found(version="1.35.1-gke.1396000"))
    for version in ("1.35.1-gke.1395999", "1.34.9-gke.1"):
        with pytest.raises(BadInput, match=r"image\.release of pool train"):
            require_fit(plan, found(version=version))


def test_nodes_with_a_declared_version_are_kept_from_the_upgrades_of_gke() -> None:
    kept = nodes("g2-standard-48", image={"release": "1.35.1-gke.1396000"})
    assert (kept.version, kept.upgrades_excluded) == ("1.35.1-gke.1396000", True)
    free = nodes("g2-standard-48")
    assert (free.version, free.upgrades_excluded) == (None, False)


def test_another_version_of_nodes_is_announced_as_a_roll_of_the_pool() -> None:
    old = planned("g2-standard-48", image={"release": "1.35.1-gke.1396000"})
    new = planned("g2-standard-48", image={"release": "1.35.2-gke.1269001"})
    (change,) = pool_changes(pool_facts(old), new, load_catalog())
    assert change.effect == "rolled"
    assert [each.field for each in change.causes] == ["pools[0].image.release"]
