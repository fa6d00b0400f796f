"""Order the steps of an upgrade.

The operator is upgraded by at most one major release at a time. It is upgraded before Kubernetes if its release
does not support the next Kubernetes version. Kubernetes is upgraded by one minor version at a time, with the
control plane before the nodes. The driver is upgraded with the operator or after it.

Sources, read 2026-11-22: NVIDIA GPU Operator life-cycle policy (upgrades within a major release or to the next one
only); Kubernetes version skew policy; EKS user guide, "Update existing cluster to new Kubernetes version".
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from gpu_platform.base.versions import version_numbers
from gpu_platform.catalog import Catalog, KubernetesPlatform, OperatorRelease
from gpu_platform.planning.kubernetes_versions import minor, minor_version
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.upgrades.items import current_kubernetes, newest_kubernetes
from gpu_platform.planning.upgrades.report import RunningVersions, Step
from gpu_platform.planning.upgrades.support import Status, driver_branch, driver_support, platform_of


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of an upgrade, in order.

    `blocked` lists versions that cannot be reached with the releases in the catalogue, each with the reason.
    """

    steps: tuple[Step, ...]
    blocked: tuple[str, ...] = ()


def upgrade_steps(
    plan: EnvironmentPlan,
    running: RunningVersions | None,
    today: datetime.date,
    catalog: Catalog,
    *,
    declared_driver: bool,
) -> Steps:
    """Return the steps to the newest supported versions. They start from the running versions or, if these were
    not read, from the planned versions.

    `declared_driver` indicates whether the stack file sets the driver version. If it does, a new operator release
    keeps this driver.
    """
    git_version = running.kubernetes if running is not None else None
    platform = platform_of(plan.cluster.provider, git_version, catalog)
    walk = _Walk(plan, platform, current_kubernetes(plan, running), today, catalog, declared_driver)
    walk.catch_up(running)
    walk.operator_and_kubernetes(newest_kubernetes(platform.name, today, catalog))
    walk.driver()
    return Steps(tuple(walk.steps), tuple(walk.blocked))


class _Walk:
    """Versions of the stack after the steps that were added so far."""

    def __init__(
        self,
        plan: EnvironmentPlan,
        platform: KubernetesPlatform,
        kubernetes: str | None,
        today: datetime.date,
        catalog: Catalog,
        declared_driver: bool,
    ) -> None:
        self._declared_driver = declared_driver
        self._plan, self._platform, self._today, self._catalog = plan, platform, today, catalog
        self._kubernetes = kubernetes
        self._release = catalog.operator_releases[plan.operator.release]
        self._installed = plan.operator.install != "none"
        owned = [pool for pool in plan.pools if self._installed and pool.software.driver == "operator"]
        self._driver = owned[0].driver_version if owned else None
        machines = [catalog.machine_types[pool.machine_type] for pool in owned]
        self._rdma = [one for one in map(catalog.rdma_drivers, machines) if one is not None]
        self._gpus = [catalog.gpus[pool.gpu_model] for pool in owned]
        self.steps: list[Step] = []
        self.blocked: list[str] = []

    def catch_up(self, running: RunningVersions | None) -> None:
        """Add the steps up to the version in the stack file, if the cluster's version is older."""
        if running is None or (current := minor_version(running.kubernetes)) is None:
            return
        planned = self._plan.cluster.kubernetes
        if planned is not None and minor(planned) > minor(current):
            for number in range(minor(current), minor(planned)):
                self._add_kubernetes(
                    f"1.{number}",
                    f"1.{number + 1}",
                    "the stack file contains this version, but the cluster runs an older one",
                )
            self._kubernetes = planned

    def operator_and_kubernetes(self, target: str | None) -> None:
        """Add operator releases and Kubernetes versions alternately, until neither has a next step."""
        while self._next_operator() or self._next_kubernetes(target):
            pass

    def _next_operator(self) -> bool:
        """Add the newest operator release that supports the current Kubernetes version, if it is newer than the
        current release.

        Only releases of the same or the next major release are considered. Return whether a release was added.
        """
        if not self._installed:
            return False
        majors = sorted({_major(release) for release in self._catalog.operator_releases.values()})
        here = majors.index(_major(self._release))
        for major in majors[here : here + 2][::-1]:
            found = [
                release
                for release in self._catalog.operator_releases.values()
                if _major(release) == major
                and release.date > self._release.date
                and _supports(release, self._kubernetes)
            ]
            if found:
                self._add_operator(max(found, key=lambda release: release.date))
                return True
        return False

    def _add_operator(self, release: OperatorRelease) -> None:
        edits = {"operator.release": release.version}
        why = "the operator is upgraded before a Kubernetes version that only newer releases support"
        if release.status != "supported":
            why = "operator releases are upgraded by one major release at a time"
        order = "Helm replaces the operator's pod, then its operands restart node by node"
        if self._driver is not None:
            kept = self._driver if self._declared_driver and self._driver in release.drivers else None
            driver = kept or self._driver_of(release)
            if driver is None:
                self.blocked.append(f"no driver of GPU Operator {release.version} supports the GPUs of all pools")
            elif driver != self._driver:
                if self._declared_driver or driver != release.default_driver:
                    edits["operator.driver.version"] = driver
                order += f"; the driver goes from {self._driver} to {driver}, which evicts GPU pods node by node"
                self._driver = driver
        old = self._release.version
        self._release = release
        self.steps.append(
            Step(subject="GPU Operator", old=old, new=release.version, edits=edits, why=why, order=order)
        )

    def _next_kubernetes(self, target: str | None) -> bool:
        current = self._kubernetes
        if current is None or target is None or minor(current) >= minor(target):
            return False
        following = f"1.{minor(current) + 1}"
        if self._installed and not _supports(self._release, following):
            text = f"Kubernetes {following}: no operator release in the catalogue supports it from {current}"
            self.blocked.append(text)
            return False
        why = f"GPU Operator {self._release.version} supports both versions"
        if not self._installed:
            why = "check the support matrix of the GPU Operator, which the owner of the cluster upgrades"
        self._add_kubernetes(current, following, why)
        self._kubernetes = following
        return True

    def _add_kubernetes(self, old: str, new: str, why: str) -> None:
        self.steps.append(
            Step(
                subject="Kubernetes",
                old=old,
                new=new,
                edits={"cluster.kubernetes": new},
                why=f"one minor version at a time; {why}",
                order=self._order(),
                replaces_nodes=self._platform.replaces_nodes,
            )
        )

    def _order(self) -> str:
        cloud = self._plan.cluster.cloud
        create = cloud.create if cloud is not None else None
        return (create.upgrade_order if create is not None else None) or self._platform.order

    def driver(self) -> None:
        """Add a driver from a supported branch if the support of the current branch has ended or ends soon."""
        if self._driver is None:
            return
        status = driver_support(self._driver, self._today, self._catalog).status
        if status not in (Status.ENDED, Status.ENDING):
            return
        target = self._driver_of(self._release)
        if target is None or target == self._driver:
            self.blocked.append(
                f"driver {self._driver}: GPU Operator {self._release.version} has no driver from a supported "
                "branch that supports all GPUs of the pools"
            )
            return
        edits = {"operator.driver.version": target}
        self.steps.append(
            Step(
                subject="driver",
                old=self._driver,
                new=target,
                edits=edits,
                why="after the operator, because its release determines which drivers it can install",
                order="node by node: cordon, evict GPU pods, replace the driver, validate, uncordon",
            )
        )

    def _driver_of(self, release: OperatorRelease) -> str | None:
        """Return a supported driver that an operator release can install and all GPUs can use, or None.

        A declared driver's branch comes first, then the release's default driver, then any driver of the release.
        """
        branch = driver_branch(self._driver or "")
        same = [one for one in release.drivers if self._declared_driver and driver_branch(one) == branch]
        return next((one for one in (*same, release.default_driver, *release.drivers) if self._fits(one)), None)

    def _fits(self, version: str) -> bool:
        branch = driver_branch(version)
        status = driver_support(version, self._today, self._catalog).status
        return (
            branch is not None
            and status not in (Status.ENDED, Status.ENDING)
            and all(gpu.minimum_driver_branch <= branch for gpu in self._gpus)
            and all(gpu.maximum_driver_branch is None or branch <= gpu.maximum_driver_branch for gpu in self._gpus)
            and all(branch < drivers.first_without for drivers in self._rdma)
        )


def _major(release: OperatorRelease) -> tuple[int, ...]:
    """Return the major release as numbers, such as (26, 7) for v26.7.0."""
    return version_numbers(release.version)[:2]


def _supports(release: OperatorRelease, kubernetes: str | None) -> bool:
    lowest, highest = release.kubernetes
    return kubernetes is None or minor(lowest) <= minor(kubernetes) <= minor(highest)
