"""Records AKS environments as `pulumi preview` would, with every cloud output unknown."""

from __future__ import annotations

from typing import Any

from gpu_platform.deploy.recorded.record import ResourceRecord
from tests.support.recorded import Recorded, record_platform

ID = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
SUBNET = (
    f"/subscriptions/{ID}/resourceGroups/network/providers/Microsoft.Network/virtualNetworks/hub/subnets/gpu-nodes"
)
_DATA = f"/subscriptions/{ID}/resourceGroups/data/providers"
ACCOUNT = f"{_DATA}/Microsoft.Storage/storageAccounts/acmeml"
IDENTITY = f"{_DATA}/Microsoft.ManagedIdentity/userAssignedIdentities/vision"
DISK_KEYS = f"{_DATA}/Microsoft.Compute/diskEncryptionSets/disks"
SECRETS_KEY = f"{_DATA}/Microsoft.KeyVault/vaults/acme/keys/secrets/versions/{'0' * 32}"
RESERVATIONS = (
    f"/subscriptions/{ID}/resourceGroups/capacity/providers/Microsoft.Compute/capacityReservationGroups/gpus"
)
RESERVED: dict[str, Any] = {"capacity": {"type": "reservation", "reservation": RESERVATIONS, "zone": "2"}}
EXISTING: dict[str, Any] = {
    "provider": "aks",
    "name": "ml",
    "subscription": ID,
    "resource_group": "ml-group",
    "region": "eastus2",
    "kubernetes": "1.35",
}
CREATE: dict[str, Any] = {"admins": [ID], "api_access": ["203.0.113.0/24"]}
CREATED: dict[str, Any] = {**EXISTING, "create": CREATE}
PRIVATE: dict[str, Any] = {
    **EXISTING,
    "create": {"admins": CREATE["admins"], "private": True, "network": {"subnet": SUBNET}},
}
POOL: dict[str, Any] = {
    "name": "train",
    "machine_type": "Standard_NC24ads_A100_v4",
    "count": {"desired": 2},
    "workload": "training",
}
TEAM: dict[str, Any] = {
    "name": "vision",
    "quota": {"cpu": 8, "memory": "32Gi"},
    "priority": "training",
    "members": [f"group:{ID}", "user:ada@example.com"],
}

FORMS: dict[str, dict[str, Any]] = {
    "t4": {"machine_type": "Standard_NC4as_T4_v3", "workload": "development"},
    "h100": {"machine_type": "Standard_ND96isr_H100_v5", "zones": ["1"], "network": {"rdma": False}},
    "cpu-only": {"machine_type": "Standard_D16ds_v5", "workload": "general"},
    "spot": {"capacity": {"type": "spot"}, "workload": "inference"},
    "reserved": {**RESERVED, "workload": "inference"},
    "growing": {"count": {"min": 0, "desired": 1, "max": 4}, "workload": "inference"},
    "close": {"placement": {"type": "proximity"}, "zones": ["2"]},
    "zones": {"zones": ["1", "2", "3"], "workload": "inference"},
    "managed-disk": {"disk": {"type": "managed", "size_gb": 512}},
    "surge": {"upgrade": {"max_surge": 3}},
    "rolling": {"upgrade": {"max_unavailable": 2}},
    "jammy": {"image": {"family": "ubuntu2204"}},
    "mig": {"sharing": {"mode": "mig", "layout": {"1g.10gb": 7}}, "gate_nodes": "never"},
    "slices": {"sharing": {"mode": "time-slicing", "replicas": 4}, "workload": "inference"},
    "tuned": {"tuning": {"sysctls": {"vm.swappiness": 10, "net.core.somaxconn": 8192}}},
    "limits": {
        "bootstrap": {
            "kubelet": {
                "pod_pids_limit": 4096,
                "container_log_max_size": "50Mi",
                "container_log_max_files": 3,
                "image_gc_high_percent": 80,
                "image_gc_low_percent": 60,
                "cpu_cfs_quota": False,
            }
        }
    },
    "labelled": {
        "labels": {"example.com/tier": "gold"},
        "taints": [{"key": "example.com/team", "value": "a", "effect": "NoExecute"}],
        "tags": {"cost-center": "ml"},
    },
}
"""Every form of agent pool that a stack can declare, as the fields that differ from `POOL`."""


def platform_of(*pools: dict[str, Any], cluster: dict[str, Any] = CREATED, **rest: Any) -> dict[str, Any]:
    """Return a platform object. Each given pool contains only the fields that differ from `POOL`."""
    return {
        "kind": "environment",
        "cluster": cluster,
        "pools": [{**POOL, **pool} for pool in pools or ({},)],
        **rest,
    }


def recorded(*pools: dict[str, Any], cluster: dict[str, Any] = CREATED, **rest: Any) -> Recorded:
    """Return the resources that the program registers."""
    return record_platform(platform_of(*pools, cluster=cluster, **rest))


def agent_pool(*pools: dict[str, Any], cluster: dict[str, Any] = CREATED, **rest: Any) -> ResourceRecord:
    """Return the first agent pool that the program registers."""
    return recorded(*pools, cluster=cluster, **rest).of("KubernetesClusterNodePool")[0]


def created(cluster: dict[str, Any] = CREATED, **rest: Any) -> ResourceRecord:
    """Return the cluster that the program registers."""
    (record,) = recorded(cluster=cluster, **rest).of("KubernetesCluster")
    return record


def of_azure(recording: Recorded) -> list[ResourceRecord]:
    """Return the Azure resources."""
    return [record for record in recording.resources if record.type.startswith("azure:")]
