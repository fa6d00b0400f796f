"""The fields and values of Karpenter's v1 objects that the program writes. Tests use them to check objects without
the CRDs.

Source: CRDs of karpenter-provider-aws v1.14.1. A field that is not listed here is either misspelt or new.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

Shape = Any
"""The allowed form of a value: a type, a pattern, a set of values, a list with the shape of its items, or a
mapping of keys to shapes. The key `*` matches any key.
"""

_DURATION = re.compile(r"([0-9]+(s|m|h))+")
_DURATION_OR_NEVER = re.compile(r"([0-9]+(s|m|h))+|Never")
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?([KMGT]i|m|k|M|G|T)?")
_TAINT = {"key": str, "value": str, "effect": {"NoSchedule", "PreferNoSchedule", "NoExecute"}}

EC2_NODE_CLASS: Shape = {
    "amiFamily": {"AL2023", "Bottlerocket"},
    "amiSelectorTerms": [
        {"alias": re.compile(r"(al2023|bottlerocket)@v[0-9.]+"), "id": re.compile(r"ami-[0-9a-z]+")}
    ],
    "associatePublicIPAddress": bool,
    "blockDeviceMappings": [
        {
            "deviceName": str,
            "ebs": {
                "volumeSize": re.compile(r"[1-9][0-9]{0,4}Gi"),
                "volumeType": {"gp3", "io2"},
                "iops": int,
                "throughput": int,
                "encrypted": bool,
                "kmsKeyID": str,
                "deleteOnTermination": bool,
            },
        }
    ],
    "capacityReservationSelectorTerms": [{"id": re.compile(r"cr-[0-9a-z]+")}],
    "instanceStorePolicy": {"RAID0"},
    "metadataOptions": {
        "httpEndpoint": {"enabled", "disabled"},
        "httpProtocolIPv6": {"enabled", "disabled"},
        "httpPutResponseHopLimit": int,
        "httpTokens": {"required", "optional"},
    },
    "networkInterfaces": [
        {"networkCardIndex": int, "deviceIndex": int, "interfaceType": {"interface", "efa-only"}}
    ],
    "placementGroupSelector": {"name": str},
    "role": str,
    "securityGroupSelectorTerms": [{"id": str}],
    "subnetSelectorTerms": [{"id": str}],
    "tags": {"*": str},
    "userData": str,
}
NODE_POOL: Shape = {
    "template": {
        "metadata": {"labels": {"*": re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")}},
        "spec": {
            "nodeClassRef": {"group": {"karpenter.k8s.aws"}, "kind": {"EC2NodeClass"}, "name": str},
            "taints": [_TAINT],
            "requirements": [{"key": str, "operator": {"In"}, "values": [str]}],
            "expireAfter": _DURATION_OR_NEVER,
            "terminationGracePeriod": _DURATION,
        },
    },
    "disruption": {
        "consolidationPolicy": {"WhenEmpty", "WhenEmptyOrUnderutilized"},
        "consolidateAfter": _DURATION_OR_NEVER,
        "budgets": [
            {
                "nodes": re.compile(r"((100|[0-9]{1,2})%|[0-9]+)"),
                "reasons": [{"Empty", "Drifted", "Underutilized"}],
            }
        ],
    },
    "limits": {"*": _QUANTITY},
    "weight": int,
}
ALWAYS = {
    "EC2NodeClass": {"amiSelectorTerms", "role", "securityGroupSelectorTerms", "subnetSelectorTerms"},
    "NodePool": {"template", "disruption", "limits"},
}


def misfits(value: Any, shape: Shape, path: str = "spec") -> Iterator[str]:
    """Yield each place where the value violates its shape."""
    if isinstance(shape, Mapping):
        if not isinstance(value, Mapping):
            yield f"{path}: {value!r} is not an object"
            return
        for key, inner in value.items():
            if key in shape or "*" in shape:
                yield from misfits(inner, shape.get(key, shape.get("*")), f"{path}.{key}")
            else:
                yield f"{path}.{key}: no such field"
    elif isinstance(shape, list):
        if not isinstance(value, list) or not value:
            yield f"{path}: {value!r} is not a non-empty list"
            return
        for index, inner in enumerate(value):
            yield from misfits(inner, shape[0], f"{path}[{index}]")
    elif isinstance(shape, set):
        if value not in shape:
            yield f"{path}: {value!r} is not one of {sorted(shape)}"
    elif isinstance(shape, re.Pattern):
        if not isinstance(value, str) or not shape.fullmatch(value):
            yield f"{path}: {value!r} does not match {shape.pattern}"
    elif type(value) is not shape:
        yield f"{path}: {value!r} is not of type {shape.__name__}"
