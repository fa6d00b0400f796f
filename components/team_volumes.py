"""`TeamVolumes`: volumes of existing buckets and file systems, each with the claim of one team."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from components._kubernetes_object import KubernetesObject, Manifest
from components._options import child_options
from gpu_platform.planning.clouds.storage import NFS, VolumePlan

# What is mounted belongs to somebody else: it outlives claim and volume.
_RECLAIM = "Retain"
# No class: neither the default class nor another claim takes the volume.
_NO_CLASS = ""
# Buckets and shared file systems have no size of their own, and Kubernetes needs one.
_SIZE = "1Gi"
# The claim cannot be changed, and pods name it: the old one has to go first. Its volume keeps the data.
_REPLACED = pulumi.ResourceOptions(replace_on_changes=["spec"], delete_before_replace=True)
# GKE's metadata server, where a pod gets the credentials of its service account.
_METADATA = (("169.254.169.252/32", 988), ("169.254.169.254/32", 80))
_PRIVATE_RANGES = ["10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"]
_EVERYWHERE = "0.0.0.0/0"
_HTTPS = 443


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamVolumesArgs:
    """The planned volumes of the teams of one stack."""

    volumes: tuple[VolumePlan, ...]


class TeamVolumes(pulumi.ComponentResource):
    """PersistentVolumes and their claims, and the egress of pods that read and write them by a sidecar.

    Outputs: `names`, of the PersistentVolumes.
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
                # The claim of this team alone, whoever else makes one.
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
                # An output, by which Pulumi deletes the claim first: a volume with a claim stays.
                "volumeName": volume.metadata["name"],
                "resources": {"requests": {"storage": _SIZE}},
            },
            opts=pulumi.ResourceOptions.merge(after, _REPLACED),
        )

    def _open_egress(self, namespace: str) -> None:
        """Let pods reach the metadata server and HTTPS servers outside private networks."""
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
