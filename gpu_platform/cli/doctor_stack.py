"""`gpu-platform doctor STACK`: check the prerequisites for running `up` on a stack.

The check uses no network and no credentials, so some prerequisites (quotas, permissions) are only listed for a
manual check.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from gpu_platform.catalog import load_catalog
from gpu_platform.cli.tool import Tool
from gpu_platform.deploy.pulumi.pulumi_cli import Unusable, find_cli
from gpu_platform.deploy.recorded.objects import only_pulumi_can_deploy
from gpu_platform.deploy.recorded.record import PROVIDER_PREFIX, ResourceRecord
from gpu_platform.online import credential_sources
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.clouds.section import CloudPrerequisites, CloudQuota
from gpu_platform.planning.prerequisites import account_needs, all_quotas, examples_left, prerequisites
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import load_stack

_INSTALL_CLI = "install the CLI from pulumi.com, or let `up` install it"


def needs_of(stack: str) -> list[Tool]:
    """Return the prerequisites for `up` of a stack. Raises BadInput for an invalid stack."""
    loaded = load_stack(stack)
    plan = loaded.plan
    resources = record_stack(loaded).resources
    found = [_pulumi(resources), *_plugins(resources)]
    if plan.kind == "environment":
        needed = prerequisites(plan, {record.type for record in resources if record.custom})
        found += _cloud(plan, needed) if needed is not None else ()
    return found


def _pulumi(resources: Iterable[ResourceRecord]) -> Tool:
    try:
        cli = find_cli(install=False)
    except Unusable as reason:
        needed = bool(only_pulumi_can_deploy(resources))
        why = "deploying this stack" if needed else "optional, the embedded engine can deploy this stack"
        return Tool("Pulumi CLI and backend", "", why, needed, f"{reason}; {_INSTALL_CLI}")
    return Tool("Pulumi CLI and backend", cli.why, "deploying this stack", True, _INSTALL_CLI)


def _plugins(resources: Iterable[ResourceRecord]) -> Iterator[Tool]:
    folder = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi") / "plugins"
    wanted = {
        (_package(record), record.package_version)
        for record in resources
        if record.custom and record.package_version and not record.type.startswith("pulumi:pulumi:")
    }
    for package, version in sorted(wanted):
        here = folder / f"resource-{package}-v{version}"
        yield Tool(
            f"provider plugin {package} {version}",
            str(here) if here.is_dir() else "",
            f"resources of {package}",
            False,
            "none needed: the CLI downloads it; without network access copy it from a machine where you ran "
            f"pulumi plugin install resource {package} {version}",
        )


def _package(record: ResourceRecord) -> str:
    return record.type.removeprefix(PROVIDER_PREFIX).partition(":")[0]


def _cloud(plan: EnvironmentPlan, needed: CloudPrerequisites) -> Iterator[Tool]:
    why = "credentials in the cluster's kubeconfig"
    yield Tool(needed.command, shutil.which(needed.command) or "", why, True, needed.install)
    yield _credentials(plan, needed)
    for example in examples_left(plan):
        yield Tool(example.field, "", f"replacing the example value {example.value}", True, example.fix)
    for quota in all_quotas(plan, needed, load_catalog()):
        yield _quota(quota, needed)
    for need in account_needs(plan):
        yield Tool(need.name, "", need.why, False, need.fix, known=False)
    why = f"creating, changing and deleting: {needed.permissions}"
    yield Tool("permissions", "", why, False, needed.permissions_fix, known=False)
    if needed.apis is not None:
        name = f"{needed.cloud.partition(' ')[0]} APIs"
        yield Tool(name, "", "a new project has few APIs enabled", False, needed.apis, known=False)


def _credentials(plan: EnvironmentPlan, needed: CloudPrerequisites) -> Tool:
    return Tool(
        f"{needed.cloud} credentials",
        "; ".join(credential_sources(plan)),
        f"creating the stack's resources in {needed.owner}; not checked for validity",
        False,
        f"{needed.login}; the role of an instance is not detected, because that needs the network",
    )


def _quota(quota: CloudQuota, needed: CloudPrerequisites) -> Tool:
    name = quota.name or "(unknown name)"
    return Tool(
        f"quota {name}",
        "",
        f"{quota.amount} {quota.unit} in {quota.region} for the maximum size of {quota.what}",
        False,
        f"check that the quota is large enough: {needed.quota_console}",
        known=False,
    )
