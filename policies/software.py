"""Rules about versions of Kubernetes, the GPU Operator, the driver and the GPU that do not work together.

Source: the catalogue's operator releases and GPUs, each with NVIDIA's page and its date.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_platform.base import names
from gpu_platform.catalog import OperatorRelease
from policies._gpu_operator import GpuOperator, operator
from policies._inputs import Value
from policies._pools import pools
from policies._rule import Breach, Rule, Settings, Severity
from policies._stack import ObjectSubject, Stack


class _Operator(ObjectSubject):  # pyrefly: ignore[bad-class-definition] - not a dataclass
    """The GPU Operator of the stack."""

    __slots__ = ()


def _operators(stack: Stack) -> tuple[_Operator, ...]:
    found = stack.view(operator)
    return () if found is None else (_Operator(found.resource),)


def _incompatible(stack: Stack, _: _Operator, __: Settings) -> Iterator[Breach]:
    found = stack.view(operator)
    if found is None:
        return
    version = _version_of(found)
    release = stack.catalog.operator_releases.get(version.text() or "")
    if release is None:
        if version.present:
            raise version.not_visible(f"GPU Operator {version.text()} is not in the catalogue")
        raise version.not_visible("the version of the GPU Operator is not visible")
    yield from _kubernetes(stack, release)
    yield from _driver(stack, found, release)


def _version_of(found: GpuOperator) -> Value:
    inputs = found.resource.inputs
    version = inputs.get("version")
    return version if version.present else inputs.get("metadata", "labels", names.VERSION_LABEL)


def _kubernetes(stack: Stack, release: OperatorRelease) -> Iterator[Breach]:
    low, high = (_minor(one) for one in release.kubernetes)
    for resource in stack.resources:
        known = stack.catalog.cloud_resources.get(resource.type)
        if known is None or known.kubernetes is None:
            continue
        version = resource.inputs.get(known.kubernetes)
        minor = _minor(version.text() or "")
        if minor is not None and low is not None and high is not None and not low <= minor <= high:
            yield Breach(
                at=version,
                found=f"Kubernetes {version.text()} with GPU Operator {release.version}",
                allowed=f"Kubernetes {release.kubernetes[0]} to {release.kubernetes[1]}",
                fix="use another release of the operator, or another version of the cluster",
            )


def _driver(stack: Stack, found: GpuOperator, release: OperatorRelease) -> Iterator[Breach]:
    driver = found.values.get("driver")
    enabled, version = driver.get("enabled"), driver.get("version")
    if enabled.present and not enabled.truth():
        return  # the driver is part of the node image
    if version.present and version.text() not in release.drivers:
        yield Breach(
            at=version,
            found=f"driver {version.text()} with GPU Operator {release.version}",
            allowed="one of " + ", ".join(release.drivers),
            fix=f"write {release.default_driver}, the default, or remove the version",
        )
    branch = _branch(version.text() or release.default_driver)
    if branch is None:
        return
    for pool in stack.view(pools):
        for gpu in pool.gpus if pool.has_gpus else ():
            last = gpu.maximum_driver_branch
            if branch < gpu.minimum_driver_branch or (last is not None and branch > last):
                yield Breach(
                    at=version,
                    found=f"driver branch {branch} for {gpu.product}, pool {pool.name!r}",
                    allowed=f"branch {gpu.minimum_driver_branch} or newer" + (f", up to {last}" if last else ""),
                    fix="use another driver version, or another machine type",
                )


def _minor(version: str) -> int | None:
    parts = version.split(".")
    return int(parts[1]) if len(parts) > 1 and parts[1].isdecimal() else None


def _branch(version: str) -> int | None:
    head = version.partition(".")[0]
    return int(head) if head.isdecimal() and len(head) < 6 else None


driver_compatible = Rule(
    id="driver-compatible",
    severity=Severity.CRITICAL,
    description="Kubernetes, GPU Operator, driver and GPU versions are compatible. Otherwise nodes never become "
    "ready.",
    subjects=lambda stack: stack.view(_operators),
    check=_incompatible,
    settings=Settings,
)

RULES = (driver_compatible,)
