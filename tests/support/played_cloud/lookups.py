"""Functions of the provider that the program calls: what they find in the played account."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.played_cloud.account import ACCOUNT, REGION, Account, Refused


def look_up(account: Account, token: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a function; raises Refused for what is not found."""
    match token:
        case "aws:index/getCallerIdentity:getCallerIdentity":
            return {"accountId": ACCOUNT, "arn": f"arn:aws:iam::{ACCOUNT}:role/deployer", "id": ACCOUNT}
        case "aws:index/getRegion:getRegion":
            return {"name": REGION, "region": REGION, "id": REGION}
        case "aws:index/getPartition:getPartition":
            return {"partition": "aws", "dnsSuffix": "amazonaws.com", "id": "aws"}
        case _:
            raise Refused(f"the played cloud has no function {token} {sorted(arguments)}: add it to lookups.py")
