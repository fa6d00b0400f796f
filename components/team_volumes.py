"""`TeamVolumes`: volumes for existing buckets and file systems, each with a claim of one team."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from components._kubernetes_object import KubernetesObject, Manifest
from components._options import child_options
from gpu_platform.planning.clouds.storage import NFS, VolumePlan

# The data belongs to somebody else, and must remain after the claim and the volume are deleted.
_RECLAIM = "Retain"
# With an empty storage class, the claim does not get the default storage class.
# No claim with a storage class can bind the volume.
_NO_CLASS = ""
# Buckets and shared file systems have no size, but Kubernetes requires one.
_SIZE = "1Gi"
# The claim is immutable and pods refer to its name, so the old claim is deleted first. Its volume keeps the data.
_REPLACED = pulumi.ResourceOptions(replace_on_changes=["spec"], delete_before_replace=True)
# GKE's metadata server provides credentials for a pod's service account.
_METADATA = (("169.254.169.252/32", 988), ("169.254.169.254/32", 80))
_PRIVATE_RANGES = ["10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"]
_EVERYWHERE = "0.0.0.0/0"
_HTTPS = 443


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamVolumesArgs:
    """Planned volumes for the teams of one stack."""

    volumes: tuple[VolumePlan, ...]


class TeamVolumes(pulumi.ComponentResource):
    """PersistentVolumes with their claims, and egress rules for pods that access them through a sidecar.

    Outputs: `names`, the names of the PersistentVolumes.
    """

    names: pulumi.Output[list[str]]

    def __init__(self, name: str, args: TeamVolumesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:TeamVolumes", name, None, opts)
        self._child = child_options(self, opts)
        for plan in args.volumes:
            self._create_claim(plan, self._create_volume(plan))
        for namespace in sorted({plan.namespace for plan in args.volumes if plan.in_pod}):
            self._open_egress(namespace)
        self.names = pulumi.Output.from_input([plan.volume for plan in args.volumes])
        self.register_outputs({"names": self.names})

    def _create_volume(self, plan: VolumePlan) -> KubernetesObject:
        return KubernetesObject(
            plan.volume,
            "v1/PersistentVolume",
            metadata={"name": plan.volume},
            spec={
                "capacity": {"storage": _SIZE},
                "accessModes": [plan.access_mode],
                "persistentVolumeReclaimPolicy": _RECLAIM,
                "storageClassName": _NO_CLASS,
                # Reserve the volume for this team's claim, even if another claim matches.
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": plan.namespace,
                    "name": plan.name,
                },
                "mountOptions": list(plan.mount_options) or None,
                "nfs": _nfs(plan) if plan.driver == NFS else None,
                "csi": _csi(plan) if plan.driver != NFS else None,
            },
            opts=self._child,
        )

    def _create_claim(self, plan: VolumePlan, volume: KubernetesObject) -> None:
        after = pulumi.ResourceOptions(parent=self, depends_on=[volume])
        KubernetesObject(
            f"{plan.namespace}/{plan.name}",
            "v1/PersistentVolumeClaim",
            metadata={"name": plan.name, "namespace": plan.namespace},
            spec={
                "accessModes": [plan.access_mode],
                "storageClassName": _NO_CLASS,
                # Refer to the output, so that Pulumi deletes the claim before its volume.
                "volumeName": volume.metadata["name"],
                "resources": {"requests": {"storage": _SIZE}},
            },
            opts=pulumi.ResourceOptions.merge(after, _REPLACED),
        )

    def _open_egress(self, namespace: str) -> None:
        """Allow pods to reach the metadata server and HTTPS servers outside private networks."""
        rules = [_rule(cidr, port) for cidr, port in _METADATA]
        KubernetesObject(
            f"{namespace}/buckets",
            "networking.k8s.io/v1/NetworkPolicy",
            metadata={"name": "buckets", "namespace": namespace},
            spec={
                "podSelector": {},
                "policyTypes": ["Egress"],
                "egress": [*rules, _rule(_EVERYWHERE, _HTTPS, _PRIVATE_RANGES)],
            },
            opts=self._child,
        )


def _nfs(plan: VolumePlan) -> Manifest:
    server, _, path = plan.handle.partition(":")
    return {"server": server, "path": path, "readOnly": plan.read_only}


def _csi(plan: VolumePlan) -> Manifest:
    return {
        "driver": plan.driver,
        "volumeHandle": plan.handle,
        "volumeAttributes": dict(plan.attributes) or None,
        "readOnly": plan.read_only,
    }


def _rule(cidr: str, port: int, without: list[str] | None = None) -> Manifest:
    block = {"cidr": cidr, "except": without}
    return {
        "to": [{"ipBlock": block}],
        "ports": [{"port": port, "protocol": "TCP"}],
    }
