"""The EC2 placement group of a pool."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

from gpu_platform.planning.clouds.eks.plan import PlacementGroup

# Place instances close together in one zone, so that the nodes of a training job have the lowest latency.
_STRATEGY = "cluster"


def create_placement_group(
    group: PlacementGroup | None, tags: Mapping[str, str], opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Create the group, unless the plan has no group or names an existing one."""
    if group is None or not group.create:
        return []
    return [aws.ec2.PlacementGroup(group.name, name=group.name, strategy=_STRATEGY, tags=tags, opts=opts)]
