"""A stack for each provider. For every field, the tables contain other values and the context in which they are
valid.

A new field in the models needs an entry here only if its values are not a Literal, a bool or a number with a
default. The test fails until the entry exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.stack import workload_cases

PROVIDERS = ("sandbox", "existing", "eks", "gke", "aks")


@dataclass(frozen=True, slots=True)
class By:
    """A value for each provider. `other` is the value for providers that `of` does not contain."""

    of: Mapping[str, Any]
    other: Any = None


def by(other: Any = None, **of: Any) -> By:
    """Return a value that depends on the provider."""
    return By(of, other)


def resolved(value: Any, provider: str) -> Any:
    """Return the value of a table entry for a provider."""
    if isinstance(value, By):
        return value.of.get(provider, value.other)
    return value


_TEAM = {
    "name": "vision",
    "quota": {"cpu": 8, "memory": "32Gi"},
    "priority": "training",
    "members": ["group:vision"],
}

_SPEECH = {"name": "speech", "quota": {"gpus": 0}, "priority": "training", "members": ["user:b@c.de"]}
_FSX = {"type": "existing", "system": "fsx-lustre", "file_system": "fs-0a1b2c3d", "mount_name": "abcdefgh"}
_KEY = "arn:aws:kms:us-east-2:123456789012:key/0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
_ROLE = {"role_arn": "arn:aws:iam::123456789012:role/vision"}
_GOOGLE = {"google_service_account": "vision@my-project.iam.gserviceaccount.com"}
_SCRIPT = {"gcs": "gs://acme-nodes/bootstrap.sh", "generation": 1}
_SECRET = "projects/acme/secrets/bootstrap/versions/{}"
_FILESTORE = {
    "type": "existing",
    "system": "filestore",
    "file_system": "us-central1-a/home",
    "address": "10.0.0.2",
    "share": "vol1",
}

_SHARES = "fileServices/default/shares"
_SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
_GROUP = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
_ADMINS = {"admins": [_GROUP]}
_AZURE = f"/subscriptions/{_SUBSCRIPTION}/resourceGroups/data/providers"
_ACCOUNT = {"storage_account": f"{_AZURE}/Microsoft.Storage/storageAccounts/acmeml"}
_SHARE = {
    "type": "existing",
    "system": "azure-files",
    "file_system": f"{_ACCOUNT['storage_account']}/{_SHARES}/home",
}
_MANAGED = {"managed_identity": f"{_AZURE}/Microsoft.ManagedIdentity/userAssignedIdentities/vision"}
_DISK_KEYS = f"{_AZURE}/Microsoft.Compute/diskEncryptionSets/disks"
_OTHERS = {"name": "acme-others"}
_BUCKETS = by({"buckets": [{"name": "acme-datasets"}]}, aks={"buckets": [{"name": "acme-datasets", **_ACCOUNT}]})
_OTHER_BUCKETS = by([[_OTHERS]], aks=[[{**_OTHERS, **_ACCOUNT}]])
_NETWORK = f"/subscriptions/{_SUBSCRIPTION}/resourceGroups/network/providers/Microsoft.Network"
_SUBNET = f"{_NETWORK}/virtualNetworks/hub/subnets/"
_COMPUTE = f"/subscriptions/{_SUBSCRIPTION}/resourceGroups/capacity/providers/Microsoft.Compute"
_RESERVATIONS = f"{_COMPUTE}/capacityReservationGroups/"
_AKS_H100 = "Standard_ND96isr_H100_v5"

# Each stack has one team, and one pool of GPUs with NVLink, MIG and RDMA.
STACKS: Mapping[str, Mapping[str, Any]] = {
    "sandbox": {
        "kind": "environment",
        "cluster": {"provider": "sandbox", "name": "local"},
        "pools": [
            {"name": "train", "machine_type": "p5.48xlarge", "count": {"desired": 2}, "workload": "training"}
        ],
        "teams": [_TEAM],
    },
    "existing": {
        "kind": "environment",
        "cluster": {"provider": "existing", "name": "dev", "kubernetes": "1.36"},
        "pools": [
            {
                "name": "train",
                "machine_type": "p5.48xlarge",
                "count": {"desired": 2},
                "workload": "training",
                "nodes": {"names": ["train-0", "train-1"]},
            }
        ],
        "teams": [_TEAM],
    },
    "eks": {
        "kind": "environment",
        "cluster": {"provider": "eks", "name": "prod", "region": "us-east-2", "kubernetes": "1.35"},
        "pools": [
            {
                "name": "train",
                "machine_type": "p5.48xlarge",
                "count": {"min": 1, "desired": 2, "max": 4},
                "zones": ["us-east-2a"],
                "workload": "training",
            }
        ],
        "teams": [_TEAM],
    },
    "gke": {
        "kind": "environment",
        "cluster": {
            "provider": "gke",
            "name": "prod",
            "project": "my-project",
            "location": "us-central1",
            "kubernetes": "1.35",
        },
        "pools": [
            {
                "name": "train",
                "machine_type": "a3-megagpu-8g",
                "count": {"desired": 2},
                "zones": ["us-central1-a"],
                "workload": "training",
            }
        ],
        "teams": [{**_TEAM, "members": ["group:vision@example.com"]}],
    },
    "aks": {
        "kind": "environment",
        "cluster": {
            "provider": "aks",
            "name": "prod",
            "subscription": _SUBSCRIPTION,
            "resource_group": "prod",
            "region": "eastus2",
            "kubernetes": "1.35",
        },
        "pools": [
            {
                "name": "train",
                "machine_type": _AKS_H100,
                "count": {"desired": 2},
                "zones": ["1"],
                "workload": "training",
                "gate_nodes": "never",  # AKS has no taints for new nodes, which pools with MIG have elsewhere
            }
        ],
        "teams": [{**_TEAM, "members": [f"group:{_GROUP}"]}],
    },
}

_GROWING = {name: {"min": 1, "desired": 2, "max": 4} for name in ("sandbox", "existing", "eks", "gke", "aks")}
_HOURS = {"start": "07:00", "stop": "20:00"}
_IDLE = {"idle_after": "2h", "prometheus": "http://prometheus.monitoring:9090"}
_OF_HOST = {"toolkit": "host", "driver": {"owner": "host", "version": "580.173.02"}}
_DRA = {
    "pools[0].sharing": by({"mode": "dra"}, gke=None),
    "operator": by(existing=_OF_HOST, aks=_OF_HOST),
}
_PARTITIONS = {
    "cluster": by(
        {"provider": "sandbox"},
        existing={"provider": "existing", "kubernetes": "1.36"},
        eks={"provider": "eks", "name": "prod", "region": "us-east-2", "kubernetes": "1.36"},
        gke={"provider": "gke", "name": "prod", "project": "my-project", "location": "us-central1"},
        aks={**STACKS["aks"]["cluster"], "kubernetes": "1.36"},
    ),
}
_OTHER_POOL = by(
    {
        "name": "other",
        "machine_type": "p5.48xlarge",
        "count": {"desired": 1},
        "zones": ["us-east-2a"],
        "workload": "training",
    },
    gke={
        "name": "other",
        "machine_type": "a3-megagpu-8g",
        "count": {"desired": 1},
        "zones": ["us-central1-a"],
        "workload": "training",
    },
    sandbox={"name": "other", "machine_type": "p5.48xlarge", "count": {"desired": 1}, "workload": "training"},
    aks={"name": "other", "machine_type": _AKS_H100, "count": {"desired": 1}, "workload": "training"},
    existing={
        "name": "other",
        "machine_type": "p5.48xlarge",
        "count": {"desired": 1},
        "workload": "training",
        "nodes": {"names": ["other-0"]},
    },
)
# A machine type with alternatives that differ only in CPU and memory.
_WITH_EQUALS = {"pools[0].machine_type": "g6.12xlarge", "pools[0].workload": "inference"}
_EKS_NETWORK = {
    "vpc": "vpc-0a1b2c3d4e5f60718",
    "subnets": {"us-east-2a": "subnet-0a1b2c3d4e5f60718", "us-east-2b": "subnet-1a1b2c3d4e5f60718"},
}
_EKS_CREATE = {"admins": ["arn:aws:iam::123456789012:role/admin"], "api_access": ["203.0.113.0/24"]}

# NVLink connects the nodes of rack pools.
# All providers except `existing` refuse rack pools without the matching capacity.
_RACK = by({}, existing={"pools[0].machine_type": "p6e-gb200.36xlarge", "operator.driver.version": "580.173.02"})

# For each field, the values that the stack needs so that the field and the fields below it have an effect.
# Each key is the place of a value in the stack file.
# The values of the longest path are applied last.
# The value None removes a field.
CONTEXTS: Mapping[str, Mapping[str, Any] | By] = {
    "budget.usd_per_month": {"budget": {"usd_per_month": 1e9}},
    "monitoring.exporter_version": by(
        {"cluster.parts": {"dcgm_exporter": "present"}}, sandbox={"monitoring.prometheus_operator": True}
    ),
    "cluster(aks).create": {"cluster.create": {**_ADMINS, "api_access": ["203.0.113.0/24"]}},
    "cluster(aks).create.network": {"cluster.create.network": {"subnet": f"{_SUBNET}nodes"}},
    "cluster(aks).create.private": {"cluster.create": _ADMINS},
    "cluster(aks).create.system": {"cluster.create.system": {"min": 3, "max": 5}},
    "cluster(aks).create.api_from_anywhere": {
        "cluster.create": {**_ADMINS, "api_access": ["0.0.0.0/0"], "api_from_anywhere": True}
    },
    "cluster(aks).parts.network_operator": {"pools[0].machine_type": "Standard_ND96isr_H100_v5"},
    "cluster(aks).kubernetes": {"cluster.create": {**_ADMINS, "api_access": ["203.0.113.0/24"]}},
    "cluster(eks).create": {"cluster.create": _EKS_CREATE},
    "cluster(eks).create.network": {"cluster.create.network": _EKS_NETWORK},
    "cluster(eks).kubernetes": {"cluster.create": _EKS_CREATE},  # existing clusters are not upgraded
    "cluster(eks).iam.path": {"cluster.create": _EKS_CREATE},  # an existing cluster already has a role
    # With the layout `ena-and-efa`, both interfaces of network card 0 of p5.48xlarge are in use.
    # No interface is left for pods.
    "cluster(eks).create.network.pod_subnets": {
        "cluster.create.network": _EKS_NETWORK,
        "pools[0].network": {"layout": "efa-primary"},
    },
    "cluster(eks).create.pods_cidr": {
        "cluster.create": _EKS_CREATE,
        "pools[0].network": {"layout": "efa-primary"},
    },
    "cluster(eks).create.api_from_anywhere": {
        "cluster.create": {**_EKS_CREATE, "api_access": ["0.0.0.0/0"], "api_from_anywhere": True}
    },
    "cluster(gke).create.api_from_anywhere": {
        "cluster.create": {"api_access": ["0.0.0.0/0"], "api_from_anywhere": True}
    },
    "cluster(eks).parts.karpenter": {
        "pools[0].machine_type": "g6.12xlarge",
        "pools[0].count": {"desired": 0, "max": 4},
        "pools[0].provisioner": "karpenter",
    },
    "cluster(eks).parts.dranet": {"pools[0].network": {"via": "dranet"}},
    "cluster(eks).parts.karpenter_node_role": {
        "cluster.parts": {"karpenter": "present", "karpenter_node_role": "node-role"}
    },
    "cluster(eks).create.system": {"cluster.create.system": {"min": 2, "desired": 3, "max": 4}},
    "cluster(eks).logins": {
        "cluster.logins": [{"principal": "arn:aws:iam::123456789012:role/vision", "groups": ["vision"]}]
    },
    "cluster(eks).oidc": {"cluster.oidc": {"issuer": "https://login.example.com", "client_id": "kubernetes"}},
    "cluster(gke).create": {"cluster.create": {"api_access": ["203.0.113.0/24"]}},
    "cluster(gke).create.network": {
        "cluster.create.network": {"name": "shared", "subnetwork": "nodes"},
        "pools[0].network": {"rdma": False},
    },
    "cluster(gke).create.dns_access": {"cluster.create": {"api_access": ["203.0.113.0/24"]}},
    "cluster(gke).create.system": {"cluster.create.system": {"min": 1, "max": 5}},
    "cluster(gke).create.maintenance.exclusions": {
        "cluster.create.maintenance.exclusions": [
            {"name": "freeze", "start": "2026-12-20T00:00:00Z", "end": "2027-01-05T00:00:00Z"}
        ]
    },
    "operator.driver.version": by(
        {"operator.driver.owner": "operator"}, eks={"pools[0].image": {"family": "al2023"}}, gke={}
    ),
    "pools[].count.min": by({}, existing={"pools[0].nodes": {"selector": {"node-group": "gpu"}}}),
    "cluster(eks).region": {"pools[0].zones": None, "pools[0].workload": "inference"},
    "pools[].count": {
        "pools[0].count": by(
            {"desired": 2},
            eks={"min": 1, "desired": 2},
            gke={"min": 1, "desired": 2},
            aks={"min": 1, "desired": 2},
        )
    },
    "pools[].capacity(reservation)": {
        "pools[0].capacity": by(
            {"type": "reservation", "reservation": "cr-0a1b2c3d4e5f60718", "zone": "us-east-2a"},
            gke={"type": "reservation", "reservation": "h100", "zone": "us-central1-a"},
            aks={"type": "reservation", "reservation": f"{_RESERVATIONS}gpus", "zone": "1"},
        ),
        # Azure sells no reservations of ND sizes.
        "pools[0].machine_type": by("p5.48xlarge", gke="a3-megagpu-8g", aks="Standard_NC96ads_A100_v4"),
    },
    "pools[].capacity(reservation).zone": {"pools[0].zones": None},
    "pools[].capacity(reservation).sub_block": by({}, gke={"pools[0].capacity.block": "block-a"}),
    "pools[].capacity(reservation).needed_until": by({}, gke={"pools[0].capacity.ends": "2026-12-14T11:30:00Z"}),
    "pools[].capacity(reservation).ends": by(
        {},
        gke={
            "pools[0].capacity.ends": "2026-12-14T11:30:00Z",
            "pools[0].capacity.needed_until": "2026-12-10T00:00:00Z",
        },
    ),
    "pools[].capacity(capacity-block).zone": {"pools[0].zones": None},
    "pools[].capacity(capacity-block)": {
        "pools[0].capacity": {
            "type": "capacity-block",
            "reservation": "cr-0a1b2c3d4e5f60718",
            "zone": "us-east-2a",
            "ends": "2026-12-14T11:30:00Z",
            "needed_until": "2026-12-10T00:00:00Z",
        },
    },
    "pools[].capacity(capacity-block).starts": {"pools[0].count": {"desired": 2, "max": 4}},
    "pools[].capacity(capacity-block).blocks": {
        "pools[0].zones": None,
        "pools[0].count": {"desired": 2, "max": 4},
        "pools[0].capacity": {
            "type": "capacity-block",
            "blocks": [
                {
                    "reservation": "cr-0a1b2c3d4e5f60718",
                    "zone": "us-east-2a",
                    "starts": "2026-12-01T11:30:00Z",
                    "ends": "2026-12-14T11:30:00Z",
                }
            ],
        },
    },
    "pools[].capacity(flex-start)": {
        "pools[0].capacity": {"type": "flex-start"},
        "queueing": {},  # the option `queued` requires this field if the stack has teams
        "pools[0].count": {"desired": 0, "max": 4},
    },
    "pools[].capacity(spot)": {"pools[0].capacity": {"type": "spot"}},
    "pools[].capacity(spot).alternatives": by({}, eks=_WITH_EQUALS),
    "pools[].capacity(on-demand)": {"pools[0].capacity": {"type": "on-demand"}},
    "pools[].capacity(on-demand).alternatives": by({}, eks=_WITH_EQUALS),
    "pools[].placement": {
        "pools[0].placement": by({"type": "cluster"}, gke={"type": "compact"}, aks={"type": "proximity"})
    },
    "pools[].sharing(time-slicing)": {"pools[0].sharing": {"mode": "time-slicing", "replicas": 4}},
    "pools[].sharing(mps)": {"pools[0].sharing": {"mode": "mps", "replicas": 4}},
    "pools[].sharing(mig)": {"pools[0].sharing": {"mode": "mig", "layout": {"1g.10gb": 7}}},
    "pools[].sharing(mig).rename": {"pools[0].sharing.replicas": 2},
    "pools[].sharing(mig).fail_requests_greater_than_one": {"pools[0].sharing.replicas": 2},
    "pools[].sharing(mig).layouts": {
        "pools[0].sharing": {
            "mode": "mig",
            "layouts": [{"devices": [0, 1], "gpu": "H100", "layout": {"1g.10gb": 7}}],
        }
    },
    "pools[].sharing(dra)": {**_DRA, "pools[0].sharing": {"mode": "dra"}},
    "pools[].sharing(dra).partitions": _PARTITIONS,
    "pools[].sharing": {"sharing.named": {"mode": "time-slicing", "replicas": 4}},
    "pools[].per_node": {
        "sharing": {
            "named": {"mode": "time-slicing", "replicas": 4},
            "halves": {"mode": "time-slicing", "replicas": 2},
        },
        "pools[0].per_node": [{"nodes": ["train-0"], "sharing": "named"}],
    },
    "device_classes{}.type": {
        **_PARTITIONS,
        "pools[0].sharing": by({"mode": "dra", "partitions": True}, gke=None),
        "device_classes.large": {"memory": "9Gi"},
    },
    "device_classes{}.profile": {
        **_PARTITIONS,
        "pools[0].sharing": by({"mode": "dra", "partitions": True}, gke=None),
        "device_classes.large": {},
    },
    "compute_classes": {
        "pools[1]": _OTHER_POOL,
        "pools[0].count": by({"desired": 2}, eks={"min": 1, "desired": 2}, gke={"min": 1, "desired": 2}),
        "compute_classes": [{"name": "h100", "pools": ["train", "other"]}],
    },
    "pools[].topology": {"pools[0].topology": {"policy": "restricted"}},
    "pools[].tuning": {"pools[0].tuning": {}},
    "pools[].headroom": {"pools[0].count": by({"desired": 2}, **_GROWING)},
    "pools[].schedule": {
        "pools[0].count": {"desired": 2},
        "pools[0].workload": "development",
        "pools[0].schedule": _HOURS,
    },
    "pools[].schedule.stops_work": {
        "pools[0].workload": "training",
        "pools[0].schedule": {**_HOURS, "stops_work": True},
    },
    "pools[].bootstrap": {"pools[0].bootstrap": {}},
    "pools[].bootstrap.settings": {
        "pools[0].bootstrap": {},
        "pools[0].image": by({}, eks={"family": "bottlerocket"}),
    },
    "pools[].bootstrap.kubelet": {"pools[0].bootstrap": {"kubelet": {}}},
    "pools[].bootstrap.script.gcs": {"pools[0].bootstrap": {"script": _SCRIPT}},
    "pools[].bootstrap.script.generation": {"pools[0].bootstrap": {"script": _SCRIPT}},
    "pools[].bootstrap.script.secret": {"pools[0].bootstrap": {"script": {"secret": _SECRET.format(1)}}},
    "validation.gate_nodes": by({}, aks={"pools[0].gate_nodes": None}),
    "pools[].gate_nodes": by({}, eks={"pools[0].image": {"ami": "ami-0a1b2c3d4e5f60718"}}),
    "cleanup.idle_after": {"cleanup": _IDLE},
    "cleanup.prometheus": {"cleanup": _IDLE},
    "validation.max_held_percent": {"validation": {"gate_nodes": "always"}},
    "validation.burn_in": {"validation.burn_in": {}},
    "validation.on_failure": {"validation": {"gate_nodes": "always"}},
    "validation.host_processes": {
        "pools[0].machine_type": by("p4de.24xlarge", gke="a2-highgpu-8g", aks="Standard_ND96amsr_A100_v4")
    },
    "validation.node_readiness": {"validation": {"gate_nodes": "startup"}},
    "validation.failing_for": by({"validation": {"gate_nodes": "always", "on_failure": "cordon"}}, aks={}),
    "pools[].taints": {"pools[0].taints": [{"key": "example.com/team", "value": "a", "effect": "NoSchedule"}]},
    "pools[].nodes": {"pools[0].nodes": {"names": ["train-0", "train-1"]}},
    "pools[].nodes.selector": {"pools[0].nodes": {"selector": {"node-group": "gpu"}}},
    "pools[].provisioner": by({}, eks={"pools[0].count": {"desired": 0, "max": 4}}),
    "pools[].karpenter": {
        "pools[0].machine_type": by("g6.12xlarge", gke="a3-megagpu-8g", aks=_AKS_H100),
        "pools[0].count": {"desired": 0, "max": 4},
        "pools[0].provisioner": "karpenter",
        "pools[0].karpenter": {},
    },
    "pools[].karpenter.limits": {"pools[0].karpenter": {"alternatives": ["g6.24xlarge"]}},
    "pools[].device_plugin": by({}, eks={"pools[0].image": {"family": "bottlerocket"}}),
    "pools[].image.driver": by({}, eks={"pools[0].image": {"ami": "ami-0a1b2c3d4e5f60718"}}),
    "pools[].image.fast_pull": by({}, eks={"pools[0].local_nvme": False}),
    "pools[].image.cache": by(
        {},
        eks={"pools[0].image": {"family": "bottlerocket"}, "pools[0].local_nvme": False},
        gke={"pools[0].image": {"fast_pull": True}},
    ),
    "pools[].image.family": {"pools[0].machine_type": by("p5.48xlarge", gke="a2-ultragpu-8g", aks=_AKS_H100)},
    "pools[].network.via": {"pools[0].machine_type": by("p5.48xlarge", gke="a3-megagpu-8g", aks=_AKS_H100)},
    "pools[].upgrade": {"pools[0].placement": by(gke={"type": "none"})},
    "device_classes{}": {**_DRA, "device_classes.large": {"memory": "40Gi"}},
    "teams[].quota.gpus": {"teams[0].quota.gpus": 8},
    "teams[].quota.shared": {
        "pools[0].sharing": {"mode": "time-slicing", "replicas": 4},
        "teams[0].quota.shared": 8,
    },
    "teams[].quota.mig": {
        "pools[0].sharing": {"mode": "mig", "layout": {"1g.10gb": 7}},
        "teams[0].quota.mig": {"1g.10gb": 7},
    },
    "teams[].quota.mig_shared": {
        "pools[0].sharing": {"mode": "mig", "layout": {"1g.10gb": 7}, "replicas": 2},
        "teams[0].quota.mig_shared": {"1g.10gb": 7},
    },
    "teams[].quota.devices": {**_DRA, "teams[0].quota.devices": {"gpu.nvidia.com": 8}},
    "queueing": {"queueing": {}, "teams[0].quota.gpus": 8},
    "queueing.reserve": {"queueing": {"reserve": {"gpus": 1}}, "teams[0].quota.gpus": 4},
    "queueing.reserve.shared": {
        "pools[0].sharing": {"mode": "time-slicing", "replicas": 4},
        "teams[0].quota": {"shared": 8},
        "queueing": {"reserve": {"shared": 1}},
    },
    "queueing.reserve.mig": {
        "pools[0].sharing": {"mode": "mig", "layout": {"1g.10gb": 7}},
        "teams[0].quota": {"mig": {"1g.10gb": 7}},
        "queueing": {"reserve": {"mig": {"1g.10gb": 1}}},
    },
    "queueing.reserve.mig_shared": {
        "pools[0].sharing": {"mode": "mig", "layout": {"1g.10gb": 7}, "replicas": 2},
        "teams[0].quota": {"mig_shared": {"1g.10gb": 7}},
        "queueing": {"reserve": {"mig_shared": {"1g.10gb": 1}}},
    },
    "queueing.reserve.devices": {
        **_DRA,
        "teams[0].quota": {"devices": {"gpu.nvidia.com": 4}},
        "queueing": {"reserve": {"devices": {"gpu.nvidia.com": 1}}},
    },
    "teams[].queue": {"queueing": {}, "teams[0].quota.gpus": 8, "teams[0].queue": {"cohort": "teams"}},
    "teams[].queue.borrow": {"teams[0].queue.borrow": {"gpus": 1}},
    "teams[].queue.borrow.shared": {
        "pools[0].sharing": {"mode": "time-slicing", "replicas": 4},
        "teams[0].quota": {"shared": 8},
        "teams[0].queue.borrow": {"shared": 1},
    },
    "teams[].queue.borrow.mig": {
        "pools[0].sharing": {"mode": "mig", "layout": {"1g.10gb": 7}},
        "teams[0].quota": {"mig": {"1g.10gb": 7}},
        "teams[0].queue.borrow": {"mig": {"1g.10gb": 1}},
    },
    "teams[].queue.borrow.mig_shared": {
        "pools[0].sharing": {"mode": "mig", "layout": {"1g.10gb": 7}, "replicas": 2},
        "teams[0].quota": {"mig_shared": {"1g.10gb": 7}},
        "teams[0].queue.borrow": {"mig_shared": {"1g.10gb": 1}},
    },
    "teams[].queue.borrow.devices": by(
        {
            **_DRA,
            "teams[0].quota": {"devices": {"gpu.nvidia.com": 8}},
            "teams[0].queue.borrow": {"devices": {"gpu.nvidia.com": 1}},
        },
        gke={},
    ),
    "teams[].queue.lend": {"teams[0].queue.lend": {"gpus": 1}},
    "teams[].queue.lend.shared": {
        "pools[0].sharing": {"mode": "time-slicing", "replicas": 4},
        "teams[0].quota": {"shared": 8},
        "teams[0].queue.lend": {"shared": 1},
    },
    "teams[].queue.lend.mig": {
        "pools[0].sharing": {"mode": "mig", "layout": {"1g.10gb": 7}},
        "teams[0].quota": {"mig": {"1g.10gb": 7}},
        "teams[0].queue.lend": {"mig": {"1g.10gb": 1}},
    },
    "teams[].queue.lend.mig_shared": {
        "pools[0].sharing": {"mode": "mig", "layout": {"1g.10gb": 7}, "replicas": 2},
        "teams[0].quota": {"mig_shared": {"1g.10gb": 7}},
        "teams[0].queue.lend": {"mig_shared": {"1g.10gb": 1}},
    },
    "teams[].queue.lend.devices": by(
        {
            **_DRA,
            "teams[0].quota": {"devices": {"gpu.nvidia.com": 8}},
            "teams[0].queue.lend": {"devices": {"gpu.nvidia.com": 1}},
        },
        gke={},
    ),
    "teams[].claims": {
        **_DRA,
        "teams[0].quota.devices": {"gpu.nvidia.com": 8},
        "teams[0].claims": [{"name": "one"}],
    },
    "teams[].claims[].device_class": {
        "device_classes.large": {"memory": "40Gi"},
        "teams[0].quota.devices": {"gpu.nvidia.com": 8, "large": 8},
    },
    "teams[].claims[].profile": {
        **_PARTITIONS,
        "pools[0].sharing": by({"mode": "dra", "partitions": True}, gke=None),
        "teams[0].quota.devices": {"mig.nvidia.com": 8},
        "teams[0].claims": [{"name": "one", "profile": "1g.10gb"}],
    },
    "teams[].workloads": {
        "teams[0].quota": {"gpus": 8},
        "teams[0].workloads": [{"name": "pretrain", "pool": "train"}],
    },
    "teams[].workloads[].pool": {"pools[1]": _OTHER_POOL},
    "teams[].workloads[].compute_domain": _RACK,
    "operator.compute_domains": _RACK,
    "teams[].workloads[].profile": {
        "pools[0].sharing": {"mode": "mig", "layout": {"1g.10gb": 1, "2g.20gb": 1}},
        "teams[0].quota": {"mig": {"1g.10gb": 4, "2g.20gb": 4}},
        "teams[0].workloads": [{"name": "pretrain", "pool": "train", "profile": "1g.10gb"}],
    },
    "charts{}": {"charts.gpu-operator": {"values": {"a": 1}}},
    "storage{}(disk)": {"storage.work": {"type": "disk"}},
    "storage{}(disk).disk": {
        "storage.work": by({"type": "disk"}, eks={"type": "disk", "disk": "io2", "iops": 5000})
    },
    "storage{}(disk).iops": {
        "storage.work": by({"type": "disk"}, gke={"type": "disk", "disk": "hyperdisk-balanced"})
    },
    "storage{}(nfs)": {"storage.work": by({"type": "nfs"}, eks={"type": "nfs", "file_system": "fs-0a1b2c3d"})},
    "storage{}(nfs).kms_key": by(
        {"storage.work": {"type": "nfs"}},
        eks={"cluster.create": _EKS_CREATE, "storage.work": {"type": "nfs"}},
    ),
    "storage{}(lustre)": {"storage.work": {"type": "lustre"}},
    "storage{}(bucket)": {"storage.work": {"type": "bucket", "bucket": "acme-datasets"}},
    "storage{}(existing)": {"storage.work": by(_FILESTORE, eks=_FSX, aks=_SHARE)},
    "storage{}(existing).teams": {"storage.work": by(_FILESTORE, eks=_FSX, aks=_SHARE), "teams[1]": _SPEECH},
    "storage{}(bucket).teams": {
        "storage.work": {"type": "bucket", "bucket": "acme-datasets"},
        "teams[1]": _SPEECH,
    },
    "storage{}(bucket).kms_key": {
        "cluster.create": by(None, eks=_EKS_CREATE),
        "storage.work": {"type": "bucket", "bucket": "acme-datasets"},
    },
    "teams[].egress[]": {"teams[0].egress": [{"cidr": "10.0.0.0/8"}]},
    "teams[].egress[].fqdn": {
        "cluster.fqdn_policies": by(None, gke=True),
        "cluster.network_policies": by(None, existing="cilium"),
        "teams[0].egress": [{"fqdn": "huggingface.co"}],
    },
    "cluster(existing).network_policies": {"teams[0].egress": [{"fqdn": "huggingface.co"}]},
    "teams[].ingress[].namespace": {"teams[0].ingress": [{"namespace": "ingress", "ports": [8080]}]},
    "teams[].ingress[].cidr": {"teams[0].ingress": [{"cidr": "10.0.0.0/8", "ports": [8080]}]},
    "teams[].ingress[].ports": {"teams[0].ingress": [{"namespace": "ingress", "ports": [8080]}]},
    "teams[].identity": {"teams[0].identity": By({**_BUCKETS.of, "existing": _ROLE}, _BUCKETS.other)},
    "teams[].identity.role_arn": {"teams[0].identity": _ROLE},
    "teams[].identity.google_service_account": {"teams[0].identity": _GOOGLE},
    "teams[].identity.managed_identity": {"teams[0].identity": _MANAGED},
    "teams[].identity.buckets": {"teams[0].identity": _BUCKETS},
    "team_identities": {"team_identities.speech": _BUCKETS},
    "team_identities{}.role_arn": {"team_identities": {"speech": _ROLE}},
    "team_identities{}.google_service_account": {"team_identities": {"speech": _GOOGLE}},
    "team_identities{}.managed_identity": {"team_identities": {"speech": _MANAGED}},
    "changes.window": {"changes.window": {"days": ["sat"], "start": "22:00", "duration": "6h"}},
    "overcommit": {"teams[0].quota.gpus": by(20, eks=40)},
    "teams[].workloads[].claim": {
        **_DRA,
        "teams[0].quota": {"devices": {"gpu.nvidia.com": 8}},
        "teams[0].claims": [{"name": "one"}, {"name": "two"}],
        "teams[0].workloads": [{"name": "pretrain", "pool": "train", "claim": "one"}],
    },
    **dict(workload_cases.contexts(by, _OTHER_POOL, _DRA)),
}

# Alternative values for each field.
# With each alternative, the plan must differ from the plan of the original stack.
# The first entry of `teams` is also the `team` of a team stack.
# The `sharing` of a pool is also a named sharing of the environment.
ALTERNATIVES: Mapping[str, Any] = {
    "cluster(sandbox).name": ["other"],
    "cluster(existing).name": ["other"],
    "cluster(existing).kubeconfig": ["~/.kube/other"],
    "cluster(existing).context": ["other"],
    "cluster(sandbox).kubernetes": ["1.35"],
    "cluster(existing).kubernetes": ["1.35"],
    "cluster(aks).name": ["other"],
    "cluster(aks).subscription": [_GROUP],
    "cluster(aks).resource_group": ["other"],
    "cluster(aks).region": ["westeurope"],
    "cluster(aks).kubernetes": ["1.34"],
    "cluster(aks).tags": [{"cost-center": "ml"}],
    "cluster(aks).create.network": [{"subnet": f"{_SUBNET}nodes"}],
    "cluster(aks).create.network.subnet": [f"{_SUBNET}others"],
    "cluster(aks).create.nodes_cidr": ["10.8.0.0/16"],
    "cluster(aks).create.pods_cidr": ["10.64.0.0/16"],
    "cluster(aks).create.services_cidr": ["10.3.0.0/16"],
    "cluster(aks).create.api_access": [["198.51.100.0/24"]],
    "cluster(aks).create.api_from_anywhere": [False],
    "cluster(aks).create.admins": [[_SUBSCRIPTION]],
    "cluster(aks).create.system.machine_type": ["Standard_D8ds_v5"],
    "cluster(aks).create.system.zones": [["1"]],
    "cluster(aks).create.disk_encryption_set": [_DISK_KEYS],
    "cluster(aks).create.kms_key": [f"{_AZURE}/Microsoft.KeyVault/vaults/acme/keys/secrets/versions/{'0' * 32}"],
    "cluster(eks).name": ["other"],
    "cluster(eks).region": ["us-west-2"],
    "cluster(eks).account": ["123456789012"],
    "cluster(eks).kubernetes": ["1.34"],
    "cluster(eks).create.network": [_EKS_NETWORK],
    "cluster(eks).create.services_cidr": ["10.200.0.0/16"],
    "cluster(eks).create.network.vpc": ["vpc-1a1b2c3d4e5f60718"],
    "cluster(eks).create.network.subnets": [
        {**_EKS_NETWORK["subnets"], "us-east-2c": "subnet-2a1b2c3d4e5f60718"},
        {**_EKS_NETWORK["subnets"], "us-east-2a": "subnet-2a1b2c3d4e5f60718"},
    ],
    "cluster(eks).create.network.control_plane_subnets": [
        ["subnet-3a1b2c3d4e5f60718", "subnet-4a1b2c3d4e5f60718"]
    ],
    "cluster(eks).create.network.pod_subnets": [
        {"us-east-2a": "subnet-5a1b2c3d4e5f60718", "us-east-2b": "subnet-6a1b2c3d4e5f60718"}
    ],
    "cluster(eks).create.pods_cidr": ["100.64.0.0/16"],
    "cluster(eks).create.kms_key": ["arn:aws:kms:us-east-2:123456789012:key/0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"],
    "cluster(eks).assume_role": ["arn:aws:iam::123456789012:role/deployer"],
    "cluster(eks).iam.path": ["/gpu/"],
    "cluster(eks).iam.permissions_boundary": ["arn:aws:iam::123456789012:policy/boundary"],
    "cluster(eks).iam.node_role": ["arn:aws:iam::123456789012:role/nodes"],
    "cluster(eks).tags": [{"cost-center": "ml"}],
    "cluster(gke).impersonate": ["deployer@my-project.iam.gserviceaccount.com"],
    "cluster(gke).labels": [{"cost-center": "ml"}],
    "cluster(eks).create.cidr": ["10.8.0.0/16"],
    "cluster(eks).create.zones": [["us-east-2b", "us-east-2c"]],
    "cluster(eks).create.api_from_anywhere": [False],
    "cluster(gke).create.api_from_anywhere": [False],
    "cluster(eks).create.api_access": [["198.51.100.0/24"]],
    "cluster(eks).create.admins": [["arn:aws:iam::123456789012:user/other"]],
    "cluster(eks).create.system.machine_types": [["m7i.2xlarge"]],
    "cluster(eks).create.system.min": [3],
    "cluster(eks).create.system.release": ["1.35.4-20260818"],
    "cluster(eks).parts.karpenter_node_role": ["other-role"],
    "cluster(eks).logins[].principal": ["arn:aws:iam::123456789012:role/other"],
    "cluster(eks).logins[].groups": [["other"]],
    "cluster(eks).logins[].username": ["vision:{{SessionName}}"],
    "cluster(eks).oidc.issuer": ["https://other.example.com"],
    "cluster(eks).oidc.client_id": ["other"],
    "cluster(eks).oidc.username_claim": ["email"],
    "cluster(eks).oidc.username_prefix": ["-"],
    "cluster(eks).oidc.groups_claim": ["groups"],
    "cluster(eks).oidc.groups_prefix": ["oidc:"],
    "cluster(eks).subnets": [{"us-east-2a": "subnet-0a1b2c3d4e5f60718"}],
    "cluster(eks).security_groups": [["sg-0a1b2c3d4e5f60718"]],
    "cluster(gke).name": ["other"],
    "cluster(gke).project": ["other-project"],
    "cluster(gke).location": ["us-central1-a"],
    "cluster(gke).kubernetes": ["1.34"],
    "cluster(gke).create.network.project": ["host-project"],
    "cluster(gke).create.network.name": ["other"],
    "cluster(gke).create.network.subnetwork": ["other"],
    "cluster(gke).create.network.pods_range": ["other"],
    "cluster(gke).create.network.services_range": ["other"],
    "cluster(gke).node_service_account": ["gke-nodes@my-project.iam.gserviceaccount.com"],
    "cluster(gke).gpu_networks_cidr": ["10.200.0.0/16"],
    "cluster(gke).create.nodes_cidr": ["10.2.0.0/20"],
    "cluster(gke).create.pods_cidr": ["10.32.0.0/12"],
    "cluster(gke).create.services_cidr": ["10.3.0.0/20"],
    "cluster(gke).create.control_plane_cidr": ["172.16.1.0/28"],
    "cluster(gke).create.api_access": [["198.51.100.0/24"]],
    "cluster(gke).create.system.machine_type": ["e2-standard-8"],
    "cluster(gke).create.system.kms_key": ["projects/p/locations/us-central1/keyRings/r/cryptoKeys/k"],
    "cluster(gke).create.kms_key": ["projects/p/locations/us-central1/keyRings/r/cryptoKeys/k"],
    "cluster(eks).create.system.kms_key": [
        "arn:aws:kms:us-east-2:123456789012:key/0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
    ],
    "cluster(gke).create.authenticator_groups": ["gke-security-groups@example.com"],
    "cluster(gke).create.maintenance.start": ["2026-02-07T01:00:00Z"],
    "cluster(gke).create.maintenance.recurrence": ["FREQ=DAILY"],
    "cluster(gke).create.maintenance.exclusions[].name": ["other"],
    "cluster(gke).create.maintenance.exclusions[].start": ["2026-12-21T00:00:00Z"],
    "cluster(gke).create.maintenance.exclusions[].end": ["2027-01-04T00:00:00Z"],
    "operator.release": ["v26.3.3"],
    "operator.compute_domains": [False],
    "operator.driver.version": ["590.48.01"],
    "device_classes{}.memory": ["60Gi"],
    "device_classes{}.product": ["H100"],
    "device_classes{}.profile": ["1g.10gb"],
    "device_classes{}.selector": ["device.attributes['gpu.nvidia.com'].productName == 'NVIDIA H100 80GB HBM3'"],
    "pools[].name": ["other"],
    "pools[].machine_type": by(["p4de.24xlarge"], gke=["a2-ultragpu-8g"], aks=["Standard_ND96amsr_A100_v4"]),
    "pools[].count.max": [3],
    "pools[].capacity(reservation).reservation": by(
        ["cr-0a1b2c3d4e5f60719"], gke=["other"], aks=[f"{_RESERVATIONS}others"]
    ),
    "pools[].capacity(reservation).zone": by(["us-east-2b"], gke=["us-central1-b"], aks=["2"]),
    "pools[].capacity(reservation).placement_group": ["group-a"],
    "pools[].capacity(reservation).project": ["other-project"],
    "pools[].capacity(reservation).block": ["block-a"],
    "pools[].capacity(reservation).sub_block": ["sub-block-a"],
    "pools[].capacity(reservation).ends": ["2026-12-09T00:00:00Z"],
    "pools[].capacity(reservation).needed_until": ["2026-12-20T00:00:00Z"],
    "pools[].capacity(capacity-block).reservation": ["cr-0a1b2c3d4e5f60719"],
    "pools[].capacity(reservation).starts": ["2026-12-01T00:00:00Z"],
    "pools[].capacity(capacity-block).starts": ["2026-12-01T11:30:00Z"],
    "pools[].capacity(capacity-block).blocks[].reservation": ["cr-0a1b2c3d4e5f60719"],
    "pools[].capacity(capacity-block).blocks[].zone": ["us-east-2b"],
    "pools[].capacity(capacity-block).blocks[].starts": ["2026-12-02T11:30:00Z"],
    "pools[].capacity(capacity-block).blocks[].ends": ["2026-12-13T11:30:00Z"],
    "pools[].capacity(capacity-block).zone": ["us-east-2b"],
    "pools[].capacity(capacity-block).ends": ["2026-12-09T00:00:00Z"],
    "pools[].capacity(capacity-block).needed_until": ["2026-12-20T00:00:00Z"],
    "pools[].capacity(flex-start).max_run_duration": ["24h"],
    "pools[].placement.group": ["group-a"],
    "pools[].zones": by([["us-east-2b"]], gke=[["us-central1-b"]], aks=[["2"]]),
    "pools[].sharing": ["named"],
    "pools[].sharing(time-slicing).replicas": [8, {"H100": 2}],
    "pools[].sharing(mps).replicas": [8, {"H100": 2}],
    "pools[].sharing(mig).layout": [{"2g.20gb": 3}, "all-balanced"],
    "pools[].sharing(mig).layouts[].devices": [[2, 3]],
    "pools[].sharing(mig).layouts[].gpu": [None],
    "pools[].sharing(mig).layouts[].layout": [{"2g.20gb": 3}, "all-balanced"],
    "pools[].sharing(mig).drain_timeout": ["20m"],
    "pools[].sharing(mig).replicas": [2, {"H100": 3}],
    "pools[].per_node[].nodes": [["train-1"]],
    "pools[].per_node[].sharing": ["halves"],
    "chart_mirror": ["oci://registry.example.com/charts"],
    "charts{}.repository": ["https://charts.example.com"],
    "charts{}.values": [{"b": 2}],
    "compute_classes[].name": ["other"],
    "compute_classes[].pools": [["other", "train"]],
    "policy.own_rules": [["acme_rules"]],
    "images.mirror": ["registry.example.com/mirror"],
    "images.registries": [{"docker.io": "registry.example.com/hub"}],
    "images.pull_secrets": [["company-registry"]],
    "objects.labels": [{"example.com/cost-center": "ml"}],
    "objects.annotations": [{"example.com/owner": "ml"}],
    "pools[].tags": [{"cost-center": "ml"}],
    "pools[].labels": [{"example.com/tier": "gold"}],
    "pools[].taints[].key": ["example.com/other"],
    "pools[].taints[].value": ["b"],
    "pools[].nodes.names": [["train-0", "train-2"]],
    "pools[].nodes.selector": [{"node-group": "other"}],
    "pools[].capacity(on-demand).alternatives": [["g6.24xlarge"]],
    "pools[].capacity(spot).alternatives": [["g6.24xlarge"]],
    "pools[].karpenter.alternatives": [["g6.24xlarge"]],
    "pools[].karpenter.consolidate_after": ["77m"],
    "pools[].karpenter.expire_after": ["77h"],
    "pools[].karpenter.limits": [{"cpu": "200"}],
    "pools[].image.ami": ["ami-0a1b2c3d4e5f60718"],
    "pools[].image.release": by(["1.35.4-20260818"], gke=["1.35.1-gke.1396000"]),
    "pools[].image.driver": ["580.173.02"],
    "pools[].image.fast_pull": [True],
    "pools[].image.cache": by(["projects/p/global/images/torch"], eks=["snap-0a1b2c3d4e5f60718"]),
    "pools[].disk.kms_key": by(
        ["arn:aws:kms:us-east-2:123456789012:key/a"],
        gke=["projects/p/locations/us-central1/keyRings/r/cryptoKeys/k"],
    ),
    "pools[].upgrade.max_surge": [2],
    "pools[].upgrade.max_unavailable": [2],
    "pools[].tuning.intent": ["training"],
    "pools[].tuning.sysctls": [{"vm.max_map_count": 1048576}],
    "pools[].tuning.huge_pages": [1024],
    "pools[].bootstrap": [{"kubelet": {"pod_pids_limit": 4096}}],
    "pools[].bootstrap.commands": [["update-ca-trust"]],
    "pools[].bootstrap.settings": [{"motd": "acme"}],
    "pools[].bootstrap.script": [_SCRIPT],
    "pools[].bootstrap.script.gcs": ["gs://acme-nodes/other.sh"],
    "pools[].bootstrap.script.secret": [_SECRET.format(2)],
    "pools[].bootstrap.kubelet": [{"pod_pids_limit": 4096}],
    "pools[].bootstrap.kubelet.pod_pids_limit": [4096],
    "pools[].bootstrap.kubelet.container_log_max_size": ["50Mi"],
    "pools[].bootstrap.kubelet.container_log_max_files": [3],
    "pools[].bootstrap.kubelet.image_gc_high_percent": [70],
    "pools[].bootstrap.kubelet.image_gc_low_percent": [50],
    "pools[].usd_per_hour": [12.5],
    "pools[].utilisation": [0.5],
    "pools[].headroom": [8],
    "pools[].schedule": [{"start": "08:00", "stop": "18:00"}],
    "pools[].schedule.days": [["mon"]],
    "pools[].schedule.start": ["08:00"],
    "pools[].schedule.stop": ["18:00"],
    "pools[].schedule.time_zone": ["Europe/Berlin"],
    "pools[].schedule.stops_work": [False],
    "priorities": [{"batch": 10}],
    "teams[].name": ["other"],
    "queueing": [{}],
    "queueing.pods_ready_timeout": ["3h"],
    "queueing.reserve": [{"gpus": 2}],
    "queueing.reserve.mig": [{"1g.10gb": 2}],
    "queueing.reserve.mig_shared": [{"1g.10gb": 2}],
    "queueing.reserve.devices": [{"gpu.nvidia.com": 2}],
    "teams[].queue": [{"weight": 2.0}],
    "teams[].queue.cohort": ["others"],
    "teams[].queue.borrow": [{"gpus": 2}],
    "teams[].queue.borrow.mig": [{"1g.10gb": 2}],
    "teams[].queue.borrow.mig_shared": [{"1g.10gb": 2}],
    "teams[].queue.borrow.devices": [{"gpu.nvidia.com": 2}],
    "teams[].queue.lend": [{"gpus": 2}],
    "teams[].queue.lend.mig": [{"1g.10gb": 2}],
    "teams[].queue.lend.mig_shared": [{"1g.10gb": 2}],
    "teams[].queue.lend.devices": [{"gpu.nvidia.com": 2}],
    "teams[].quota.mig": [{"1g.10gb": 8}],
    "teams[].quota.mig_shared": [{"1g.10gb": 8}],
    "teams[].quota.devices": [{"gpu.nvidia.com": 9}],
    "teams[].quota.cpu": [9],
    "teams[].quota.memory": ["33Gi"],
    "teams[].quota.objects.storage": ["5Ti"],
    "teams[].priority": ["inference"],
    "teams[].members": [["user:ada@example.com"]],
    "teams[].admins": [["user:ada@example.com"]],
    "teams[].viewers": [["user:ada@example.com"]],
    "teams[].claims[].memory": ["40Gi"],
    "teams[].claims[].product": ["H100"],
    "teams[].claims[].profile": ["2g.20gb"],
    "teams[].claims[].selector": [
        "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA H100 80GB HBM3'",
    ],
    "teams[].claims[].name": ["other"],
    "teams[].claims[].device_class": ["large"],
    "teams[].workloads[].name": ["other"],
    "teams[].workloads[].pool": ["other"],
    "teams[].workloads[].profile": ["2g.20gb"],
    "teams[].workloads[].claim": ["two"],
    "teams[].workloads[].gpu_memory": ["200Gi"],
    "teams[].workloads[].cpu": ["2"],
    "teams[].workloads[].memory": ["8Gi"],
    "teams[].workloads[].image": ["registry.example.com/train:1.0"],
    "teams[].workloads[].command": [["python", "train.py"]],
    "teams[].workloads[].run_as_user": [1000],
    "teams[].pod_security": ["baseline"],
    "overcommit": [1.5],
    "storage": [{"work": {"type": "disk"}}],
    "storage{}(disk)": by([{"type": "nfs"}], eks=[{"type": "lustre"}]),
    "storage{}(disk).disk": by(["hyperdisk-balanced"], eks=["gp3"], aks=["standard-ssd"]),
    "storage{}(nfs)": [{"type": "disk"}],
    "storage{}(lustre)": [{"type": "disk"}],
    "storage{}(bucket)": [{"type": "disk"}],
    "storage{}(existing)": [{"type": "disk"}],
    "storage{}(existing).system": by(["managed-lustre"], eks=["filestore"], aks=["efs"]),
    "storage{}(existing).file_system": by(
        ["us-central1-b/other"], eks=["fs-0a1b2c3e"], aks=[f"{_ACCOUNT['storage_account']}/{_SHARES}/other"]
    ),
    "storage{}(existing).mount_name": ["fsx"],
    "storage{}(existing).address": ["10.0.0.9"],
    "storage{}(existing).share": ["vol2"],
    "storage{}(existing).directory": ["teams/{team}"],
    "storage{}(existing).teams": [["vision"]],
    "storage{}(bucket).team_stacks": [["other"]],
    "storage{}(existing).team_stacks": [["other"]],
    "storage{}(bucket).bucket": ["acme-others"],
    "storage{}(bucket).prefix": ["imagenet"],
    "storage{}(bucket).teams": [["vision"]],
    "storage{}(bucket).purpose": ["checkpoints"],
    "storage{}(bucket).read_only": [False],
    "storage{}(bucket).cache_gb": [10],
    "storage{}(bucket).kms_key": ["arn:aws:kms:us-east-2:123456789012:key/0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"],
    "storage{}(disk).iops": [5000],
    "storage{}(disk).kms_key": by(["arn:aws:kms:us-east-2:123456789012:key/a"], aks=[_DISK_KEYS]),
    "storage{}(nfs).file_system": ["fs-0a1b2c3e"],
    "storage{}(nfs).kms_key": ["arn:aws:kms:us-east-2:123456789012:key/a"],
    "storage{}(lustre).zone": by(["us-east-2b"], gke=["us-central1-b"]),
    "storage{}(lustre).kms_key": ["arn:aws:kms:us-east-2:123456789012:key/a"],
    "teams[].identity": by([{"buckets": [_OTHERS]}], existing=[_GOOGLE], aks=[_MANAGED]),
    "team_identities": by([{"speech": {"buckets": [_OTHERS]}}], aks=[{"speech": _MANAGED}]),
    "team_identities{}": by([{"buckets": [_OTHERS]}], aks=[_MANAGED]),
    "teams[].image_pull_secrets": [["registry"]],
    "teams[].egress": [["internet"], [{"cidr": "10.0.0.0/8"}]],
    "teams[].scaling.servers": [["http://prometheus.obs.svc:9090"]],
    "teams[].scaling.triggers": [["redis"]],
    "teams[].routes.hosts": [["a.example.com"]],
    "teams[].routes.annotations": [["tailscale.com/expose"]],
    "teams[].inline_csi_drivers": [["secrets-store.csi.k8s.io"]],
    "teams[].allow_bare_pods": by([True], eks=[True]),
    "teams[].egress[].cidr": ["192.168.0.0/16"],
    "teams[].egress[].fqdn": ["*.example.com"],
    "teams[].egress[].ports": [[5432]],
    "teams[].ingress": [[{"namespace": "ingress", "ports": [8080]}]],
    "teams[].ingress[].namespace": ["gateway"],
    "teams[].ingress[].cidr": ["192.168.0.0/16"],
    "teams[].ingress[].ports": [[9090]],
    "teams[].identity.buckets": _OTHER_BUCKETS,
    "teams[].identity.buckets[].name": ["acme-others"],
    "teams[].identity.buckets[].prefix": ["vision"],
    "teams[].identity.buckets[].storage_account": [_ACCOUNT["storage_account"].replace("acmeml", "other")],
    "teams[].identity.buckets[].kms_key": [_KEY],
    "teams[].identity.role_arn": ["arn:aws:iam::123456789012:role/other"],
    "teams[].identity.google_service_account": ["speech@my-project.iam.gserviceaccount.com"],
    "teams[].identity.managed_identity": [_MANAGED["managed_identity"].replace("vision", "speech")],
    "team_identities{}.buckets": _OTHER_BUCKETS,
    "team_identities{}.buckets[].name": ["acme-others"],
    "team_identities{}.buckets[].prefix": ["vision"],
    "team_identities{}.buckets[].storage_account": [_ACCOUNT["storage_account"].replace("acmeml", "other")],
    "team_identities{}.buckets[].kms_key": [_KEY],
    "team_identities{}.role_arn": ["arn:aws:iam::123456789012:role/other"],
    "team_identities{}.google_service_account": ["speech@my-project.iam.gserviceaccount.com"],
    "team_identities{}.managed_identity": [_MANAGED["managed_identity"].replace("vision", "speech")],
    "changes.window.days": [["mon"]],
    "changes.window.start": ["21:00"],
    "changes.window.duration": ["8h"],
    "changes.window.time_zone": ["Asia/Tokyo"],
    "changes.max_unavailable": [5],
    "monitoring.interval": ["30s"],
    "monitoring.temperature_celsius": [80],
    "monitoring.exporter_version": by(["4.9.0"], sandbox=["4.9.0"]),
    "monitoring.dashboards": by(["none"], gke=["config-maps", "grafana-operator"]),
    "monitoring.runbooks": ["https://docs.example.com/runbooks/"],
    "budget": [{"usd_per_month": 1e9}],
    "budget.usd_per_month": [1e8],
    "monitoring.labels": [{"release": "prometheus"}],
    "validation.timeout": ["20m"],
    "cleanup.schedule": ["0 4 * * 1"],
    "cleanup.finished_after": ["48h"],
    "cleanup.idle_after": ["3h"],
    "cleanup.prometheus": ["http://metrics.monitoring:9090"],
    "validation.max_held_percent": [100],
    "validation.burn_in": [{"matrix": "2m"}],
    "validation.on_failure": ["cordon"],
    "validation.failing_for": ["2h"],
    "validation.burn_in.least": [{"all-reduce": 420}],
    "validation.burn_in.image": ["registry.example.com/torch:2.9"],
    "validation.burn_in.matrix": ["2m"],
    "validation.burn_in.timeout": ["30m"],
    "policy.rules": [{"gpu-capacity-spread": {"enforcementLevel": "advisory"}}],
    "environment.stack": ["elsewhere"],
    "environment.file": ["Pulumi.elsewhere.yaml"],
}

ALTERNATIVES = {**ALTERNATIVES, **dict(workload_cases.alternatives())}

# Fields that determine only whether a stack is refused, each with the rule that uses the field.
# Each alternative value for such a field makes a refused stack valid, or a valid stack refused.
ONLY_CHECKED = {
    "cluster(existing).network_policies": "without this field, host names are refused",
    "cluster(eks).create.api_from_anywhere": "without this field, an API server on the internet is refused",
    "cluster(gke).create.api_from_anywhere": "without this field, an API server on the internet is refused",
    "cluster(aks).create.api_from_anywhere": "without this field, an API server on the internet is refused",
    "pools[].capacity(capacity-block).ends": "a capacity block that ends before `needed_until` is refused",
    "pools[].capacity(capacity-block).needed_until": "a capacity block that ends before this time is refused",
    "pools[].capacity(reservation).ends": "a reservation that ends before `needed_until` is refused",
    "pools[].capacity(reservation).needed_until": "a reservation that ends before this time is refused",
    "pools[].schedule.stops_work": "without this field, only development pools may have a schedule",
    "teams[].workloads[].gpu_memory": "a workload that needs more GPU memory than its pool has is refused",
    "overcommit": "without this field, quotas above the capacity are refused",
}
