"""Provider functions that the program calls, answered from the simulated account."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.support.played_cloud.account import ACCOUNT, REGION, Account, Refused

CLUSTER: Final = "aws:eks/cluster:Cluster"


def look_up(account: Account, token: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a provider function. Raises Refused if the account has no such resource."""
    match token:
        case "aws:index/getCallerIdentity:getCallerIdentity":
            return {"accountId": ACCOUNT, "arn": f"arn:aws:iam::{ACCOUNT}:role/deployer", "id": ACCOUNT}
        case "aws:index/getRegion:getRegion":
            return {"name": REGION, "region": REGION, "id": REGION}
        case "aws:index/getPartition:getPartition":
            return {"partition": "aws", "dnsSuffix": "amazonaws.com", "id": "aws"}
        case "aws:eks/getCluster:getCluster":
            return _cluster(account, arguments["name"])
        case "aws:eks/getAddon:getAddon":
            return _addon(account, arguments["clusterName"], arguments["addonName"])
        case _:
            raise Refused(f"the simulated cloud has no function {token} {sorted(arguments)}: add it to lookups.py")


def describe_cluster(account: Account, name: str) -> dict[str, Any] | None:
    """Return the response to a DescribeCluster request, or None if there is no such cluster. The response is for
    programs that call the EKS API without a Pulumi provider.
    """
    found = account.get(CLUSTER, name)
    if found is None:
        return None
    inputs, outputs = found["inputs"], found["outputs"]
    known = {name: outputs[name] for name in ("endpoint", "certificateAuthority")}
    access = {"accessConfig": inputs["accessConfig"], "resourcesVpcConfig": outputs["vpcConfig"]}
    return {"cluster": {"name": name, "status": "ACTIVE", "version": inputs["version"], **known, **access}}


def _cluster(account: Account, name: str) -> dict[str, Any]:
    """Return a cluster in the format of the provider's data source, which has lists where the resource has single
    blocks.
    """
    found = account.get(CLUSTER, name)
    if found is None:
        raise Refused(f"ResourceNotFoundException: No cluster found for name: {name}")
    inputs, outputs = found["inputs"], found["outputs"]
    return {
        "id": name,
        "name": name,
        "version": inputs["version"],
        "endpoint": outputs["endpoint"],
        "certificateAuthorities": [outputs["certificateAuthority"]],
        "accessConfigs": [inputs["accessConfig"]],
        "kubernetesNetworkConfigs": [outputs["kubernetesNetworkConfig"]],
        "vpcConfig": outputs["vpcConfig"],
    }


def _addon(account: Account, cluster: str, name: str) -> dict[str, Any]:
    found = account.get("aws:eks/addon:Addon", f"{cluster}:{name}")
    if found is None:
        raise Refused(f"ResourceNotFoundException: No addon: {name} found in cluster: {cluster}")
    return {"id": f"{cluster}:{name}", **found["inputs"]}
