"""`GkeCluster`: a GKE cluster, made or looked up, with what all its GPU pools share."""

from __future__ import annotations

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as k8s

from components._cloud import GkeOutputs
from components._options import child_options
from components.gke.installers import GkeInstallers
from components.gke.networks import (
    GkeGpuNetworks,
    GkeGpuNetworksArgs,
    GkePodNetworks,
    GkePodNetworksArgs,
    JoinedNetworks,
)
from components.gke.vpc import PODS_RANGE, SERVICES_RANGE, GkeVpc, GkeVpcArgs
from gpu_platform.errors import BadInput
from gpu_platform.planning.clouds.gke.create import SYSTEM_POOL
from gpu_platform.planning.clouds.gke.existing_cluster import (
    FoundCluster,
    found_kubeconfig,
    require_fit,
    require_version,
)
from gpu_platform.planning.clouds.gke.plan import CreateGkePlan, GkeClusterPlan
from gpu_platform.planning.clouds.kubeconfig import gke_kubeconfig

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"  # what a node may do is decided by IAM


class GkeCluster(pulumi.ComponentResource):
    """A GKE cluster, its nodes' service account, the networks between GPU NICs and the DaemonSets of GPU nodes.

    Outputs: `name`, `context`, `kubeconfig` (secret; credentials come from gke-gcloud-auth-plugin).
    `outputs` is what its pools need.
    """

    provider: k8s.Provider
    kubeconfig: pulumi.Output[str]
    context: pulumi.Output[str]
    outputs: GkeOutputs

    def __init__(self, name: str, args: GkeClusterPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:GkeCluster", name, None, opts)
        google = self.get_provider("gcp:container/cluster:Cluster")
        if google is None:
            raise ValueError(f"GkeCluster {name}: give it a provider of Google Cloud, by opts.providers")
        self._args = args
        self._child = child_options(self, opts)
        self._ready: list[pulumi.Resource] = []
        account = self._create_node_account()
        networks = self._create_networks(name)
        if args.create is None:
            cluster, kubeconfig = self._look_up()
        else:
            cluster, kubeconfig = self._create(args.create, account)
        self.kubeconfig = pulumi.Output.secret(kubeconfig)
        self.context = pulumi.Output.from_input(args.name)
        # Everything in Kubernetes waits for nodes that it can run on.
        self.provider = k8s.Provider(
            name,
            kubeconfig=self.kubeconfig,
            context=args.name,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[*self._ready]),
        )
        self._create_objects(name, networks)
        self.outputs = GkeOutputs(
            cluster=cluster,
            node_service_account=account.email,
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

    def _create_node_account(self) -> gcp.serviceaccount.Account:
        args = self._args
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
        return account

    # -- a cluster that is there ---------------------------------------------------------------------------

    def _look_up(self) -> tuple[pulumi.Output[str], pulumi.Output[str]]:
        args = self._args
        checked = gcp.container.get_cluster_output(
            name=args.name,
            location=args.location,
            project=args.project,
            opts=pulumi.InvokeOutputOptions(parent=self),
        ).apply(self._checked)
        return checked["cluster"], checked["kubeconfig"]

    def _checked(self, found: gcp.container.GetClusterResult) -> dict[str, str]:
        """Return how to name and reach a cluster that fits the plan; stop the program at one that does not."""
        facts = _facts(found)
        try:
            require_fit(self._args, facts)
        except BadInput as error:
            raise pulumi.RunError(str(error)) from None
        return {"cluster": found.id, "kubeconfig": found_kubeconfig(self._args.name, facts)}

    # -- a new cluster -------------------------------------------------------------------------------------

    def _create(
        self, create: CreateGkePlan, account: gcp.serviceaccount.Account
    ) -> tuple[pulumi.Output[str], pulumi.Output[str]]:
        args = self._args
        vpc = GkeVpc(
            create.network, GkeVpcArgs(create=create, project=args.project, region=args.region), self._child
        )
        cluster = self._create_cluster(create, vpc, account)
        self._ready.append(self._create_system_pool(create, vpc, cluster, account))
        made = pulumi.Output.all(
            endpoint=cluster.control_plane_endpoints_config.dns_endpoint_config.endpoint,
            version=cluster.master_version,
        )
        return cluster.id, made.apply(self._reached_by_dns)

    def _reached_by_dns(self, made: dict[str, str]) -> str:
        """Return how to reach the new cluster; stop the program at one that is too old for its pools."""
        try:
            require_version(self._args, made["version"])
        except BadInput as error:
            raise pulumi.RunError(str(error)) from None
        return gke_kubeconfig(self._args.name, made["endpoint"], None)

    def _create_cluster(
        self, create: CreateGkePlan, vpc: GkeVpc, account: gcp.serviceaccount.Account
    ) -> gcp.container.Cluster:
        args = self._args
        container = gcp.container
        return container.Cluster(
            args.name,
            name=args.name,
            project=args.project,
            location=args.location,
            resource_labels=dict(args.resource_labels),
            deletion_protection=args.protect,
            # Version and upgrades.
            release_channel=container.ClusterReleaseChannelArgs(channel=create.release_channel),
            min_master_version=args.kubernetes,
            maintenance_policy=_maintenance(create),
            # Network: VPC-native, dataplane v2 (which enforces network policies by itself), private nodes.
            networking_mode="VPC_NATIVE",
            network=vpc.network,
            subnetwork=vpc.subnetwork,
            ip_allocation_policy=container.ClusterIpAllocationPolicyArgs(
                cluster_secondary_range_name=PODS_RANGE, services_secondary_range_name=SERVICES_RANGE
            ),
            datapath_provider="ADVANCED_DATAPATH",
            enable_multi_networking=args.multi_networking,
            enable_l4_ilb_subsetting=True,
            private_cluster_config=container.ClusterPrivateClusterConfigArgs(
                enable_private_nodes=True,
                enable_private_endpoint=not create.public_endpoint,
                master_ipv4_cidr_block=create.control_plane_cidr,
            ),
            control_plane_endpoints_config=container.ClusterControlPlaneEndpointsConfigArgs(
                dns_endpoint_config=container.ClusterControlPlaneEndpointsConfigDnsEndpointConfigArgs(
                    allow_external_traffic=True  # for whom IAM admits
                )
            ),
            master_authorized_networks_config=container.ClusterMasterAuthorizedNetworksConfigArgs(
                cidr_blocks=[
                    container.ClusterMasterAuthorizedNetworksConfigCidrBlockArgs(cidr_block=cidr)
                    for cidr in create.api_access
                ],
                gcp_public_cidrs_access_enabled=False,
                private_endpoint_enforcement_enabled=True,
            ),
            # Identity: workloads have their own, nobody has a certificate or an old kind of permission.
            workload_identity_config=container.ClusterWorkloadIdentityConfigArgs(
                workload_pool=f"{args.project}.svc.id.goog"
            ),
            master_auth=container.ClusterMasterAuthArgs(
                client_certificate_config=container.ClusterMasterAuthClientCertificateConfigArgs(
                    issue_client_certificate=False
                )
            ),
            enable_legacy_abac=False,
            enable_shielded_nodes=True,
            # What is seen of it.
            logging_config=container.ClusterLoggingConfigArgs(enable_components=list(create.logs)),
            monitoring_config=container.ClusterMonitoringConfigArgs(enable_components=list(create.metrics)),
            cost_management_config=container.ClusterCostManagementConfigArgs(enabled=True),
            addons_config=container.ClusterAddonsConfigArgs(
                dns_cache_config=container.ClusterAddonsConfigDnsCacheConfigArgs(enabled=True),
                gce_persistent_disk_csi_driver_config=(
                    container.ClusterAddonsConfigGcePersistentDiskCsiDriverConfigArgs(enabled=True)
                ),
                gcs_fuse_csi_driver_config=container.ClusterAddonsConfigGcsFuseCsiDriverConfigArgs(enabled=True),
            ),
            cluster_autoscaling=container.ClusterClusterAutoscalingArgs(
                autoscaling_profile=create.autoscaling_profile
            ),
            # GKE makes no cluster without a pool: this one is there for minutes, and must obey the same rules.
            remove_default_node_pool=True,
            initial_node_count=1,
            node_config=container.ClusterNodeConfigArgs(
                service_account=account.email,
                oauth_scopes=[_SCOPE],
                shielded_instance_config=container.ClusterNodeConfigShieldedInstanceConfigArgs(
                    enable_secure_boot=True, enable_integrity_monitoring=True
                ),
            ),
            opts=pulumi.ResourceOptions.merge(
                self._child,
                pulumi.ResourceOptions(
                    protect=args.protect,
                    depends_on=[vpc.nat, *self._ready],
                    ignore_changes=["node_config", "initial_node_count"],
                ),
            ),
        )

    def _create_system_pool(
        self,
        create: CreateGkePlan,
        vpc: GkeVpc,
        cluster: gcp.container.Cluster,
        account: gcp.serviceaccount.Account,
    ) -> gcp.container.NodePool:
        """Make the nodes without GPUs, for what must run before any GPU node is there."""
        args = self._args
        container = gcp.container
        lowest, highest = create.system_nodes
        return container.NodePool(
            f"{args.name}-{SYSTEM_POOL}",
            name=SYSTEM_POOL,
            cluster=cluster.id,
            location=args.location,
            project=args.project,
            initial_node_count=1,
            autoscaling=container.NodePoolAutoscalingArgs(
                total_min_node_count=lowest, total_max_node_count=highest, location_policy="BALANCED"
            ),
            management=container.NodePoolManagementArgs(auto_repair=True, auto_upgrade=True),
            upgrade_settings=container.NodePoolUpgradeSettingsArgs(
                strategy="SURGE", max_surge=1, max_unavailable=0
            ),
            node_config=container.NodePoolNodeConfigArgs(
                machine_type=create.system_machine_type,
                image_type="COS_CONTAINERD",
                disk_type="pd-balanced",
                disk_size_gb=100,
                service_account=account.email,
                oauth_scopes=[_SCOPE],
                gvnic=container.NodePoolNodeConfigGvnicArgs(enabled=True),
                metadata={"disable-legacy-endpoints": "true"},
                workload_metadata_config=container.NodePoolNodeConfigWorkloadMetadataConfigArgs(
                    mode="GKE_METADATA"
                ),
                shielded_instance_config=container.NodePoolNodeConfigShieldedInstanceConfigArgs(
                    enable_secure_boot=True, enable_integrity_monitoring=True
                ),
                resource_labels=dict(args.resource_labels),
            ),
            opts=pulumi.ResourceOptions.merge(
                self._child, pulumi.ResourceOptions(ignore_changes=["initial_node_count"])
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
                    end_time_behavior=None if exclusion.end else "UNTIL_END_OF_SUPPORT",
                ),
            )
            for exclusion in create.exclusions
        ],
    )


def _facts(found: gcp.container.GetClusterResult) -> FoundCluster:
    """Return what is looked at of GKE's answer; the provider writes each single block as a list."""
    dns = [one for each in found.control_plane_endpoints_configs for one in each.dns_endpoint_configs]
    authorities = [each.cluster_ca_certificate for each in found.master_auths]
    pools = [each.workload_pool for each in found.workload_identity_configs]
    ranges = {
        "pods": found.cluster_ipv4_cidr,
        "services": found.services_ipv4_cidr,
        "the control plane": next((each.master_ipv4_cidr_block for each in found.private_cluster_configs), ""),
    }
    return FoundCluster(
        version=found.master_version,
        autopilot=found.enable_autopilot,
        datapath=found.datapath_provider,
        multi_networking=found.enable_multi_networking,
        workload_pool=next(iter(pools), None) or None,
        dns_endpoint=next((each.endpoint for each in dns if each.allow_external_traffic), None),
        endpoint=found.endpoint,
        certificate_authority=next(iter(authorities), ""),
        ranges={what: cidr for what, cidr in ranges.items() if cidr},
    )
