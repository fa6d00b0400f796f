"""`AksCluster`: a new or existing AKS cluster, with its identity, network and system nodes."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_azure as azure
import pulumi_kubernetes as k8s

from components._kubernetes_provider import kubernetes_provider
from components._options import child_options, custom_timeouts
from components.aks.network import AksNetwork, AksNetworkArgs
from components.aks.outputs import AksOutputs
from gpu_platform.base.errors import BadInput
from gpu_platform.planning.clouds.aks.existing_cluster import ExistingAks, require_fit
from gpu_platform.planning.clouds.aks.kubeconfig import aks_kubeconfig
from gpu_platform.planning.clouds.aks.logins import LOGIN_ROLE
from gpu_platform.planning.clouds.aks.names import control_plane_identity, dns_prefix, network_name
from gpu_platform.planning.clouds.aks.plan import (
    MAX_PODS,
    NO_NETWORK,
    ROTATION_POOL,
    SYSTEM_POOL,
    SYSTEM_SURGE,
    AksClusterPlan,
    CreateAksPlan,
)
from gpu_platform.planning.config_maps import content_hash

# Cilium enforces network policies, and pods have addresses outside the virtual network.
_PLUGIN, _PLUGIN_MODE, _DATA_PLANE, _POLICY = "azure", "overlay", "cilium", "cilium"
# The load balancer must support zones and outbound rules.
_LOAD_BALANCER = "standard"
# Entra ID authenticates, and the Roles of Kubernetes authorize.
_AZURE_RBAC = False
_LOCAL_ACCOUNTS_DISABLED = True
# `az aks command invoke` would run pods as cluster-admin for everybody who may manage the cluster.
_RUN_COMMAND = False
# Pods get credentials of their own identity through the issuer of their service account tokens.
_OIDC_ISSUER = True
_WORKLOAD_IDENTITY = True
# A new node image ends the jobs of a node, so nobody but the owner starts such an upgrade.
_NODE_IMAGE_CHANNEL = "None"
_DISK_DRIVER = True
_SNAPSHOTS = True
_SYSTEM_SKU = "Ubuntu2404"
# Lets AKS join nodes and load balancers to the subnet.
_NETWORK_ROLE = "Network Contributor"
# Lets AKS attach disks of a disk encryption set.
_READER = "Reader"
# Lets the API server encrypt and decrypt Secrets. Private vaults would need API Server VNet Integration.
_KEY_ROLE = "Key Vault Crypto User"
_KEY_ACCESS = "Public"
# Lets AKS create nodes from a capacity reservation group. No narrower built-in role has the deploy action.
_RESERVATION_ROLE = "Contributor"
# The name of a private API server need not be public. AKS manages the private DNS zone.
_PUBLIC_FQDN_OF_PRIVATE = False
_SYSTEM_DNS_ZONE = "System"


class AksCluster(pulumi.ComponentResource):
    """Component of an AKS cluster. `gpu_platform.stack.aks.AksCluster` is the stack file's section for the
    cluster. Agent pools need `outputs`.

    Outputs: `name`, `context`, `kubeconfig` (secret; kubelogin provides the credentials).
    """

    provider: k8s.Provider
    kubeconfig: pulumi.Output[str]
    context: pulumi.Output[str]
    identity: pulumi.Output[Any]
    """OIDC issuer of a new cluster, or host name of the API server of an existing one."""
    issuer: pulumi.Output[str]
    """URL of the OIDC issuer of service account tokens."""
    outputs: AksOutputs

    def __init__(self, name: str, args: AksClusterPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:AksCluster", name, None, opts)
        on_azure = self.get_provider("azure:containerservice/kubernetesCluster:KubernetesCluster")
        if on_azure is None:
            raise ValueError(f"AksCluster {name}: pass an Azure provider in opts.providers")
        self._args = args
        self._child = child_options(self, opts)
        self._ready: list[pulumi.Resource] = []
        self._created: azure.containerservice.KubernetesCluster | None = None
        if args.create is None:
            cluster_id, group, subnet, kubeconfig = self._look_up()
        else:
            cluster_id, group, subnet, kubeconfig = self._create(args.create)
        self.kubeconfig = pulumi.Output.secret(kubeconfig)
        self.context = pulumi.Output.from_input(args.name)
        self.provider = kubernetes_provider(
            name,
            pulumi.ResourceOptions(parent=self, depends_on=[*self._ready]),
            kubeconfig=self.kubeconfig,
            context=args.name,
            identity=self.identity,
            created=self._created,
        )
        self.outputs = AksOutputs(
            cluster_id=cluster_id,
            resource_group=group,
            region=args.region,
            subnet_id=subnet,
            provider=on_azure,
            ready=self._ready,
        )
        self.register_outputs({"name": args.name, "context": self.context, "kubeconfig": self.kubeconfig})

    # -- existing cluster ----------------------------------------------------------------------------------

    def _look_up(
        self,
    ) -> tuple[pulumi.Output[str], pulumi.Output[str], pulumi.Output[str | None], pulumi.Output[str]]:
        args = self._args
        found = azure.containerservice.get_kubernetes_cluster_output(
            name=args.name,
            resource_group_name=args.resource_group,
            opts=pulumi.InvokeOutputOptions(parent=self),
        )
        # A private cluster may have only a private name.
        self.identity = found.apply(lambda cluster: cluster.fqdn or cluster.private_fqdn)
        self.issuer = found.oidc_issuer_url
        checked = found.apply(self._checked)
        subnet: pulumi.Output[str | None] = checked["subnet"].apply(lambda subnet: subnet or None)
        return checked["cluster"], pulumi.Output.from_input(args.resource_group), subnet, checked["kubeconfig"]

    def _checked(self, found: azure.containerservice.GetKubernetesClusterResult) -> dict[str, str]:
        """Return the ID, subnet and kubeconfig of a cluster. Raises RunError if it does not match the plan."""
        facts = _facts(found)
        try:
            require_fit(self._args, facts)
        except BadInput as error:
            raise pulumi.RunError(str(error)) from None
        access = found.kube_configs[0]
        return {
            "cluster": found.id,
            "subnet": facts.subnet,
            "kubeconfig": aks_kubeconfig(self._args.name, access.host, access.cluster_ca_certificate),
        }

    # -- new cluster ---------------------------------------------------------------------------------------

    def _create(
        self, create: CreateAksPlan
    ) -> tuple[pulumi.Output[str], pulumi.Output[str], pulumi.Output[str | None], pulumi.Output[str]]:
        args = self._args
        group = self._resource_group(create)
        subnet = self._subnet(create, group)
        identity = azure.authorization.UserAssignedIdentity(
            control_plane_identity(args.name),
            name=control_plane_identity(args.name),
            location=args.region,
            resource_group_name=group,
            tags=args.tags,
            opts=self._child,
        )
        cluster = self._created = self._create_cluster(
            create, group, subnet, identity, self._grant_control_plane(create, subnet, identity)
        )
        self._ready.append(cluster)
        self._grant_logins(cluster)
        self.identity = self.issuer = cluster.oidc_issuer_url
        access = cluster.kube_configs[0]
        kubeconfig = pulumi.Output.all(host=access.host, authority=access.cluster_ca_certificate).apply(
            lambda found: aks_kubeconfig(args.name, found["host"], found["authority"])
        )
        return cluster.id, pulumi.Output.from_input(group), pulumi.Output.from_input(subnet), kubeconfig

    def _resource_group(self, create: CreateAksPlan) -> pulumi.Input[str]:
        args = self._args
        if not create.creates_resource_group:
            return args.resource_group
        return azure.core.ResourceGroup(
            args.resource_group,
            name=args.resource_group,
            location=args.region,
            tags=args.tags,
            opts=pulumi.ResourceOptions.merge(self._child, pulumi.ResourceOptions(protect=args.protect)),
        ).name

    def _subnet(self, create: CreateAksPlan, group: pulumi.Input[str]) -> pulumi.Input[str]:
        if create.subnet is not None:
            return create.subnet
        return AksNetwork(
            network_name(self._args.name),
            AksNetworkArgs(plan=self._args, create=create, resource_group=group),
            self._child,
        ).subnet_id

    def _grant_control_plane(
        self, create: CreateAksPlan, subnet: pulumi.Input[str], identity: azure.authorization.UserAssignedIdentity
    ) -> list[pulumi.Resource]:
        """Assign the roles that the control plane needs before the cluster exists."""
        roles = [("joins-network", subnet, _NETWORK_ROLE)]
        # Two resource groups may have a set or a group of the same name.
        roles += [(f"reads-{content_hash(key)}", key, _READER) for key in self._args.encryption_sets]
        roles += [(f"uses-{content_hash(one)}", one, _RESERVATION_ROLE) for one in self._args.reservation_groups]
        if create.secrets_key is not None:
            roles.append(("encrypts-secrets", create.secrets_key.id, _KEY_ROLE))
        return [
            azure.authorization.Assignment(
                f"{self._args.name}-{name}",
                scope=scope,
                role_definition_name=role,
                principal_id=identity.principal_id,
                principal_type="ServicePrincipal",
                opts=self._child,
            )
            for name, scope, role in roles
        ]

    def _grant_logins(self, cluster: azure.containerservice.KubernetesCluster) -> None:
        """Allow team members to fetch a kubeconfig."""
        for member in self._args.logins:
            azure.authorization.Assignment(
                f"{self._args.name}-login-{member}",
                scope=cluster.id,
                role_definition_name=LOGIN_ROLE,
                principal_id=member,
                opts=self._child,
            )

    def _create_cluster(
        self,
        create: CreateAksPlan,
        group: pulumi.Input[str],
        subnet: pulumi.Input[str],
        identity: azure.authorization.UserAssignedIdentity,
        grants: list[pulumi.Resource],
    ) -> azure.containerservice.KubernetesCluster:
        args, service = self._args, azure.containerservice
        return service.KubernetesCluster(
            args.name,
            name=args.name,
            location=args.region,
            resource_group_name=group,
            node_resource_group=create.node_resource_group,
            dns_prefix=dns_prefix(args.name),
            kubernetes_version=args.kubernetes,
            sku_tier=create.sku_tier,
            private_cluster_enabled=create.private,
            private_cluster_public_fqdn_enabled=_PUBLIC_FQDN_OF_PRIVATE if create.private else None,
            private_dns_zone_id=_SYSTEM_DNS_ZONE if create.private else None,
            api_server_access_profile=None
            if create.private
            else service.KubernetesClusterApiServerAccessProfileArgs(
                authorized_ip_ranges=list(create.api_access) or [NO_NETWORK]
            ),
            identity=service.KubernetesClusterIdentityArgs(type="UserAssigned", identity_ids=[identity.id]),
            azure_active_directory_role_based_access_control=(
                service.KubernetesClusterAzureActiveDirectoryRoleBasedAccessControlArgs(
                    admin_group_object_ids=list(create.admins), azure_rbac_enabled=_AZURE_RBAC
                )
            ),
            role_based_access_control_enabled=True,
            local_account_disabled=_LOCAL_ACCOUNTS_DISABLED,
            run_command_enabled=_RUN_COMMAND,
            oidc_issuer_enabled=_OIDC_ISSUER,
            workload_identity_enabled=_WORKLOAD_IDENTITY,
            node_os_upgrade_channel=_NODE_IMAGE_CHANNEL,
            network_profile=service.KubernetesClusterNetworkProfileArgs(
                network_plugin=_PLUGIN,
                network_plugin_mode=_PLUGIN_MODE,
                network_data_plane=_DATA_PLANE,
                network_policy=_POLICY,
                load_balancer_sku=_LOAD_BALANCER,
                outbound_type=create.outbound_type,
                pod_cidr=create.pods_cidr,
                service_cidr=create.services_cidr,
                dns_service_ip=create.dns_service_ip,
            ),
            storage_profile=service.KubernetesClusterStorageProfileArgs(
                disk_driver_enabled=_DISK_DRIVER,
                file_driver_enabled=create.nfs_driver,
                snapshot_controller_enabled=_SNAPSHOTS,
            ),
            default_node_pool=self._system_pool(create, subnet),
            disk_encryption_set_id=create.disk_encryption_set,
            key_management_service=service.KubernetesClusterKeyManagementServiceArgs(
                key_vault_key_id=create.secrets_key.url, key_vault_network_access=_KEY_ACCESS
            )
            if create.secrets_key is not None
            else None,
            tags=args.tags,
            opts=pulumi.ResourceOptions.merge(
                self._child,
                pulumi.ResourceOptions(
                    protect=args.protect,
                    depends_on=grants,
                    ignore_changes=["defaultNodePool.nodeCount"] if _grows(create) else None,
                    custom_timeouts=custom_timeouts(args.timeouts),
                ),
            ),
        )

    def _system_pool(
        self, create: CreateAksPlan, subnet: pulumi.Input[str]
    ) -> azure.containerservice.KubernetesClusterDefaultNodePoolArgs:
        """Return the nodes without GPUs, for pods that must run before any GPU node exists."""
        service, (lowest, highest) = azure.containerservice, create.system_nodes
        return service.KubernetesClusterDefaultNodePoolArgs(
            name=SYSTEM_POOL,
            temporary_name_for_rotation=ROTATION_POOL,
            vm_size=create.system_machine_type,
            orchestrator_version=self._args.kubernetes,
            os_sku=_SYSTEM_SKU,
            os_disk_type=create.system_disk_type,
            os_disk_size_gb=create.system_disk_gb,
            zones=list(create.system_zones) or None,
            vnet_subnet_id=subnet,
            max_pods=MAX_PODS,
            auto_scaling_enabled=_grows(create),
            node_count=lowest,
            min_count=lowest if _grows(create) else None,
            max_count=highest if _grows(create) else None,
            upgrade_settings=service.KubernetesClusterDefaultNodePoolUpgradeSettingsArgs(
                max_surge=str(SYSTEM_SURGE)
            ),
            tags=self._args.tags,
        )


def _grows(create: CreateAksPlan) -> bool:
    lowest, highest = create.system_nodes
    return lowest < highest


def _facts(found: azure.containerservice.GetKubernetesClusterResult) -> ExistingAks:
    """Return the properties that planning checks. The provider returns each single block as a list."""
    return ExistingAks(
        region=found.location,
        version=found.current_kubernetes_version,
        network_policy=next((each.network_policy for each in found.network_profiles), ""),
        has_entra_id=bool(found.azure_active_directory_role_based_access_controls),
        has_own_identity=any("UserAssigned" in each.type for each in found.identities),
        subnet=next((each.vnet_subnet_id for each in found.agent_pool_profiles if each.vnet_subnet_id), ""),
        issuer=found.oidc_issuer_url if found.oidc_issuer_enabled else "",
        workload_identity=None,
    )
