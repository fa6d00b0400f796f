"""EC2 in the simulated account: launch templates, and instances as nodes of a sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.support.played_cloud.account import Account, Refused

Properties = Mapping[str, Any]
TEMPLATE: Final = "aws:ec2/launchTemplate:LaunchTemplate"

# Properties that can change without a new version of the launch template.
# `updateKeys` in ec2_launch_template.go of terraform-provider-aws omits these properties (read 2026-11-23).
_NO_NEW_VERSION: Final = {"tags", "name", "namePrefix", "defaultVersion", "updateDefaultVersion"}


class LaunchTemplates:
    """Simulated launch templates with numbered versions. `versions` contains the data of each version."""

    def unknown(self, inputs: Properties) -> dict[str, Any]:
        return {}

    def create(self, account: Account, own_id: str, inputs: Properties, outputs: dict[str, Any]) -> None:
        _refuse_wrong_shape(inputs)
        account.resources[_versions(own_id)] = {"inputs": {}, "outputs": {"1": dict(inputs)}}

    def update(
        self, account: Account, own_id: str, old: Properties, new: Properties, outputs: dict[str, Any]
    ) -> None:
        _refuse_wrong_shape(new)
        changed = {name for name in {*old, *new} if old.get(name) != new.get(name)}
        for name in changed - set(new):
            outputs.pop(name, None)
        if changed - _NO_NEW_VERSION:
            latest = outputs["latestVersion"] + 1
            outputs["latestVersion"] = latest
            account.resources[_versions(own_id)]["outputs"][str(latest)] = dict(new)
        if new.get("updateDefaultVersion"):
            outputs["defaultVersion"] = outputs["latestVersion"]

    def delete(self, account: Account, own_id: str, resource: Properties) -> None:
        del account.resources[_versions(own_id)]


def template_data(account: Account, specification: Properties) -> dict[str, Any]:
    """Return the data of a node group's launch template version. Raises Refused if the version does not exist."""
    found = account.resources.get(_versions(specification["id"]))
    if found is None or specification["version"] not in found["outputs"]:
        raise Refused(f"InvalidParameterException: no version {specification} of the launch template")
    return found["outputs"][specification["version"]]


def _versions(own_id: str) -> str:
    return f"versions {own_id}"


def _refuse_wrong_shape(inputs: Properties) -> None:
    """Raise Refused for invalid data, as EC2 does.

    Sources: user guide, launch template restrictions; API errors of CreateLaunchTemplate.
    """
    if inputs.get("networkInterfaces") and inputs.get("vpcSecurityGroupIds"):
        raise Refused(
            "InvalidParameterCombination: Network interfaces and an instance-level security groups may not be "
            "specified on the same request"
        )
    cards: list[tuple[int, int]] = [
        (one.get("networkCardIndex", 0), one.get("deviceIndex", 0)) for one in inputs.get("networkInterfaces", ())
    ]
    if len(set(cards)) != len(cards):
        raise Refused("InvalidParameterValue: duplicate network card and device index")
    if inputs.get("userData") and len(inputs["userData"]) * 3 / 4 > 16 * 1024:
        raise Refused("InvalidUserData.Malformed: User data is limited to 16384 bytes")
