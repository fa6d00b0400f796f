"""Parts of launch templates that pools and system nodes share: volumes, instance metadata, tags, reservations."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi_aws as aws

from gpu_platform.planning.clouds.eks.launch_plan import BlockDevice

# Everything that EC2 creates for an instance and bills or lists by itself.
_TAGGED = ("instance", "volume", "network-interface")
# Data on volumes is encrypted at rest; without a key of the stack by the account's default key.
_ENCRYPTED = "true"
# IMDSv2 alone: IMDSv1 gives the node's credentials to any request that a pod can be made to forward.
_METADATA_TOKENS = "required"


def block_device(device: BlockDevice) -> aws.ec2.LaunchTemplateBlockDeviceMappingArgs:
    """Return an encrypted volume that is deleted with its node."""
    return aws.ec2.LaunchTemplateBlockDeviceMappingArgs(
        device_name=device.device_name,
        ebs=aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
            volume_size=device.size_gib,
            volume_type=device.volume_type,
            iops=device.iops,
            throughput=device.throughput_mibps,
            encrypted=_ENCRYPTED,
            kms_key_id=device.kms_key,
            snapshot_id=device.snapshot,
            delete_on_termination="true",
        ),
    )


def metadata_options(hop_limit: int) -> aws.ec2.LaunchTemplateMetadataOptionsArgs:
    """Return the options of instance metadata: IMDSv2 alone, with this hop limit."""
    return aws.ec2.LaunchTemplateMetadataOptionsArgs(
        http_endpoint="enabled", http_tokens=_METADATA_TOKENS, http_put_response_hop_limit=hop_limit
    )


def tag_specifications(tags: Mapping[str, str]) -> list[aws.ec2.LaunchTemplateTagSpecificationArgs]:
    """Return the tags of what EC2 creates from a template: default tags of the AWS provider do not reach it."""
    return [aws.ec2.LaunchTemplateTagSpecificationArgs(resource_type=kind, tags=tags) for kind in _TAGGED]


def no_reservation() -> aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs:
    """Return what keeps instances on demand out of open reservations."""
    return aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs(capacity_reservation_preference="none")
