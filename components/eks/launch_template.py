"""What the launch templates of GPU pools and of system nodes have in common."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi_aws as aws

from gpu_platform.planning.clouds.eks.plan import BlockDevice

_TAGGED = ("instance", "volume", "network-interface")


def block_device(device: BlockDevice) -> aws.ec2.LaunchTemplateBlockDeviceMappingArgs:
    """Return an encrypted volume that goes with its node."""
    return aws.ec2.LaunchTemplateBlockDeviceMappingArgs(
        device_name=device.device_name,
        ebs=aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
            volume_size=device.size_gib,
            volume_type=device.volume_type,
            iops=device.iops,
            throughput=device.throughput_mibps,
            encrypted="true",
            kms_key_id=device.kms_key,
            delete_on_termination="true",
        ),
    )


def metadata_options(hop_limit: int) -> aws.ec2.LaunchTemplateMetadataOptionsArgs:
    """Return IMDSv2 alone, within so many hops."""
    return aws.ec2.LaunchTemplateMetadataOptionsArgs(
        http_endpoint="enabled", http_tokens="required", http_put_response_hop_limit=hop_limit
    )


def tag_specifications(tags: Mapping[str, str]) -> list[aws.ec2.LaunchTemplateTagSpecificationArgs]:
    """Return the tags of all that EC2 makes by a template: those of the AWS provider do not reach it."""
    return [aws.ec2.LaunchTemplateTagSpecificationArgs(resource_type=kind, tags=tags) for kind in _TAGGED]
