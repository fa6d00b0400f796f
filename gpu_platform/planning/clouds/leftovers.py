"""Cloud resources that belong to objects in a cluster. The cloud keeps these resources if the cluster is deleted
before the objects.

Sources: EKS API reference, DeleteCluster (load balancers of Services are orphaned and prevent the deletion of the
VPC); gcloud reference, `container clusters delete` (the deletion of load balancers and persistent disks is not
guaranteed); read 2026-11-30.
"""

from __future__ import annotations

from typing import Final

LEFTOVERS: Final = (
    "load balancers of Services, Gateways and Ingresses, and volumes of claims, that exist when the cluster is "
    "deleted: delete these objects before `pulumi destroy`, or run `gpu-platform destroy`, which lists them first"
)
"""Entry for a cluster that the program creates, in the plan's list of resources that `destroy` does not delete."""
