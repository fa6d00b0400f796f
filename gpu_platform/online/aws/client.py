"""Read-only client for AWS. It returns typed responses, and the comparisons interpret them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpu_platform.online.aws.answers import (
    CapacityReservation,
    Cluster,
    Identity,
    Instance,
    InstanceType,
    Subnet,
    Zone,
)
from gpu_platform.online.aws.api import AwsApi, Missing
from gpu_platform.planning.clouds.eks.existing_cluster import AddonFacts

CALLS: Final[Sequence[tuple[str, str]]] = (
    ("ec2", "DescribeAddresses"),
    ("ec2", "DescribeAvailabilityZones"),
    ("ec2", "DescribeCapacityReservations"),
    ("ec2", "DescribeInstances"),
    ("ec2", "DescribeInstanceTypeOfferings"),
    ("ec2", "DescribeInstanceTypes"),
    ("ec2", "DescribeSecurityGroupRules"),
    ("ec2", "DescribeSubnets"),
    ("ec2", "DescribeVpcs"),
    ("eks", "DescribeAddon"),
    ("eks", "DescribeCluster"),
    ("efs", "DescribeFileSystems"),
    ("fsx", "DescribeFileSystems"),
    ("iam", "GetRole"),
    ("kms", "DescribeKey"),
    ("logs", "DescribeLogGroups"),
    ("s3", "GetBucketLocation"),
    ("service-quotas", "GetAWSDefaultServiceQuota"),
    ("service-quotas", "GetServiceQuota"),
    ("sts", "GetCallerIdentity"),
)
"""Every operation that the client calls, with the service's name in boto3."""

# S3 still uses old names for the locations of two regions.
_OLD_LOCATIONS: Final[Mapping[str | None, str]] = {None: "us-east-1", "EU": "eu-west-1"}


class AwsClient:
    """Client for one region. Methods raise NotLookedAt if AWS does not answer, and Missing if an object does not
    exist.
    """

    def __init__(self, region: str, api: AwsApi | None = None) -> None:
        self._api = api or AwsApi(region)

    def identity(self) -> Identity:
        """Return the account and ARN of the credentials in use."""
        answer = self._api.call("sts", "GetCallerIdentity")
        return Identity(account=answer["Account"], arn=answer["Arn"])

    def quota(self, service: str, code: str) -> float:
        """Return the applied value of a quota, or its default if no value is applied."""
        parameters = {"ServiceCode": service, "QuotaCode": code}
        try:
            answer = self._api.call("service-quotas", "GetServiceQuota", **parameters)
        except Missing:
            answer = self._api.call("service-quotas", "GetAWSDefaultServiceQuota", **parameters)
        return float(answer["Quota"]["Value"])

    def instances(self, type_patterns: Sequence[str]) -> Sequence[Instance]:
        """Return the pending and running instances whose type matches a pattern such as `p5*`."""
        filters = [
            {"Name": "instance-state-name", "Values": ["pending", "running"]},
            {"Name": "instance-type", "Values": list(type_patterns)},
        ]
        reservations = self._api.pages("ec2", "DescribeInstances", "Reservations", Filters=filters)
        return [
            Instance(
                instance_type=one["InstanceType"],
                lifecycle=one.get("InstanceLifecycle", ""),
                vcpus=_vcpus(one.get("CpuOptions") or {}),
                tags=_tags(one.get("Tags")),
            )
            for reservation in reservations
            for one in reservation["Instances"]
        ]

    def instance_types(self, names: Sequence[str]) -> Mapping[str, InstanceType]:
        """Return facts about instance types by name. Raises Missing if the region lacks any of them."""
        answer = self._api.call("ec2", "DescribeInstanceTypes", InstanceTypes=sorted(set(names)))
        return {
            one["InstanceType"]: InstanceType(
                name=one["InstanceType"],
                vcpus=one["VCpuInfo"]["DefaultVCpus"],
                addresses=one["NetworkInfo"]["Ipv4AddressesPerInterface"],
            )
            for one in answer["InstanceTypes"]
        }

    def zones(self) -> Mapping[str, Zone]:
        """Return the zones of the region by name."""
        answer = self._api.call("ec2", "DescribeAvailabilityZones")
        return {
            one["ZoneName"]: Zone(name=one["ZoneName"], zone_id=one["ZoneId"], state=one["State"])
            for one in answer["AvailabilityZones"]
        }

    def zones_offering(self, instance_type: str) -> frozenset[str]:
        """Return the names of the zones that offer an instance type."""
        filters = [{"Name": "instance-type", "Values": [instance_type]}]
        offers = self._api.pages(
            "ec2",
            "DescribeInstanceTypeOfferings",
            "InstanceTypeOfferings",
            LocationType="availability-zone",
            Filters=filters,
        )
        return frozenset(offer["Location"] for offer in offers)

    def capacity_reservation(self, reservation_id: str) -> CapacityReservation:
        """Return a capacity reservation or capacity block. Raises Missing if it does not exist."""
        answer = self._api.call("ec2", "DescribeCapacityReservations", CapacityReservationIds=[reservation_id])
        found = answer["CapacityReservations"]
        if not found:
            raise Missing
        return _reservation(found[0])

    def active_reservations(self) -> Sequence[CapacityReservation]:
        """Return all active capacity reservations of the account."""
        filters = [{"Name": "state", "Values": ["active"]}]
        found = self._api.pages("ec2", "DescribeCapacityReservations", "CapacityReservations", Filters=filters)
        return [_reservation(one) for one in found]

    def subnets(self, *, ids: Sequence[str] = (), vpc: str = "") -> Sequence[Subnet]:
        """Return subnets by id, or all subnets of a VPC. Raises Missing for an unknown id."""
        if ids:
            found = self._api.call("ec2", "DescribeSubnets", SubnetIds=list(ids))["Subnets"]
        else:
            filters = [{"Name": "vpc-id", "Values": [vpc]}]
            found = list(self._api.pages("ec2", "DescribeSubnets", "Subnets", Filters=filters))
        return [
            Subnet(
                subnet_id=one["SubnetId"],
                zone=one["AvailabilityZone"],
                vpc=one["VpcId"],
                free=one["AvailableIpAddressCount"],
                tags=_tags(one.get("Tags")),
            )
            for one in found
        ]

    def count_vpcs(self) -> int:
        """Return the number of VPCs in the region."""
        return len(list(self._api.pages("ec2", "DescribeVpcs", "Vpcs")))

    def count_addresses(self) -> int:
        """Return the number of Elastic IP addresses in the region."""
        return len(self._api.call("ec2", "DescribeAddresses")["Addresses"])

    def cluster(self, name: str) -> Cluster:
        """Return an EKS cluster. Raises Missing if it does not exist."""
        found = self._api.call("eks", "DescribeCluster", name=name)["cluster"]
        vpc: Mapping[str, Any] = found.get("resourcesVpcConfig") or {}
        return Cluster(
            name=found["name"],
            status=found.get("status", ""),
            version=found["version"],
            authentication_mode=_text(found, "accessConfig", "authenticationMode"),
            vpc=_text(found, "resourcesVpcConfig", "vpcId"),
            endpoint=found.get("endpoint", ""),
            certificate_authority=_text(found, "certificateAuthority", "data"),
            tags=found.get("tags") or {},
            security_group=_text(found, "resourcesVpcConfig", "clusterSecurityGroupId"),
            public_networks=tuple(vpc.get("publicAccessCidrs") or ()) if vpc.get("endpointPublicAccess") else (),
            auto_mode=bool((found.get("computeConfig") or {}).get("enabled")),
            ip_family=_text(found, "kubernetesNetworkConfig", "ipFamily") or "ipv4",
        )

    def networks_admitted(self, security_group: str, port: int) -> tuple[str, ...]:
        """Return the IPv4 CIDR blocks that a security group admits on a TCP port."""
        filters = [{"Name": "group-id", "Values": [security_group]}]
        rules = self._api.pages("ec2", "DescribeSecurityGroupRules", "SecurityGroupRules", Filters=filters)
        return tuple(
            rule["CidrIpv4"]
            for rule in rules
            if not rule["IsEgress"] and "CidrIpv4" in rule and _admits(rule, port)
        )

    def addon(self, cluster: str, addon: str) -> AddonFacts:
        """Return the version and configuration of an add-on. Raises Missing if it is not installed."""
        found = self._api.call("eks", "DescribeAddon", clusterName=cluster, addonName=addon)["addon"]
        return AddonFacts(version=found["addonVersion"], configuration=found.get("configurationValues") or "")

    def log_group_exists(self, name: str) -> bool:
        """Return whether a log group exists in CloudWatch Logs."""
        groups = self._api.call("logs", "DescribeLogGroups", logGroupNamePrefix=name)["logGroups"]
        return any(group["logGroupName"] == name for group in groups)

    def role_exists(self, name: str) -> bool:
        """Return whether a role exists in IAM."""
        try:
            self._api.call("iam", "GetRole", RoleName=name)
        except Missing:
            return False
        return True

    def key_state(self, key: str) -> str:
        """Return the state of a KMS key (id, ARN or alias), such as Enabled. Raises Missing if the key does not
        exist.
        """
        return self._api.call("kms", "DescribeKey", KeyId=key)["KeyMetadata"]["KeyState"]

    def bucket_region(self, name: str) -> str:
        """Return the region of a bucket. Raises Missing if it does not exist."""
        found = self._api.call("s3", "GetBucketLocation", Bucket=name).get("LocationConstraint")
        return _OLD_LOCATIONS.get(found, found)

    def efs_file_system(self, file_system: str) -> str:
        """Return an empty mount name, because EFS file systems have no mount name. Raises Missing if the file
        system does not exist.
        """
        self._api.call("efs", "DescribeFileSystems", FileSystemId=file_system)
        return ""

    def fsx_mount_name(self, file_system: str) -> str:
        """Return the mount name of an FSx for Lustre file system, or an empty string for any other type.

        Raises Missing if the file system does not exist.
        """
        [found] = self._api.call("fsx", "DescribeFileSystems", FileSystemIds=[file_system])["FileSystems"]
        return str(found.get("LustreConfiguration", {}).get("MountName", ""))


def _reservation(one: Mapping[str, Any]) -> CapacityReservation:
    return CapacityReservation(
        reservation_id=one["CapacityReservationId"],
        instance_type=one["InstanceType"],
        zone=one.get("AvailabilityZone", ""),
        state=one["State"],
        kind=one.get("ReservationType", "default"),
        total=one.get("TotalInstanceCount", 0),
        available=one.get("AvailableInstanceCount", 0),
        starts=one.get("StartDate"),
        ends=one.get("EndDate"),
        placement_group=str(one.get("PlacementGroupArn", "")).rpartition("/")[2],
    )


def _admits(rule: Mapping[str, Any], port: int) -> bool:
    if rule["IpProtocol"] == "-1":
        return True
    return rule["IpProtocol"] == "tcp" and rule["FromPort"] <= port <= rule["ToPort"]


def _text(found: Mapping[str, Any], section: str, key: str) -> str:
    inner: Mapping[str, Any] = found.get(section) or {}
    return str(inner.get(key) or "")


def _vcpus(options: Mapping[str, int]) -> int:
    return options.get("CoreCount", 0) * options.get("ThreadsPerCore", 0)


def _tags(tags: Sequence[Mapping[str, str]] | None) -> Mapping[str, str]:
    return {tag["Key"]: tag["Value"] for tag in tags or ()}
