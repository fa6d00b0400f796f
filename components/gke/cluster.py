"""`GkeCluster`: a new or existing GKE cluster, with the resources that all its GPU pools share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as k8s

from components._kubernetes_provider import kubernetes_provider
from components._options import child_options, custom_timeouts, retained
from components.gke._nodes import METADATA_MODE
from components.gke.installers import GkeInstallers
from components.gke.networks import (
    GkeGpuNetworks,
    GkeGpuNetworksArgs,
    GkePodNetworks,
    GkePodNetworksArgs,
    JoinedNetworks,
)
from components.gke.outputs import GkeOutputs
from components.gke.system_pool import FIRST_DISK_TYPE, FIRST_POOL_NODES, create_system_pool, node_settings
from components.gke.vpc import PODS_RANGE, SERVICES_RANGE, GkeVpc, GkeVpcArgs
from gpu_platform.base.errors import BadInput
from gpu_platform.planning.clouds.gke.existing_cluster import (
    ExistingGke,
    doubtful_networks,
    existing_kubeconfig,
    missing_logins,
    require_fit,
    require_version,
    subnetwork_of,
)
from gpu_platform.planning.clouds.gke.kubeconfig import gke_kubeconfig
from gpu_platform.planning.clouds.gke.logins import LOGIN_ROLE
from gpu_platform.planning.clouds.gke.plan import CreateGkePlan, GkeClusterPlan

# Dataplane V2 enforces network policies without an add-on, and multi-networking requires it.
# In VPC-native clusters, pods have addresses in the VPC.
# Private nodes require a VPC-native cluster.
_DATAPATH = "ADVANCED_DATAPATH"
_NETWORKING_MODE = "VPC_NATIVE"
# With subsetting, an internal load balancer uses only nodes that run its pods.
# Clusters of more than 250 nodes require subsetting, which cannot be disabled later.
_INTERNAL_LOAD_BALANCER_SUBSETTING = True
# Nodes have no public addresses, and reach the internet through NAT.
_PRIVATE_NODES = True
# Do not admit Google Cloud's public addresses, because other customers use them as well.
_GOOGLE_CLOUD_ADDRESSES = False
# `api_access` also limits clients within the VPC.
_LIMIT_PRIVATE_ENDPOINT = True
# Clients authenticate with IAM, because a certificate cannot be revoked. ABAC grants more permissions than RBAC.
_CLIENT_CERTIFICATE = False
_LEGACY_ABAC = False
# GKE encrypts Secrets with the declared key before it stores them.
_ENCRYPTED = "ENCRYPTED"
_SHIELDED_NODES = True
# Cloud Billing reports the cost of each namespace free of charge.
_COST_ALLOCATION = True
# This is GKE's default, set explicitly because PodMonitoring objects require it.
_MANAGED_PROMETHEUS = True
# Run a DNS cache on every node, because training jobs resolve many names at once.
_DNS_CACHE = True
# Datasets and checkpoints are stored on Persistent Disk volumes and in buckets mounted as file systems.
_DISK_DRIVER = True
_BUCKET_DRIVER = True
# Upgrade exclusions without an end time last as long as Google supports the version.
_UNTIL_END_OF_SUPPORT = "UNTIL_END_OF_SUPPORT"


@dataclass(frozen=True, slots=True)
class _Network:
    """Ids of the cluster's network and subnetwork, and the names of the ranges for pods and Services."""

    network: pulumi.Input[str]
    subnetwork: pulumi.Input[str]
    pods_range: str
    services_range: str


class GkeCluster(pulumi.ComponentResource):
    """Component of a GKE cluster, with its nodes' service account, the networks for GPU NICs and the installers.

    `gpu_platform.stack.cluster.GkeCluster` is the stack file's section for the cluster. Node pools need `outputs`.

    Outputs: `name`, `context`, `kubeconfig` (secret; gke-gcloud-auth-plugin provides the credentials).
    """

    provider: k8s.Provider
    kubeconfig: pulumi.Output[str]
    context: pulumi.Output[str]
    identity: pulumi.Output[Any]
    """DNS endpoint of the cluster, or None if the existing cluster has none."""
    outputs: GkeOutputs

    def __init__(self, name: str, args: GkeClusterPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:GkeCluster", name, None, opts)
        google = self.get_provider("gcp:container/cluster:Cluster")
        if google is None:
            raise ValueError(f"GkeCluster {name}: pass a Google Cloud provider in opts.providers")
        self._args = args
        self._child = child_options(self, opts)
        self._ready: list[pulumi.Resource] = []
        self._created: gcp.container.Cluster | None = None
        self._account = self._node_account()
        self._grant_logins()
        networks = self._create_networks(name)
        if args.create is None:
            cluster, network, kubeconfig = self._look_up()
        else:
            cluster, network, kubeconfig = self._create(args.create)
        self.kubeconfig = pulumi.Output.secret(kubeconfig)
        self.context = pulumi.Output.from_input(args.name)
        # Kubernetes objects wait for the nodes that their pods can run on.
        self.provider = kubernetes_provider(
            name,
            pulumi.ResourceOptions(parent=self, depends_on=[*self._ready]),
            kubeconfig=self.kubeconfig,
            context=args.name,
            identity=self.identity,
            created=self._created,
        )
        self._create_objects(name, networks)
        self.outputs = GkeOutputs(
            cluster=cluster,
            network=network,
            node_service_account=self._account,
            gpu_networks=networks,
            provider=google,
            ready=self._ready,
        )
        self.register_outputs({"name": args.name, "context": self.context, "kubeconfig": self.kubeconfig})

    def _create_networks(self, name: str) -> JoinedNetworks:
        args = self._args
        if not args.networks:
            return ()
        return GkeGpuNetworks(
            f"{name}-gpu",
            GkeGpuNetworksArgs(networks=args.networks, project=args.project, region=args.region),
            self._child,
        ).joined

    def _node_account(self) -> pulumi.Output[str]:
        """Return the e-mail of the nodes' service account, either an existing account or a new account with its
        roles.
        """
        args = self._args
        if args.node_email is not None:
            return pulumi.Output.from_input(args.node_email)
        account = gcp.serviceaccount.Account(
            args.node_account,
            account_id=args.node_account,
            project=args.project,
            display_name=f"Nodes of the GKE cluster {args.name}",
            opts=self._child,
        )
        for role in args.node_roles:
            grant = gcp.projects.IAMMember(
                f"{args.node_account}-{role.rpartition('/')[2]}",
                project=args.project,
                role=role,
                member=account.member,
                opts=self._child,
            )
            self._ready.append(grant)
        return account.email

    def _grant_logins(self) -> None:
        """Allow team members to fetch credentials and to use the cluster's DNS endpoint."""
        args = self._args
        for member in args.logins:
            gcp.projects.IAMMember(
                f"{args.name}-login-{member}",
                project=args.project,
                role=LOGIN_ROLE,
                member=member,
                # Keep the binding, because the project's owner or another stack may have granted the same role.
                opts=retained(self._child),
            )

    # -- existing cluster ----------------------------------------------------------------------------------

    def _look_up(self) -> tuple[pulumi.Output[str], pulumi.Output[str], pulumi.Output[str]]:
        args = self._args
        found = gcp.container.get_cluster_output(
            name=args.name,
            location=args.location,
            project=args.project,
            opts=pulumi.InvokeOutputOptions(parent=self),
        )
        self.identity = found.apply(_identity)
        nodes = found.apply(lambda cluster: self._range_of_nodes(cluster.subnetwork))
        checked = pulumi.Output.all(cluster=found, nodes=nodes).apply(
            lambda all_of_it: self._checked(all_of_it["cluster"], all_of_it["nodes"])
        )
        return checked["cluster"], checked["network"], checked["kubeconfig"]

    def _range_of_nodes(self, subnetwork: str) -> pulumi.Input[str]:
        """Return the address range of a subnetwork.

        The result is empty if the cluster has no GPU networks, or if the subnetwork is in the host project of a
        Shared VPC. The program does not look up subnetworks there, so it needs no permissions in the host project.
        """
        args, (project, region, name) = self._args, subnetwork_of(subnetwork, self._args)
        if not args.networks or project != args.project:
            return ""
        return gcp.compute.get_subnetwork_output(
            name=name, region=region, project=project, opts=pulumi.InvokeOutputOptions(parent=self)
        ).ip_cidr_range

    def _checked(self, found: gcp.container.GetClusterResult, nodes: str) -> dict[str, str]:
        """Return the id, network and kubeconfig of a cluster. Raises RunError if the cluster does not match the
        plan.

        `nodes` is the address range of the nodes, or empty if it is unknown.
        """
        facts = _facts(found, nodes, subnetwork_of(found.subnetwork, self._args)[0])
        try:
            require_fit(self._args, facts)
        except BadInput as error:
            raise pulumi.RunError(str(error)) from None
        for warning in (*missing_logins(self._args, facts), *doubtful_networks(self._args, facts)):
            pulumi.log.warn(warning, self)
        return {
            "cluster": found.id,
            "network": found.network,
            "kubeconfig": existing_kubeconfig(self._args.name, facts, self._args.impersonate),
        }

    # -- new cluster ---------------------------------------------------------------------------------------

    def _create(self, create: CreateGkePlan) -> tuple[pulumi.Output[str], pulumi.Output[str], pulumi.Output[str]]:
        args = self._args
        vpc = create.existing_vpc
        if vpc is None:
            own = GkeVpc(
                create.network, GkeVpcArgs(create=create, project=args.project, region=args.region), self._child
            )
            self._ready.append(own.nat)
            network = _Network(own.network, own.subnetwork, PODS_RANGE, SERVICES_RANGE)
        else:
            network = _Network(vpc.network, vpc.subnetwork, vpc.pods_range, vpc.services_range)
        cluster = self._created = self._create_cluster(create, network)
        self._ready.append(create_system_pool(args, create, cluster, self._account, self._child))
        # The DNS endpoint contains the id of the cluster, and is always present, even if it is closed.
        # Source: GKE API, DNSEndpointConfig.endpoint; read 2026-11-30.
        host = cluster.control_plane_endpoints_config.dns_endpoint_config.endpoint
        self.identity = host
        facts = pulumi.Output.all(
            endpoint=host if create.dns_access else cluster.endpoint,
            certificate_authority=None if create.dns_access else cluster.master_auth.cluster_ca_certificate,
            version=cluster.master_version,
        )
        joined = pulumi.Output.from_input(network.network)
        return cluster.id, joined, facts.apply(self._created_kubeconfig)

    def _created_kubeconfig(self, facts: dict[str, Any]) -> str:
        """Return the kubeconfig of the new cluster. Raises RunError if its version is too old for the pools."""
        try:
            require_version(self._args, facts["version"])
        except BadInput as error:
            raise pulumi.RunError(str(error)) from None
        authority = facts["certificate_authority"]
        return gke_kubeconfig(self._args.name, facts["endpoint"], authority, self._args.impersonate)

    def _create_cluster(self, create: CreateGkePlan, vpc: _Network) -> gcp.container.Cluster:
        args = self._args
        container = gcp.container
        return container.Cluster(
            args.name,
            name=args.name,
            project=args.project,
            location=args.location,
            resource_labels=dict(args.resource_labels),
            deletion_protection=args.protect,
            release_channel=container.ClusterReleaseChannelArgs(channel=create.release_channel),
            min_master_version=args.kubernetes,
            maintenance_policy=_maintenance(create),
            networking_mode=_NETWORKING_MODE,
            network=vpc.network,
            subnetwork=vpc.subnetwork,
            ip_allocation_policy=container.ClusterIpAllocationPolicyArgs(
                cluster_secondary_range_name=vpc.pods_range, services_secondary_range_name=vpc.services_range
            ),
            datapath_provider=_DATAPATH,
            enable_multi_networking=args.multi_networking,
            enable_fqdn_network_policy=args.fqdn_policies,
            enable_l4_ilb_subsetting=_INTERNAL_LOAD_BALANCER_SUBSETTING,
            private_cluster_config=container.ClusterPrivateClusterConfigArgs(
                enable_private_nodes=_PRIVATE_NODES,
                enable_private_endpoint=not create.public_endpoint,
                master_ipv4_cidr_block=create.control_plane_cidr,
            ),
            control_plane_endpoints_config=container.ClusterControlPlaneEndpointsConfigArgs(
                dns_endpoint_config=container.ClusterControlPlaneEndpointsConfigDnsEndpointConfigArgs(
                    allow_external_traffic=create.dns_access
                )
            ),
            master_authorized_networks_config=container.ClusterMasterAuthorizedNetworksConfigArgs(
                cidr_blocks=[
                    container.ClusterMasterAuthorizedNetworksConfigCidrBlockArgs(cidr_block=cidr)
                    for cidr in create.api_access
                ],
                gcp_public_cidrs_access_enabled=_GOOGLE_CLOUD_ADDRESSES,
                private_endpoint_enforcement_enabled=_LIMIT_PRIVATE_ENDPOINT,
            ),
            workload_identity_config=container.ClusterWorkloadIdentityConfigArgs(
                workload_pool=f"{args.project}.svc.id.goog"
            ),
            master_auth=container.ClusterMasterAuthArgs(
                client_certificate_config=container.ClusterMasterAuthClientCertificateConfigArgs(
                    issue_client_certificate=_CLIENT_CERTIFICATE
                )
            ),
            authenticator_groups_config=(
                container.ClusterAuthenticatorGroupsConfigArgs(security_group=create.authenticator_groups)
                if create.authenticator_groups is not None
                else None
            ),
            database_encryption=container.ClusterDatabaseEncryptionArgs(state=_ENCRYPTED, key_name=create.kms_key)
            if create.kms_key is not None
            else None,
            enable_legacy_abac=_LEGACY_ABAC,
            enable_shielded_nodes=_SHIELDED_NODES,
            logging_config=container.ClusterLoggingConfigArgs(enable_components=list(create.logs)),
            monitoring_config=container.ClusterMonitoringConfigArgs(
                enable_components=list(create.metrics),
                managed_prometheus=container.ClusterMonitoringConfigManagedPrometheusArgs(
                    enabled=_MANAGED_PROMETHEUS
                ),
            ),
            cost_management_config=container.ClusterCostManagementConfigArgs(enabled=_COST_ALLOCATION),
            addons_config=container.ClusterAddonsConfigArgs(
                dns_cache_config=container.ClusterAddonsConfigDnsCacheConfigArgs(enabled=_DNS_CACHE),
                gce_persistent_disk_csi_driver_config=(
                    container.ClusterAddonsConfigGcePersistentDiskCsiDriverConfigArgs(enabled=_DISK_DRIVER)
                ),
                gcs_fuse_csi_driver_config=container.ClusterAddonsConfigGcsFuseCsiDriverConfigArgs(
                    enabled=_BUCKET_DRIVER
                ),
                # Enable the Filestore driver if a storage class needs it.
                # If no storage class needs the driver, keep the setting that the cluster's owner has chosen.
                gcp_filestore_csi_driver_config=(
                    container.ClusterAddonsConfigGcpFilestoreCsiDriverConfigArgs(enabled=True)
                    if create.nfs_driver
                    else None
                ),
                lustre_csi_driver_config=(
                    container.ClusterAddonsConfigLustreCsiDriverConfigArgs(enabled=True)
                    if create.lustre_driver
                    else None
                ),
            ),
            cluster_autoscaling=container.ClusterClusterAutoscalingArgs(
                autoscaling_profile=create.autoscaling_profile
            ),
            remove_default_node_pool=True,
            initial_node_count=FIRST_POOL_NODES,
            node_config=container.ClusterNodeConfigArgs(**node_settings(create, self._account, FIRST_DISK_TYPE)),
            opts=pulumi.ResourceOptions.merge(
                self._child,
                pulumi.ResourceOptions(
                    protect=args.protect,
                    depends_on=[*self._ready],
                    # The cluster keeps multi-networking after its last pool of A3 or newer machines is removed.
                    # FQDN network policies also stay enabled if they are no longer needed.
                    # Disabling either feature would make the provider replace the cluster.
                    ignore_changes=[
                        "node_config",
                        "initial_node_count",
                        *(() if args.multi_networking else ("enable_multi_networking",)),
                        *(() if args.fqdn_policies else ("enable_fqdn_network_policy",)),
                    ],
                    custom_timeouts=custom_timeouts(args.timeouts),
                ),
            ),
        )

    # -- in Kubernetes -------------------------------------------------------------------------------------

    def _create_objects(self, name: str, networks: JoinedNetworks) -> None:
        args = self._args
        in_kubernetes = pulumi.ResourceOptions(parent=self, providers=[self.provider])
        if args.networks:
            self._ready.append(
                GkePodNetworks(
                    f"{name}-gpu",
                    GkePodNetworksArgs(networks=args.networks, joined=networks),
                    in_kubernetes,
                )
            )
        if args.installers:
            GkeInstallers(name, args.installers, in_kubernetes)


def _maintenance(create: CreateGkePlan) -> gcp.container.ClusterMaintenancePolicyArgs:
    container = gcp.container
    return container.ClusterMaintenancePolicyArgs(
        recurring_window=container.ClusterMaintenancePolicyRecurringWindowArgs(
            start_time=create.maintenance_start,
            end_time=create.maintenance_end,
            recurrence=create.maintenance_recurrence,
        ),
        maintenance_exclusions=[
            container.ClusterMaintenancePolicyMaintenanceExclusionArgs(
                exclusion_name=exclusion.name,
                start_time=exclusion.start,
                end_time=exclusion.end,
                exclusion_options=container.ClusterMaintenancePolicyMaintenanceExclusionExclusionOptionsArgs(
                    scope=exclusion.scope,
                    end_time_behavior=None if exclusion.end else _UNTIL_END_OF_SUPPORT,
                ),
            )
            for exclusion in create.exclusions
        ],
    )


def _facts(found: gcp.container.GetClusterResult, nodes: str, network_project: str) -> ExistingGke:
    """Return the properties that planning checks. The provider returns each single block as a list."""
    authorities = [each.cluster_ca_certificate for each in found.master_auths]
    pools = [each.workload_pool for each in found.workload_identity_configs]
    ranges = {
        "nodes": nodes,
        "pods": found.cluster_ipv4_cidr,
        "services": found.services_ipv4_cidr,
        "the control plane": next((each.master_ipv4_cidr_block for each in found.private_cluster_configs), ""),
    }
    return ExistingGke(
        version=found.master_version,
        autopilot=found.enable_autopilot,
        datapath=found.datapath_provider,
        calico=any(each.enabled for each in found.network_policies or ()),
        multi_networking=found.enable_multi_networking,
        fqdn_policies=found.enable_fqdn_network_policy,
        workload_pool=next(iter(pools), None) or None,
        security_group=next((each.security_group for each in found.authenticator_groups_configs), None) or None,
        dns_endpoint=next((each.endpoint for each in _dns_endpoints(found) if each.allow_external_traffic), None),
        endpoint=found.endpoint,
        certificate_authority=next(iter(authorities), ""),
        network_project=network_project,
        ranges={what: cidr for what, cidr in ranges.items() if cidr},
        exposed_pools=tuple(each.name for each in found.node_pools or () if not _conceals(each)),
    )


def _dns_endpoints(
    found: gcp.container.GetClusterResult,
) -> list[gcp.container.outputs.GetClusterControlPlaneEndpointsConfigDnsEndpointConfigResult]:
    return [one for each in found.control_plane_endpoints_configs for one in each.dns_endpoint_configs]


def _identity(found: gcp.container.GetClusterResult) -> str | None:
    """Return the DNS endpoint, which contains the id of the cluster, even if the endpoint is closed."""
    return next((each.endpoint for each in _dns_endpoints(found)), None)


def _conceals(node_pool: gcp.container.outputs.GetClusterNodePoolResult) -> bool:
    """Return whether pods on the nodes reach GKE's metadata server instead of the node's metadata server."""
    modes = {one.mode for config in node_pool.node_configs for one in config.workload_metadata_configs or ()}
    return modes == {METADATA_MODE}
