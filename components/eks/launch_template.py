"""Launch template settings that GPU and system nodes share, such as volumes, metadata options and tags."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi_aws as aws

from gpu_platform.planning.clouds.eks.launch_plan import BlockDevice

# EC2 creates volumes and network interfaces together with an instance, but bills or lists them separately.
_TAGGED = ("instance", "volume", "network-interface")
# Encrypt volumes at rest, with the account's default key unless the stack file names a key.
_ENCRYPTED = "true"
# Require IMDSv2, because with IMDSv1 a pod that forwards requests could disclose the node's credentials.
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
    """Return the instance metadata options: IMDSv2 only, with the given hop limit."""
    return aws.ec2.LaunchTemplateMetadataOptionsArgs(
        http_endpoint="enabled", http_tokens=_METADATA_TOKENS, http_put_response_hop_limit=hop_limit
    )


def tag_specifications(tags: Mapping[str, str]) -> list[aws.ec2.LaunchTemplateTagSpecificationArgs]:
    """Return tags for the resources that EC2 creates from a template. The AWS provider's default tags do not apply
    to these resources.
    """
    return [aws.ec2.LaunchTemplateTagSpecificationArgs(resource_type=kind, tags=tags) for kind in _TAGGED]


def no_reservation() -> aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs:
    """Return the specification that prevents on-demand instances from using open capacity reservations."""
    return aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs(capacity_reservation_preference="none")
