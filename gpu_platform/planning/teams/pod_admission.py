"""Parameters that a stack and a team pass to the admission rules for pods, pod templates and claims.

The rules are in gpu_platform/catalog/rules/pods.yaml and claims.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gpu_platform.base import names
from gpu_platform.catalog.admission_rules import Value
from gpu_platform.catalog.pod_devices import (
    DEVICE_ANNOTATIONS,
    NO_DEVICES,
    RUNTIME_CLASS_PREFIX,
    SHARES_PER_CONTAINER,
    VISIBLE_DEVICES,
)
from gpu_platform.catalog.pod_limits import (
    DO_NOT_DISRUPT,
    INLINE_CSI_DRIVERS,
    LEAVING_TAINTS,
    LONGEST_GRACE_SECONDS,
    LONGEST_PIN_SECONDS,
    REFUSED_VOLUMES,
    SAFE_TO_EVICT,
)
from gpu_platform.catalog.pod_networks import JOINED_NETWORKS, NETWORK_ANNOTATIONS, OWN_NETWORKS
from gpu_platform.planning.nodes.section import Taint
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.teams.alignment_rule import AlignedPool, alignment_values

POLICY_SECONDS: Final = 2.0
"""Seconds after the creation of a policy during which an API server may not apply it yet.

An API server reads admission policies once a second (apiserver v0.36.3, plugin/policy/generic/policy_source.go;
read 2026-11-25). Pods that members create during this time do not get the defaults of their namespace and are not
checked.
"""
_DAY: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLimits:
    """Limits on a team's pods that do not depend on the pools.

    `devices` are the annotations that give devices to a fabric's daemon, with regular expressions for their
    values. Other rules reserve the daemons' names for these daemons. `accounts` are the user names of members that
    are service accounts in other namespaces. `drivers` are the CSI drivers that inline volumes may use.
    `grace_seconds` is the maximum time between SIGTERM and SIGKILL. `bare` indicates whether pods may run without
    a controller. `aligned` are the pools whose kubelets align pods, by name. `no_other_gpus` indicates whether all
    GPUs of the cluster belong to the pools.
    """

    devices: Mapping[str, str] = field(default_factory=dict[str, str])
    accounts: tuple[str, ...] = ()
    drivers: tuple[str, ...] = INLINE_CSI_DRIVERS
    grace_seconds: int = LONGEST_GRACE_SECONDS
    bare: bool = True
    aligned: Mapping[str, AlignedPool] = field(default_factory=dict[str, AlignedPool])
    no_other_gpus: bool = False


def pod_values(pools: Sequence[PoolPlan], limits: PodLimits) -> Mapping[str, Value]:
    """Return the parameters of the admission rules for a team's pods and pod templates on the pools."""
    return {
        "member_accounts": limits.accounts,
        "gpu_resource": names.GPU_RESOURCE,
        "gpu_resources": f"^{names.GPU_RESOURCES}",
        "shared_suffix": names.SHARED_SUFFIX,
        "visible_devices": VISIBLE_DEVICES,
        "no_devices": NO_DEVICES,
        "device_annotations": "^(" + "|".join(prefix.replace(".", "[.]") for prefix in DEVICE_ANNOTATIONS) + ")",
        "device_annotation_prefixes": DEVICE_ANNOTATIONS,
        "fabric_devices": limits.devices,
        "device_exceptions": f", except {', '.join(limits.devices)} with the devices in the vendor's manifest"
        if limits.devices
        else "",
        "network_annotations": NETWORK_ANNOTATIONS,
        "joined_networks": JOINED_NETWORKS,
        "own_networks": OWN_NETWORKS,
        "runtime_class_prefix": RUNTIME_CLASS_PREFIX,
        "gpu_taints": _records(
            [
                Taint(key=names.GPU_TAINT_KEY, value="", effect="NoSchedule"),
                *(taint for pool in pools if pool.resources for taint in pool.taints),
            ]
        ),
        **_unproven(pools),
        "leaving_taint_keys": LEAVING_TAINTS,
        "shares_per_container": SHARES_PER_CONTAINER,
        **_shares(pools),
        **_units(pools),
        **alignment_values(pools, limits.aligned, no_other_gpus=limits.no_other_gpus),
        **_nic_shares(pools),
        "refused_volumes": REFUSED_VOLUMES,
        "inline_csi_drivers": limits.drivers,
        "safe_to_evict": SAFE_TO_EVICT,
        "do_not_disrupt": DO_NOT_DISRUPT,
        "longest_pin_seconds": LONGEST_PIN_SECONDS,
        "longest_pin_days": LONGEST_PIN_SECONDS // _DAY,
        "longest_grace_seconds": limits.grace_seconds,
        "needs_controller": not limits.bare,
    }


def _records(taints: Sequence[Taint]) -> tuple[Mapping[str, str], ...]:
    """Return the unique keys and effects of the taints that keep pods off a node."""
    pairs = {(taint.effect, taint.key) for taint in taints if taint.effect != "PreferNoSchedule"}
    return tuple({"key": key, "effect": effect} for effect, key in sorted(pairs))


def _unproven(pools: Sequence[PoolPlan]) -> Mapping[str, Value]:
    """Return the taints of nodes that have not passed validation or fail checks."""
    taints = _records([taint for pool in pools for taint in (*pool.startup_taints, *pool.failed_taints)])
    return {"unproven_taints": taints, "unproven_taint_keys": sorted({taint["key"] for taint in taints})}


def _shares(pools: Sequence[PoolPlan]) -> Mapping[str, Value]:
    """Return the GPU resources that are shared although their names do not end in the suffix for shares.

    Some pools may offer a resource as whole GPUs, and others as shares. In this case, a request is certain to be
    for shares only if it exceeds the number of whole GPUs of a node.
    """
    whole: dict[str, int] = {}
    shared: dict[str, int] = {}
    for pool in pools:
        for offer in pool.resources:
            if not offer.name.endswith(names.SHARED_SUFFIX):
                most = shared if pool.sharing.shares(offer.name) else whole
                most[offer.name] = max(most.get(offer.name, 0), offer.per_node)
    more = sorted(name for name, most in shared.items() if most > whole.get(name, most))
    return {
        "shared_only": sorted(shared.keys() - whole.keys()),
        "whole_units": {name: whole[name] for name in more},
        "share_units": {name: shared[name] for name in more},
    }


def _units(pools: Sequence[PoolPlan]) -> Mapping[str, Value]:
    """Return the maximum units of each GPU and NIC resource that a node offers."""
    most: dict[str, int] = {}
    for pool in pools:
        offers = [(offer.name, offer.per_node) for offer in pool.resources if names.is_gpu_resource(offer.name)]
        nics = pool.cloud_nodes.nic_resources.items()
        for name, count in (*offers, *nics):
            most[name] = max(most.get(name, 0), count)
    offered = {name: count for name, count in sorted(most.items()) if count}
    return {
        "units_per_node": offered,
        "units_per_node_text": [f"{name} {count}" for name, count in offered.items()],
        # The NICs of nodes in an existing cluster are not known.
        "known_nics": names.NIC_RESOURCES if all(pool.cloud for pool in pools) else [],
    }


def _nic_shares(pools: Sequence[PoolPlan]) -> Mapping[str, Value]:
    """Return the number of NICs and of GPUs for each kind of node, by the NICs' resource, if the NICs of all nodes
    are known.
    """
    shares: dict[str, set[tuple[int, int]]] = {}
    for pool in pools if all(pool.cloud for pool in pools) else ():
        for name, count in pool.cloud_nodes.nic_resources.items():
            shares.setdefault(name, set()).add((count, pool.gpus_per_node))
    return {
        "nic_shares": {name: sorted(found) for name, found in sorted(shares.items())},
        "nic_shares_text": [
            f"{count} {name} of a node with {gpus} GPUs"
            for name, found in sorted(shares.items())
            for count, gpus in sorted(found)
        ],
    }


def claim_values(pools: Sequence[PoolPlan]) -> Mapping[str, Value]:
    """Return the parameters of the admission rules for device claims."""
    return {
        "gpu_device_class": names.GPU_DEVICE_CLASS,
        "domain_daemon_class": names.DOMAIN_DAEMON_CLASS,
        "gpus_of_largest_node": max((pool.gpus_per_node for pool in pools), default=0),
    }
