"""Check team device claims, and the workloads that use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu_platform.base import names
from gpu_platform.base.errors import did_you_mean
from gpu_platform.base.quantity import counted
from gpu_platform.planning.dra.claims import check_demand, check_demands_met, class_of, demands_of, meets, type_of
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.teams.available import Available
from gpu_platform.stack.claims import Claim, DeviceClass
from gpu_platform.stack.team import Team, Workload


def check_device_classes(classes: Mapping[str, DeviceClass], available: Available, here: Problems) -> None:
    """Record a problem for each device class of the environment that is invalid or matches no device."""
    for name, declared in classes.items():
        place = here.at(name)
        if name.endswith(names.DRIVER_DOMAINS):
            place.add(f"{name!r}", "another name, because drivers have classes with such names", "rename it")
        if not available.of_dra:
            place.add("a device class without DRA", "device classes with pools of mode: dra", "remove it")
            continue
        check_demand(declared, available.catalog, place)
        devices = [device for pool in available.pools for device in pool.devices]
        check_demands_met(type_of(declared), [declared], devices, 1, available.catalog, place)


def check_claims(team: Team, available: Available, here: Problems) -> None:
    """Record a problem for each claim that no node can satisfy."""
    known = [names.GPU_DEVICE_CLASS, names.MIG_DEVICE_CLASS, *available.classes]
    devices = [device for pool in available.pools for device in pool.devices]
    for index, claim in enumerate(team.claims):
        place = here.at(f"[{index}]")
        if not available.of_dra:
            place.add("a claim without DRA", "claims with pools of mode: dra", "remove it")
            continue
        check_demand(claim, available.catalog, place)
        if class_of(claim) not in known:
            fix = did_you_mean(class_of(claim), known) or "add it to device_classes"
            place.at("device_class").add(f"{class_of(claim)!r}", "one of " + ", ".join(known), fix)
            continue
        kind, demands = demands_of(claim, available.classes)
        check_demands_met(kind, demands, devices, claim.count, available.catalog, place)


def claim_of(workload: Workload, team: Team) -> Claim | None:
    """Return the claim that each pod of a workload uses."""
    return next((claim for claim in team.claims if claim.name == workload.claim), None)


def device_units(claim: Claim, pool: PoolPlan, available: Available) -> tuple[str, int]:
    """Return the device class of the driver that a claim uses on a pool, and the number of its units.

    A unit of mig.nvidia.com is the smallest instance. A larger instance counts as the number of smallest instances
    that fit in it, rounded down.
    """
    kind, demands = demands_of(claim, available.classes)
    if kind == "gpu":
        return names.GPU_DEVICE_CLASS, claim.count
    instances = [device for device in pool.devices if device.type == "mig"]
    most = max(device.per_node for device in instances)
    own = max(device.per_node for device in instances if meets(device, kind, demands, available.catalog))
    return names.MIG_DEVICE_CLASS, claim.count * (most // own)


def check_claim_of_workload(
    workload: Workload, team: Team, pool: PoolPlan, available: Available, here: Problems
) -> None:
    """Record a problem if a workload has a claim that its pool cannot satisfy, or has no claim although its pool
    requires one.
    """
    if not pool.devices:
        if workload.claim is not None:
            here.at("claim").add(
                f"{workload.claim!r} on pool {pool.name}", "claims on pools with mode: dra", "write gpus instead"
            )
        return
    for field in ("gpus", "profile"):
        if field in workload.model_fields_set:
            here.at(field).add(
                f"{field} on pool {pool.name}",
                "a claim, because a claim defines the devices of a pod with mode dra",
                f"remove {field}",
            )
    known = [claim.name for claim in team.claims]
    claim = claim_of(workload, team)
    if claim is None:
        here.at("claim").add(
            "nothing" if workload.claim is None else f"{workload.claim!r}",
            f"a claim of team {team.name}: " + (", ".join(known) or "it has none"),
            did_you_mean(workload.claim or "", known) or _fix_of_claim(workload.claim, known),
        )
        return
    kind, demands = demands_of(claim, available.classes)
    most = max((d.per_node for d in pool.devices if meets(d, kind, demands, available.catalog)), default=0)
    if most < claim.count:
        here.at("pool").add(
            f"{pool.name!r} for claim {claim.name}",
            "a pool whose nodes have such devices: " + (", ".join(_pools_for(claim, available)) or "none has"),
            "name another pool, or change the claim",
        )
        return
    fixed = pool.has_fixed_nodes
    there = most // claim.count * pool.nodes.desired
    if fixed and workload.replicas > there:
        here.at("replicas").add(
            f"{workload.replicas} with claim {claim.name} of {claim.count}",
            f"at most {there} in all, because pool {pool.name} has {counted(pool.nodes.desired, 'node')}, and "
            "no autoscaler adds any",
            "lower replicas, or raise the pool's count.desired",
        )


def _fix_of_claim(name: str | None, known: Sequence[str]) -> str:
    if name is not None:
        return "add it to the team's claims"
    return (
        f"write claim: {known[0]}" if known else "add one to the team's claims, and write `claim:` with its name"
    )


def _pools_for(claim: Claim, available: Available) -> list[str]:
    kind, demands = demands_of(claim, available.classes)
    return [
        pool.name
        for pool in available.pools
        if any(meets(d, kind, demands, available.catalog) and d.per_node >= claim.count for d in pool.devices)
    ]
