"""Compares the inputs of a gcp:container/cluster:Cluster with the protos of the GKE API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.cloud import container_v1

from tests.components.gke.gke_api import NODE_POOL, ProvidersOwn, Spelt, Table, as_message


def _recurring(window: Mapping[str, Any]) -> dict[str, Any]:
    times = {key: window[key] for key in ("startTime", "endTime")}
    return {"window": times, "recurrence": window["recurrence"]}


def _exclusions(listed: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the maintenance exclusions by name, as the API expects them. The proto parser checks their values."""
    return {
        each["exclusionName"]: {
            **{key: each[key] for key in ("startTime", "endTime") if key in each},
            "maintenanceExclusionOptions": each["exclusionOptions"],
        }
        for each in listed
    }


CLUSTER: Table = {
    ("Cluster", "project"): ProvidersOwn("part of the URL"),
    ("Cluster", "deletionProtection"): ProvidersOwn("tells the provider whether it may delete the cluster"),
    ("Cluster", "removeDefaultNodePool"): ProvidersOwn("tells the provider to delete the default node pool"),
    ("Cluster", "minMasterVersion"): Spelt("initialClusterVersion"),
    ("Cluster", "datapathProvider"): Spelt("networkConfig.datapathProvider"),
    ("Cluster", "enableMultiNetworking"): Spelt("networkConfig.enableMultiNetworking"),
    ("Cluster", "enableFqdnNetworkPolicy"): Spelt("networkConfig.enableFqdnNetworkPolicy"),
    ("Cluster", "enableL4IlbSubsetting"): Spelt("networkConfig.enableL4ilbSubsetting"),
    ("Cluster", "networkingMode"): Spelt("ipAllocationPolicy.useIpAliases", lambda mode: mode == "VPC_NATIVE"),
    ("Cluster", "enableLegacyAbac"): Spelt("legacyAbac.enabled"),
    ("Cluster", "enableShieldedNodes"): Spelt("shieldedNodes.enabled"),
    ("Cluster", "clusterAutoscaling"): Spelt("autoscaling"),
    # The provider enables the feature if the block is present. The API has an explicit field for that.
    ("Cluster", "masterAuthorizedNetworksConfig"): Spelt(
        "masterAuthorizedNetworksConfig", lambda block: {**block, "enabled": True}
    ),
    ("Cluster", "authenticatorGroupsConfig"): Spelt(
        "authenticatorGroupsConfig", lambda block: {**block, "enabled": True}
    ),
    ("MaintenancePolicy", "recurringWindow"): Spelt("window.recurringWindow", _recurring),
    ("MaintenancePolicy", "maintenanceExclusions"): Spelt("window.maintenanceExclusions", _exclusions),
    ("LoggingConfig", "enableComponents"): Spelt("componentConfig.enableComponents"),
    ("MonitoringConfig", "managedPrometheus"): Spelt("managedPrometheusConfig"),
    ("MonitoringConfig", "enableComponents"): Spelt("componentConfig.enableComponents"),
}


def cluster(inputs: Mapping[str, Any]) -> container_v1.Cluster:
    """Return the API's Cluster for the recorded inputs of a gcp:container/cluster:Cluster."""
    return as_message(container_v1.Cluster, inputs, {**NODE_POOL, **CLUSTER})
