"""A placement group that the plan of a pool has the program make."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

from gpu_platform.planning.clouds.eks.plan import PlacementGroup


def create_placement_group(
    group: PlacementGroup | None, tags: Mapping[str, str], opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Register the group; nothing where there is none, or where it is there already."""
    if group is None or not group.create:
        return []
    return [aws.ec2.PlacementGroup(group.name, name=group.name, strategy="cluster", tags=tags, opts=opts)]
